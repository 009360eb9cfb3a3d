"""Where compiling gets what was measured from: the user's database, one that is named, or nothing."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from eutectic.ir.services import Measured
from eutectic.relax.transform.offers_by_kind import ChoiceRemark
from eutectic.runtime.team import available_threads
from eutectic.support.config import tuning_file
from eutectic.support.errors import LoadError
from eutectic.support.registry import get_global_func
from eutectic.target import Target

NOTHING: Final = Measured()


def measured_for(tuned: Any, target: Target, threads: int | None) -> Measured:
    """What was measured for a target.

    Args:
        tuned: True takes the user's database when there is one; a path or a `tune.Database` is another one; False is
            nothing; `Measured` is taken as it is.
        target: What is compiled for.
        threads: Threads of a call; None takes what is available.

    Raises:
        LoadError: there is no such file, or it is no database that this version reads.
    """
    if isinstance(tuned, Measured):
        return tuned
    file = tuning_file() if tuned is True else tuned
    if file is None or file is False or (tuned is True and not Path(file).is_file()):
        return NOTHING
    if isinstance(file, (str, Path)) and not Path(file).is_file():
        raise LoadError(f"there is no database {file}", help="eutectic tune MODEL --database FILE makes one")
    reader = get_global_func("eutectic.measured")
    assert reader is not None  # it is provided by the package
    measured: Measured = reader(file, target, available_threads(threads))
    return measured


def tuned_notes(remarks: Iterable[Any]) -> list[str]:
    """A sentence for each way to compute an operator that was measured, of remarks of passes."""
    choices = (remark for remark in remarks if isinstance(remark, ChoiceRemark) and remark.source == "tuned")
    return list(dict.fromkeys(map(str, choices)))
