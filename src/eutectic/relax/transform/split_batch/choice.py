"""Which networks are worth computing piece by piece of a batch, and who says so for a kind of target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from eutectic.relax.transform.offers_by_kind import OffersByKind
from eutectic.relax.transform.winograd.choice import ConvolutionSizes
from eutectic.target import Target


@dataclass(frozen=True)
class StepSizes:
    """What an operator of a network reads, writes and computes, for the whole batch.

    Attributes:
        activations: Bytes of the tensors of the batch that it reads and writes; those of an operator that is fused into
            the one before it are only what that one does not read or write.
        weights: Bytes of the constants that it reads.
        work: Operations.
        convolution: Sizes of a convolution that Winograd's method is for; None for others.
        may_end: Whether the part of the network that is computed in pieces may end with it.
    """

    activations: int
    weights: int
    work: float
    convolution: ConvolutionSizes | None = None
    may_end: bool = True


@dataclass(frozen=True)
class BatchSizes:
    """A network whose operators compute each image of a batch by itself.

    Attributes:
        batch: Images.
        steps: Its operators, in the order of execution.
        threads: Threads of a call.
    """

    batch: int
    steps: tuple[StepSizes, ...]
    threads: int

    def workload(self, target: Target) -> str:
        """What databases of decisions know such a network by; libraries offer another way to compute it."""
        beside = f" beside {','.join(target.libs)}" if target.libs else ""
        work, moved = sum(step.work for step in self.steps), sum(step.activations for step in self.steps)
        return f"batch of {self.batch}, {len(self.steps)} operators, {work:.0f} operations, {moved} bytes{beside}"


@dataclass(frozen=True)
class BatchOffer:
    """A way to compute a network in pieces of a batch.

    Attributes:
        size: Images of a piece; divides the batch.
        steps: How many operators, from the beginning.
        cost: Estimated nanoseconds of a call in pieces.
        together: The same of the whole batch at once.
        worthwhile: Whether the estimate is good enough to take it unmeasured.
    """

    size: int
    steps: int
    cost: float
    together: float
    worthwhile: bool = True


BATCH_OFFERS: Final = OffersByKind[BatchSizes, BatchOffer]("batch offers")
"""The ways to compute a network in pieces of a batch, the one with the best estimate first."""
POINT: Final = "split_batch"
"""What the choice is called in databases of decisions."""
