"""ToMixedPrecision: which operators are narrowed, where conversions stand, and how far results move."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eutectic.ir.module import IRModule
from eutectic.ir.transform import PassContext
from eutectic.relax import BlockBuilder, Tuple, Var, const, op
from eutectic.relax.analysis import get_var2val, problems_of
from eutectic.relax.expr import Call, Constant, If, SeqExpr
from eutectic.relax.op.registry import all_ops
from eutectic.relax.struct_info import tensor
from eutectic.relax.transform import FoldConstant, ToMixedPrecision
from eutectic.relax.transform.precision_classes import ALWAYS, FOLLOW, precision_class
from eutectic.relax.transform.to_mixed_precision import PrecisionRemark
from eutectic.support.errors import PassError
from eutectic.testing.graphs import evaluate, graph, weights

BF16 = np.dtype(ml_dtypes.bfloat16)


def calls(mod: IRModule) -> list[tuple[str, str]]:
    """Operators of `main` with the dtypes of their results, in order; tuples have that of their first field."""
    values = [v for v in get_var2val(mod["main"]).values() if isinstance(v, Call)]
    infos = [getattr(v.struct_info, "fields", (v.struct_info,))[0] for v in values]
    return [(v.op.name.removeprefix("relax."), info.dtype) for v, info in zip(values, infos, strict=True)]


def narrowed(mod: IRModule, out_dtype: str = "bfloat16") -> IRModule:
    """Apply the pass; the input stays, the result is well formed and has the types that it had."""
    text = mod.script()
    after = ToMixedPrecision(out_dtype)(mod)
    assert mod.script() == text
    assert problems_of(after) == []
    assert after["main"].ret_struct_info == mod["main"].ret_struct_info
    return after


def test_a_product_reads_narrow_operands_and_the_result_of_the_function_stays_wide():
    after = narrowed(graph({"x": (4, 8)}, lambda b, x: b.emit(op.matmul(x, weights(8, 16)))))
    assert calls(after) == [("astype", "bfloat16"), ("matmul", "bfloat16"), ("astype", "float32")]


def test_what_only_reads_narrow_values_is_narrow_and_softmax_is_not():
    def body(b, x):
        product = b.emit(op.matmul(x, weights(8, 16)))
        return b.emit(op.nn.softmax(b.emit(op.nn.relu(b.emit(op.multiply(product, weights(16)))))))

    after = narrowed(graph({"x": (4, 8)}, body))
    assert calls(after) == [
        ("astype", "bfloat16"),
        ("matmul", "bfloat16"),
        ("multiply", "bfloat16"),
        ("nn.relu", "bfloat16"),
        ("astype", "float32"),
        ("nn.softmax", "float32"),
    ]


def test_a_sum_with_a_wide_value_is_wide():
    def body(b, x):
        return b.emit(op.add(b.emit(op.matmul(x, weights(8, 8))), x))

    after = narrowed(graph({"x": (4, 8)}, body))
    assert calls(after)[-2:] == [("astype", "float32"), ("add", "float32")]


def test_what_is_added_to_a_product_keeps_its_values_until_constants_are_folded():
    bias = weights(16)

    def body(b, x):
        return b.emit(op.nn.relu(b.emit(op.add(b.emit(op.matmul(x, weights(8, 16))), bias))))

    after = narrowed(graph({"x": (4, 8)}, body))
    kept = [v for v in get_var2val(after["main"]).values() if isinstance(v, Call) and v.args[0] is bias]
    assert [v.attrs["dtype"] for v in kept] == ["bfloat16"]
    folded = FoldConstant()(after)
    constants = [a for v in get_var2val(folded["main"]).values() if isinstance(v, Call) for a in v.args[1:]]
    assert {c.data.dtype for c in constants if isinstance(c, Constant)} == {BF16}


def test_a_value_is_narrowed_once():
    def body(b, x):
        return [b.emit(op.matmul(x, weights(8, 8, seed=seed))) for seed in range(3)]

    after = narrowed(graph({"x": (4, 8)}, body))
    assert calls(after).count(("astype", "bfloat16")) == 1


def test_a_result_that_the_function_also_reads_is_narrow_inside():
    def body(b, x):
        first = b.emit_output(op.matmul(x, weights(8, 8)))
        return [first, b.emit(op.matmul(first, weights(8, 8, seed=1)))]

    after = narrowed(graph({"x": (4, 8)}, body))
    assert calls(after).count(("astype", "bfloat16")) == 1


def test_tuples_are_followed():
    def body(b, x):
        parts = b.emit(op.split(b.emit(op.matmul(x, weights(8, 8))), 2, axis=1))
        return b.emit(op.concat([b.emit(op.negative(parts[0])), parts[1]], axis=1))

    after = narrowed(graph({"x": (4, 8)}, body))
    assert [name for name, dtype in calls(after) if dtype == "bfloat16"][-3:] == ["split", "negative", "concat"]


def test_a_tuple_that_must_be_wide_is_widened_by_its_fields():
    def body(b, x):
        parts = b.emit(op.split(b.emit(op.matmul(x, weights(8, 8))), 2, axis=1))
        return b.emit(Tuple((parts[0], parts[1])))

    after = narrowed(graph({"x": (4, 8)}, body))
    assert after["main"].ret_struct_info.fields[0].dtype == "float32"


def test_a_tuple_of_results_is_made_of_wide_ones():
    def body(b, x):
        return b.emit(Tuple((b.emit(op.matmul(x, weights(8, 8))), x)))

    assert calls(narrowed(graph({"x": (4, 8)}, body)))[-2:] == [("matmul", "bfloat16"), ("astype", "float32")]


def test_convolutions_and_pools_are_narrow():
    def body(b, x):
        return b.emit(op.nn.max_pool2d(b.emit(op.nn.conv2d(x, weights(8, 3, 3, 3))), (2, 2), strides=(2, 2)))

    after = narrowed(graph({"x": (1, 3, 10, 10)}, body))
    assert [name for name, dtype in calls(after) if dtype == "bfloat16"] == ["astype", "nn.conv2d", "nn.max_pool2d"]


def test_a_model_without_products_is_left_alone():
    mod = graph({"x": (4, 8)}, lambda b, x: b.emit(op.exp(b.emit(op.nn.relu(x)))))
    assert ToMixedPrecision()(mod) is mod


def test_values_of_other_dtypes_are_left_alone():
    def body(b, x, y):
        return [b.emit(op.matmul(x, x)), b.emit(op.matmul(y, y)), b.emit(op.add(x, x))]

    mod = graph({"x": ((4, 4), "float64"), "y": ((4, 4), "bfloat16")}, body)
    assert ToMixedPrecision()(mod) is mod


def test_a_constant_that_is_too_large_keeps_its_operator_wide():
    with PassContext() as ctx:
        large = const(np.full((8, 8), 7e4, np.float32))
        mod = graph({"x": (4, 8)}, lambda b, x: b.emit(op.matmul(x, large)))
        assert ToMixedPrecision("float16")(mod) is mod
    remarks = [remark for remark in ctx.remarks if isinstance(remark, PrecisionRemark)]
    assert remarks == [PrecisionRemark("relax.matmul", "float32", "a constant is too large for float16")]


def test_a_mask_of_the_lowest_number_is_added_in_float32():
    mask = const(np.array([0, np.finfo(np.float32).min], np.float32))

    def body(b, x):
        return b.emit(op.nn.softmax(b.emit(op.add(b.emit(op.matmul(x, weights(8, 2))), mask))))

    after = narrowed(graph({"x": (4, 8)}, body))
    assert ("add", "float32") in calls(after)


def test_branches_have_conversions_of_their_own():
    bb = BlockBuilder()
    x, flag = Var("x", tensor((4, 4), "float32")), Var("flag", tensor((), "bool"))
    with bb.function("main", [x, flag]):
        product = bb.emit(op.matmul(x, weights(4, 4)))
        branches = [SeqExpr((), product), SeqExpr((), x)]
        bb.emit_func_output(bb.emit(If(flag, *branches)))
    after = narrowed(bb.get())
    for value in (True, False):
        values = np.eye(4, dtype=np.float32), np.array(value)
        np.testing.assert_allclose(evaluate(after, *values), evaluate(bb.get(), *values), rtol=2**-8, atol=1e-6)


def test_an_accumulator_of_float32_has_operands_of_float16():
    after = narrowed(graph({"x": (4, 8)}, lambda b, x: b.emit(op.matmul(x, weights(8, 16)))), "float32")
    assert calls(after) == [("astype", "float16"), ("matmul", "float32")]


def test_an_unknown_dtype_is_refused():
    with pytest.raises(PassError, match="no out_dtype 'bfloat61'"):
        ToMixedPrecision("bfloat61")


def test_the_classes_name_operators_that_exist_and_no_operator_twice():
    assert set(all_ops()) >= FOLLOW | ALWAYS
    assert not FOLLOW & ALWAYS
    assert {precision_class(f"relax.{name}") for name in ("nn.softmax", "exp", "sum", "nn.layer_norm")} == {"never"}


UNARY = {
    "relu": op.nn.relu,
    "tanh": op.tanh,
    "softmax": op.nn.softmax,
    "double": lambda x: op.add(x, x),
    "product": lambda x: op.matmul(x, weights(8, 8)),
    "scaled": lambda x: op.multiply(x, weights(8, seed=2)),
    "mean": lambda x: op.subtract(x, op.mean(x, axis=[-1], keepdims=True)),
}


@given(st.lists(st.sampled_from(sorted(UNARY)), min_size=1, max_size=6), st.booleans())
def test_results_move_by_the_roundings_of_16_bits(steps: list[str], residual: bool):
    def body(b, x):
        y = x
        for name in steps:
            y = b.emit(b.normalize(UNARY[name](y)))
        return b.emit(op.add(x, y)) if residual else y

    mod = graph({"x": (4, 8)}, body)
    after = narrowed(mod)
    x = np.random.default_rng(3).standard_normal((4, 8)).astype(np.float32)
    want, got = evaluate(mod, x), evaluate(after, x)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, want, rtol=0, atol=0.05 * max(1.0, float(np.abs(want).max())))
