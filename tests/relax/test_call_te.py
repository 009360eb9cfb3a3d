"""call_te and emit_te: tensor programs from tensor expressions, called with the graph's tensors."""

from __future__ import annotations

import numpy as np
import pytest

from eutectic import te, topi
from eutectic.ir.prim_expr import Var as SizeSymbol
from eutectic.relax import BlockBuilder, Call, TensorStructInfo, Var, const, op
from eutectic.relax.analysis import well_formed
from eutectic.relax.interpret import Interpreter
from eutectic.support.errors import TypeInferenceError
from eutectic.testing.round_trip import check_round_trip
from eutectic.tir import PrimFunc

N, M = SizeSymbol("n", "int64"), SizeSymbol("m", "int64")


def build(params, body):
    """A module whose `main` returns what `body(builder, *params)` binds; it keeps the rules and has a text."""
    bb = BlockBuilder()
    with bb.function("main", params):
        with bb.dataflow():
            result = bb.emit_output(body(bb, *params))
        bb.emit_func_output(result)
    mod = bb.get()
    assert well_formed(mod)
    check_round_trip(mod)
    return mod


def tensor(name: str, *shape, dtype: str = "float32") -> Var:
    return Var(name, TensorStructInfo(shape, dtype))


def run(mod, *args):
    return Interpreter(mod).run("main", *args)


def test_a_product_and_its_relu():
    w = np.random.default_rng(0).standard_normal((4, 5)).astype("float32")
    mod = build(
        [tensor("x", 3, 4)],
        lambda bb, x: bb.call_te(topi.nn.relu, bb.emit_te(topi.nn.matmul, x, const(w))),
    )
    assert [v.name_hint for v in mod.get_global_vars()] == ["main", "matmul", "relu"]
    program = mod["matmul"]
    assert isinstance(program, PrimFunc)
    assert program.attr("global_symbol") is None
    assert program.attr("tir.noalias") is True
    x = np.random.default_rng(1).standard_normal((3, 4)).astype("float32")
    np.testing.assert_allclose(run(mod, x), np.maximum(x.astype("float64") @ w, 0), rtol=1e-5, atol=1e-5)


def test_equal_programs_are_shared():
    mod = build([tensor("x", 3)], lambda bb, x: bb.call_te(topi.exp, bb.emit_te(topi.exp, bb.emit_te(topi.exp, x))))
    assert len(mod.functions) == 2


@pytest.mark.parametrize("sizes", [(1, 1), (2, 3), (5, 0)])
def test_symbolic_sizes(sizes: tuple[int, int]):
    mod = build([tensor("x", N, M), tensor("y", M)], lambda bb, x, y: bb.call_te(topi.add, x, y))
    n, m = sizes
    x, y = np.arange(n * m, dtype="float32").reshape(n, m), np.ones(m, "float32")
    np.testing.assert_array_equal(run(mod, x, y), x + y)
    symbols = {part for size in mod["add"].buffers[0].shape for part in [size]}
    assert N not in symbols


def test_sizes_that_no_tensor_defines_are_passed():
    def doubled(a):
        return te.compute((a.shape[0] * 2,), lambda i: a[te.if_then_else(i < a.shape[0], i, i - a.shape[0])], "doubled")

    def shifted(a, by):
        return te.compute(a.shape, lambda i: a[i] + by.astype("float32"), "shifted")

    mod = build([tensor("x", N)], lambda bb, x: bb.call_te(doubled, x))
    assert str(mod["main"].ret_struct_info.dims[0].script()) == "n * 2"
    np.testing.assert_array_equal(run(mod, np.arange(3, dtype="float32")), [0, 1, 2, 0, 1, 2])

    mod = build([tensor("x", 4), tensor("y", N)], lambda bb, x, y: bb.call_te(shifted, x, N))
    call = mod["main"].body.blocks[0].bindings[0].value
    assert isinstance(call, Call)
    assert len(call.args) == 3
    np.testing.assert_array_equal(run(mod, np.zeros(4, "float32"), np.zeros(7, "float32")), [7, 7, 7, 7])


def test_lists_and_several_results():
    def both(parts):
        return [topi.add(parts[0], parts[1]), topi.multiply(parts[0], parts[1])]

    mod = build([tensor("x", 3), tensor("y", 3)], lambda bb, x, y: bb.call_te(both, [x, y]))
    x, y = np.array([1, 2, 3], "float32"), np.array([4, 5, 6], "float32")
    total, product = run(mod, x, y)
    np.testing.assert_array_equal(total, x + y)
    np.testing.assert_array_equal(product, x * y)


def test_names_and_attributes():
    mod = build(
        [tensor("x", 3)],
        lambda bb, x: bb.call_te(topi.exp, x, primfunc_name_hint="grow", primfunc_attrs={"op_pattern": 0}),
    )
    assert mod["grow"].attr("op_pattern") == 0


def test_refusals():
    bb = BlockBuilder()
    unknown = Var("x", TensorStructInfo(None, "float32", ndim=2))
    with pytest.raises(TypeInferenceError, match="known shape"):
        bb.call_te(topi.exp, unknown)
    with pytest.raises(TypeInferenceError, match="must return tensors of te, got int"):
        bb.call_te(lambda a: 3, tensor("x", 3))
    with pytest.raises(TypeInferenceError, match="fields of a tuple"):
        bb.call_te(topi.exp, op.split(tensor("x", 4), 2))
