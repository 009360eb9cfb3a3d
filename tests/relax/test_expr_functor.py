"""Visitors and mutators as users write them: find and replace operators, outline pairs, keep what did not change."""

from __future__ import annotations

import numpy as np

from eutectic.ir.op import Op
from eutectic.relax import BlockBuilder, Call, Function, PyExprMutator, PyExprVisitor, TensorStructInfo, Var, const, op
from eutectic.relax.analysis import problems_of, remove_all_unused
from eutectic.relax.expr_functor import mutator, visitor
from eutectic.testing.graphs import assert_same_results, evaluate, graph


@mutator
class MultiplyAdd(PyExprMutator):
    """`multiply` followed by `add` becomes `ewise_fma`."""

    def visit_call_(self, call: Call) -> Call:
        call = self.visit_expr_post_order(call)
        if call.op != Op.get("relax.add"):
            return call
        value = self.lookup_binding(call.args[0])
        if not isinstance(value, Call) or value.op != Op.get("relax.multiply"):
            return call
        return Call(Op.get("relax.ewise_fma"), [value.args[0], value.args[1], call.args[1]], None, None)


def test_a_pair_of_operators_becomes_one():
    mod = graph({"x": (3, 4), "y": (3, 4)}, lambda bb, x, y: op.add(bb.emit(op.multiply(x, y)), y))
    changed = MultiplyAdd().visit_expr(mod["main"])
    assert [b.value.op.name for b in changed.body.blocks[0].bindings] == ["relax.multiply", "relax.ewise_fma"]
    clean = remove_all_unused(changed)
    assert [b.value.op.name for b in clean.body.blocks[0].bindings] == ["relax.ewise_fma"]
    after = mod.clone()
    after["main"] = clean
    assert problems_of(after) == []
    assert_same_results(mod, after)


def test_nothing_to_do_gives_the_same_function():
    mod = graph({"x": (3, 4)}, lambda bb, x: op.nn.relu(op.tanh(x)))
    assert MultiplyAdd().visit_expr(mod["main"]) is mod["main"]


@mutator
class Outline(PyExprMutator):
    """Each `matmul` with its `add` moves into a function of its own."""

    def __init__(self, mod) -> None:
        super().__init__()
        self.mod, self.count = mod, 0

    def transform(self):
        for gv, function in self.mod.functions.items():
            if isinstance(function, Function) and not function.attr("Primitive"):
                self.builder_.update_func(gv, remove_all_unused(self.visit_expr(function)))
        return self.builder_.get()

    def visit_call_(self, call: Call) -> Call:
        call = self.visit_expr_post_order(call)
        value = self.lookup_binding(call.args[0]) if call.op == Op.get("relax.add") else None
        if not isinstance(value, Call) or value.op != Op.get("relax.matmul"):
            return call
        given = [value.args[0], value.args[1], call.args[1]]
        params = [Var(name, arg.struct_info) for name, arg in zip("xwb", given, strict=True)]
        bb = BlockBuilder()
        name = f"fused_matmul_add{self.count}"
        self.count += 1
        with bb.function(name, params):
            with bb.dataflow():
                out = bb.emit_output(op.add(bb.emit(op.matmul(params[0], params[1])), params[2]))
            bb.emit_func_output(out)
        gv = self.builder_.add_func(bb.get()[name].with_attr("Primitive", 1), name)
        return Call(gv, given, None, None)


def mlp():
    rng = np.random.default_rng(0)
    w0, b0, w1, b1 = (const(rng.standard_normal(s).astype("float32")) for s in [(16, 8), (16,), (4, 16), (4,)])

    def body(bb, x):
        hidden = bb.emit(op.nn.relu(bb.emit(op.add(bb.emit(op.matmul(x, op.permute_dims(w0))), b0))))
        return op.add(bb.emit(op.matmul(hidden, op.permute_dims(w1))), b1)

    return graph({"x": (1, 8)}, body)


def test_outlining_keeps_the_result(golden):
    mod = mlp()
    fused = Outline(mod).transform()
    assert sorted(gv.name_hint for gv in fused.get_global_vars()) == ["fused_matmul_add0", "fused_matmul_add1", "main"]
    assert problems_of(fused) == []
    assert_same_results(mod, fused)
    golden(fused.script())


def test_variables_follow_changed_types():
    @mutator
    class Half(PyExprMutator):
        def visit_call_(self, call):
            call = self.visit_expr_post_order(call)
            return op.astype(call.args[0], "float16") if call.op.name == "relax.nn.relu" else call

    mod = graph({"x": (2,)}, lambda bb, x: op.nn.gelu(bb.emit(op.nn.relu(x))))
    changed = Half().visit_expr(mod["main"])
    assert changed.ret_struct_info == TensorStructInfo((2,), "float16")
    after = mod.clone()
    after["main"] = changed
    assert problems_of(after) == []
    assert evaluate(after, np.ones(2, "float32")).dtype == np.float16


def test_a_visitor_sees_every_call():
    @visitor
    class Count(PyExprVisitor):
        def __init__(self) -> None:
            self.ops: list[str] = []

        def visit_call_(self, call):
            super().visit_call_(call)
            self.ops.append(call.op.name)

    count = Count()
    count.visit_expr(mlp()["main"])
    assert sorted(count.ops) == sorted(
        [
            "relax.permute_dims",
            "relax.matmul",
            "relax.add",
            "relax.nn.relu",
            "relax.permute_dims",
            "relax.matmul",
            "relax.add",
        ]
    )


def test_remapped_variables_are_replaced_in_later_uses():
    @mutator
    class Swap(PyExprMutator):
        def visit_var_binding_(self, binding):
            if isinstance(binding.value, Call) and binding.value.op.name == "relax.tanh":
                self.set_var_remap(binding.var, binding.value.args[0])
                return
            super().visit_var_binding_(binding)

    mod = graph({"x": (2,)}, lambda bb, x: op.nn.relu(bb.emit(op.tanh(x))))
    changed = Swap().visit_expr(mod["main"])
    assert [b.value.op.name for b in changed.body.blocks[0].bindings] == ["relax.nn.relu"]
    assert changed.body.blocks[0].bindings[0].value.args[0] is mod["main"].params[0]
