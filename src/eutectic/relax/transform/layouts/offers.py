"""What a step of a graph can read and write, and who says so for a kind of target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from eutectic.ir.services import Speeds
from eutectic.relax.expr import Call
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.relax.transform.offers_by_kind import OffersByKind
from eutectic.target import Target
from eutectic.tir.analysis.example_sizes import size_in_example


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


_NO_EXAMPLES: Final[Mapping[str, int]] = MappingProxyType({})
_LIKELY: Final = 32  # elements along an axis of unknown size, such as the height of images


def likely_sizes(info: TensorStructInfo, examples: Mapping[str, int] = _NO_EXAMPLES) -> list[int]:
    """Elements per axis, for estimates: unknown ones are likely numbers, and one along the first axis, of images.

    Args:
        info: The type of a tensor whose rank is known.
        examples: Values of symbolic sizes, by name, for axes that are computed from these.
    """
    assert info.dims is not None
    known = [size_in_example(size, examples) for size in info.dims]
    return [(_LIKELY if axis else 1) if size is None else size for axis, size in enumerate(known)]


ROW_MAJOR: Final = LayoutOffer()
LAYOUT_OFFERS: Final = OffersByKind[Call, LayoutOffer]("layout offers")
"""In which layouts calls can be computed: at least one for a call of an operator."""


def offers_of(target: Target, speeds: Speeds | None = None) -> Callable[[Call], Sequence[LayoutOffer]]:
    """In which layouts calls can be computed for a target; row-major where nobody knows.

    Args:
        target: The target.
        speeds: What its processor was measured to do; None where it was not.
    """
    return lambda call: LAYOUT_OFFERS.ask(call, target, speeds) or (ROW_MAJOR,)
