"""Which inverted residuals are worth one kernel, and who says so for a kind of target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from eutectic.relax.transform.offers_by_kind import OffersByKind
from eutectic.target import Target


@dataclass(frozen=True)
class ResidualSizes:
    """Sizes of an inverted residual.

    Attributes:
        batch: Images.
        channels: Input channels.
        expanded: Channels that are filtered.
        filters: Output channels.
        expands: Whether there is a first convolution; without it `channels` are filtered.
        space: Rows and columns of the data.
        out: Rows and columns of the result.
        taps: Rows and columns of a window.
        threads: Threads of a call.
    """

    batch: int
    channels: int
    expanded: int
    filters: int
    expands: bool
    space: tuple[int, int]
    out: tuple[int, int]
    taps: tuple[int, int]
    threads: int

    def workload(self, target: Target) -> str:
        """What databases of decisions know such a block by; libraries offer another way to compute its parts."""
        beside = f" beside {','.join(target.libs)}" if target.libs else ""
        sizes = "x".join(map(str, (self.batch, self.channels, *self.space)))
        inner = f" by {self.expanded}" if self.expands else ""
        window, out = ("x".join(map(str, pair)) for pair in (self.taps, self.out))
        return f"inverted residual {sizes}{inner} to {self.filters}x{out}, {window}{beside}"


@dataclass(frozen=True)
class ResidualOffer:
    """A way to compute an inverted residual in one kernel.

    Attributes:
        lanes: Channels of a block, of those that are filtered.
        panel: Output channels that are computed together.
        cost: Estimated nanoseconds of a call, times its threads.
        separate: The same of its convolutions one after the other.
        worthwhile: Whether the estimate is good enough to take it unmeasured.
    """

    lanes: int
    panel: int
    cost: float
    separate: float
    worthwhile: bool = True


RESIDUAL_OFFERS: Final = OffersByKind[ResidualSizes, ResidualOffer]("residual offers")
"""The ways to compute an inverted residual in one kernel, the one with the best estimate first."""
POINT: Final = "inverted_residual"
"""What the choice is called in databases of decisions."""
