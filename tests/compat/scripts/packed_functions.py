"""Functions of Python under names of their own."""

import numpy as np
import tvm


@tvm.register_global_func("scripts.add_one")
def add_one(array, out):
    out.copyfrom(np.from_dlpack(array) + 1)


@tvm.register_global_func("scripts.join", override=True)
def join(*texts):
    return "-".join(texts)


result = tvm.runtime.tensor(np.zeros(2, "float32"))
tvm.get_global_func("scripts.add_one")(tvm.runtime.tensor(np.ones(2, "float32")), result)
print(result.numpy().tolist())
print(tvm.get_global_func("scripts.join")("a", "b", "c"))
print(tvm.get_global_func("scripts.nothing", allow_missing=True))
try:
    tvm.get_global_func("scripts.nothing")
except ValueError:
    print("refused")
print("done")
