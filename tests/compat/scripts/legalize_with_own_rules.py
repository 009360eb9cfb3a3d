"""LegalizeOps with a rule of one's own."""

import numpy as np
import tvm
from tvm import relax, topi
from tvm.script import ir as I
from tvm.script import relax as R


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        with R.dataflow():
            a = R.exp(x)
            b = R.negative(a)
            R.output(b)
        return b


def shifted_exp(bb, call):
    return bb.call_te(
        lambda data: topi.exp(topi.add(data, tvm.tir.const(1, "float32"))),
        call.args[0],
        primfunc_name_hint="shifted_exp",
    )


lowered = relax.transform.LegalizeOps({"relax.exp": shifted_exp})(Module)
print(sorted(gv.name_hint for gv in lowered.get_global_vars()))
vm = relax.VirtualMachine(tvm.compile(lowered, target="llvm"), tvm.cpu())
data = np.array([0, 1, 2, 3], "float32")
np.testing.assert_allclose(vm["main"](tvm.runtime.tensor(data)).numpy(), -np.exp(data + 1), rtol=1e-5)
print("done")
