"""Operators by name, and attributes hung on them."""

import tvm
from tvm import relax

add = tvm.ir.Op.get("relax.add")
assert add.same_as(tvm.ir.Op.get("relax.add"))
print(add.name, add.has_attr("FLegalize"), add.has_attr("scripts.cost"))
add.set_attr("scripts.cost", 3)
print(int(add.get_attr("scripts.cost")))
add.reset_attr("scripts.cost")
print(add.has_attr("scripts.cost"))
try:
    tvm.ir.Op.get("relax.no_such_operator")
except Exception as error:
    print("unknown:", "relax.no_such_operator" in str(error))
call = relax.op.permute_dims(relax.Var("x", relax.TensorStructInfo((2, 3), "float32")), axes=[1, 0])
print([int(axis) for axis in call.attrs.axes])
print("done")
