"""EliminateCommonSubexpr and CanonicalizeBindings."""

from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        with R.dataflow():
            a = R.add(x, y)
            b = R.add(x, y)
            c = a
            d = R.multiply(b, c)
            R.output(d)
        return d


once = relax.transform.EliminateCommonSubexpr()(Module)
clean = relax.transform.CanonicalizeBindings()(once)
clean = relax.transform.DeadCodeElimination()(clean)
print([binding.value.op.name for binding in clean["main"].body.blocks[0].bindings])
print("done")
