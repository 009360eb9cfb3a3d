"""Patterns: alternatives, attributes, types, and what is taken out of a match."""

from tvm import relax
from tvm.relax.dpl import is_const, is_op, is_var, wildcard
from tvm.script import relax as R


@R.function
def main(x: R.Tensor((2, 4), "float32"), w: R.Tensor((4, 4), "float32")):
    with R.dataflow():
        product = R.matmul(x, w)
        biased = R.add(product, R.const(1.0))
        out = R.nn.gelu(biased)
        R.output(out)
    return out


bindings = main.body.blocks[0].bindings
var2val = relax.analysis.get_var2val(main)
data, weight, bias = wildcard(), wildcard(), is_const()
product = is_op("relax.matmul")(data, weight)
biased = is_op("relax.add")(product, bias)
active = is_op("relax.nn.gelu")(biased) | is_op("relax.nn.relu")(biased)
print(active.match(bindings[2].value, var2val), active.match(bindings[1].value, var2val))
parts = active.extract_matched_expr(bindings[2].value, var2val)
print(parts[data].name_hint, parts[weight].name_hint, parts[product].op.name)
print(is_var("x").match(main.params[0]), is_var("y").match(main.params[0]))
print(product.has_dtype("float32").match(bindings[0].value, var2val))
print(wildcard().has_shape((2, 4)).match(main.params[0]), wildcard().has_shape((4, 2)).match(main.params[0]))
print("done")
