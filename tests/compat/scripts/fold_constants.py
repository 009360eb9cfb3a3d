"""FoldConstant computes what is known; dead code goes."""

import numpy as np
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

weight = np.arange(6, dtype="float32").reshape(2, 3)


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4, 2), "float32")) -> R.Tensor((4, 3), "float32"):
        with R.dataflow():
            doubled = R.add(R.const(weight), R.const(weight))
            unused = R.exp(x)
            out = R.matmul(x, doubled)
            R.output(out)
        return out


folded = relax.transform.FoldConstant()(relax.transform.DeadCodeElimination()(Module))
(binding,) = folded["main"].body.blocks[0].bindings
print(binding.value.op.name, type(binding.value.args[1]).__name__)
print(
    binding.value.args[1].data.numpy().tolist()
    if hasattr(binding.value.args[1].data, "numpy")
    else binding.value.args[1].data.tolist()
)
print("done")
