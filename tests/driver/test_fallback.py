"""Regions of oneDNN as kernels of our own, for calls with NaN."""

from __future__ import annotations

import numpy as np
import pytest

import eutectic
from eutectic.backend.dnnl.library import availability
from eutectic.backend.dnnl.partition import partition_for_dnnl
from eutectic.driver.fallback import region_program, without_composites
from eutectic.driver.pipeline import prepare
from eutectic.ir.structural import structural_equal
from eutectic.relax import op
from eutectic.relax.expr import Function
from eutectic.runtime.executable import Executable
from eutectic.runtime.loading import Loading
from eutectic.testing.graphs import assert_close, evaluate, graph, weights


def network():
    def body(bb, x):
        a = bb.emit(op.nn.relu(op.add(op.nn.conv2d(x, weights(4, 3, 3, 3)), weights(1, 4, 1, 1))))
        return op.nn.relu(op.nn.conv2d(a, weights(2, 4, 1, 1)))

    return graph({"x": (1, 3, 6, 6)}, body)


def region():
    mod = partition_for_dnnl(prepare()(network()))
    (found,) = [f for _, f in mod.functions_items() if isinstance(f, Function) and f.attr("Codegen")]
    return found


def test_composites_are_put_back_in_their_place():
    inlined = without_composites(region())
    names = [b.value.op.name for block in inlined.body.blocks for b in block.bindings if hasattr(b.value, "op")]
    assert names == ["relax.nn.conv2d", "relax.add", "relax.nn.relu", "relax.nn.conv2d", "relax.nn.relu"]
    assert structural_equal(inlined.ret_struct_info, region().ret_struct_info)


def test_the_region_computes_the_same():
    x = np.random.default_rng(0).standard_normal((1, 3, 6, 6)).astype(np.float32)
    program = region_program(region())
    assert program is not None
    (got,) = Executable(program, Loading()).run([x])
    assert_close(got, evaluate(network(), x))


@pytest.mark.skipif(not availability().ok, reason="oneDNN is not there")
def test_calls_with_nan_keep_it():
    model = eutectic.compile(network(), target="llvm -libs=dnnl")
    x = np.ones((1, 3, 6, 6), np.float32)
    x[0, 1, 2, 2] = np.nan
    with pytest.warns(eutectic.EutecticAdvice, match="run without dnnl"):
        got = model(x)
    want = evaluate(network(), x)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    assert np.isnan(got).any()
    assert not np.isnan(got).all()
