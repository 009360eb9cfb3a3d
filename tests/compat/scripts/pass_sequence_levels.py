"""Which members of a sequence run: levels, required and disabled passes."""

import tvm
from tvm.script import ir as I
from tvm.script import relax as R

ran = []


def marker(name, level):
    @tvm.transform.module_pass(opt_level=level, name=name)
    def mark(mod, ctx):
        ran.append(name)
        return mod

    return mark


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        return x


sequence = tvm.transform.Sequential([marker("low", 0), marker("mid", 2), marker("high", 3)])
for options in (
    {},
    {"opt_level": 0},
    {"opt_level": 3},
    {"opt_level": 3, "disabled_pass": ["mid"]},
    {"opt_level": 0, "required_pass": ["high"]},
):
    ran.clear()
    with tvm.transform.PassContext(**options):
        sequence(Module)
    print(sorted(options.items()), ran)
ran.clear()
marker("direct", 4)(Module)
print(ran)
print("done")
