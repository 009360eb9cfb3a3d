"""Instruments: the order of their calls, a veto, counting."""

import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        with R.dataflow():
            unused = R.exp(x)
            y = R.sin(x)
            R.output(y)
        return y


@tvm.instrument.pass_instrument
class Log:
    def __init__(self, name):
        self.name, self.lines = name, []

    def enter_pass_ctx(self):
        self.lines.append(f"{self.name} enters")

    def exit_pass_ctx(self):
        self.lines.append(f"{self.name} leaves")

    def should_run(self, mod, info):
        return info.name != "DeadCodeElimination"

    def run_before_pass(self, mod, info):
        self.lines.append(f"{self.name} before {info.name}")

    def run_after_pass(self, mod, info):
        self.lines.append(f"{self.name} after {info.name}")


log = Log("log")
with tvm.transform.PassContext(instruments=[log]):
    kept = relax.transform.DeadCodeElimination()(Module)
tvm.ir.assert_structural_equal(kept, Module)
print(log.lines)
with tvm.transform.PassContext():
    assert "R.exp" not in relax.transform.DeadCodeElimination()(Module).script()
print("done")
