"""Cross-level rewriting: a mutator replaces operators by tensor programs of its own."""

import numpy as np
import tvm
from tvm import relax, te
from tvm.script import ir as I
from tvm.script import relax as R


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4, 4), "float32")) -> R.Tensor((4, 4), "float32"):
        with R.dataflow():
            a = R.nn.relu(x)
            b = R.add(a, x)
            R.output(b)
        return b


def te_leaky(data):
    slope = tvm.tir.const(0.5, "float32")
    return te.compute(
        data.shape, lambda i, j: tvm.tir.Select(data[i, j] > 0, data[i, j], data[i, j] * slope), name="leaky"
    )


@relax.expr_functor.mutator
class Lower(relax.PyExprMutator):
    def visit_call_(self, call):
        call = self.visit_expr_post_order(call)
        if call.op == tvm.ir.Op.get("relax.nn.relu"):
            return self.builder_.call_te(te_leaky, call.args[0])
        return call


mutator = Lower(Module)
mutator.builder_.update_func(Module.get_global_var("main"), mutator.visit_expr(Module["main"]))
lowered = mutator.builder_.get()
print(sorted(gv.name_hint for gv in lowered.get_global_vars()))
vm = relax.VirtualMachine(tvm.compile(lowered, target="llvm"), tvm.cpu())
data = np.linspace(-2, 2, 16, dtype="float32").reshape(4, 4)
result = vm["main"](tvm.runtime.tensor(data)).numpy()
np.testing.assert_allclose(result, np.where(data > 0, data, data / 2) + data, rtol=1e-6)
print("done")
