"""The contract of the text form: parsing what was printed gives the same program."""

from __future__ import annotations

from eutectic.ir.module import BaseFunc, IRModule
from eutectic.ir.structural import structural_mismatch
from eutectic.script import from_source, print_with_metadata


def check_round_trip(program: IRModule | BaseFunc, *, map_free_vars: bool = False) -> str:
    """Print a program, parse the text, and compare.

    Args:
        program: A well-formed module or function.
        map_free_vars: Let variables that nothing binds be compared by position.

    Returns:
        The text.

    Raises:
        AssertionError: what was parsed is another program, or prints as another text.
        EutecticError: the text does not parse.
    """
    text, metadata = print_with_metadata(program)
    parsed = from_source(text, metadata=metadata, check_well_formed=False)
    difference = structural_mismatch(program, parsed, map_free_vars)
    assert difference is None, f"parsed differs at {difference}\n{text}"
    again, _ = print_with_metadata(parsed)
    assert again == text, f"printed again:\n{again}\n--- before:\n{text}"
    return text
