"""What a number of elements or iterations can be."""

from __future__ import annotations

from typing import Any, Final

from eutectic.ir.dtype import is_integer
from eutectic.ir.prim_expr import IntImm, PrimExpr
from eutectic.support.errors import WellFormedError

LARGEST_EXTENT: Final = (1 << 63) - 1


def checked_extent(value: PrimExpr, what: str) -> PrimExpr:
    """`value`, which is seen to be a number of elements as far as that is known.

    Args:
        value: A constant or an expression.
        what: Whose it is, for the message: `axis 0 of buffer A`.

    Raises:
        WellFormedError: it is negative, too large for any index, or no integer.
    """
    received: Any = value
    if not is_integer(value.dtype):
        shown = f"{received.value} ({value.dtype})" if hasattr(received, "value") else f"a {value.dtype}"
        raise WellFormedError(
            f"{what} has extent {shown}: expected an integer from 0 to 2^63 - 1", help="give a number of elements"
        )
    if isinstance(value, IntImm) and not 0 <= value.value <= LARGEST_EXTENT:
        raise WellFormedError(f"{what} has extent {value.value}: expected an integer from 0 to 2^63 - 1")
    return value
