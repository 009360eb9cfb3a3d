"""A pass made of a function, and what it is told of its context."""

import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        y = R.exp(x)
        return y


@tvm.transform.module_pass(opt_level=1, name="CountFunctions")
def count_functions(mod, ctx):
    return mod.with_attr("functions", len(mod.get_global_vars())).with_attr("level", ctx.opt_level)


counted = count_functions(Module)
print(counted.attrs["functions"], counted.attrs["level"], count_functions.info.name)
with tvm.transform.PassContext(opt_level=3):
    print(count_functions(Module).attrs["level"])
assert Module.get_attr("functions") is None


@relax.transform.function_pass(opt_level=0)
class Rename:
    def __init__(self, suffix):
        self.suffix = suffix

    def transform_function(self, func, mod, ctx):
        return func.with_attr("label", func.attrs["global_symbol"] + self.suffix)


print(Rename("_v2")(Module)["main"].attrs["label"])
print("done")
