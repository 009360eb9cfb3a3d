"""Attributes of modules and functions."""

import tvm
from tvm.script import ir as I
from tvm.script import relax as R


@I.ir_module
class Module:
    I.module_attrs({"version": "1.2"})

    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        R.func_attr({"num_input": 1})
        y = R.exp(x)
        return y


print(Module.attrs["version"], Module["main"].attrs["num_input"], Module["main"].attrs["global_symbol"])
tagged = Module["main"].with_attr("stage", "late")
assert "stage" not in Module["main"].attrs
assert tagged.attrs["stage"] == "late"
assert "num_input" not in tagged.without_attr("num_input").attrs
marked = Module.with_attr("checked", 1)
print(sorted(marked.attrs.keys()))
tvm.ir.assert_structural_equal(marked["main"], Module["main"])
print("done")
