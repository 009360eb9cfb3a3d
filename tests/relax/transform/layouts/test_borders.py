"""Regions whose tensors are in other layouts: the same function, written on both sides of its borders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from eutectic.ir.module import IRModule
from eutectic.ir.node import replace
from eutectic.ir.structural import structural_equal
from eutectic.relax import op
from eutectic.relax.analysis import problems_of
from eutectic.relax.expr import BindingBlock, Function
from eutectic.relax.op import nn
from eutectic.relax.op.layout import arrange
from eutectic.relax.transform.layouts.borders import region_with_borders, region_without_borders
from eutectic.relax.transform.layouts.offers import LayoutOffer
from eutectic.support.errors import EutecticError
from eutectic.testing.graphs import arrays, evaluate, graph
from eutectic.testing.round_trip import check_round_trip


def one(bb: Any, x: Any, y: Any) -> Any:
    return nn.relu(bb.emit(op.add(x, y)))


def two(bb: Any, x: Any, y: Any) -> Any:
    total = bb.emit(op.add(x, y))
    return [total, nn.max_pool2d(total, 2, 2)]


def region(body: Callable[..., Any]) -> Function:
    function = graph({"x": (1, 16, 4, 6), "y": (1, 16, 1, 1)}, body)["main"]
    assert isinstance(function, Function)
    return function


OFFERS = [
    LayoutOffer(),
    LayoutOffer(("NHWC",)),
    LayoutOffer(("", "NHWC")),
    LayoutOffer((), ("NCHW8c",)),
    LayoutOffer(("NCHW16c", "NHWC"), ("NHWC",)),
    LayoutOffer(("NHWC", "NHWC"), ("", "NHWC")),
]
CASES = [(body, offer) for offer in OFFERS for body in (one, two) if body is two or len(offer.results) < 2]


@pytest.mark.parametrize(("body", "offer"), CASES)
def test_the_same_is_computed_in_other_layouts(body: Callable[..., Any], offer: LayoutOffer):
    plain = region(body)
    there = region_with_borders(plain, offer)
    mod = IRModule({"main": there})
    assert problems_of(mod) == []
    values = arrays(plain)
    inside = [_moved(value, offer.operand(k)) for k, value in enumerate(values)]
    results, wanted = evaluate(mod, *inside), evaluate(IRModule({"main": plain}), *values)
    for k, (result, value) in enumerate(zip(_listed(results), _listed(wanted), strict=True)):
        np.testing.assert_array_equal(result, _moved(value, offer.layout_of_result(k)))


@pytest.mark.parametrize(("body", "offer"), CASES)
def test_what_stands_between_the_borders(body: Callable[..., Any], offer: LayoutOffer):
    plain = region(body)
    inner, layouts = region_without_borders(region_with_borders(plain, offer))
    assert structural_equal(inner, plain)
    assert [layouts.operand(k) for k in range(2)] == [offer.operand(k) for k in range(2)]
    assert [layouts.layout_of_result(k) for k in range(2)] == [offer.layout_of_result(k) for k in range(2)]


def test_a_parameter_that_is_a_result():
    plain = region(lambda bb, x, y: [x, nn.relu(x)])
    inner, layouts = region_without_borders(region_with_borders(plain, LayoutOffer(("NHWC",), ("NHWC",))))
    assert structural_equal(inner, plain)
    assert (layouts.operand(0), layouts.layout_of_result(0)) == ("NHWC", "NHWC")


def test_a_layout_of_another_rank_is_refused():
    with pytest.raises(EutecticError, match="layout_transform from HW needs 2 axes, got 4"):
        region_with_borders(region(one), LayoutOffer(("WH",)))


def _moved(value: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any]:
    return arrange(value, "NCHW", name) if name else value


def _listed(values: Any) -> list[Any]:
    return list(values) if isinstance(values, (tuple, list)) else [values]


def test_plain_blocks_are_read_back_as_they_are():
    """A block that is no dataflow block, as regions have, and those at its borders are one in the text."""
    dataflow = region(lambda bb, x, y: op.add(x, y))
    bindings = tuple(binding for block in dataflow.body.blocks for binding in block.bindings)
    plain = replace(dataflow, body=replace(dataflow.body, blocks=(BindingBlock(bindings),)))
    there = region_with_borders(plain, LayoutOffer(("NHWC",), ("NHWC",)))
    assert len(there.body.blocks) == 1
    check_round_trip(IRModule({"main": there}))
