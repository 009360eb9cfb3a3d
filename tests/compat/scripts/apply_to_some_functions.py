"""A pass for some functions of a module only (TVM has it in relax.transform up to 0.24)."""

import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R


@I.ir_module
class Module:
    @R.function
    def first(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        a = R.exp(x)
        b = R.sin(x)
        return b

    @R.function
    def second(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        a = R.exp(x)
        b = R.cos(x)
        return b


only = tvm.ir.transform.ApplyPassToFunction(relax.transform.DeadCodeElimination(), "fir.*")(Module)
for name in ("first", "second"):
    print(name, [b.value.op.name for block in only[name].body.blocks for b in block.bindings])
print("done")
