"""A mutator that makes multiply and add one operator, and one that cuts matmul and add out into functions."""

import numpy as np
import tvm
from tvm import relax, topi
from tvm.ir.module import IRModule
from tvm.script import relax as R
from tvm.script import tir as T


@tvm.script.ir_module
class MyModule:
    @R.function
    def main(x: R.Tensor((3, 4), "float32"), y: R.Tensor((3, 4), "float32")):
        with R.dataflow():
            lv0 = relax.op.multiply(x, y)
            gv0 = relax.op.add(lv0, y)
            R.output(gv0)
        return gv0


function = MyModule["main"]
assert type(function) is relax.Function and [p.name_hint for p in function.params] == ["x", "y"]
assert type(function.body) is relax.SeqExpr
block = function.body.blocks[0]
assert isinstance(block, relax.DataflowBlock) and len(block.bindings) == 2
assert block.bindings[0].var.name_hint == "lv0" and isinstance(block.bindings[0].value, relax.Call)


@relax.expr_functor.mutator
class EwiseFMARewriter(relax.PyExprMutator):
    def visit_call_(self, call):
        call = self.visit_expr_post_order(call)
        add_op = tvm.ir.Op.get("relax.add")
        multiply_op = tvm.ir.Op.get("relax.multiply")
        ewise_fma_op = tvm.ir.Op.get("relax.ewise_fma")
        if call.op != add_op:
            return call
        value = self.lookup_binding(call.args[0])
        if not isinstance(value, relax.Call) or value.op != multiply_op:
            return call
        return relax.Call(ewise_fma_op, [value.args[0], value.args[1], call.args[1]], None, None)


updated = EwiseFMARewriter().visit_expr(MyModule["main"])
assert [b.value.op.name for b in updated.body.blocks[0].bindings] == ["relax.multiply", "relax.ewise_fma"]
cleaned = relax.analysis.remove_all_unused(updated)
assert [b.value.op.name for b in cleaned.body.blocks[0].bindings] == ["relax.ewise_fma"]
cleaned.show()

rng = np.random.default_rng(0)
params = {"w0": (128, 784), "b0": (1, 128), "w1": (10, 128), "b1": (1, 10)}
params = {name: rng.standard_normal(shape).astype("float32") for name, shape in params.items()}


def create_model():
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((1, 784), "float32"))
    w0, b0, w1, b1 = (relax.const(params[name], "float32") for name in ("w0", "b0", "w1", "b1"))
    with bb.function("main", [x]):
        with bb.dataflow():
            lv0 = bb.emit(relax.op.matmul(x, relax.op.permute_dims(w0)))
            lv1 = bb.emit(relax.op.add(lv0, b0))
            lv2 = bb.emit(relax.op.nn.relu(lv1))
            lv3 = bb.emit(relax.op.matmul(lv2, relax.op.permute_dims(w1)))
            lv4 = bb.emit(relax.op.add(lv3, b1))
            gv = bb.emit_output(lv4)
        bb.emit_func_output(gv)
    return bb.get()


@relax.expr_functor.mutator
class MatmulAddFusor(relax.PyExprMutator):
    def __init__(self, mod: IRModule) -> None:
        super().__init__()
        self.mod_ = mod
        self.add_op = tvm.ir.Op.get("relax.add")
        self.matmul_op = tvm.ir.Op.get("relax.matmul")
        self.counter = 0

    def transform(self) -> IRModule:
        for global_var, func in self.mod_.functions.items():
            if not isinstance(func, relax.Function):
                continue
            if func.attrs is not None and "Primitive" in func.attrs.keys() and func.attrs["Primitive"] != 0:
                continue
            changed = relax.analysis.remove_all_unused(self.visit_expr(func))
            self.builder_.update_func(global_var, changed)
        return self.builder_.get()

    def visit_call_(self, call):
        call = self.visit_expr_post_order(call)
        if call.op != self.add_op:
            return call
        value = self.lookup_binding(call.args[0])
        if value is None or not isinstance(value, relax.Call) or value.op != self.matmul_op:
            return call
        operands = [value.args[0], value.args[1], call.args[1]]
        own = [
            relax.Var(name, relax.TensorStructInfo(arg.struct_info.shape, arg.struct_info.dtype))
            for name, arg in zip("xwb", operands, strict=True)
        ]
        bb = relax.BlockBuilder()
        name = f"fused_matmul_add{self.counter}"
        self.counter += 1
        with bb.function(name, own):
            with bb.dataflow():
                product = bb.emit(relax.op.matmul(own[0], own[1]))
                gv = bb.emit_output(relax.op.add(product, own[2]))
            bb.emit_func_output(gv)
        global_var = self.builder_.add_func(bb.get()[name].with_attr("Primitive", 1), name)
        return relax.Call(global_var, operands, None, None)


@tvm.ir.transform.module_pass(opt_level=2, name="MatmulAddFuse")
class FuseDenseAddPass:
    def transform_module(self, mod, ctx):
        return MatmulAddFusor(mod).transform()


model = create_model()
fused = FuseDenseAddPass()(model)
assert sorted(v.name_hint for v in fused.functions) == ["fused_matmul_add0", "fused_matmul_add1", "main"]
calls = [b.value.op for b in fused["main"].body.blocks[0].bindings if isinstance(b.value, relax.Call)]
assert [op.name_hint if isinstance(op, tvm.ir.GlobalVar) else op.name for op in calls] == [
    "relax.permute_dims",
    "fused_matmul_add0",
    "relax.nn.relu",
    "relax.permute_dims",
    "fused_matmul_add1",
]
assert fused["fused_matmul_add0"].attrs["Primitive"] == 1
fused.show()

x = rng.standard_normal((1, 784)).astype("float32")
hidden = np.maximum(x.astype("float64") @ params["w0"].T.astype("float64") + params["b0"], 0)
want = hidden @ params["w1"].T.astype("float64") + params["b1"]
for mod in (model, fused):
    tvm.testing.assert_allclose(tvm.compile(mod)(x), want, rtol=1e-4, atol=1e-4)
assert topi is not None and T is not None
print("done")
