"""FuseOps: which calls are put into one group, and which are not."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eutectic import topi
from eutectic.ir.module import IRModule
from eutectic.ir.transform import PassContext, Sequential
from eutectic.relax import BlockBuilder, MatchCast, ShapeExpr, TensorStructInfo, Tuple, Var, call_tir, const, op
from eutectic.relax.analysis import OpPatternKind, get_var2val, problems_of
from eutectic.relax.dpl.remarks import FusionRemark
from eutectic.relax.expr import Call, Constant
from eutectic.relax.transform import AnnotateTIROpPattern, FuseOps
from eutectic.relax.transform.fusion_groups import FusionNode, partition, post_dominators
from eutectic.testing.graphs import assert_same_results, evaluate, graph, weights
from eutectic.tir import IntImm
from eutectic.tir import Var as SizeSymbol

EPILOGUE = {"x": (1, 2, 3, 3), "w": (2, 2, 2, 2), "b": (2,)}


def sizes(*values):
    return [IntImm("int64", value) for value in values]


def fuse(mod: IRModule, **options) -> IRModule:
    return Sequential([AnnotateTIROpPattern(), FuseOps(**options)])(mod)


def run(mod: IRModule) -> IRModule:
    """Fuse; the result is well formed and computes the same."""
    after = fuse(mod)
    assert problems_of(after) == []
    assert_same_results(mod, after)
    return after


def calls(mod: IRModule, name: str = "main") -> list[str]:
    """Callees of a function in order."""
    values = [v for v in get_var2val(mod[name]).values() if isinstance(v, Call)]
    return [v.args[0].name_hint if hasattr(v.op, "name") else v.op.name_hint for v in values]


def epilogue(bb, x, w, b, *, reshape_first: bool = False):
    bias = bb.emit_te(topi.reshape, b, sizes(1, 2, 1, 1)) if reshape_first else None
    conv = bb.emit_te(topi.nn.conv2d, x, w)
    bias = bias or bb.emit_te(topi.reshape, b, sizes(1, 2, 1, 1))
    return bb.emit_te(topi.nn.relu, bb.emit_te(topi.add, conv, bias))


# ---- groups


@pytest.mark.parametrize("reshape_first", [False, True])
def test_conv_reshape_add_relu_is_one_group(reshape_first, golden):
    after = run(graph(EPILOGUE, lambda bb, x, w, b: epilogue(bb, x, w, b, reshape_first=reshape_first)))
    assert len(calls(after)) == 1
    graphs = {gv: f for gv, f in after.functions_items() if gv.name_hint.startswith(("main", "fused"))}
    golden(IRModule(graphs).script())


def test_a_bias_that_is_moved_without_being_broadcast_by_its_program_joins_too():
    """The reshape of a two-dimensional bias is injective, not a broadcast."""

    def body(bb, x, w, b):
        conv = bb.emit_te(topi.nn.conv2d, x, w)
        bias = bb.emit_te(topi.reshape, bb.emit_te(topi.transpose, b), sizes(1, 4, 1, 1))
        return bb.emit_te(topi.add, conv, bias)

    after = run(graph({"x": (1, 2, 3, 3), "w": (4, 2, 2, 2), "b": (2, 2)}, body))
    assert calls(after) == ["fused_conv2d_transpose_reshape_add"]


def test_matmul_add_relu():
    def body(bb, x, w, b):
        return bb.emit_te(topi.nn.relu, bb.emit_te(topi.add, bb.emit_te(topi.matmul, x, w), b))

    assert calls(run(graph({"x": (2, 3), "w": (3, 2), "b": (2,)}, body))) == ["fused_matmul_add_relu"]


def test_nothing_goes_before_a_matmul():
    def body(bb, x, w):
        return bb.emit_te(topi.matmul, bb.emit_te(topi.nn.relu, x), bb.emit_te(topi.transpose, w))

    assert calls(run(graph({"x": (2, 3), "w": (2, 3)}, body))) == ["relu", "transpose", "matmul"]


def test_softmax_is_not_merged_into_a_matmul():
    def body(bb, x, w):
        return bb.emit_te(topi.nn.softmax, bb.emit_te(topi.matmul, x, w))

    assert calls(run(graph({"x": (2, 3), "w": (3, 2)}, body))) == ["matmul", "softmax"]


def test_two_matmuls_are_two_groups():
    def body(bb, x, w, v):
        lv = bb.emit_te(topi.nn.relu, bb.emit_te(topi.matmul, x, w))
        return bb.emit_te(topi.tanh, bb.emit_te(topi.matmul, lv, v))

    assert calls(run(graph({"x": (2, 2), "w": (2, 2), "v": (2, 2)}, body))) == [
        "fused_matmul_relu",
        "fused_matmul_tanh",
    ]


def test_an_epilogue_of_another_shape_stays_outside():
    def body(bb, x, w, b):
        return bb.emit_te(topi.add, bb.emit_te(topi.matmul, x, w), b)

    assert calls(run(graph({"x": (1, 3), "w": (3, 2), "b": (2, 2)}, body))) == ["matmul", "add"]


def test_a_residual_is_added_in_the_epilogue():
    def body(bb, x, w):
        lv = bb.emit_te(topi.nn.relu, x)
        return bb.emit_te(topi.add, bb.emit_te(topi.matmul, lv, w), lv)

    assert calls(run(graph({"x": (2, 2), "w": (2, 2)}, body))) == ["relu", "fused_matmul_add"]


def test_a_diamond_of_elements_is_one_group():
    def body(bb, x):
        lv = bb.emit_te(topi.tanh, x)
        return bb.emit_te(topi.multiply, bb.emit_te(topi.nn.relu, lv), bb.emit_te(topi.exp, lv))

    assert calls(run(graph({"x": (2, 2)}, body))) == ["fused_tanh_relu_exp_multiply"]


def test_a_diamond_with_a_matmul_in_it_is_not():
    def body(bb, x, w):
        lv = bb.emit_te(topi.tanh, x)
        return bb.emit_te(topi.multiply, bb.emit_te(topi.nn.relu, lv), bb.emit_te(topi.matmul, lv, w))

    assert len(calls(run(graph({"x": (2, 2), "w": (2, 2)}, body)))) == 2


def test_a_value_that_two_kernels_read_is_made_once():
    def body(bb, x, w):
        lv = bb.emit_te(topi.tanh, x)
        return [bb.emit_te(topi.matmul, lv, w), bb.emit_te(topi.nn.relu, lv)]

    assert calls(run(graph({"x": (2, 2), "w": (2, 2)}, body))) == ["tanh", "matmul", "relu"]


def test_a_value_that_leaves_the_block_ends_its_group():
    def body(bb, x):
        lv = bb.emit_te(topi.nn.relu, bb.emit_te(topi.tanh, x))
        out = bb.emit_output(lv)
        return [out, bb.emit_te(topi.exp, bb.emit_te(topi.negative, lv))]

    after = run(graph({"x": (2,)}, body))
    assert calls(after) == ["fused_tanh_relu", "fused_negative_exp"]


def test_a_reduction_takes_in_its_elements_but_not_what_follows():
    def body(bb, x):
        lv = bb.emit_te(topi.sum, bb.emit_te(topi.exp, x), 1, True)
        return bb.emit_te(topi.multiply, x, lv)

    assert calls(run(graph({"x": (2, 3)}, body))) == ["fused_exp_sum", "multiply"]


def test_what_would_be_computed_again_for_each_element_stays_outside():
    """The exponential after a move would be computed once for every row."""

    def body(bb, x, w, b):
        bias = bb.emit_te(lambda t: topi.flip(topi.exp(t), 0), b, primfunc_name_hint="flipped")
        return bb.emit_te(topi.add, bb.emit_te(topi.matmul, x, w), bias)

    assert calls(run(graph({"x": (2, 3), "w": (3, 2), "b": (2,)}, body))) == ["flipped", "fused_matmul_add"]
    assert calls(run(graph({"x": (2, 3), "w": (3, 2), "b": (2, 2)}, body))) == ["fused_flipped_matmul_add"]


def test_a_moved_weight_does_not_join_the_matmul_that_also_adds_it():
    def body(bb, x, w):
        moved = bb.emit_te(topi.transpose, w)
        return bb.emit_te(topi.add, bb.emit_te(topi.matmul, x, moved), moved)

    assert calls(run(graph({"x": (2, 2), "w": (2, 2)}, body))) == ["transpose", "fused_matmul_add"]


def test_halves_of_a_split_are_fused_with_it():
    def body(bb, x):
        pair = bb.emit_te(topi.split, x, 2, 0)
        return bb.emit_te(topi.multiply, bb.emit_te(topi.nn.silu, bb.emit(pair[0])), bb.emit(pair[1]))

    assert calls(run(graph({"x": (4, 2)}, body))) == ["fused_split_silu_multiply"]


def test_fields_of_a_tuple_from_outside_are_passed():
    def body(bb, x):
        pair = bb.emit_te(topi.split, x, 2, 0)
        bb.emit_output(pair)
        return bb.emit_te(topi.exp, bb.emit_te(topi.nn.relu, bb.emit(pair[0])))

    after = run(graph({"x": (4, 2)}, body))
    assert calls(after) == ["split", "fused_relu_exp"]
    assert [p.name_hint for p in after["fused_relu_exp"].params] == ["lv1"]


def test_a_group_may_end_in_several_results():
    after = run(graph({"x": (4, 2)}, lambda bb, x: bb.emit_te(topi.split, bb.emit_te(topi.exp, x), 2, 0)))
    assert calls(after) == ["fused_exp_split"]


def test_constants_become_parameters():
    def body(bb, x):
        return bb.emit_te(topi.nn.relu, bb.emit_te(topi.add, x, weights(2)))

    after = run(graph({"x": (2,)}, body))
    assert [p.name_hint for p in after["fused_add_relu"].params] == ["x", "param_0"]
    call, _ = get_var2val(after["main"]).values()
    assert isinstance(call.args[1], Constant)


def test_equal_groups_share_a_function():
    def body(bb, x, y):
        return [bb.emit_te(topi.exp, bb.emit_te(topi.nn.relu, v)) for v in (x, y)]

    assert calls(run(graph({"x": (2,), "y": (2,)}, body))) == ["fused_relu_exp", "fused_relu_exp"]


def test_programs_without_a_kind_and_operators_are_left_alone():
    def body(bb, x):
        return bb.emit(op.exp(bb.emit_te(topi.nn.relu, bb.emit_te(topi.tanh, x))))

    mod = graph({"x": (2,)}, body)
    assert FuseOps()(mod) is mod
    assert len(calls(run(mod))) == 2


# ---- options


def chain(length: int, kinds=("relu",)) -> IRModule:
    def body(bb, x):
        lv = bb.emit_te(topi.nn.relu, x)
        target = bb.lookup_binding(lv).args[0]
        for _ in range(length - 1):
            lv = bb.emit(call_tir(target, [lv], TensorStructInfo((2,))))
        return lv

    return graph({"x": (2,)}, body)


def test_level_zero_fuses_nothing():
    mod = AnnotateTIROpPattern()(chain(3))
    assert FuseOps(fuse_opt_level=0)(mod) is mod
    with PassContext(opt_level=0):
        assert FuseOps()(mod) is mod
        assert FuseOps(fuse_opt_level=1)(mod) is not mod


def test_groups_have_a_largest_size():
    with PassContext(config={"relax.FuseOps.max_depth": 4}):
        after = run(chain(10))
    assert [len(get_var2val(after[name])) for name in calls(after) if name.startswith("fused")] == [4, 4, 2]


def test_a_second_run_changes_nothing():
    after = run(chain(3))
    assert FuseOps()(after) is after


def test_deep_graphs_take_linear_time():
    mod = chain(3000)
    start = time.perf_counter()
    after = fuse(mod)
    assert time.perf_counter() - start < 10
    assert len(calls(after)) == 24


# ---- sizes


def test_a_symbolic_batch():
    n = SizeSymbol("n", "int64")

    def body(bb, x, w):
        return bb.emit_te(topi.nn.relu, bb.emit_te(topi.matmul, x, w))

    mod = graph({"x": (n, 3), "w": (3, 2)}, body)
    after = fuse(mod)
    assert problems_of(after) == []
    assert calls(after) == ["fused_matmul_relu"]
    x, w = np.ones((4, 3), "float32"), np.ones((3, 2), "float32")
    np.testing.assert_array_equal(evaluate(after, x, w), evaluate(mod, x, w))


def test_a_call_stays_behind_the_cast_that_defines_its_sizes():
    """TVM moves it before: defect B23 of the list in the reference."""
    n = SizeSymbol("n", "int64")
    bb = BlockBuilder()
    x, z = Var("x", TensorStructInfo(None, "float32", ndim=1)), Var("z", TensorStructInfo((2,), "float32"))
    with bb.function("main", [x, z]):
        with bb.dataflow():
            early = bb.emit_te(topi.exp, z)
            cast = bb.match_cast(x, TensorStructInfo((n,), "float32"))
            ones = bb.emit_te(lambda shape: topi.full(shape, "float32", 1.0), ShapeExpr((n,)))
            more = bb.emit_te(topi.negative, ones)
            late = bb.emit_te(topi.tanh, early)
            outs = [bb.emit_output(v) for v in (bb.emit_te(topi.add, cast, more), late)]
        bb.emit_func_output(Tuple(tuple(outs)))
    after = fuse(bb.get())
    assert problems_of(after) == []
    bindings = after["main"].body.blocks[0].bindings
    cast_at = next(i for i, b in enumerate(bindings) if isinstance(b, MatchCast))
    readers = [i for i, b in enumerate(bindings) if isinstance(b.value, Call) and "te_func" in b.value.op.name_hint]
    assert readers
    assert cast_at < readers[0]
    args = np.arange(3, dtype="float32"), np.ones(2, "float32")
    for want, got in zip(evaluate(bb.get(), *args), evaluate(after, *args), strict=True):
        np.testing.assert_array_equal(got, want)


# ---- the partition itself

KINDS = [kind for kind in OpPatternKind if kind is not OpPatternKind.OPAQUE]


@st.composite
def node_graphs(draw):
    count = draw(st.integers(1, 12))
    nodes = [
        FusionNode(
            draw(st.sampled_from([*KINDS, OpPatternKind.OPAQUE])),
            draw(st.sampled_from([None, (IntImm("int64", 2),), (IntImm("int64", 3),)])),
            draw(st.integers(0, 5)) == 0,
            draw(st.booleans()),
        )
        for _ in range(count)
    ]
    for source in range(count):
        for reader in range(source + 1, count):
            if draw(st.integers(0, 3)) == 0:
                nodes[source].readers.append(reader)
    return nodes


@given(node_graphs(), st.integers(1, 8))
def test_groups_have_one_sink_and_no_cycle(nodes, max_depth):
    groups = partition(nodes, max_depth).groups
    owner = {number: i for i, group in enumerate(groups) for number in group}
    assert len(owner) == sum(map(len, groups))
    for i, group in enumerate(groups):
        assert 2 <= len(group) <= max_depth
        assert [nodes[n].kind for n in group].count(OpPatternKind.OUT_ELEMWISE_FUSABLE) <= 1
        assert all(nodes[n].kind is not OpPatternKind.OPAQUE for n in group)
        for number in group[:-1]:
            assert not nodes[number].leaves
            assert nodes[number].readers
            assert all(owner.get(reader) == i for reader in nodes[number].readers)


@given(node_graphs())
def test_post_dominators_are_on_all_paths(nodes):
    readers = [node.readers for node in nodes]
    paths = {}
    for number in reversed(range(len(readers))):
        after = [paths[r] | {r} for r in readers[number]]
        paths[number] = set.intersection(*after) if after else set()
    assert post_dominators(readers) == [min(paths[n], default=-1) for n in range(len(readers))]


def test_scalars_lifted_from_a_group_keep_their_order():
    def body(bb, x):
        return bb.emit_te(topi.multiply, bb.emit_te(topi.add, x, const(1.0)), const(2.0))

    assert [p.name_hint for p in run(graph({"x": (2,)}, body))["fused_add_multiply"].params] == [
        "x",
        "param_0",
        "param_1",
    ]


# ---- remarks


def remarks(mod: IRModule, **config) -> list[FusionRemark]:
    with PassContext(remarks=True, config=config) as ctx:
        fuse(mod)
    return [remark for remark in ctx.remarks if remark.pattern == "FuseOps"]


def test_a_group_and_what_ends_it_are_noted():
    def body(bb, x, w):
        product = bb.emit_te(topi.matmul, x, w)
        shown = bb.emit_te(topi.nn.relu, product)
        return bb.emit_te(topi.sum, bb.emit_te(topi.sum, shown, 1), 0)

    fused, missed, between = sorted(
        remarks(graph({"x": (4, 4), "w": (4, 4)}, body)), key=lambda r: (r.kind, r.variable)
    )
    assert [member.op for member in fused.members] == ["matmul", "relu"]
    assert fused.function == "fused_matmul_relu"
    assert (missed.kind, missed.constraint) == ("missed", "epilogue kind")
    assert missed.reason == "the kernel of relu (lv1) can only go on element by element, and sum (lv2) is a reduction"
    assert (between.constraint, between.expected) == ("reduction", "anything but a reduction")
    assert between.variables == ("lv2", "lv3")


def test_without_remarks_nothing_is_noted():
    with PassContext() as ctx:
        fuse(graph({"x": (4,)}, lambda bb, x: bb.emit_te(topi.nn.relu, bb.emit_te(topi.nn.relu, x))))
    assert ctx.remarks == []


def test_another_name_is_named():
    def body(bb, x):
        first = bb.emit_te(topi.nn.relu, x)
        return bb.emit_te(topi.nn.relu, bb.emit(first))

    (reason,) = {r.reason for r in remarks(graph({"x": (4,)}, body)) if "by another name" in r.reason}
    assert reason.startswith("relu (lv2) reads relu (lv) by another name, lv1")


@given(node_graphs(), st.integers(2, 6))
def test_every_end_of_a_group_has_an_obstacle_that_is_true(nodes, max_depth):
    parts = partition(nodes, max_depth)
    group_of = {i: number for number, group in enumerate(parts.groups) for i in group}
    for number, node in enumerate(nodes):
        for reader in node.readers:
            if number in group_of and group_of.get(reader) == group_of[number]:
                continue
            obstacle = parts.obstacles[number]
            assert obstacle.at >= number
            if obstacle.rule == "several readers":
                assert len(node.readers) > 1
            if obstacle.rule == "output":
                assert node.leaves or any(nodes[i].gathers for i in node.readers)
            if obstacle.rule == "opaque":
                assert nodes[obstacle.at].kind is OpPatternKind.OPAQUE
