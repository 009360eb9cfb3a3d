"""rewrite_call: multiplication by a sum becomes a sum of products."""

from tvm import relax
from tvm.relax.dpl import is_op, rewrite_call, wildcard
from tvm.script import relax as R


@R.function
def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32"), z: R.Tensor((4,), "float32")):
    with R.dataflow():
        total = R.add(x, y)
        out = R.multiply(total, z)
        R.output(out)
    return out


a, b, c = wildcard(), wildcard(), wildcard()
pattern = is_op("relax.multiply")(is_op("relax.add")(a, b), c)


def distribute(_, matches):
    return relax.op.add(relax.op.multiply(matches[a], matches[c]), relax.op.multiply(matches[b], matches[c]))


rewritten = rewrite_call(pattern, distribute, main)
print([binding.value.op.name for binding in rewritten.body.blocks[0].bindings])
print("done")
