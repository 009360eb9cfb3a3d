"""What cuBLAS takes over and what it refuses, why, and what happens when its regions have to run."""

from __future__ import annotations

import numpy as np
import pytest
from tests.backend.library_graphs import composites, dequantized, product, refusals, scaled, symbolic, unique

from eutectic.backend.cublas.partition import partition_for_cublas
from eutectic.backend.registry import loader
from eutectic.driver.link import link
from eutectic.ir.structural import structural_equal
from eutectic.relax import op
from eutectic.relax.analysis import problems_of
from eutectic.relax.expr import const
from eutectic.relax.transform import RunCodegen
from eutectic.support.errors import CodegenError, LoadError
from eutectic.testing.graphs import arrays, assert_same_results, evaluate, graph

ENTRIES = unique("cublas.")
PLAIN = [name for name in ENTRIES if not name.endswith(("dequantize", "multiply"))]
GRAPHS = {
    **{name: (lambda name=name: product(name.removeprefix("cublas."))) for name in PLAIN},
    "cublas.matmul_transposed_dequantize": dequantized,
    "cublas.matmul_transposed_multiply": scaled,
}


def test_the_table_has_the_known_names():
    assert sorted(GRAPHS) == sorted(ENTRIES)
    assert len(ENTRIES) == 10


@pytest.mark.parametrize("name", GRAPHS)
def test_each_pattern_takes_its_graph(name):
    mod = GRAPHS[name]()
    cut = partition_for_cublas(mod)
    assert composites(cut) == [name]
    assert problems_of(cut) == []
    assert_same_results(mod, cut)


@pytest.mark.parametrize("name", PLAIN)
def test_each_pattern_refuses_another_dtype(name):
    found = refusals(product(name.removeprefix("cublas."), dtype="float64"), ENTRIES[name])
    assert {r.constraint for r in found} == {"dtype"}
    assert "cuBLAS has no kernel for float64 with float64" in found[0].reason


@pytest.mark.parametrize("name", [name for name in PLAIN if "bias" in name])
def test_each_longer_pattern_has_one_output(name):
    found = refusals(product(name.removeprefix("cublas."), "leak"), ENTRIES[name])
    assert "is read elsewhere too" in found[0].reason


def test_a_shared_product_is_taken_without_what_follows():
    assert composites(partition_for_cublas(product("matmul_bias_relu", "leak"))) == ["cublas.matmul"]


def matmul(**given):
    return product("matmul", **given)


REFUSED = {
    "mixed batches": ("matmul", matmul(batch=(2,), rhs_batch=(1,)), "batch axes (2) and (1)"),
    "other batches": ("matmul", matmul(batch=(1,), rhs_batch=(2,)), "batch axes (1) and (2)"),
    "left without a batch": ("matmul", matmul(rhs_batch=(2,)), "batch axes () and (2)"),
    "symbolic inner size": ("matmul", matmul(k=symbolic()), "the size n that the matmul sums over is symbolic"),
    "result of another dtype": ("matmul", matmul(dtype="float32", out_dtype="float64"), "a result of float32, not"),
    "int8 result": ("matmul", matmul(dtype="int8"), "cuBLAS has int8 operands with a result of int32, not int8"),
    "int8 inner size": ("matmul", matmul(dtype="int8", out_dtype="int32", k=6), "in groups of 4; the inner size is 6"),
    "int8 columns": ("matmul", matmul(dtype="int8", out_dtype="int32", n=6), "groups of 4; the number of columns is 6"),
    "int8 bias": (
        "matmul_bias", product("matmul_bias", dtype="int8", out_dtype="int32"), "no bias for products of int8"
    ),
    "float8 without a transposition": ("matmul", matmul(dtype="float8_e4m3fn"), "a transposed right operand only"),
    "float8 alignment": (
        "matmul_transposed", product("matmul_transposed", dtype="float8_e4m3fn", n=8), "groups of 16; the number of"
    ),
    "bias per row": ("matmul_bias", product("matmul_bias", bias=(8, 1)), "is not one value per channel"),
    "bias that is a matrix": ("matmul_bias", product("matmul_bias", bias=(8, 32)), "varies along other axes"),
    "scalar bias": ("matmul_bias", product("matmul_bias", bias=(1,)), "is not one value per channel"),
    "other permutation": (
        "matmul_transposed", product("matmul_transposed", "axes", k=16, n=16), "is not the transposition (1, 0)"
    ),
    "scale per column": (
        "matmul_transposed_dequantize", dequantized(scale=[0.5] * 4), "the scale is R.Tensor((4,), \"float32\")"
    ),
    "zero point": ("matmul_transposed_dequantize", dequantized(zero=3), "the zero point is 3, not 0"),
    "int8 inner size dequantized": ("matmul_transposed_dequantize", dequantized(k=6), "the inner size is 6"),
    "scale per row": ("matmul_transposed_multiply", scaled(first=(16, 1)), "scaleA is R.Tensor((16, 1), \"float32\")"),
    "float8 inner size": ("matmul_transposed_multiply", scaled(k=24), "groups of 16; the inner size is 24"),
    "one axis": (
        "matmul", graph({"x": ((16,), "float16"), "w": ((16, 8), "float16")}, lambda bb, x, w: op.matmul(x, w)),
        "it needs two axes",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_near_misses_are_refused_with_the_reason(case):
    name, mod, reason = REFUSED[case]
    assert any(reason in r.reason for r in refusals(mod, ENTRIES[f"cublas.{name}"]))
    assert f"cublas.{name}" not in composites(partition_for_cublas(mod))


@pytest.mark.parametrize(
    "mod",
    [
        matmul(batch=(2, 3), rhs_batch=(2, 3)),
        matmul(batch=(2,)),
        matmul(dtype="bfloat16", out_dtype="float32"),
        matmul(dtype="int8", out_dtype="int32"),
        matmul(m=symbolic()),
    ],
    ids=["equal batches", "right without a batch", "bfloat16 to float32", "int8", "symbolic rows"],
)
def test_neighbours_of_near_misses_are_taken(mod):
    assert composites(partition_for_cublas(mod)) == ["cublas.matmul"]


def test_a_batch_of_symbolic_size_must_be_the_same():
    n = symbolic()
    assert composites(partition_for_cublas(matmul(batch=(n,), rhs_batch=(n,)))) == ["cublas.matmul"]
    assert composites(partition_for_cublas(matmul(batch=(n,), rhs_batch=(symbolic("m"),)))) == []


def test_constants_are_passed_or_kept():
    weight = const(np.ones((16, 32), np.float16))
    mod = graph({"x": ((8, 16), "float16")}, lambda bb, x: op.matmul(x, weight))
    counts = []
    for keep in (False, True):
        cut = partition_for_cublas(mod, bind_constants=keep)
        (function,) = [f for f in cut.functions.values() if f.attr("Codegen")]
        assert function.attr("Codegen") == "cublas"
        counts.append(len(function.params))
    assert counts == [2, 1]


def test_a_module_without_products_is_returned_as_it_is():
    mod = graph({"x": (2,)}, lambda bb, x: op.nn.relu(x))
    assert partition_for_cublas(mod) is mod


def test_partitioning_twice_changes_nothing():
    once = partition_for_cublas(matmul())
    assert structural_equal(partition_for_cublas(once), once)


def test_a_region_that_has_to_run_says_what_it_needs(golden):
    lowered = RunCodegen()(partition_for_cublas(product("matmul_bias_relu", dtype="float32")))
    (region,) = lowered.attrs["external_mods"]
    assert region.kernel.library == "cublas"
    assert region.kernel.description["operators"] == ["relax.matmul", "relax.add", "relax.nn.relu"]
    with pytest.raises(LoadError) as caught:
        loader(region.kernel.library)(region.kernel, 1)
    assert caught.value.code == "X0120"
    golden(str(caught.value))
    with pytest.raises(CodegenError, match="is in no module"):
        link(lowered, {})


def test_before_code_generation_the_interpreter_runs_it():
    mod = product("matmul_bias", dtype="float32")
    x, w, b, r = arrays(mod["main"])
    np.testing.assert_allclose(evaluate(partition_for_cublas(mod), x, w, b, r), x @ w + b, rtol=1e-5, atol=1e-5)
