"""Examples of names: values on virtual devices."""

from __future__ import annotations

import numpy as np
import tvm
from tests.compat.surface.examples import example
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R


@example("tvm.relax.op.to_vdevice", "tvm.script.relax.to_vdevice")
def on_a_virtual_device() -> None:
    @I.ir_module
    class Module:
        I.module_global_infos({"vdevice": [I.vdevice("llvm")]})

        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            return R.to_vdevice(x, "llvm:0")

    x = np.ones((2, 3), "float32")
    (binding,) = Module["main"].body.blocks[0].bindings
    assert binding.var.struct_info.vdevice.target.kind.name == "llvm"
    tvm.ir.assert_structural_equal(Module, tvm.script.from_source(Module.script()))
    again = relax.op.to_vdevice(binding.value.args[0], binding.var.struct_info.vdevice)
    tvm.ir.assert_structural_equal(again, binding.value)
    np.testing.assert_array_equal(relax.VirtualMachine(relax.build(Module, "llvm"), tvm.cpu())["main"](x).numpy(), x)
