"""Positions of values that several were merged into: none is lost, none comes twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import eutectic
from eutectic.ir.span import Span, merged_span

PLACES = st.builds(Span, st.sampled_from(["a.py", "b.py"]), st.integers(1, 3), module=st.sampled_from([None, "m", "n"]))


def keys(spans) -> list[tuple[str, int, str | None]]:
    return [(span.file, span.line, span.module) for span in spans]


@given(st.lists(st.none() | PLACES, max_size=6), st.lists(st.none() | PLACES, max_size=6))
def test_merging_keeps_every_place_once(first, second):
    merged = merged_span([merged_span(first), merged_span(second)])
    wanted = list(dict.fromkeys(keys(span for span in (*first, *second) if span is not None)))
    assert ([] if merged is None else keys(merged.all)) == wanted
    assert merged is None or all(not span.others for span in merged.others)


@pytest.mark.parametrize("target", ["llvm", None])
def test_what_was_folded_away_is_in_the_report(target):
    torch = pytest.importorskip("torch")
    parts = torch.nn.ZeroPad2d(1), torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU()
    model = eutectic.compile(torch.nn.Sequential(*parts).eval(), (torch.zeros(1, 3, 8, 8),), target=target)
    (composite,) = model.report.composites
    assert composite.modules == ("0", "1", "2", "3")
    calls = [b.value for block in model.lowered["main"].body.blocks for b in block.bindings]
    (call,) = [value for value in calls if hasattr(value, "op")]
    assert {span.module for span in call.span.all} == {"0", "1", "2", "3"}
