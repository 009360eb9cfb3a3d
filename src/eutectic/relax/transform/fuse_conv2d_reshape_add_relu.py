"""FuseConv2dReshapeAddRelu: a torch convolution with bias and ReLU as one composite for oneDNN."""

from __future__ import annotations

from dataclasses import dataclass

from eutectic.ir.module import IRModule
from eutectic.ir.transform import Pass, PassContext
from eutectic.relax.dpl.bias import channel_bias
from eutectic.relax.dpl.constructors import is_op, wildcard
from eutectic.relax.dpl.table import FusionPattern
from eutectic.relax.transform.fuse_ops_by_pattern import FuseOpsByPattern


def conv2d_reshape_add_relu() -> FusionPattern:
    """The table entry: conv2d, a bias brought to the channel axis by a reshape, ReLU."""
    data, weight = wildcard().named("data"), wildcard().named("weight")
    bias, shape = wildcard().named("bias"), wildcard()
    conv = is_op("relax.nn.conv2d")(data, weight).named("root")
    reshaped = is_op("relax.reshape")(bias, shape)
    added = is_op("relax.add")(conv, reshaped).where(channel_bias(conv, reshaped))
    pattern = is_op("relax.nn.relu")(added)
    parts = {"data": data, "weight": weight, "bias": bias, "root": conv}
    return FusionPattern("dnnl.conv2d_reshape_add_relu", pattern, parts)


@dataclass(frozen=True)
class FuseConv2dReshapeAddRelu(Pass):
    """Outline `conv2d -> reshape(bias) -> add -> relu` as `dnnl.conv2d_reshape_add_relu`.

    The reshape must put one value per output channel on the channel axis; nothing
    but the result may be read elsewhere. Follow it by `MergeCompositeFunctions`.

    Reference: belongs to no other system; the sequence is how torch's convolutions are imported.
    """

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Apply the one pattern."""
        return FuseOpsByPattern([conv2d_reshape_add_relu()], bind_constants=False).run(mod, ctx)
