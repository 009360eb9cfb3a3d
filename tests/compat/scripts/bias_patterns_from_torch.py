"""conv1d, conv2d and conv3d with bias and relu from PyTorch: one composite, if the pattern allows the reshape."""

import torch
import tvm
from torch import nn
from torch.export import export
from tvm import relax
from tvm.relax.dpl.pattern import make_fused_bias_activation_pattern
from tvm.relax.frontend.torch import from_exported_program
from tvm.relax.transform import FuseOpsByPattern

for dims, conv in ((1, nn.Conv1d), (2, nn.Conv2d), (3, nn.Conv3d)):
    model = nn.Sequential(conv(3, 8, 3, padding=1, bias=True), nn.ReLU()).eval()
    program = export(model, (torch.randn(1, 3, *[8] * dims),))
    mod = from_exported_program(program)
    op = f"relax.nn.conv{dims}d"
    ops = [b.value.op.name for b in mod["main"].body.blocks[0].bindings if isinstance(b.value, relax.Call)]
    assert ops == [op, "relax.reshape", "relax.add", "relax.nn.relu"], ops

    with_reshape = make_fused_bias_activation_pattern(op, True, "relax.nn.relu", allow_reshape=True)
    fused = FuseOpsByPattern([("dnnl.conv_bias_relu", with_reshape)])(mod)
    (name,) = [v.name_hint for v in fused.functions if v.name_hint != "main"]
    flat = op.replace(".", "_")
    assert name == f"fused_{flat}_relax_reshape_relax_add_relax_nn_relu", name

    without = make_fused_bias_activation_pattern(op, True, "relax.nn.relu", allow_reshape=False)
    fused = FuseOpsByPattern([("dnnl.conv_bias_relu", without)])(mod)
    (name,) = [v.name_hint for v in fused.functions if v.name_hint != "main"]
    assert name == f"fused_{flat}_relax_add_relax_nn_relu", name
    outside = [b.value.op for b in fused["main"].body.blocks[0].bindings if isinstance(b.value, relax.Call)]
    assert outside[0] == tvm.ir.Op.get("relax.reshape")
print("done")
