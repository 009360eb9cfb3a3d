"""The module printed before and after passes."""

import contextlib
import io

import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        with R.dataflow():
            y = R.sin(x)
            R.output(y)
        return y


out = io.StringIO()
with contextlib.redirect_stdout(out):
    with tvm.transform.PassContext(instruments=[tvm.instrument.PrintBeforeAll(), tvm.instrument.PrintAfterAll()]):
        relax.transform.Normalize()(Module)
heads = [line.partition(":")[0] for line in out.getvalue().splitlines() if "Running Pass" in line]
print(heads)
assert "R.sin(x)" in out.getvalue()
print("done")
