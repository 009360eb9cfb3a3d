"""Explanations of models whose sizes vary: bytes and operations at the sizes of a call, or of the example."""

from __future__ import annotations

import copy
import json
import warnings
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.export import Dim

import eutectic
from eutectic import EutecticAdvice
from eutectic.backend.dnnl.library import availability
from eutectic.driver.plan import GroupRecord, SizeRecord, TensorRecord
from eutectic.driver.plan_sizes import at_sizes, has_symbols, value_of
from eutectic.explain.explanation import Explanation


class Net(nn.Module):
    """A convolution, a product, a reduction, and moves of elements."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.linear = nn.Conv2d(3, 8, 3, padding=1, stride=2), nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.conv(x).relu()
        z = y.flatten(2).mT
        return self.linear(z).softmax(-1), torch.cat([z, z], 1).sum(1)


torch.manual_seed(0)
NET = Net().eval()
X, LARGER = torch.randn(2, 3, 16, 16), torch.randn(5, 3, 24, 16)
SHAPES = ({0: Dim("n", min=1, max=9), 2: Dim("h", min=4, max=64)},)
TARGETS = ["llvm -libs=dnnl", "llvm"] if availability().ok else ["llvm"]


@cache
def varying(target: str) -> eutectic.CompiledModel:
    return eutectic.compile(NET, (X,), dynamic_shapes=SHAPES, target=target, threads=1)


def numbers(group: GroupRecord) -> tuple[Any, ...]:
    return (group.kind, group.bytes_fused, group.bytes_unfused, group.flops)


def sizes(explanation: Explanation) -> list[int]:
    return sorted(size.value for size in explanation.plan.sizes)


@pytest.mark.parametrize("target", TARGETS)
def test_numbers_are_those_of_the_model_of_fixed_sizes(target: str):
    for x in (X, LARGER):
        explanation = varying(target).explain(x)
        fixed = eutectic.compile(NET, (x,), target=target, threads=1).explain(measure=False)
        received = [numbers(group.record) for group in explanation.groups if group.record.kind != "view"]
        expected = [numbers(group.record) for group in fixed.groups if group.record.kind != "view"]
        total = [sum(row[place] for row in received) for place in (2, 3)]
        assert None not in [value for row in received for value in row]
        assert {row for row in expected if "library" in row} == {row for row in received if "library" in row}
        assert total[1] == sum(row[3] for row in expected)
        assert sizes(explanation) == sorted((x.shape[0], x.shape[2]))


@pytest.mark.parametrize("target", TARGETS)
def test_every_group_has_its_share_of_the_roofline(target: str):
    explanation = varying(target).explain(LARGER)
    for group in explanation.groups:
        if group.seconds is not None:
            assert group.roofline is not None
    assert "at s" in str(explanation).splitlines()[0]
    assert "= 24" in str(explanation)


def test_without_measuring_the_sizes_are_those_of_the_example():
    explanation = varying("llvm").explain(measure=False)
    assert sizes(explanation) == [2, 16]
    measured = varying("llvm").explain(X)
    assert [numbers(g.record) for g in explanation.groups] == [numbers(g.record) for g in measured.groups]


def test_the_report_keeps_the_sizes_as_symbols():
    plan = varying("llvm").report.plan
    assert has_symbols(plan)
    assert plan.groups[0].flops is None
    assert plan.groups[0].work
    assert at_sizes(at_sizes(plan, {size.name: 2 for size in plan.sizes}), {s.name: s.value for s in plan.sizes}) == (
        at_sizes(plan, {s.name: s.value for s in plan.sizes})
    )


def test_models_that_are_read_and_explanations_as_json_have_them(tmp_path: Any):
    read = eutectic.load(varying("llvm").save(tmp_path / "m.eut"))
    explanation = read.explain(LARGER)
    wanted = varying("llvm").explain(LARGER)
    assert [numbers(g.record) for g in explanation.groups] == [numbers(g.record) for g in wanted.groups]
    assert sizes(copy.deepcopy(read).explain(measure=False)) == [2, 16]
    tree = json.loads(json.dumps(explanation.to_json()))
    assert Explanation.from_json(tree) == explanation
    page = explanation.to_html(tmp_path / "m.html").read_text()
    assert "= 24" in page


def test_variants_for_other_processors_have_the_sizes_of_the_example(tmp_path: Any):
    read = eutectic.load(varying("llvm").save(tmp_path / "m.eut", targets=["x86-64-v2"]))
    assert sizes(read.explain(measure=False)) == [2, 16]


def test_sizes_that_values_decide_are_those_of_the_call():
    class Positive(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.masked_select(x, x > 0) * 2 + 1

    x = torch.tensor([1.0, -1.0, 2.0, 3.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EutecticAdvice)
        compiled = eutectic.compile(Positive().eval(), (x,), target="llvm")
    assert sizes(compiled.explain(x)) == [3]
    assert sizes(compiled.explain(-x)) == [1]
    last = compiled.explain(x).groups[-1].record
    assert (last.bytes_fused, last.flops) == (3 * 4 * 2, 6)
    unknown = compiled.explain(measure=False).groups[-1].record
    assert (unknown.bytes_fused, unknown.flops) == (None, None)


def test_models_of_fixed_sizes_name_none():
    explanation = eutectic.compile(nn.Linear(4, 2).eval(), (torch.randn(3, 4),)).explain(torch.randn(3, 4))
    assert explanation.plan.sizes == ()
    assert " at " not in str(explanation).splitlines()[0]


EXPRESSIONS = st.recursive(
    st.sampled_from(["n", "h", "3", "17"]),
    lambda inner: st.builds(
        lambda op, a, b: f"T.{op}({a}, {b})" if op in ("max", "min") else f"({a} {op} {b})",
        st.sampled_from(["+", "-", "*", "//", "%", "max", "min"]),
        inner,
        inner,
    ),
    max_leaves=12,
)


@given(EXPRESSIONS, st.integers(0, 50), st.integers(0, 50))
def test_sizes_as_text_have_the_values_of_python(text: str, n: int, h: int):
    class T:
        max, min = staticmethod(max), staticmethod(min)

    try:
        expected = eval(text, {"T": T, "n": n, "h": h})  # of the strategy above
    except ZeroDivisionError:
        expected = None
    assert value_of(text, {"n": n, "h": h}) == expected


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "n.real",
        "n[0]",
        "print(n)",
        "max(n, key=n)",
        "n ** 9",
        "lambda: n",
        "'n'",
        "",
        "(",
        "1.5",
        "?",
    ],
)
def test_nothing_but_arithmetic_is_evaluated(text: str):
    assert value_of(text, {"n": 3}) is None


def test_a_tensor_of_which_one_size_is_unknown_has_no_bytes():
    group = GroupRecord("kernel", "llvm", "k", "k", (), (TensorRecord("x", ("n", "?"), "float32"),))
    plan = eutectic.driver.plan.PlanRecord((group,))
    (known,) = at_sizes(plan, {"n": 3}).groups
    assert known.bytes_fused is None
    assert at_sizes(plan, {"n": 3}).sizes == (SizeRecord("n", 3),)
