"""Composites of one backend become one region."""

from tvm import relax
from tvm.relax.dpl import is_op, wildcard
from tvm.script import ir as I
from tvm.script import relax as R


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4, 4), "float32"), y: R.Tensor((4, 4), "float32")) -> R.Tensor((4, 4), "float32"):
        with R.dataflow():
            a = R.add(x, y)
            b = R.nn.relu(a)
            c = R.exp(b)
            R.output(c)
        return c


patterns = [
    ("mine.add", is_op("relax.add")(wildcard(), wildcard())),
    ("mine.relu", is_op("relax.nn.relu")(wildcard())),
]
composites = relax.transform.FuseOpsByPattern(patterns)(Module)
merged = relax.transform.MergeCompositeFunctions()(composites)
regions = [f for f in merged.functions.values() if f.attrs and "Codegen" in f.attrs]
print(len(regions), regions[0].attrs["Codegen"])
print([type(b.value).__name__ for b in merged["main"].body.blocks[0].bindings])
print("done")
