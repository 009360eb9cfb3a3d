"""FuseOpsByPattern with a check and attributes taken from the match."""

from tvm import relax
from tvm.relax.dpl import is_op, wildcard
from tvm.script import ir as I
from tvm.script import relax as R


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 4), "float32"), w: R.Tensor((4, 4), "float32"), v: R.Tensor((4, 3), "float32")):
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.nn.relu(a)
            c = R.matmul(b, v)
            d = R.nn.relu(c)
            R.output(d)
        return d


lhs, rhs = wildcard(), wildcard()
product = is_op("relax.matmul")(lhs, rhs)
root = is_op("relax.nn.relu")(product)


def square_weight(context):
    shape = context.annotated_expr["rhs"].struct_info.shape
    return int(shape[0]) == int(shape[1])


patterns = [("mine.matmul_relu", root, {"lhs": lhs, "rhs": rhs, "product": product}, square_weight)]
fused = relax.transform.FuseOpsByPattern(patterns, annotate_codegen=False)(Module)
names = sorted(gv.name_hint for gv in fused.get_global_vars())
print(names)
function = fused[names[0]]
print(function.attrs["Composite"], bool(function.attrs["Primitive"]), [p.name_hint for p in function.params])
print([type(b.value.op).__name__ for b in fused["main"].body.blocks[0].bindings])
print("done")
