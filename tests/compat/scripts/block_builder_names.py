"""Names that BlockBuilder chooses, unique names, nested operator calls in normal form."""

from tvm import relax

bb = relax.BlockBuilder()
x = relax.Var("x", relax.TensorStructInfo((3,), "float32"))
with bb.function("main", [x]):
    with bb.dataflow():
        a = bb.emit(relax.op.add(relax.op.exp(x), relax.op.sin(x)))
        named = bb.emit(relax.op.negative(a), name_hint="minus")
        out = bb.emit_output(relax.op.multiply(named, named))
    result = bb.emit_func_output(out)
func = bb.get()["main"]
for block in func.body.blocks:
    for binding in block.bindings:
        print(binding.var.name_hint, type(binding.var).__name__, binding.value.op.name)
print(result.name_hint, bb.get_unique_name("minus"), bb.get_unique_name("fresh"))
print("done")
