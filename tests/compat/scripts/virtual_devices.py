"""Tensors on virtual devices of a module."""

import tvm
from tvm.script import ir as I
from tvm.script import relax as R


@I.ir_module
class Module:
    I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("c")]})

    @R.function
    def main(x: R.Tensor((4,), "float32", "llvm"), y: R.Tensor((4,), "float32", vdevice="c:0")) -> R.Tuple(
        R.Tensor((4,), "float32", "llvm"), R.Tensor((4,), "float32", "c:0")
    ):
        return (x, y)


print([device.target.kind.name for device in Module.global_infos["vdevice"]])
print([param.struct_info.vdevice.vdevice_id for param in Module["main"].params])
print("vdevice=" in Module.script(), [p.struct_info.vdevice.memory_scope for p in Module["main"].params])
tvm.ir.assert_structural_equal(tvm.script.from_source(Module.script()), Module)
device = tvm.ir.VDevice("llvm", 1, "global")
print(device.vdevice_id, device.memory_scope)
print("done")
