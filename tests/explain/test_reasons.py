"""Every planted reason not to fuse is named, with both operators and the line of the user's code."""

from __future__ import annotations

import numpy as np
import pytest
from tests.explain import planted

import eutectic
from eutectic.backend.dnnl.library import availability
from eutectic.driver.plan import BoundaryRecord, OperatorRecord, PlanRecord

needs_library = pytest.mark.skipif(not availability().ok, reason="oneDNN is not there")
LIBRARY = "llvm -libs=dnnl"


def plan_of(model, example, **options) -> PlanRecord:
    compiled = eutectic.compile(model.eval() if example else model, example, **options)
    return compiled.report.plan


@pytest.fixture(scope="module")
def own() -> PlanRecord:
    return plan_of(planted.Planted(), planted.inputs((16, 16), (16, 16), (16, 1)), target="llvm")


@pytest.fixture(scope="module")
def library() -> PlanRecord:
    return plan_of(planted.Library(), planted.inputs((1, 3, 12, 12)), target=LIBRARY)


def ends(plan: PlanRecord, step: BoundaryRecord) -> tuple[OperatorRecord, OperatorRecord]:
    return plan.groups[step.source].operators[step.value], plan.groups[step.reader].operators[step.user]


def at(plan: PlanRecord, mark: str) -> list[tuple[BoundaryRecord, OperatorRecord, OperatorRecord]]:
    """Boundaries whose reader is in a marked line."""
    steps = [(step, *ends(plan, step)) for step in plan.boundaries]
    return [item for item in steps if item[2].source.endswith(f"/{planted.line(mark)}")]


OWN = [
    ("several readers", "several readers", ("relu", "sum"), "which do not end in one value"),
    ("output", "output", ("multiply", "tanh"), "a kernel has one result"),
    ("reshape that mixes axes", "epilogue kind", ("matmul", "permute_dims"), "takes elements from other places"),
    ("reduction after reduction", "reduction", ("sum", "max"), "is a reduction"),
    ("shape", "epilogue shape", ("matmul", "add"), "(16, 1), and add"),
    ("producer of a product", "producer kind", ("sigmoid", "matmul"), "computed again for each time"),
]


@pytest.mark.parametrize(("mark", "rule", "operators", "words"), OWN, ids=[row[0] for row in OWN])
def test_kernels_of_our_own(own, mark, rule, operators, words):
    ((step, value, user),) = at(own, mark)
    assert step.rule == rule
    assert (value.op.rpartition(".")[2], user.op.rpartition(".")[2]) == operators
    assert words in step.reason
    assert value.label in step.reason
    assert user.label in step.reason


LIBRARIES = [
    ("refusal of the library", "another backend", ("relu", "adaptive_avg_pool2d"), "windows of different sizes"),
    ("variant of a pattern", "another backend", ("relu", "avg_pool2d"), "with ceil_mode"),
    ("read elsewhere too", "single reader", ("add", "relu"), "is read elsewhere too"),
]


@needs_library
@pytest.mark.parametrize(("mark", "rule", "operators", "words"), LIBRARIES, ids=[row[0] for row in LIBRARIES])
def test_libraries(library, mark, rule, operators, words):
    ((step, value, user),) = at(library, mark)
    assert step.rule == rule
    assert (value.op.rpartition(".")[2], user.op.rpartition(".")[2]) == operators
    assert words in step.reason
    assert value.label in step.reason
    assert user.label in step.reason


@needs_library
def test_strict_precision():
    plan = plan_of(planted.Library(), planted.inputs((1, 3, 12, 12)), target=LIBRARY, precision="strict")
    ((step, value, user),) = at(plan, "precision")
    assert (step.rule, value.op, user.op) == ("precision", "relax.add", "relax.nn.relu")
    assert 'precision="strict" leaves it out' in step.reason
    assert "dnnl.conv2d_bias_relu" in step.reason


@needs_library
def test_another_dtype():
    plan = plan_of(planted.Double(), [planted.inputs((1, 3, 8, 8))[0].double()], target=LIBRARY)
    misses = {miss.pattern: miss for miss in plan.misses}
    miss = misses["dnnl.conv2d_bias_relu"]
    assert "float16 only, this is" in miss.reason
    assert "float64" in miss.reason
    root = next(o for o in plan.groups[miss.group].operators if o.variable == miss.variable)
    assert root.source.endswith(planted.line("dtype"))


def test_layouts():
    plan = plan_of(planted.Layouts(), planted.inputs((1, 3, 56, 56)), target="llvm")
    ((step, value, user),) = at(plan, "layout")
    assert (step.rule, value.op, user.op) == ("layout", "relax.layout_transform", "relax.nn.softmax")
    assert "another layout in memory" in step.reason


def test_limit_of_group_size():
    plan = plan_of(planted.Long(), planted.inputs((8,)), target="llvm")
    ((step, value, user),) = at(plan, "limit of group size")
    assert [len(group.operators) for group in plan.groups] == [128, 12]
    assert step.rule == "group size"
    assert f"with {user.label} the group of {value.label} would have more than 128 calls" in step.reason


def test_data_dependent_and_host_operators():
    plan = plan_of(planted.data_dependent(), None, target="llvm")
    hosts = [group for group in plan.groups if group.kind == "host"]
    assert [group.operators[0].op for group in hosts] == ["relax.tensor_to_shape", "relax.reshape"]
    assert hosts[1].note == "the size of its result depends on the data"
    last = [step for step in plan.boundaries if plan.groups[step.reader] == hosts[1]]
    assert {step.rule for step in last} == {"host operator"}
    assert any("runs in Python: the size of its result depends on the data" in step.reason for step in last)


def test_without_fusion_the_reason_is_the_pipeline():
    plan = plan_of(planted.Long(), planted.inputs((8,)), pipeline="no_fusion")
    assert len(plan.groups) == 140
    assert {step.rule for step in plan.boundaries} == {"no fusion"}


def test_every_read_between_groups_has_a_boundary(own, library):
    for plan in (own, library):
        reads = {(source, number) for number, group in enumerate(plan.groups) for source in group.reads}
        assert reads == {(step.source, step.reader) for step in plan.boundaries}
        assert all(step.reason for step in plan.boundaries)


def test_results_are_those_of_the_model():
    model, example = planted.Planted().eval(), planted.inputs((16, 16), (16, 16), (16, 1))
    for got, want in zip(eutectic.compile(model, example)(*example), model(*example), strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-4, atol=1e-4)
