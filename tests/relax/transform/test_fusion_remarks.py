"""Remarks about what was not fused: which pattern, which value, what was expected of it, and who reads it."""

from __future__ import annotations

import pytest

from eutectic.ir.span import Span
from eutectic.ir.transform import PassContext
from eutectic.relax import BlockBuilder, TensorStructInfo, Var, op
from eutectic.relax.dpl import (
    Refusal,
    is_const,
    is_op,
    is_shape,
    is_tuple_get_item,
    is_var,
    make_fused_bias_activation_pattern,
    wildcard,
)
from eutectic.relax.struct_info import TensorStructInfo as Tensor
from eutectic.relax.transform import FuseOpsByPattern, FusionPattern
from eutectic.relax.transform.fusion_log import NEAREST
from eutectic.testing.graphs import graph, weights

SHAPES = {"x": (1, 4, 4, 4), "w": (4, 4, 1, 1), "b": (1, 4, 1, 1)}


def conv(data=None, weight=None):
    return is_op("relax.nn.conv2d")(data or wildcard(), weight or wildcard())


def conv_bias_relu(bb, x, w, b):
    return op.nn.relu(bb.emit(op.add(bb.emit(op.nn.conv2d(x, w)), b)))


def remarks(mod, *entries, **options):
    with PassContext(remarks=True) as ctx:
        FuseOpsByPattern(list(entries), **options)(mod)
    return [r for r in ctx.remarks if r.kind == "missed"]


def relu_of_add(left, right=None):
    return is_op("relax.nn.relu")(is_op("relax.add")(left, right or wildcard()))


# id -> (pattern, operand, constraint, expected, actual)
NEAR = {
    "operator": (
        relu_of_add(is_op("relax.matmul")(wildcard(), wildcard())), "lv", "operator", "relax.matmul", "relax.nn.conv2d"
    ),
    "operator of a parameter": (
        relu_of_add(conv(is_op("relax.tanh")(wildcard()))), "x", "operator", "relax.tanh", "variable x"
    ),
    "argument count": (
        relu_of_add(is_op("relax.nn.conv2d")(wildcard())), "lv", "argument count", "1 arguments of relax.nn.conv2d", "2"
    ),
    "too few arguments": (
        relu_of_add(is_op("relax.nn.conv2d")(wildcard(), wildcard(), wildcard(), varg_default_wildcard=True)),
        "lv", "argument count", "at least 3 arguments of relax.nn.conv2d", "2",
    ),
    "dtype": (relu_of_add(conv(wildcard().has_dtype("float16"))), "x", "dtype", "float16", "float32"),
    "shape": (
        relu_of_add(conv(None, wildcard().has_shape((4, 4, 3, 3)))), "w", "shape", "(4, 4, 3, 3)", "(4, 4, 1, 1)"
    ),
    "struct info": (
        relu_of_add(conv(wildcard().has_struct_info(Tensor((2,), "float32")))),
        "x", "struct info", 'R.Tensor((2,), "float32")', 'R.Tensor((1, 4, 4, 4), "float32")',
    ),
    "attribute": (
        relu_of_add(conv().has_attr({"padding": [1, 1, 1, 1]})),
        "lv", "attribute", "padding=(1, 1, 1, 1)", "padding=(0, 0, 0, 0)",
    ),
    "missing attribute": (relu_of_add(conv().has_attr({"pads": 1})), "lv", "attribute", "pads=1", "no attribute pads"),
    "constant": (relu_of_add(conv(None, is_const())), "w", "constant", "a constant", "variable w"),
    "variable": (relu_of_add(conv(is_var("y"))), "x", "variable", "a variable called y", "variable x"),
    "tuple field": (
        relu_of_add(is_tuple_get_item(wildcard(), 1)), "lv", "tuple", "field 1 of a tuple", "relax.nn.conv2d"
    ),
    "rejected": (
        relu_of_add(conv(), ~is_var("b")), "b", "rejected", "anything but what the pattern rejects", "variable b"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NEAR)
def test_a_near_miss_says_what_did_not_fit(case):
    pattern, operand, constraint, expected, actual = NEAR[case]
    (remark,) = remarks(graph(SHAPES, conv_bias_relu), ("d.p", pattern))
    assert (remark.pattern, remark.root, remark.variable) == ("d.p", "relax.nn.relu", "gv")
    assert (remark.operand, remark.constraint) == (operand, constraint)
    assert (remark.expected, remark.actual) == (expected, actual)
    assert remark.reason == f"{operand}: expected {expected}, found {actual}"


def test_a_pattern_that_occurs_twice_must_match_one_value():
    x = wildcard()
    mod = graph({"a": (2,), "b": (2,)}, lambda bb, a, b: op.nn.relu(bb.emit(op.subtract(a, b))))
    (remark,) = remarks(mod, ("d.p", is_op("relax.nn.relu")(is_op("relax.subtract")(x, x))))
    assert (remark.constraint, remark.operand, remark.expected) == ("same value", "b", "a")


def test_a_shape_literal_that_differs():
    mod = graph({"x": (2, 3)}, lambda bb, x: op.nn.relu(bb.emit(op.reshape(x, (3, 2)))))
    pattern = is_op("relax.nn.relu")(is_op("relax.reshape")(wildcard(), is_shape((6,))))
    (remark,) = remarks(mod, ("d.p", pattern))
    assert (remark.constraint, remark.expected, remark.actual) == ("shape", "the shape (6)", "the shape (3, 2)")


def test_named_parts_are_named():
    pattern = relu_of_add(conv(None, is_const().named("weight")))
    (remark,) = remarks(graph(SHAPES, conv_bias_relu), ("d.p", pattern))
    assert remark.reason == "w (weight of the pattern): expected a constant, found variable w"


def test_a_condition_speaks_for_itself():
    mod = graph({**SHAPES, "b": (1, 1, 1, 4)}, conv_bias_relu)
    pattern = make_fused_bias_activation_pattern("relax.nn.conv2d", True, "relax.nn.relu")
    (remark,) = remarks(mod, ("d.p", pattern))
    assert (remark.constraint, remark.operand) == ("condition", "b")
    assert "is not one value per channel" in remark.reason


def test_a_reshape_along_another_axis_is_named():  # B13
    mod = graph(
        {"x": (1, 4, 4, 4), "w": (4, 4, 1, 1), "b": (4,)},
        lambda bb, x, w, b: op.add(bb.emit(op.nn.conv2d(x, w)), bb.emit(op.reshape(b, (1, 1, 1, 4)))),
    )
    pattern = make_fused_bias_activation_pattern("relax.nn.conv2d", True, allow_reshape=True)
    (remark,) = remarks(mod, ("d.p", pattern))
    assert (remark.operand, remark.constraint) == ("lv1", "condition")
    assert "(1, 1, 1, 4)" in remark.reason


@pytest.mark.parametrize(
    "pattern", [is_op("relax.tanh")(conv()), is_op("relax.nn.gelu")(wildcard())], ids=["of a conv", "of anything"]
)
def test_other_operators_are_not_mentioned(pattern):
    assert remarks(graph(SHAPES, conv_bias_relu), ("d.p", pattern)) == []


def test_a_binding_that_was_fused_is_not_complained_about():
    longer = ("d.long", is_op("relax.nn.relu")(is_op("relax.tanh")(wildcard())))
    assert remarks(graph(SHAPES, conv_bias_relu), longer, ("d.all", relu_of_add(conv()))) == []


def test_a_fused_binding_keeps_the_miss_that_had_matched_more():
    typed = ("d.half", relu_of_add(conv(wildcard().has_dtype("float16"))))
    (remark,) = remarks(graph(SHAPES, conv_bias_relu), typed, ("d.relu", is_op("relax.nn.relu")(wildcard())))
    assert (remark.pattern, remark.constraint) == ("d.half", "dtype")


def test_the_nearest_misses_come_first_and_are_limited():
    far = [(f"d.far{i}", is_op("relax.nn.relu")(is_op("relax.tanh")(wildcard()))) for i in range(NEAREST + 3)]
    found = remarks(graph(SHAPES, conv_bias_relu), *far, ("d.near", relu_of_add(conv(None, is_const()))))
    assert [r.pattern for r in found] == ["d.near", *(f"d.far{i}" for i in range(NEAREST - 1))]


def test_refusals_come_before_near_misses():
    refused = FusionPattern("d.refused", is_op("relax.nn.relu")(wildcard()), {}, lambda context: Refusal("no"))
    near = ("d.near", relu_of_add(conv(None, is_const())))
    assert [r.pattern for r in remarks(graph(SHAPES, conv_bias_relu), near, refused)] == ["d.refused", "d.near"]


def test_nothing_is_kept_without_asking():
    with PassContext() as ctx:
        FuseOpsByPattern([("d.p", relu_of_add(conv(None, is_const())))])(graph(SHAPES, conv_bias_relu))
    assert ctx.remarks == []


# ---- groups


def test_several_consumers_are_named():  # B14, B15
    def body(bb, x, w):
        shared = bb.emit(op.nn.conv2d(x, w))
        relu = bb.emit(op.nn.relu(shared))
        return op.add(relu, bb.emit(op.tanh(shared)))

    mod = graph({"x": SHAPES["x"], "w": SHAPES["w"]}, body)
    (remark,) = remarks(mod, ("d.conv_relu", is_op("relax.nn.relu")(conv())))
    assert (remark.constraint, remark.operand, remark.variables, remark.readers) == (
        "single reader", "lv", ("lv",), ("lv2",)
    )  # fmt: skip
    assert remark.actual == "lv is read by lv2"
    assert str(remark).endswith("lv is read elsewhere too (read by lv2)")


def test_a_value_that_is_a_result_is_read_by_the_result():
    def body(bb, x, w):
        shared = bb.emit(op.nn.conv2d(x, w))
        return [op.nn.relu(shared), shared]

    (remark,) = remarks(
        graph({"x": SHAPES["x"], "w": SHAPES["w"]}, body), ("d.conv_relu", is_op("relax.nn.relu")(conv()))
    )
    assert remark.constraint == "single reader"
    assert remark.readers


@pytest.mark.parametrize("count", [1, 3])
def test_a_cycle_names_the_way_around(count):  # B16
    def body(bb, x, w):
        start = bb.emit(op.nn.conv2d(x, w))
        way = start
        for _ in range(count):
            way = bb.emit(op.sigmoid(way))
        return op.add(start, way)

    mod = graph({"x": SHAPES["x"], "w": SHAPES["w"]}, body)
    (remark,) = remarks(mod, ("d.conv_add", is_op("relax.add")(conv(), wildcard())), multiple_outputs=True)
    assert remark.constraint == "no cycle"
    assert remark.variables == tuple(f"lv{i + 1}" for i in range(count))
    assert remark.readers == ("gv",)
    assert remark.actual == f"{', '.join(remark.variables)} made from the group and read by gv"


def test_values_on_no_path_are_not_part_of_the_cycle():
    def body(bb, x, w):
        start = bb.emit(op.nn.conv2d(x, w))
        aside = bb.emit(op.tanh(start))
        way = bb.emit(op.sigmoid(start))
        return [op.add(start, way), aside]

    mod = graph({"x": SHAPES["x"], "w": SHAPES["w"]}, body)
    (remark,) = remarks(mod, ("d.conv_add", is_op("relax.add")(conv(), wildcard())), multiple_outputs=True)
    assert remark.variables == ("lv2",)


def test_a_value_taken_by_a_pattern_before_is_a_call_of_its_function():  # B15
    pattern = is_op("relax.nn.relu")(is_op("relax.add")(conv(), wildcard()))
    add = is_op("relax.add")(wildcard(), wildcard())
    with pytest.warns(Warning, match=r"d\.add comes before d\.all"):
        found = remarks(graph(SHAPES, conv_bias_relu), ("d.add", add), ("d.all", pattern))
    assert [(r.operand, r.constraint, r.actual) for r in found] == [("lv1", "operator", "fused_relax_add")]


def test_overlapping_matches_of_one_pattern_name_the_first():
    def body(bb, x):
        return op.tanh(bb.emit(op.tanh(bb.emit(op.tanh(x)))))

    pattern = is_op("relax.tanh")(is_op("relax.tanh")(wildcard()))
    (remark,) = remarks(graph({"x": (2,)}, body), ("d.twice", pattern))
    assert remark.reason == "lv1 belongs to another match of the pattern already"
    assert (remark.constraint, remark.variables, remark.readers) == ("one match per value", ("lv1",), ("lv1",))


def test_a_value_of_another_block_is_named():  # B15 b
    bb = BlockBuilder()
    x, w = Var("x", TensorStructInfo(SHAPES["x"])), Var("w", TensorStructInfo(SHAPES["w"]))
    with bb.function("main", [x, w]):
        outside = bb.emit(op.nn.conv2d(x, w), "outside")
        with bb.dataflow():
            out = bb.emit_output(op.nn.relu(outside), "inside")
        bb.emit_func_output(out)
    (remark,) = remarks(bb.get(), ("d.conv_relu", is_op("relax.nn.relu")(conv())))
    assert (remark.constraint, remark.variables, remark.readers) == ("one block", ("outside",), ("inside",))
    assert remark.expected == "a value bound in the dataflow block of inside"


# ---- places


def test_remarks_carry_module_and_line():
    at, below = Span("net.py", 7, module="layers.3"), Span("net.py", 5, module="layers.2")

    def body(bb, x, w):
        return op.nn.relu(bb.emit(op.nn.conv2d(x, w, span=below)), span=at)

    mod = graph({"x": SHAPES["x"], "w": SHAPES["w"]}, body)
    (remark,) = remarks(mod, ("d.p", is_op("relax.nn.relu")(conv().has_attr({"groups": 2}))))
    assert (remark.module, remark.source, remark.span) == ("layers.3", "net.py:7", at)
    assert remark.operand_span is below
    assert str(remark) == ("d.p at gv (relax.nn.relu) in layers.3 (net.py:7): lv: expected groups=2, found groups=1")


def test_without_a_span_places_are_empty():
    mod = graph(SHAPES, lambda bb, x, w, b: op.nn.relu(bb.emit(op.nn.conv2d(x, weights(4, 4, 1, 1)))))
    with PassContext(remarks=True) as ctx:
        FuseOpsByPattern([("d.p", is_op("relax.nn.relu")(conv()))])(mod)
    (remark,) = ctx.remarks
    assert (remark.module, remark.source) == ("", "")
    assert str(remark) == (
        "d.p at gv (relax.nn.relu): relax.nn.conv2d, relax.nn.relu became fused_relax_nn_conv2d_relax_nn_relu"
    )
