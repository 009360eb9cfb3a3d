"""Estimates reckon with measured speeds, and those of the processor that they were fitted on change nothing."""

from __future__ import annotations

from dataclasses import replace

from eutectic.backend.llvm.inverted_residual import residual_offers
from eutectic.backend.llvm.machine import SPEED, lane_speed, machine_of
from eutectic.backend.llvm.winograd import winograd_offers
from eutectic.ir.services import Speeds
from eutectic.relax.transform.inverted_residual.choice import ResidualSizes
from eutectic.relax.transform.winograd.choice import ConvolutionSizes
from eutectic.target import Target

WIDE = machine_of(Target("llvm -mcpu=x86-64-v4"))
FITTED = Speeds(SPEED / 0.75 * WIDE.lanes(), 200.0, 75.0)
BLOCK = ResidualSizes(1, 24, 144, 24, True, (56, 56), (56, 56), (3, 3), 2)


def test_speeds_of_the_fitted_processor_change_nothing():
    assert abs(lane_speed(WIDE, FITTED) - lane_speed(WIDE, None)) < 1e-9
    for sizes in (ConvolutionSizes(1, 64, 64, 56, 56), ConvolutionSizes(1, 512, 512, 7, 7)):
        pairs = zip(winograd_offers(sizes, WIDE), winograd_offers(sizes, WIDE, FITTED), strict=True)
        for usual, measured in pairs:
            assert abs(usual.cost - measured.cost) < 1e-6 * usual.cost
            assert usual.worthwhile == measured.worthwhile
    (usual,), (measured,) = residual_offers(BLOCK, WIDE), residual_offers(BLOCK, WIDE, FITTED)
    assert abs(usual.separate - measured.separate) < 1e-6 * usual.separate


def test_processors_with_half_the_products_are_reckoned_with_by_name():
    """Their vectors of 512 bits are as fast as two of others; of 256 bits they are like all others."""
    half, narrow = (machine_of(Target(f"llvm -mcpu=znver4{more}")) for more in ("", " -mattr=-avx512f"))
    assert lane_speed(half, None) * 2 == lane_speed(WIDE, None) == lane_speed(narrow, None) == SPEED
    assert lane_speed(half, FITTED) == lane_speed(WIDE, FITTED)
    sizes = ConvolutionSizes(1, 512, 512, 7, 7)
    assert not any(offer.worthwhile for offer in winograd_offers(sizes, WIDE))
    assert any(offer.worthwhile for offer in winograd_offers(sizes, half))


def test_a_faster_cache_makes_separate_kernels_better():
    whole = ResidualSizes(1, 16, 96, 16, True, (112, 112), (56, 56), (3, 3), 2)  # whole vectors
    (usual,) = residual_offers(whole, WIDE, FITTED)
    (fast,) = residual_offers(whole, WIDE, replace(FITTED, shared=2000.0))
    assert usual.worthwhile
    assert not fast.worthwhile


def test_slow_memory_makes_larger_weights_worse():
    sizes = ConvolutionSizes(1, 512, 512, 7, 7)
    slow = {o.tile: o.cost / o.direct for o in winograd_offers(sizes, WIDE, replace(FITTED, memory=7.5))}
    usual = {o.tile: o.cost / o.direct for o in winograd_offers(sizes, WIDE, FITTED)}
    assert slow[4] > usual[4]
