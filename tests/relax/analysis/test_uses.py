"""Who reads what: straight-line functions, conditionals, nested functions."""

from __future__ import annotations

from eutectic.ir.module import GlobalVar
from eutectic.relax import (
    BindingBlock,
    BlockBuilder,
    Call,
    Constant,
    DataflowBlock,
    Function,
    If,
    SeqExpr,
    TensorStructInfo,
    Tuple,
    Var,
    VarBinding,
    const,
    op,
)
from eutectic.relax.analysis import (
    all_global_vars,
    all_vars,
    bound_vars,
    free_vars,
    get_var2val,
    name_to_binding,
    post_order_visit,
    udchain,
    used_vars,
)
from eutectic.relax.analysis.uses import reads, users_of, walk_bindings, walk_blocks
from eutectic.testing.graphs import graph

INFO = TensorStructInfo((2,))


def names(variables) -> list[str]:
    return [var.name_hint if var is not None else "result" for var in variables]


def chain():
    def body(bb, x, y):
        a = bb.emit(op.nn.relu(x))
        b = bb.emit(op.add(a, y))
        return [op.multiply(a, b), b]

    return graph({"x": (2,), "y": (2,)}, body)["main"]


def branching() -> Function:
    """`if c: a = relu(x); r = a  else: b = add(x, y); r = b`, then `exp(r)`."""
    bb = BlockBuilder()
    x, y, c = Var("x", INFO), Var("y", INFO), Var("c", TensorStructInfo((), "bool"))
    a, b, r = Var("a", INFO), Var("b", INFO), Var("r", INFO)

    def branch(var: Var, value: Call) -> SeqExpr:
        return SeqExpr((BindingBlock((VarBinding(var, value),)),), var)

    with bb.function("main", [x, y, c]):
        conditional = If(c, branch(a, op.nn.relu(x)), branch(b, op.add(x, y)), struct_info=INFO)
        bb.emit_normalized(VarBinding(r, conditional))
        bb.emit_func_output(bb.emit(op.exp(r)))
    return bb.get()["main"]


def nested() -> Function:
    """A local function that captures `x`, and a call of it."""
    x, p, inner, out = Var("x", INFO), Var("p", INFO), Var("q", INFO), Var("out", INFO)
    local = Function([p], SeqExpr((BindingBlock((VarBinding(inner, op.add(p, x)),)),), inner), INFO)
    f = Var("f", local.struct_info)
    block = BindingBlock((VarBinding(f, local), VarBinding(out, Call(f, [x], struct_info=INFO))))
    return Function([x], SeqExpr((block,), out), INFO, attrs={"global_symbol": "main"})


def test_users_name_the_readers_and_the_result():
    users = {var.name_hint: names(readers) for var, readers in users_of(chain()).items()}
    assert users == {
        "x": ["lv"],
        "lv": ["lv1", "gv"],
        "y": ["lv1"],
        "lv1": ["gv", "gv1"],
        "gv": ["result"],
        "gv1": ["result"],
    }


def test_users_look_into_branches():
    users = {var.name_hint: names(readers) for var, readers in users_of(branching()).items()}
    assert users["c"] == ["r"]
    assert users["x"] == ["a", "b"]
    assert users["a"] == users["b"] == ["result"]
    assert users["r"] == ["gv"]


def test_a_value_read_twice_by_one_binding_has_one_user():
    mod = graph({"x": (2,)}, lambda bb, x: op.multiply(x, x))
    (x,) = mod["main"].params
    assert names(users_of(mod["main"])[x]) == ["gv"]


def test_a_captured_variable_is_read_by_the_local_function():
    function = nested()
    assert names(users_of(function)[function.params[0]]) == ["f", "out"]


def test_bindings_are_walked_in_the_order_of_execution():
    assert [b.var.name_hint for b in walk_bindings(branching())] == ["a", "b", "r", "gv"]
    assert [type(block) for block in walk_blocks(chain().body)] == [DataflowBlock]
    assert [b.var.name_hint for b in walk_bindings(nested())] == ["f", "out"]
    assert list(walk_blocks(const(1.0))) == []


def test_definitions_and_uses_of_a_dataflow_block():
    (block,) = chain().body.blocks
    found = {var.name_hint: names(readers) for var, readers in udchain(block).items()}
    assert found == {"x": ["lv"], "lv": ["lv1", "gv"], "y": ["lv1"], "lv1": ["gv", "gv1"], "gv": [], "gv1": []}


def test_values_by_variable_and_bindings_by_name():
    function = branching()
    values = get_var2val(function)
    assert sorted(var.name_hint for var in values) == ["a", "b", "gv", "r"]
    assert {name: len(found) for name, found in name_to_binding(function).items()} == {"r": 1, "a": 1, "b": 1, "gv": 1}
    (binding,) = name_to_binding(function)["r"]
    assert isinstance(values[binding.var], If)


def test_bindings_of_one_name_are_all_listed():
    a, b = Var("v", INFO), Var("v", INFO)
    x = Var("x", INFO)
    block = BindingBlock((VarBinding(a, op.exp(x)), VarBinding(b, op.exp(a))))
    assert len(name_to_binding(Function([x], SeqExpr((block,), b), INFO))["v"]) == 2


def test_bound_and_free_variables():
    function = nested()
    assert set(names(bound_vars(function))) == {"x", "f", "p", "q", "out"}
    assert free_vars(function) == []
    local = get_var2val(function)[next(v for v in bound_vars(function) if v.name_hint == "f")]
    assert names(free_vars(local)) == ["x"]
    assert names(free_vars(function.body)) == ["x"]


def test_variables_of_an_expression_are_listed_once():
    x, y = Var("x", INFO), Var("y", INFO)
    call = op.add(op.add(x, y), x)
    assert names(used_vars(call)) == names(all_vars(call)) == ["x", "y"]
    assert names(reads(VarBinding(Var("v", INFO), Tuple((y, x))))) == ["y", "x"]


def test_functions_of_the_module_that_are_called():
    f, g, x = GlobalVar("f"), GlobalVar("g"), Var("x", INFO)
    assert names(all_global_vars(Tuple((f(x), g(x), f(x))))) == ["f", "g"]


def test_operands_are_visited_before_users():
    x = Var("x", INFO)
    seen: list[str] = []
    call = op.add(op.exp(x), const(1.0))
    post_order_visit(
        call, lambda item: seen.append(type(item).__name__) if isinstance(item, (Var, Constant, Call)) else None
    )
    assert seen == ["Var", "Call", "Constant", "Call"]
