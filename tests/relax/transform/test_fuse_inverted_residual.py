"""Three convolutions become one operator where that is offered, and stay where that would change results."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.relax.transform.rewriting import assert_stays, ops_after

from eutectic.backend.llvm.inverted_residual import residual_offers
from eutectic.backend.llvm.machine import machine_of
from eutectic.ir.services import Speeds
from eutectic.relax import op
from eutectic.relax.expr import Expr
from eutectic.relax.transform import FuseInvertedResidual
from eutectic.relax.transform.inverted_residual import fuse
from eutectic.relax.transform.inverted_residual.choice import ResidualOffer, ResidualSizes
from eutectic.target import Target
from eutectic.testing.graphs import graph, weights

SHAPE = (2, 3, 7, 6)
WIDE = "llvm -mcpu=x86-64-v4"


@pytest.fixture(autouse=True)
def offered(monkeypatch: pytest.MonkeyPatch) -> list[ResidualSizes]:
    """Everything is offered; what was asked for."""
    asked: list[ResidualSizes] = []

    def offers(sizes: ResidualSizes, target: Target, speeds: Speeds | None) -> list[ResidualOffer]:
        asked.append(sizes)
        return [ResidualOffer(2, 4, 0.0, 1.0)]

    monkeypatch.setattr(fuse.RESIDUAL_OFFERS, "ask", offers)
    return asked


def limited(x: Expr) -> Expr:
    return op.clip(x, 0.0, 6.0)


def expanded(x: Expr, activation: Any = limited, **options: Any) -> Expr:
    return activation(op.add(op.nn.conv2d(x, weights(8, 3, 1, 1), **options), weights(1, 8, 1, 1)))


def filtered(x: Expr, activation: Any = limited, kernel: int = 3, **options: Any) -> Expr:
    options = {"padding": 1, "groups": 8, **options}
    return activation(op.add(op.nn.conv2d(x, weights(8, 1, kernel, kernel), **options), weights(8, 1, 1)))


def projected(x: Expr, filters: int = 3, **options: Any) -> Expr:
    return op.add(op.nn.conv2d(x, weights(filters, 8, 1, 1), **options), weights(1, filters, 1, 1))


def fused(shape: tuple[int, ...], body: Any) -> list[str]:
    """Names of the operators after the pass, which computes the same and leaves its input as it was."""
    mod = graph({"x": shape}, lambda bb, x: bb.emit(body(x)))
    return ops_after(FuseInvertedResidual(), mod)


def stays(shape: tuple[int, ...], body: Any) -> None:
    mod = graph({"x": shape}, lambda bb, x: bb.emit(body(x)))
    assert_stays(FuseInvertedResidual(), mod)


@pytest.mark.parametrize("activation", [limited, op.nn.relu, lambda x: x])
@pytest.mark.parametrize("strides", [1, 2, (1, 2)])
def test_expand_filter_project(activation: Any, strides: Any, offered: list[ResidualSizes]):
    def body(x: Expr) -> Expr:
        return projected(filtered(expanded(x, activation), activation, strides=strides))

    assert fused(SHAPE, body) == ["nn.inverted_residual", "add"]
    down, right = (strides, strides) if isinstance(strides, int) else strides
    assert offered == [ResidualSizes(2, 3, 8, 3, True, (7, 6), (-(-7 // down), -(-6 // right)), (3, 3), 1)]


def test_a_residual_is_added_to_the_result():
    assert fused(SHAPE, lambda x: op.add(projected(filtered(expanded(x))), x)) == ["nn.inverted_residual", "add", "add"]


def test_windows_of_any_size_and_missing_biases():
    def body(x: Expr) -> Expr:
        wide = op.nn.relu(op.nn.conv2d(x, weights(8, 3, 1, 1)))
        windows = op.nn.relu(op.nn.conv2d(wide, weights(8, 1, 5, 2), padding=(2, 0, 1, 1), groups=8))
        return op.nn.conv2d(windows, weights(5, 8, 1, 1))

    assert fused(SHAPE, body) == ["nn.inverted_residual"]


def test_without_a_first_convolution(offered: list[ResidualSizes]):
    assert fused((2, 8, 7, 6), lambda x: projected(filtered(x))) == ["nn.inverted_residual", "add"]
    assert offered == [ResidualSizes(2, 8, 8, 3, False, (7, 6), (7, 6), (3, 3), 1)]


def test_a_first_convolution_of_another_activation_is_left():
    """It is no part of the operator."""
    names = ["nn.conv2d", "add", "nn.relu", "nn.inverted_residual", "add"]
    assert fused(SHAPE, lambda x: projected(filtered(expanded(x, op.nn.relu)))) == names
    names = ["nn.conv2d", "add", "clip", "nn.inverted_residual", "add"]
    assert fused((2, 3, 7, 6), lambda x: projected(filtered(expanded(x, padding=1)))) == names


def test_what_others_read_is_left():
    def both(x: Expr) -> Expr:
        windows = filtered(expanded(x))
        return op.add(projected(windows, 8), windows)

    stays(SHAPE, both)


@pytest.mark.parametrize(
    "body",
    [
        lambda x: projected(filtered(x), padding=1),
        lambda x: projected(filtered(x), strides=2),
        lambda x: projected(filtered(x, dilation=2)),
        lambda x: projected(filtered(x, lambda y: op.clip(y, 0.0, 5.0))),
        lambda x: projected(op.add(filtered(x), x)),
        lambda x: op.nn.conv2d(filtered(x), weights(4, 4, 1, 1), groups=2),
        lambda x: projected(limited(op.nn.conv2d(x, weights(8, 4, 3, 3), groups=2, padding=1))),
    ],
)
def test_what_is_no_such_block_stays(body: Any):
    stays((2, 8, 7, 6), body)


def test_where_nothing_is_offered_it_stays(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fuse.RESIDUAL_OFFERS, "ask", lambda sizes, target, speeds: [])
    stays(SHAPE, lambda x: projected(filtered(expanded(x))))


@pytest.mark.parametrize(
    ("sizes", "blocks"),
    [
        (
            ResidualSizes(1, 32, 32, 16, False, (112, 112), (112, 112), (3, 3), 2),
            [],
        ),  # windows alone are fast
        (ResidualSizes(1, 16, 96, 24, True, (112, 112), (56, 56), (3, 3), 2), [(48, 32)]),
        (ResidualSizes(1, 24, 144, 24, True, (56, 56), (56, 56), (3, 3), 2), [(48, 32)]),
        (ResidualSizes(1, 64, 384, 64, True, (14, 14), (14, 14), (3, 3), 2), []),  # it all stays near, anyway
        (ResidualSizes(1, 24, 144, 24, True, (53, 53), (53, 53), (3, 3), 2), []),  # no tiles of one size
        (ResidualSizes(1, 24, 140, 24, True, (56, 56), (56, 56), (3, 3), 2), []),  # no blocks of vectors
    ],
)
def test_what_is_estimated_to_be_faster(sizes: ResidualSizes, blocks: list[tuple[int, int]]):
    offers = [offer for offer in residual_offers(sizes, machine_of(Target(WIDE))) if offer.worthwhile]
    assert [(offer.lanes, offer.panel) for offer in offers] == blocks
    assert all(offer.cost < offer.separate for offer in offers)


@pytest.mark.parametrize(
    ("sizes", "is_faster"),
    [
        (ResidualSizes(1, 16, 96, 24, True, (112, 112), (56, 56), (3, 3), 2), False),
        (ResidualSizes(1, 16, 96, 24, True, (320, 320), (160, 160), (3, 3), 2), True),
        (ResidualSizes(1, 24, 144, 24, True, (56, 56), (56, 56), (3, 3), 2), False),
        (ResidualSizes(1, 24, 144, 24, True, (160, 160), (160, 160), (3, 3), 2), True),
        (ResidualSizes(1, 24, 144, 40, True, (160, 160), (80, 80), (5, 5), 2), True),
        (ResidualSizes(1, 32, 192, 32, True, (80, 80), (80, 80), (3, 3), 2), False),
        (ResidualSizes(1, 32, 32, 16, False, (320, 320), (320, 320), (3, 3), 2), False),  # windows alone are fast
    ],
)
def test_tensors_of_large_images_come_from_memory(sizes: ResidualSizes, is_faster: bool):
    """What was measured with vectors of 256 bits, where one kernel of small images is slower."""
    (offer,) = residual_offers(sizes, machine_of(Target("llvm -mcpu=x86-64-v3")))
    assert offer.worthwhile == is_faster


def test_threads_share_what_comes_from_memory():
    large = ResidualSizes(1, 24, 144, 24, True, (160, 160), (160, 160), (3, 3), 1)
    machine = machine_of(Target("llvm -mcpu=x86-64-v3"))
    (alone,), (shared,) = residual_offers(large, machine), residual_offers(replace(large, threads=4), machine)
    assert alone.cost == shared.cost
    assert alone.separate < shared.separate


@pytest.mark.parametrize(
    ("cpu", "panels"),
    [
        ("x86-64-v4", {16: 16, 24: 32, 32: 32, 40: 48, 48: 48, 80: 16, 96: 48}),
        ("znver4", {16: 16, 24: 24, 32: 32, 40: 40, 48: 48, 80: 40, 96: 48}),  # two halves in the time of a vector
        ("x86-64-v3", {16: 16, 24: 24, 32: 16, 40: 8}),
    ],
)
def test_few_channels_are_computed_in_vain(cpu: str, panels: dict[int, int]):
    machine = machine_of(Target(f"llvm -mcpu={cpu}"))
    for filters, panel in panels.items():
        sizes = ResidualSizes(1, 16, 96, filters, True, (112, 112), (56, 56), (3, 3), 2)
        assert [offer.panel for offer in residual_offers(sizes, machine)] == [panel]
