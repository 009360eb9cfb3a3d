"""What is estimated of pieces of a batch: where tensors leave the caches, and weights are few."""

from __future__ import annotations

from typing import Any

from eutectic.backend.llvm.batch_pieces import batch_offers
from eutectic.backend.llvm.machine import machine_of
from eutectic.ir.services import Speeds
from eutectic.relax.transform.split_batch.choice import BatchOffer, BatchSizes, StepSizes
from eutectic.relax.transform.winograd.choice import ConvolutionSizes
from eutectic.target import Target

MACHINE = machine_of(Target("llvm -mcpu=x86-64-v3"))
MB = 1 << 20


def step(activations: float, weights: float = 0.1, work: float = 1e9, **options: Any) -> StepSizes:
    """Of eight images; millions of bytes."""
    return StepSizes(int(activations * MB), int(weights * MB), work, **options)


def offers(*steps: StepSizes, batch: int = 8, threads: int = 2, **options: Any) -> list[BatchOffer]:
    return list(batch_offers(BatchSizes(batch, steps, threads), MACHINE, **options))


def test_large_tensors_in_pieces_of_an_image():
    best, *_ = offers(step(32), step(32), step(2))
    assert (best.size, best.steps, best.worthwhile) == (1, 2, True)
    assert best.cost < best.together


def test_tensors_that_caches_hold_stay_together():
    assert offers(step(4), step(4)) == []


def test_images_that_no_cache_holds_gain_nothing():
    assert offers(step(800), step(800)) == []


def test_weights_that_are_read_again_cost():
    assert offers(step(16, weights=64, work=1e6)) == []
    (best, *_) = offers(step(32), step(16, weights=64, work=1e6))
    assert best.steps == 1


def test_more_arithmetic_hides_weights():
    (best, *_) = offers(step(32), step(16, weights=64, work=1e12))
    assert best.steps == 2


def test_a_piece_does_not_end_within_a_kernel():
    (best, *_) = offers(step(32, may_end=False), step(2))
    assert best.steps == 2


def test_convolutions_that_are_multiplied_in_larger_tiles_together():
    few = ConvolutionSizes(8, 512, 512, 7, 7)
    alone = offers(step(32), step(8, work=3.7e9, convolution=few))[0]
    assert alone.steps == 1
    many = ConvolutionSizes(8, 64, 64, 56, 56)
    assert offers(step(32), step(16, work=3.7e9, convolution=many))[0].steps == 2


def test_little_gain_is_not_worth_it():
    (best, *_) = offers(step(7, work=1e11))
    assert not best.worthwhile


def test_threads_share_a_piece():
    assert {offer.size for offer in offers(step(20), step(20), threads=4)} == {2, 4}
    assert offers(step(32), step(32), threads=16) == []


def test_there_are_not_too_many_pieces():
    assert min(offer.size for offer in offers(step(80), step(80), batch=64)) == 4


def test_speeds_that_were_measured_count():
    slow = offers(step(32), step(32), speeds=Speeds(96.0, 60.0, 5.0))[0]
    fast = offers(step(32), step(32), speeds=Speeds(96.0, 60.0, 500.0))
    assert slow.worthwhile
    assert not any(offer.worthwhile for offer in fast)
