"""What a plan says about its groups: bytes, operations, traces; that it goes to JSON and back."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import eutectic
from eutectic.driver.plan import (
    BoundaryRecord,
    GroupRecord,
    MissRecord,
    OperatorRecord,
    PlanRecord,
    TensorRecord,
    from_tree,
)
from eutectic.driver.report import CompileReport
from eutectic.relax import op
from eutectic.relax.analysis.flops import operator_flops
from eutectic.relax.expr import Tuple, TupleGetItem
from eutectic.testing.graphs import graph, weights


@pytest.fixture(scope="module")
def compiled():
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8)).eval()
    return eutectic.compile(model, [torch.randn(4, 32)], target="llvm")


def test_groups_have_what_they_are_made_of(compiled):
    first, second = compiled.report.plan.groups
    assert [operator.op for operator in first.operators] == ["relax.matmul", "relax.add", "relax.nn.relu"]
    assert (first.kind, first.backend, first.pattern) == ("kernel", "llvm", "matmul_add_relu")
    assert [operator.module for operator in first.operators] == ["0", "0", "1"]
    assert (first.reads, second.reads) == ((), (0,))
    assert any("sch." in line for line in first.trace)


def test_fields_of_tuples_beside_constants():
    """As a pipeline that does not look through tuples leaves them."""

    def body(bb, x):
        both = bb.emit(Tuple((weights(3), bb.emit(op.exp(x)))))
        return bb.emit(op.cumsum(bb.emit(TupleGetItem(both, 1)), 0))

    mod, pipeline = graph({"x": (4, 3)}, body), "LegalizeOps,AnnotateTIROpPattern,FuseOps,FuseTIR"
    first, last = (g for g in eutectic.compile(mod, pipeline=pipeline).report.plan.groups if g.kind == "kernel")
    assert (first.reads, last.reads) == ((), (0,))


def test_bytes_with_and_without_fusion(compiled):
    first = compiled.report.plan.groups[0]
    x, hidden = 4 * 32 * 4, 4 * 64 * 4
    assert first.bytes_fused == x + hidden
    assert first.bytes_unfused == x + hidden + 2 * hidden + 2 * hidden
    assert first.constant_bytes == (32 * 64 + 64) * 4


def test_operations_are_counted(compiled):
    first = compiled.report.plan.groups[0]
    product, element_by_element = 2 * 4 * 64 * 32, 4 * 64
    assert [operator.flops for operator in first.operators] == [product, element_by_element, element_by_element]
    assert first.flops is not None
    assert first.flops >= product + element_by_element


def test_the_trace_comes_from_the_cache_as_well(compiled):
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8)).eval()
    again = eutectic.compile(model, [torch.randn(4, 32)], target="llvm")
    assert [g.trace for g in again.report.plan.groups] == [g.trace for g in compiled.report.plan.groups]


def test_symbolic_sizes_are_text():
    batch = torch.export.Dim("batch", min=2, max=64)
    model = eutectic.compile(nn.Linear(8, 4).eval(), [torch.randn(4, 8)], dynamic_shapes=({0: batch},), target="llvm")
    (group,) = model.report.plan.groups
    assert [isinstance(size, str) for size in group.results[0].shape] == [True, False]
    assert (group.flops, group.bytes_fused) == (None, None)
    assert group.constant_bytes == (8 * 4 + 4) * 4


def test_a_model_read_from_data_keeps_its_plan(compiled):
    copy = eutectic.CompiledModel.from_bytes(compiled.to_bytes())
    assert copy.report.plan == compiled.report.plan


def flops(shapes, body) -> int | None:
    function = graph(shapes, body)["main"]
    return operator_flops(function.body.blocks[0].bindings[0].value)


FORMULAS = [
    ({"x": (1, 4, 8, 8), "w": (6, 2, 3, 3)}, lambda bb, x, w: op.nn.conv2d(x, w, groups=2), 2 * 6 * 36 * 2 * 9),
    ({"x": (1, 4, 5, 5), "w": (4, 6, 3, 3)}, lambda bb, x, w: op.nn.conv2d_transpose(x, w), 2 * 4 * 25 * 6 * 9),
    ({"x": (3, 5), "w": (5, 7)}, lambda bb, x, w: op.matmul(x, w), 2 * 3 * 5 * 7),
    ({"x": (2, 6), "y": (6,)}, lambda bb, x, y: op.add(x, y), 12),
    ({"x": (2, 6)}, lambda bb, x: op.sum(x, axis=1), 12),
    ({"x": (2, 6)}, lambda bb, x: op.permute_dims(x), 0),
    ({"x": (2, 6)}, lambda bb, x: op.nn.softmax(x), 60),
    ({"x": (1, 2, 6, 6)}, lambda bb, x: op.nn.max_pool2d(x, (2, 2), (2, 2)), 18 * 4),
    (
        {"q": (1, 3, 2, 4), "k": (1, 5, 2, 4), "v": (1, 5, 2, 6)},
        lambda bb, q, k, v: op.nn.attention(q, k, v),
        2 * 2 * 3 * 5 * (4 + 6),
    ),
    ({"x": ((2, 6), "int32"), "y": ((2, 6), "int32")}, lambda bb, x, y: op.add(x, y), 0),
]


@pytest.mark.parametrize(("shapes", "body", "want"), FORMULAS)
def test_formulas(shapes, body, want):
    assert flops(shapes, body) == want


# ---- JSON

words = st.text(max_size=6)
tensors = st.builds(
    TensorRecord, words, st.lists(st.integers(0, 9) | words, max_size=3).map(tuple), st.just("float32"), st.booleans()
)
several = st.lists(tensors, max_size=2).map(tuple)
operators = st.builds(
    OperatorRecord, words, words, words, words, several, several, st.none() | st.integers(0, 99), words
)
groups = st.builds(
    GroupRecord,
    st.sampled_from(["kernel", "library", "view", "host"]),
    words,
    words,
    words,
    st.lists(operators, min_size=1, max_size=2).map(tuple),
    several,
    several,
    st.lists(st.integers(0, 5), max_size=2).map(tuple),
    st.none() | st.integers(0, 99),
    st.lists(words, max_size=2).map(tuple),
    words,
    words,
)
boundaries = st.builds(BoundaryRecord, *[st.integers(0, 5)] * 4, words, words)
misses = st.builds(MissRecord, st.integers(0, 5), *[words] * 7)
plans = st.builds(PlanRecord, *(st.lists(kind, max_size=3).map(tuple) for kind in (groups, boundaries, misses)))


@given(plans)
def test_json_and_back(plan):
    assert from_tree(PlanRecord, json.loads(json.dumps(asdict(plan)))) == plan
    report = CompileReport(plan=plan)
    assert CompileReport.from_json(json.loads(json.dumps(report.to_json()))) == report


def test_a_tree_of_another_kind_is_refused():
    with pytest.raises(TypeError, match="expected a list"):
        from_tree(PlanRecord, {"groups": 3})
    with pytest.raises(TypeError, match="fields of a PlanRecord"):
        from_tree(PlanRecord, 3)
