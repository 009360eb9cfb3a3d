"""Operators written in TE beside operators of Relax."""

import numpy as np
import tvm
from tvm import relax, te, topi


def scale_and_shift(data, factor):
    return te.compute(data.shape, lambda *i: data(*i) * factor + tvm.tir.const(1, "float32"), name="scaled")


bb = relax.BlockBuilder()
x = relax.Var("x", relax.TensorStructInfo((4, 4), "float32"))
with bb.function("main", [x]):
    with bb.dataflow():
        scaled = bb.emit_te(scale_and_shift, x, tvm.tir.const(3, "float32"))
        summed = bb.emit_te(topi.sum, scaled, axis=1, primfunc_name_hint="row_sum")
        out = bb.emit_output(relax.op.exp(summed))
    bb.emit_func_output(out)
mod = bb.get()
print(sorted(gv.name_hint for gv in mod.get_global_vars()))
call = mod["main"].body.blocks[0].bindings[0].value
print(call.op.name, call.args[0].name_hint, call.sinfo_args[0])
data = np.arange(16, dtype="float32").reshape(4, 4) / 16
vm = relax.VirtualMachine(tvm.compile(mod, target="llvm"), tvm.cpu())
result = vm["main"](tvm.runtime.tensor(data)).numpy()
np.testing.assert_allclose(result, np.exp((data * 3 + 1).sum(1)), rtol=1e-5)
print("done")
