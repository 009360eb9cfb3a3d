"""The usual order: legalise, annotate, fuse, one tensor program for each group."""

import numpy as np
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((8, 8), "float32"), w: R.Tensor((8, 8), "float32")) -> R.Tensor((8, 8), "float32"):
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.add(a, R.const(1.0))
            c = R.nn.relu(b)
            R.output(c)
        return c


fused = tvm.transform.Sequential(
    [
        relax.transform.LegalizeOps(),
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
    ]
)(Module)
print(sorted(gv.name_hint for gv in fused.get_global_vars()))
rng = np.random.default_rng(1)
x, w = (rng.standard_normal((8, 8)).astype("float32") for _ in range(2))
vm = relax.VirtualMachine(tvm.compile(fused, target="llvm"), tvm.cpu())
result = vm["main"](tvm.runtime.tensor(x), tvm.runtime.tensor(w)).numpy()
np.testing.assert_allclose(result, np.maximum(x @ w + 1, 0), rtol=1e-4, atol=1e-4)
print("done")
