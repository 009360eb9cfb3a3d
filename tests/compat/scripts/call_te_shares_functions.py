"""call_te gives a call without binding it; equal programs are one function of the module."""

from tvm import relax, topi

bb = relax.BlockBuilder()
x = relax.Var("x", relax.TensorStructInfo((4,), "float32"))
with bb.function("main", [x]):
    with bb.dataflow():
        once = bb.emit(bb.call_te(topi.exp, x))
        twice = bb.emit(bb.call_te(topi.exp, once))
        other = bb.emit_output(bb.call_te(topi.nn.relu, twice, primfunc_attrs={"layer": 3}))
    bb.emit_func_output(other)
mod = bb.get()
print(sorted(gv.name_hint for gv in mod.get_global_vars()))
values = [binding.value for binding in mod["main"].body.blocks[0].bindings]
assert values[0].args[0].same_as(values[1].args[0]) or values[0].args[0].name_hint == values[1].args[0].name_hint
print(mod["relu"].attrs["layer"])
print("done")
