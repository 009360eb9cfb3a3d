"""Which models are too small for a library."""

from __future__ import annotations

import pytest

import eutectic
from eutectic.backend.dnnl.worthwhile import is_convolutions, is_our_own, is_small, worthwhile
from eutectic.backend.llvm.machine import machine_of
from eutectic.relax import const, op
from eutectic.target import Target
from eutectic.testing.graphs import graph, weights


def product(rows: int, inner: int, columns: int):
    return graph({"x": (rows, inner)}, lambda _, x: op.matmul(x, weights(inner, columns)))


@pytest.mark.parametrize(("rows", "small"), [(1, True), (9, True), (11, False)])
def test_matrix_products_count(rows: int, small: bool):
    assert is_small(product(rows, 1000, 1000)) is small


def test_a_small_model_is_compiled_without_the_library_and_says_so():
    report = eutectic.compile(product(1, 8, 8)).report
    assert {region.codegen for region in report.regions} == {"llvm"}
    assert any("so small" in note for note in report.notes)


def test_a_target_that_is_given_is_kept():
    report = eutectic.compile(product(1, 8, 8), target="llvm -libs=dnnl").report
    assert {region.codegen for region in report.regions} == {"dnnl"}


def convolution(groups: int = 1, dtype: str = "float32", size: int = 99, channels: int = 16):
    weight = weights(channels, channels // groups, 3, 3)
    return graph(
        {"x": ((1, channels, size, size), dtype)}, lambda _, x: op.nn.relu(op.nn.conv2d(x, weight, groups=groups))
    )


def mixed(columns: int):
    def body(_, x):
        return op.matmul(op.mean(op.nn.conv2d(x, weights(16, 16, 3, 3)), [2, 3]), weights(16, columns))

    return graph({"x": (1, 16, 9, 9)}, body)


def test_which_models_are_convolutions():
    assert is_convolutions(convolution())
    assert is_convolutions(convolution(groups=16))
    assert is_convolutions(convolution(groups=4))
    assert is_convolutions(convolution(groups=2), 8)
    assert not is_convolutions(convolution(groups=4, channels=24))
    assert is_convolutions(mixed(4))
    assert not is_convolutions(mixed(40_000))
    assert not is_convolutions(product(1, 8, 8))


def products(rows: int, count: int, large: int = 0, dtype: str = "float32"):
    """An image, a convolution, so many small products of its rows, and so many pairs of large ones."""

    def body(_, x):
        x = op.reshape(op.nn.conv2d(x, const(weights(3, 3, 3, 3).data.astype(dtype)), padding=1), (rows, 192))
        depth = 192
        for columns in [192] * count + [8 * 192, 192] * large:
            x, depth = op.matmul(x, const(weights(depth, columns).data.astype(dtype))), columns
        return x

    return graph({"x": ((1, 3, rows, 64), dtype)}, body)


def test_many_small_products_are_our_own():
    assert is_our_own(products(49, 40))
    assert not is_our_own(products(49, 40, large=1))
    assert is_our_own(products(49, 400, large=1))
    assert not is_our_own(products(490, 10))
    assert not is_our_own(products(49, 40, dtype="float16"))


@pytest.mark.parametrize(("cpu", "used"), [("znver5", False), ("haswell", False), ("x86-64-v2", True)])
def test_models_of_many_small_products_do_without_the_library(cpu: str, used: bool):
    found = worthwhile(products(49, 40), machine_of(Target(f"llvm -mcpu={cpu}")))
    assert found.ok is used
    assert used or "hardly any of its work" in found.reason


def test_convolutions_count_together():
    assert is_small(convolution(size=9))
    assert not is_small(convolution())
    assert not is_small(convolution(groups=16, size=299))


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
