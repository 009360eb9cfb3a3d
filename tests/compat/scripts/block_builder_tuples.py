"""Tuples in and out of a function."""

import numpy as np
import tvm
from tvm import relax

bb = relax.BlockBuilder()
pair = relax.Var("pair", relax.TupleStructInfo([relax.TensorStructInfo((2,), "float32")] * 2))
with bb.function("main", [pair]):
    first, second = bb.emit(pair[0]), bb.emit(relax.TupleGetItem(pair, 1))
    total = bb.emit(relax.op.add(first, second))
    bb.emit_func_output(relax.Tuple([total, first]))
mod = bb.get()
print(mod["main"].ret_struct_info)
vm = relax.VirtualMachine(tvm.compile(mod, target="llvm"), tvm.cpu())
one, two = tvm.runtime.tensor(np.array([1, 2], "float32")), tvm.runtime.tensor(np.array([10, 20], "float32"))
outcome = vm["main"]((one, two))
print(outcome[0].numpy().tolist(), outcome[1].numpy().tolist())
print("done")
