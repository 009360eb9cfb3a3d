"""Which models a library is worth its calls for."""

from __future__ import annotations

import pytest

import eutectic
from eutectic.backend.dnnl.worthwhile import is_our_own, is_small, worthwhile
from eutectic.backend.llvm.machine import machine_of
from eutectic.relax import const, op
from eutectic.relax.analysis.uses import walk_calls
from eutectic.target import Target
from eutectic.testing.graphs import graph, weights
from eutectic.tir import Var as SizeSymbol


def calls(mod):
    return [call for _, function in mod.functions_items() for call in walk_calls(function)]


def product(rows: int, inner: int, columns: int):
    return graph({"x": (rows, inner)}, lambda _, x: op.matmul(x, weights(inner, columns)))


@pytest.mark.parametrize(("rows", "small"), [(1, True), (9, True), (11, False)])
def test_matrix_products_count(rows: int, small: bool):
    assert is_small(calls(product(rows, 1000, 1000))) is small


def test_a_small_model_is_compiled_without_the_library_and_says_so():
    report = eutectic.compile(product(1, 8, 8)).report
    assert {region.codegen for region in report.regions} == {"llvm"}
    assert any("so small" in note for note in report.notes)


def test_a_target_that_is_given_is_kept():
    report = eutectic.compile(product(1, 8, 8), target="llvm -libs=dnnl").report
    assert {region.codegen for region in report.regions} == {"dnnl"}


def convolution(groups: int = 1, size: int = 99, channels: int = 16):
    weight = weights(channels, channels // groups, 3, 3)
    return graph({"x": (1, channels, size, size)}, lambda _, x: op.nn.relu(op.nn.conv2d(x, weight, groups=groups)))


def test_which_convolutions_are_our_own():
    assert is_our_own(calls(convolution()))
    assert is_our_own(calls(convolution(groups=16)))
    assert is_our_own(calls(convolution(groups=4)))
    assert is_our_own(calls(convolution(groups=2)), 8)
    assert not is_our_own(calls(convolution(groups=4, channels=24)))


def products(count: int, dtype: str = "float32"):
    """An image, a convolution of groups that do not go with vectors, and so many products of its rows."""

    def body(_, x):
        weight = const(weights(24, 6, 3, 3).data.astype(dtype))
        x = op.reshape(op.nn.conv2d(x, weight, padding=1, groups=4), (49, 192))
        for _ in range(count):
            x = op.matmul(x, const(weights(192, 192).data.astype(dtype)))
        return x

    return graph({"x": ((1, 24, 14, 28), dtype)}, body)


def test_products_are_our_own():
    assert is_our_own(calls(product(900, 1000, 1000)))
    assert is_our_own(calls(products(40)))
    assert not is_our_own(calls(products(1)))
    assert not is_our_own(calls(products(40, dtype="float16")))


def test_sizes_that_are_not_known():
    """A product of any number of rows is our own, and a convolution of any number of images of any size."""
    n = SizeSymbol("n", "int64")
    weight = weights(16, 16, 3, 3)
    rows = graph({"x": (n, 1000)}, lambda _, x: op.matmul(x, weights(1000, 1000)))
    images = graph({"x": (n, 16, 99, 99)}, lambda _, x: op.nn.conv2d(x, weight))
    wide = graph({"x": (1, 16, 99, n)}, lambda _, x: op.nn.conv2d(x, weight))
    assert [is_our_own(calls(mod)) for mod in (rows, images, wide)] == [True, True, True]
    assert not any(is_small(calls(mod)) for mod in (rows, images, wide))


@pytest.mark.parametrize(("cpu", "used"), [("znver5", False), ("haswell", False), ("x86-64-v2", True)])
def test_models_of_products_do_without_the_library(cpu: str, used: bool):
    found = worthwhile(product(900, 1000, 1000), machine_of(Target(f"llvm -mcpu={cpu}")))
    assert found.ok is used
    assert used or "as fast or faster" in found.reason


def test_convolutions_count_together():
    assert is_small(calls(convolution(size=9)))
    assert not is_small(calls(convolution()))
    assert not is_small(calls(convolution(groups=16, size=299)))


@pytest.mark.parametrize(
    ("cpu", "lanes"), [("znver5", 16), ("znver4", 16), ("sapphirerapids", 16), ("haswell", 8), ("x86-64-v3", 8)]
)
def test_vectors_with_which_our_own_convolutions_are_faster(cpu: str, lanes: int):
    own = worthwhile(convolution(), machine_of(Target(f"llvm -mcpu={cpu}")))
    assert not own.ok
    assert f"vectors of {lanes} numbers" in own.reason
    assert worthwhile(convolution(groups=4, size=299, channels=24), machine_of(Target(f"llvm -mcpu={cpu}"))).ok


def test_vectors_with_which_nobody_measured_that():
    assert worthwhile(convolution(), machine_of(Target("llvm -mcpu=x86-64-v2"))).ok
