"""What our kernels gain from a piece of a batch at a time.

Tensors that are larger than a thread's share of the caches come from memory, and go there, in each kernel of a whole
batch; those of a piece stay. But weights are read again for each piece, and there is less to share among threads. The
estimates are fitted to batches of eight images on a processor with vectors of 256 bits, whose cache others used, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from math import prod
from typing import Final

from eutectic.backend.llvm.machine import Machine, lane_speed, memory_speed
from eutectic.backend.llvm.winograd import winograd_offers
from eutectic.ir.services import Speeds
from eutectic.relax.transform.split_batch.choice import BatchOffer, BatchSizes, StepSizes
from eutectic.relax.transform.winograd.choice import WINDOW, ConvolutionSizes, WinogradOffer

_SHARE_BYTES: Final = 3 << 20  # of a cache that processors share, for each thread
_IMAGES: Final = 0.5  # of a piece, for each thread: kernels share the work of one image well among two threads
_MOST_PIECES: Final = 16  # each has calls of kernels of its own in the native code
_GAIN: Final = 0.97  # share of the time of the whole batch at once from which on pieces are worth it


def batch_offers(sizes: BatchSizes, machine: Machine, speeds: Speeds | None = None) -> Sequence[BatchOffer]:
    """For each size of a piece the best end of what is computed in pieces, by estimated time.

    Args:
        sizes: Of the network.
        machine: What the code is for.
        speeds: What it was measured to do, if it was.
    """
    if machine.lanes() == 1:
        return ()
    least = max(_IMAGES * sizes.threads, sizes.batch / _MOST_PIECES)
    pieces = [size for size in range(1, sizes.batch) if sizes.batch % size == 0 and size >= least]
    offers = [_offer(sizes, _Estimate(sizes, size, machine, speeds)) for size in pieces]
    return sorted((offer for offer in offers if offer.steps), key=lambda offer: offer.cost)


def _offer(sizes: BatchSizes, estimate: _Estimate) -> BatchOffer:
    """Pieces of one size, up to where they save most; of no step where they save nothing."""
    together = sum(map(estimate.together, sizes.steps))
    saved = list(accumulate(map(estimate.saved, sizes.steps)))
    ends = [
        (gain, -count) for count, (gain, step) in enumerate(zip(saved, sizes.steps, strict=True), 1) if step.may_end
    ]
    gain, steps = max([(0.0, 0), *ends])  # the first of those that save as much
    cost = together - gain
    return BatchOffer(estimate.size, -steps, cost, together, cost < _GAIN * together)


class _Estimate:
    """Nanoseconds of operators, for a whole batch and for pieces of it.

    Args:
        sizes: Of the network.
        size: Images of a piece.
        machine: What the code is for.
        speeds: What it was measured to do, if it was.

    Attributes:
        size: Images of a piece.
    """

    def __init__(self, sizes: BatchSizes, size: int, machine: Machine, speeds: Speeds | None) -> None:
        self.size, self._batch, self._threads = size, sizes.batch, sizes.threads
        self._machine, self._speeds = machine, speeds
        self._memory = memory_speed(machine, speeds)
        self._rate = machine.lanes() * lane_speed(machine, speeds) * sizes.threads
        self._near = _SHARE_BYTES * sizes.threads

    def together(self, step: StepSizes) -> float:
        """Of an operator for the whole batch."""
        return step.work / self._rate + self._moved(step.activations)

    def saved(self, step: StepSizes) -> float:
        """What pieces save of that, less what they cost."""
        pieces = self._batch // self.size
        moved = self._moved(step.activations) - pieces * self._moved(step.activations // pieces)
        if step.convolution is not None:
            piece, whole = (
                self._convolution(replace(step.convolution, batch=size)) for size in (self.size, self._batch)
            )
            return moved + whole - pieces * piece
        return moved - pieces * max(step.weights / self._memory - step.work / pieces / self._rate, 0.0)

    def _moved(self, size: int) -> float:
        """To move bytes to memory and from there, as far as caches do not hold them."""
        return size / self._memory if size > self._near else 0.0

    def _convolution(self, sizes: ConvolutionSizes) -> float:
        """Of a convolution in the way that is chosen for it, but for its operands and its result."""
        offers = winograd_offers(sizes, self._machine, self._speeds)
        chosen = next((offer for offer in offers if offer.worthwhile), None)
        if chosen is None:
            return offers[0].direct / self._threads if offers else 0.0
        return chosen.cost / self._threads + 2 * self._moved(_transformed_bytes(sizes, chosen))


def _transformed_bytes(sizes: ConvolutionSizes, offer: WinogradOffer) -> int:
    """Of what is multiplied and what comes of it, which is written and read again."""
    tiles = sizes.images * prod(-(-size // offer.tile) for size in sizes.space)
    return 4 * tiles * (offer.tile + WINDOW - 1) ** 2 * (sizes.channels + sizes.filters)
