"""Functions are added to a module, replaced and copied; a clone shares nothing that changes."""

import tvm
from tvm.script import relax as R


@R.function
def first(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
    y = R.exp(x)
    return y


@R.function
def second(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
    y = R.sin(x)
    return y


mod = tvm.IRModule({"first": first})
copy = mod.clone()
copy.update_func(copy.get_global_var("first"), second.with_attr("global_symbol", "first"))
copy["second"] = second
print(sorted(gv.name_hint for gv in mod.get_global_vars()))
print(sorted(gv.name_hint for gv in copy.get_global_vars()))
assert not tvm.ir.structural_equal(mod["first"], copy["first"])
merged = tvm.IRModule({})
merged.update(copy)
tvm.ir.assert_structural_equal(merged["second"], second)
assert "third" not in [gv.name_hint for gv in merged.get_global_vars()]
print("done")
