"""What a function uses, defines and calls."""

from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R


@I.ir_module
class Module:
    @R.function(private=True)
    def helper(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        y = R.exp(x)
        return y

    @R.function
    def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        cls = Module
        a = R.sin(x)
        b = cls.helper(a)
        c = R.cos(x)
        return b


main = Module["main"]
print([var.name_hint for var in relax.analysis.free_vars(main.body)])
print([var.name_hint for var in relax.analysis.bound_vars(main)])
print([gv.name_hint for gv in relax.analysis.all_global_vars(main)])
print([b.var.name_hint for block in relax.analysis.remove_all_unused(main).body.blocks for b in block.bindings])
print(relax.analysis.contains_impure_call(main))
print("done")
