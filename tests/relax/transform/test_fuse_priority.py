"""Which pattern of a table wins: the first, or the match with the most operators; and advice about the order."""

from __future__ import annotations

import itertools
import warnings

import pytest

from eutectic.ir.transform import PassContext
from eutectic.relax import op
from eutectic.relax.analysis import problems_of
from eutectic.relax.dpl import Refusal, is_op, is_tuple_get_item, wildcard
from eutectic.relax.transform import FuseOpsByPattern, FusionPattern, MergeCompositeFunctions
from eutectic.support.errors import EutecticAdvice, PassError
from eutectic.testing.graphs import assert_same_results, graph


def conv():
    return is_op("relax.nn.conv2d")(wildcard(), wildcard())


CONV = ("d.conv2d", conv())
CONV_RELU = ("d.conv2d_relu", is_op("relax.nn.relu")(conv()))
CONV_ADD = ("d.conv2d_add", is_op("relax.add")(conv(), wildcard()))
CONV_ADD_RELU = ("d.conv2d_add_relu", is_op("relax.nn.relu")(is_op("relax.add")(conv(), wildcard())))
RELU = ("d.relu", is_op("relax.nn.relu")(wildcard()))
TABLE = [CONV, RELU, CONV_RELU, CONV_ADD, CONV_ADD_RELU]


def network():
    """A convolution with relu, then one with a residual and relu."""

    def body(bb, x, w):
        first = bb.emit(op.nn.relu(bb.emit(op.nn.conv2d(x, w))))
        second = bb.emit(op.nn.conv2d(first, w))
        return op.nn.relu(bb.emit(op.add(second, x)))

    return graph({"x": (1, 4, 4, 4), "w": (4, 4, 1, 1)}, body)


def only_convolution():
    return graph({"x": (1, 4, 4, 4), "w": (4, 4, 1, 1)}, lambda bb, x, w: op.tanh(bb.emit(op.nn.conv2d(x, w))))


def composites(mod) -> list[str]:
    return sorted(str(f.attr("Composite")) for f in mod.functions.values() if f.attr("Composite"))


def advice_of(step, mod) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        step(mod)
    assert all(issubclass(w.category, EutecticAdvice) for w in caught)
    return [str(w.message) for w in caught]


# ---- priority="largest"


@pytest.mark.parametrize("order", list(itertools.permutations(range(5)))[::17], ids=lambda o: "".join(map(str, o)))
def test_the_largest_match_is_taken_whatever_the_order(order):
    mod = network()
    fused = FuseOpsByPattern([TABLE[i] for i in order], priority="largest")(mod)
    assert composites(fused) == ["d.conv2d_add_relu", "d.conv2d_relu"]
    assert problems_of(fused) == []
    assert_same_results(mod, fused)


@pytest.mark.parametrize("table", [[CONV_RELU, RELU, CONV], [CONV, RELU, CONV_RELU]], ids=["longest", "shortest"])
def test_two_orders_give_the_same_text(table):
    shown = [FuseOpsByPattern(entries, priority="largest")(network()).script() for entries in (table, table[::-1])]
    assert shown[0] == shown[1]


@pytest.mark.parametrize("names", [("a.x", "b.x"), ("b.x", "a.x")], ids="-".join)
def test_equal_matches_go_to_the_earlier_pattern(names):
    entries = [(name, is_op("relax.nn.relu")(conv())) for name in names]
    assert composites(FuseOpsByPattern(entries, priority="largest")(network()))[0] == names[0]


def test_what_the_largest_leaves_is_taken_by_smaller_ones():
    def body(bb, x, w):
        lone = bb.emit(op.nn.relu(x))
        shared = bb.emit(op.nn.conv2d(lone, w))
        return op.add(op.nn.relu(shared), op.tanh(shared))

    mod = graph({"x": (1, 4, 4, 4), "w": (4, 4, 1, 1)}, body)
    fused = FuseOpsByPattern([CONV_RELU, RELU, CONV], priority="largest")(mod)
    assert composites(fused) == ["d.conv2d", "d.relu"]  # the two relus share one function
    assert_same_results(mod, fused)


def test_a_larger_match_that_is_refused_leaves_its_values_to_a_smaller_one():
    entry = FusionPattern(*CONV_RELU, {}, lambda context: Refusal("too warm"))
    assert composites(FuseOpsByPattern([entry, CONV, RELU], priority="largest")(network())) == [
        "d.conv2d",
        "d.relu",
    ]


def test_the_larger_side_of_an_alternative_is_found():
    _, plain = CONV
    _, longer = CONV_ADD_RELU
    either = ("d.either", is_op("relax.nn.relu")(wildcard()) | longer)
    fused = FuseOpsByPattern([either, ("d.conv2d", plain)], priority="largest")(network())
    (large,) = [f for f in fused.functions.values() if f.attr("Composite") and len(f.body.blocks[0].bindings) == 3]
    assert large.attr("Composite") == "d.either"


def test_groups_of_different_patterns_do_not_make_a_cycle():
    def body(bb, x, w):
        a = bb.emit(op.nn.conv2d(x, w))
        b = bb.emit(op.nn.relu(a))
        c = bb.emit(op.nn.conv2d(b, w))
        return [op.add(c, b), a]

    mod = graph({"x": (1, 4, 4, 4), "w": (4, 4, 1, 1)}, body)
    fused = FuseOpsByPattern([CONV_RELU, CONV_ADD], priority="largest", multiple_outputs=True)(mod)
    assert problems_of(fused) == []
    assert_same_results(mod, fused)
    assert composites(fused) == ["d.conv2d_add", "d.conv2d_relu"]


def test_wrapped_composites_belong_to_the_backend_of_their_own_pattern():
    entries = [("a.conv2d_relu", CONV_RELU[1]), ("b.conv2d_add_relu", CONV_ADD_RELU[1])]
    fused = FuseOpsByPattern(entries, annotate_codegen=True, priority="largest")(network())
    assert sorted(str(f.attr("Codegen")) for f in fused.functions.values() if f.attr("Codegen")) == ["a", "b"]
    assert_same_results(network(), fused)


def test_a_second_run_and_no_match_change_nothing():
    step = FuseOpsByPattern(TABLE, priority="largest")
    once = step(network())
    assert step(once) is once
    mod = network()
    assert FuseOpsByPattern([("d.tanh", is_op("relax.tanh")(wildcard()))], priority="largest")(mod) is mod


def test_regions_are_made_of_them_as_of_others():
    merged = MergeCompositeFunctions()(FuseOpsByPattern(TABLE, priority="largest")(network()))
    assert [f.attr("Codegen") for f in merged.functions.values() if f.attr("Codegen")] == ["d"]
    assert_same_results(network(), merged)


def test_remarks_name_the_match_that_was_larger():
    def body(bb, x, w):
        c = bb.emit(op.nn.conv2d(x, w))
        a = bb.emit(op.add(c, x))
        return op.nn.relu(a)

    mod = graph({"x": (1, 4, 4, 4), "w": (4, 4, 1, 1)}, body)
    add_relu = ("d.add_relu", is_op("relax.nn.relu")(is_op("relax.add")(wildcard(), wildcard())))
    with PassContext(remarks=True) as ctx:
        FuseOpsByPattern([CONV_ADD, add_relu], priority="largest")(mod)
    assert [(r.kind, r.pattern) for r in ctx.remarks] == [("missed", "d.add_relu"), ("fused", "d.conv2d_add")]
    assert ctx.remarks[0].reason == "lv1 belongs to the match of d.conv2d_add at lv1 already"


def test_matches_with_as_many_operators_do_not_overlap():
    split = is_op("relax.split")(wildcard())
    field = is_tuple_get_item(split, 0)
    mod = graph({"x": (4, 2)}, lambda bb, x: op.tanh(bb.emit(bb.emit(op.split(x, 2))[0])))
    entries = [("d.split", split), ("d.field", is_op("relax.tanh")(field)), ("d.tanh", is_op("relax.tanh")(wildcard()))]
    fused = FuseOpsByPattern(entries, priority="largest", multiple_outputs=True)(mod)
    assert composites(fused) == ["d.field"]
    assert_same_results(mod, fused)


def test_an_unknown_priority_is_refused():
    with pytest.raises(PassError, match="unknown priority 'larges' of FuseOpsByPattern") as caught:
        FuseOpsByPattern([CONV], priority="larges")
    assert "largest" in str(caught.value.help)


# ---- advice about the order


def test_a_pattern_that_hides_a_larger_one_is_named_with_the_cure():
    (text,) = advice_of(FuseOpsByPattern([CONV, CONV_RELU]), network())
    assert text == (
        "pattern d.conv2d comes before d.conv2d_relu and takes what d.conv2d_relu would fuse with more operators: "
        "2 instead of 1 at lv1; put d.conv2d_relu before d.conv2d, "
        'or use FuseOpsByPattern(..., priority="largest")'
    )


def test_the_advice_points_at_the_caller():
    with pytest.warns(EutecticAdvice) as caught:
        FuseOpsByPattern([CONV, CONV_RELU])(network())
    assert [w.filename for w in caught] == [__file__]


def test_each_pair_is_advised_once_per_pass():
    step = FuseOpsByPattern([CONV, CONV_RELU])
    assert len(advice_of(step, network())) == 1
    assert advice_of(step, network()) == []
    assert len(advice_of(FuseOpsByPattern([CONV, CONV_RELU]), network())) == 1


def test_each_hidden_pattern_is_named():
    texts = advice_of(FuseOpsByPattern([CONV, CONV_RELU, CONV_ADD]), network())
    assert [text.split()[4:6] for text in texts] == [["d.conv2d_relu", "and"], ["d.conv2d_add", "and"]]


@pytest.mark.parametrize(
    ("table", "make"),
    [
        ([CONV_RELU, CONV], network),
        ([CONV, CONV_RELU], only_convolution),
        ([CONV, CONV_ADD_RELU], only_convolution),
        ([CONV, ("d.tanh", is_op("relax.tanh")(wildcard()))], only_convolution),
        ([CONV, FusionPattern(*CONV_RELU, {}, lambda context: False)], network),
        ([CONV, ("e.conv2d", conv())], network),
    ],
    ids=["right order", "no relu here", "nothing longer here", "beside it", "refused by its check", "equally large"],
)
def test_no_false_alarm(table, make):
    assert advice_of(FuseOpsByPattern(table), make()) == []


def test_no_false_alarm_where_a_value_is_shared():
    def body(bb, x, w):
        shared = bb.emit(op.nn.conv2d(x, w))
        return [op.nn.relu(shared), op.tanh(shared)]

    mod = graph({"x": (1, 4, 4, 4), "w": (4, 4, 1, 1)}, body)
    assert advice_of(FuseOpsByPattern([CONV, CONV_RELU]), mod) == []
    assert len(advice_of(FuseOpsByPattern([CONV, CONV_RELU], multiple_outputs=True), mod)) == 1


def test_largest_needs_no_advice():
    assert advice_of(FuseOpsByPattern(TABLE, priority="largest"), network()) == []
