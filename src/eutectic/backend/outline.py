"""What one backend takes, outlined into functions of their own."""

from __future__ import annotations

from eutectic.backend.contract import PRECISIONS, Backend
from eutectic.ir.module import IRModule
from eutectic.ir.transform import Sequential
from eutectic.support.choices import check_choice
from eutectic.support.shown import shown


def outlined_for(mod: IRModule, backend: Backend, precision: str = "default") -> IRModule:
    """A module with what a backend takes in functions of their own, which are not lowered yet.

    Args:
        mod: Graph functions whose bindings are in dataflow blocks.
        backend: The backend.
        precision: One of `PRECISIONS`.

    Returns:
        The partitioned module; `mod` itself when there is nothing to take.

    Raises:
        PassError: an unknown precision.
    """
    check_precision(precision)
    return Sequential(list(backend.outline(precision)))(mod)


def check_precision(precision: str) -> None:
    """Refuse a precision that does not exist.

    Raises:
        PassError: it does not.
    """
    check_choice(f"unknown precision {shown(precision)}", precision, PRECISIONS)
