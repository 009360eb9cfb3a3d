"""Shared pattern makers: what each takes, what it does not, and which parts it names."""

from __future__ import annotations

import numpy as np
import pytest
from tests.backend.library_graphs import attention, convolution, dequantized, normalised, product, scaled, stacked

from eutectic.relax import op
from eutectic.relax.analysis import get_var2val
from eutectic.relax.dpl import is_op, wildcard
from eutectic.relax.dpl.attention_rewrite import make_attention_rewrite_pattern
from eutectic.relax.dpl.pattern_builders import (
    make_attention_pattern,
    make_conv2d_pattern,
    make_fused_bias_activation_pattern,
    make_layer_norm_pattern,
    make_matmul_dequantize_pattern,
    make_matmul_multiply_pattern,
    make_matmul_pattern,
    make_residual_block_pattern,
    make_rms_norm_pattern,
    make_stacked_attention_pattern,
)
from eutectic.relax.expr import const
from eutectic.support.errors import PatternError
from eutectic.testing.graphs import graph

RELU, GELU = "relax.nn.relu", "relax.nn.gelu"


def last(mod):
    """The value of the result of `main`, and the values of its variables."""
    function = mod["main"]
    values = get_var2val(function)
    result = function.body.body
    return values[result], values


def matches(recipe, mod) -> bool:
    value, values = last(mod)
    return recipe[0].match(value, values)


# id -> (recipe, its parts, a graph it takes, near misses)
RECIPES = {
    "conv2d": (
        make_conv2d_pattern(), "lhs rhs root", convolution("conv2d"), [product("matmul"), convolution("conv2d_bias")]
    ),
    "conv2d_bias": (
        make_conv2d_pattern(True), "lhs rhs root bias", convolution("conv2d_bias"),
        [convolution("conv2d"), convolution("conv2d_bias", bias=(1, 6, 1, 1))],
    ),
    "conv2d_relu": (
        make_fused_bias_activation_pattern("relax.nn.conv2d", activation=RELU), "lhs rhs root",
        convolution("conv2d_relu"), [convolution("conv2d"), convolution("conv2d_bias_relu")],
    ),
    "conv2d_bias_relu": (
        make_conv2d_pattern(True, RELU), "lhs rhs root bias", convolution("conv2d_bias_relu"),
        [convolution("conv2d_bias"), convolution("conv2d_bias_silu")],
    ),
    "matmul": (
        make_matmul_pattern(), "lhs rhs root", product("matmul_transposed"), [product("matmul_bias")]
    ),
    "matmul_bias_gelu": (
        make_matmul_pattern(True, GELU), "lhs rhs root bias", product("matmul_bias_gelu"),
        [product("matmul_bias_relu"), product("matmul_bias_gelu", bias=(8, 1))],
    ),
    "matmul_transposed": (
        make_matmul_pattern(transposed_rhs=True), "lhs rhs root transpose", product("matmul_transposed"),
        [product("matmul")],
    ),
    "dequantize": (
        make_matmul_dequantize_pattern(transposed_rhs=True), "lhs rhs root transpose scale zp", dequantized(),
        [product("matmul_transposed")],
    ),
    "multiply": (
        make_matmul_multiply_pattern(transposed_rhs=True), "lhs rhs root transpose scaleA scaleB", scaled(),
        [scaled(transposed=False), product("matmul_transposed")],
    ),
    "multiply of plain operands": (
        make_matmul_multiply_pattern(), "lhs rhs root scaleA scaleB", scaled(transposed=False), [product("matmul")],
    ),
    "residual": (
        make_residual_block_pattern(make_matmul_pattern(True), "relax.multiply", RELU), "lhs rhs root bias residual",
        product("matmul_bias_residual_multiply_relu"),
        [product("matmul_bias_residual_multiply"), product("matmul_bias_residual_add_relu")],
    ),
    "attention": (
        make_attention_pattern(), "query key value root", attention(), [attention("attention_bias")]
    ),
    "attention with a bias": (
        make_attention_pattern(True), "query key value bias root", attention("attention_bias"), [attention()]
    ),
    "attention of sequences": (
        make_attention_pattern(var_len=True),
        "query key value seqstart_q max_seqlen_q seqstart_k max_seqlen_k root", attention("attention_var_len"),
        [attention()],
    ),
    "stacked by split": (
        make_stacked_attention_pattern("split"), "stacked_qkv split query key value root", stacked("split"),
        [stacked("strided_slice"), stacked("split", "SBN3H"), stacked("split", bias=True), attention()],
    ),
    "stacked by slices": (
        make_stacked_attention_pattern("strided_slice", True),
        "stacked_qkv strided_slice_query strided_slice_key strided_slice_value query key value bias root",
        stacked("strided_slice", bias=True), [stacked("split", bias=True), stacked("strided_slice")],
    ),
    "stacked, sequence first": (
        make_stacked_attention_pattern("split", layout="SBN3H"),
        "stacked_qkv split query key value root out_transpose", stacked("split", "SBN3H"), [stacked("split")],
    ),
    "layer_norm": (
        make_layer_norm_pattern(), "data gamma beta root", normalised("layer_norm"), [normalised("rms_norm")]
    ),
    "rms_norm": (make_rms_norm_pattern(), "data weight root", normalised("rms_norm"), [normalised("layer_norm")]),
}  # fmt: skip


@pytest.mark.parametrize("case", RECIPES)
def test_each_recipe_takes_its_graph_and_names_its_parts(case):
    (pattern, parts), names, mod, _ = RECIPES[case]
    value, values = last(mod)
    found = pattern.extract_matched_expr(value, values)
    assert found is not None
    assert sorted(parts) == sorted(names.split())
    assert set(parts.values()) <= set(found)
    assert {p.name for p in parts.values()} == set(parts)


@pytest.mark.parametrize("case", RECIPES)
def test_each_recipe_leaves_its_neighbours(case):
    recipe, _, _, others = RECIPES[case]
    assert [matches(recipe, mod) for mod in others] == [False] * len(others)


@pytest.mark.parametrize("allow_reshape", [False, True])
def test_a_reshaped_bias_is_named_below_its_reshape(allow_reshape):
    pattern, parts = make_fused_bias_activation_pattern("relax.nn.conv2d", True, allow_reshape=allow_reshape)
    mod = graph(
        {"x": (1, 4, 4, 4), "w": (4, 4, 1, 1), "b": (4,)},
        lambda bb, x, w, b: op.add(bb.emit(op.nn.conv2d(x, w)), bb.emit(op.reshape(b, (1, 4, 1, 1)))),
    )
    value, values = last(mod)
    found = pattern.extract_matched_expr(value, values)
    assert found is not None
    assert found[parts["bias"]].struct_info.ndim == (1 if allow_reshape else 4)


def test_a_residual_of_a_plain_pattern_and_a_fixed_order():
    pattern, parts = make_residual_block_pattern(is_op("relax.tanh")(wildcard()), "relax.subtract")
    assert list(parts) == ["residual"]
    shapes = {"x": (2,), "y": (2,)}
    assert matches((pattern, parts), graph(shapes, lambda bb, x, y: op.subtract(bb.emit(op.tanh(x)), y)))
    assert not matches((pattern, parts), graph(shapes, lambda bb, x, y: op.subtract(y, bb.emit(op.tanh(x)))))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: make_attention_pattern(True, True), "takes no bias"),
        (lambda: make_stacked_attention_pattern("concat"), "cannot start with 'concat'"),
        (lambda: make_stacked_attention_pattern("split", layout="B3SNH"), "unknown layout 'B3SNH'"),
        (lambda: make_attention_rewrite_pattern("BNSH", "BSNH", False, False), "unknown layouts 'BNSH', 'BSNH'"),
        (lambda: make_attention_rewrite_pattern("BSH", "BSH", False, False, True), "heads are repeated in the layout"),
    ],
    ids=["bias of sequences", "unknown start", "unknown stacking", "unknown layout", "repeated single head"],
)
def test_impossible_requests_are_refused(make, message):
    with pytest.raises(PatternError, match=message):
        make()


def test_unknown_operators_are_refused():
    with pytest.raises(AttributeError, match=r"relax\.nn\.conv4d is not registered"):
        make_fused_bias_activation_pattern("relax.nn.conv4d")


def test_a_rewriter_gives_the_original_back_when_sizes_do_not_fit():
    pattern, rewriter = make_attention_rewrite_pattern("BSH", "BSH", False, False)
    shapes = {"q": (2, 4, 4), "k": (2, 4, 4), "v": (2, 4, 4)}

    def body(bb, q, k, v, axis=1):
        scores = bb.emit(op.matmul(q, bb.emit(op.permute_dims(k, [0, 2, 1]))))
        return op.matmul(bb.emit(op.nn.softmax(scores, axis)), v)

    for axis, kept in ((1, True), (2, False)):
        value, values = last(graph(shapes, lambda bb, q, k, v, axis=axis: body(bb, q, k, v, axis)))
        found = pattern.extract_matched_expr(value, values)
        assert found is not None
        assert (rewriter(value, found) is value) is kept


def test_a_scale_that_is_not_one_number_is_left_alone():
    pattern, rewriter = make_attention_rewrite_pattern("BSH", "BSH", False, False)

    def body(bb, q, k, v):
        scores = bb.emit(op.matmul(q, bb.emit(op.permute_dims(k, [0, 2, 1]))))
        scores = bb.emit(op.divide(scores, const(np.arange(1, 5, dtype=np.float32))))
        return op.matmul(bb.emit(op.nn.softmax(scores)), v)

    value, values = last(graph(dict.fromkeys("qkv", (2, 4, 4)), body))
    found = pattern.extract_matched_expr(value, values)
    assert found is not None
    assert rewriter(value, found) is value
