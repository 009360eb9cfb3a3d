"""Symbolic sizes are fixed, and parameters bound, on a function."""

import numpy as np
from tvm import relax
from tvm.script import relax as R


@R.function
def main(x: R.Tensor(("n", "m"), "float32"), w: R.Tensor(("m",), "float32")) -> R.Tensor(("n", "m"), "float32"):
    y = R.add(x, w)
    return y


fixed = main.bind_symbolic_vars({"n": 2, "m": 3})
print(fixed.params[0].struct_info, fixed.ret_struct_info)
bound = fixed.bind_params({"w": relax.const(np.ones(3, "float32"))})
print([param.name_hint for param in bound.params])
print("done")
