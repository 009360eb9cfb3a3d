"""What a step of a graph can read and write, and who says so for a kind of target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from eutectic.relax.expr import Call
from eutectic.support.registry import load_providers
from eutectic.target import Target


@dataclass(frozen=True)
class LayoutOffer:
    """Layouts in which a step can be computed, and what that costs.

    A layout is a name as in `eutectic.tir.data_layout`, for the axes in the order in which the graph has them:
    `NCHW16c` of a value `(n, c, h, w)`. An empty name is the layout that the graph says, row-major.

    Attributes:
        operands: Layout of each tensor among the arguments, fields of tuples one by one; those that are not listed are
            row-major.
        results: Layout of each result, likewise.
        cost: Estimated nanoseconds of one thread. Only differences between the offers of a step, and to the cost of
            bringing a tensor into another layout, have a meaning.
    """

    operands: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    cost: float = 0.0

    def operand(self, number: int) -> str:
        """Layout of one operand."""
        return self.operands[number] if number < len(self.operands) else ""

    def layout_of_result(self, number: int) -> str:
        """Layout of one result."""
        return self.results[number] if number < len(self.results) else ""

    @property
    def result(self) -> str:
        """Layout of the only result."""
        return self.layout_of_result(0)


ROW_MAJOR: Final = LayoutOffer()
Offers: TypeAlias = Callable[[Call, Target], Sequence[LayoutOffer]]

_OFFERS: Final[dict[str, Offers]] = {}


def register_layout_offers(kind: str, offers: Offers) -> None:
    """Say who knows in which layouts calls can be computed, for a kind of target.

    Args:
        kind: As in `Target.kind.name`.
        offers: Gives at least one offer for a call of an operator.
    """
    _OFFERS[kind] = offers


def offers_of(target: Target) -> Callable[[Call], Sequence[LayoutOffer]]:
    """In which layouts calls can be computed for a target; row-major where nobody knows."""
    load_providers("layout offers")
    provider = _OFFERS.get(target.kind.name)

    def ask(call: Call) -> Sequence[LayoutOffer]:
        return (ROW_MAJOR,) if provider is None else provider(call, target) or (ROW_MAJOR,)

    return ask
