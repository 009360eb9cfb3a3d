"""partition_for_dnnl: the table by name, regions with constants inside, strictness."""

from __future__ import annotations

import pytest

from eutectic.backend.dnnl.partition import partition_for_dnnl
from eutectic.backend.dnnl.patterns import patterns
from eutectic.relax import op
from eutectic.relax.analysis import problems_of
from eutectic.relax.dpl.table import get_pattern, get_patterns_with_prefix
from eutectic.testing.graphs import assert_same_results, graph, weights


def chain():
    def body(bb, x):
        first = bb.emit(op.nn.relu(bb.emit(op.nn.conv2d(x, weights(4, 4, 1, 1)))))
        return op.nn.relu(bb.emit(op.nn.conv2d(first, weights(4, 4, 1, 1, seed=2))))

    return graph({"x": (1, 4, 4, 4)}, body)


def regions(mod):
    return [f for f in mod.functions.values() if f.attr("Codegen")]


def test_neighbours_become_one_region_with_constants_inside():
    mod = chain()
    cut = partition_for_dnnl(mod)
    (region,) = regions(cut)
    assert region.attr("Codegen") == "dnnl"
    assert [p.name_hint for p in region.params] == ["x"]
    assert problems_of(cut) == []
    assert_same_results(mod, cut)


def test_the_table_is_registered_in_its_order():
    registered = [entry.name for entry in get_patterns_with_prefix("dnnl.")]
    assert registered == [entry.name for entry in patterns()]
    assert get_pattern("dnnl.conv2d_bias_relu") is not None


def test_nothing_to_take_changes_nothing():
    mod = graph({"x": (2, 2)}, lambda bb, x: op.erf(x))
    assert partition_for_dnnl(mod) is mod


@pytest.mark.parametrize(("precision", "taken"), [("default", 1), ("strict", 0)])
def test_strict_leaves_out_what_loses_nan(precision, taken):
    mod = graph({"x": (1, 4, 4, 4)}, lambda bb, x: op.nn.max_pool2d(x, (2, 2)))
    assert len(regions(partition_for_dnnl(mod, precision))) == taken
