"""Programs are compared up to names of variables; a difference has a path."""

import tvm
from tvm import relax
from tvm.script import relax as R


@R.function(private=True)
def one(x: R.Tensor((4,), "float32")):
    y = R.exp(x)
    return y


@R.function(private=True)
def other(data: R.Tensor((4,), "float32")):
    result = R.exp(data)
    return result


@R.function(private=True)
def third(data: R.Tensor((4,), "float32")):
    result = R.sin(data)
    return result


tvm.ir.assert_structural_equal(one, other)
assert tvm.ir.structural_hash(one) == tvm.ir.structural_hash(other)
print(tvm.ir.structural_equal(one, third))
try:
    tvm.ir.assert_structural_equal(one, third)
except ValueError as error:
    print("differs", "body" in str(error))
a, b = (relax.Var("v", relax.TensorStructInfo((4,), "float32")) for _ in range(2))
print(tvm.ir.structural_equal(a, b), tvm.ir.structural_equal(a, b, map_free_vars=True))
print("done")
