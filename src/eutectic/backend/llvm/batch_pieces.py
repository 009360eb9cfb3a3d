"""What our kernels gain from a part of a batch at a time.

Tensors that are larger than a thread's share of the caches come from memory, and go there, in each kernel of a whole
batch; those of a part stay. But weights are read again for each part, and there is less to share among threads. The
estimates are fitted to batches of eight images on a processor with vectors of 256 bits, whose cache others used, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Final

from eutectic.backend.llvm.machine import Machine, lane_speed
from eutectic.backend.llvm.winograd import memory_speed, winograd_offers
from eutectic.ir.services import Speeds
from eutectic.relax.transform.split_batch.choice import BatchOffer, BatchSizes, StepSizes
from eutectic.relax.transform.winograd.choice import ConvolutionSizes

_SHARE_BYTES: Final = 3 << 20  # of a cache that processors share, for each thread
_IMAGES: Final = 0.5  # of a part, for each thread: kernels share the work of one image well among two threads
_MOST_PARTS: Final = 16  # each has calls of kernels of its own in the native code
_GAIN: Final = 0.97  # share of the time of the whole batch at once from which on parts are worth it


def batch_offers(sizes: BatchSizes, machine: Machine, speeds: Speeds | None = None) -> Sequence[BatchOffer]:
    """For each size of a part the best end of what is computed in parts, by estimated time.

    Args:
        sizes: Of the network.
        machine: What the code is for.
        speeds: What it was measured to do, if it was.
    """
    if machine.lanes() == 1:
        return ()
    least = max(_IMAGES * sizes.threads, sizes.batch / _MOST_PARTS)
    parts = [size for size in range(1, sizes.batch) if sizes.batch % size == 0 and size >= least]
    offers = [_offer(sizes, _Estimate(sizes, size, machine, speeds)) for size in parts]
    return sorted((offer for offer in offers if offer.steps), key=lambda offer: offer.cost)


def _offer(sizes: BatchSizes, estimate: _Estimate) -> BatchOffer:
    """Parts of one size, as far as they save most; of no step where they save nothing."""
    together = sum(map(estimate.together, sizes.steps))
    saved = list(accumulate(map(estimate.saved, sizes.steps)))
    ends = [
        (gain, -count) for count, (gain, step) in enumerate(zip(saved, sizes.steps, strict=True), 1) if step.may_end
    ]
    gain, steps = max([(0.0, 0), *ends])  # the first of those that save as much
    cost = together - gain
    return BatchOffer(estimate.size, -steps, cost, together, cost < _GAIN * together)


class _Estimate:
    """Nanoseconds of operators, for a whole batch and for parts of it.

    Args:
        sizes: Of the network.
        size: Images of a part.
        machine: What the code is for.
        speeds: What it was measured to do, if it was.

    Attributes:
        size: Images of a part.
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
        """What parts save of that, less what they cost."""
        parts = self._batch // self.size
        moved = self._moved(step.activations) - parts * self._moved(step.activations // parts)
        if step.convolution is not None:
            costs = [self._convolution(replace(step.convolution, batch=size)) for size in (self.size, self._batch)]
            return moved - (parts * costs[0] - costs[1]) / self._threads
        return moved - parts * max(step.weights / self._memory - step.work / parts / self._rate, 0.0)

    def _moved(self, size: int) -> float:
        """To move bytes to memory and from there, as far as caches do not hold them."""
        return size / self._memory if size > self._near else 0.0

    def _convolution(self, sizes: ConvolutionSizes) -> float:
        """Of a convolution, in the way that is chosen for it; one thread."""
        offers = winograd_offers(sizes, self._machine, self._speeds)
        return min(
            [offer.cost for offer in offers if offer.worthwhile] + [offer.direct for offer in offers[:1]] or [0.0]
        )
