"""How long passes take."""

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


timing = tvm.instrument.PassTimingInstrument()
with tvm.transform.PassContext(instruments=[timing]):
    tvm.transform.Sequential([relax.transform.Normalize(), relax.transform.LegalizeOps()])(Module)
    text = timing.render()
names = [line.strip().partition(":")[0] for line in text.splitlines() if line.strip()]
assert "Normalize" in names and "LegalizeOps" in names
print([name for name in names if name in ("Normalize", "LegalizeOps")])
print("done")
