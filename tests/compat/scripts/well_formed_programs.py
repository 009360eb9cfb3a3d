"""What well_formed accepts, and what it refuses: TVM 0.23 returns a bool, later versions raise."""

import tvm
from tvm import relax
from tvm.script import relax as R


def accepted(func):
    try:
        return relax.analysis.well_formed(tvm.IRModule({"main": func})) is not False
    except Exception:
        return False


@R.function
def good(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
    with R.dataflow():
        y = R.exp(x)
        R.output(y)
    return y


x = relax.Var("x", relax.TensorStructInfo((4,), "float32"))
stray = relax.Var("stray", relax.TensorStructInfo((4,), "float32"))
bb = relax.BlockBuilder()
call = bb.normalize(relax.op.exp(stray))
result = relax.Var("y", relax.TensorStructInfo((4,), "float32"))
body = relax.SeqExpr([relax.BindingBlock([relax.VarBinding(result, call)])], result)
undefined = relax.Function([x], body, relax.TensorStructInfo((4,), "float32")).with_attr("global_symbol", "main")
print(accepted(good.with_attr("global_symbol", "main")), accepted(undefined), accepted(good))
print("done")
