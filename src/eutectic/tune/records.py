"""What a database of measured choices holds, row by row, and the same as a line of JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from eutectic.support.errors import LoadError
from eutectic.support.shown import shown


@dataclass(frozen=True)
class ChoiceRow:
    """What is best at one choice point of one workload, on one processor with so many threads.

    Attributes:
        workload: The key of a tensor program (`workload_key`), or of an operator of a graph.
        processor: `processor_key` of the target.
        threads: Threads of a call.
        point: The choice point, such as `register_tile@0`.
        decisions: What is best, by name.
        is_default: Whether that is what is chosen anyway; such a row says that it was measured.
        gain: Seconds of a call that it saved; 0 for the default.
        name: What people call the workload.
        measured_at: Seconds since 1970.
    """

    workload: str
    processor: str
    threads: int
    point: str
    decisions: Mapping[str, Any]
    is_default: bool
    gain: float
    name: str
    measured_at: float


@dataclass(frozen=True)
class SpeedRow:
    """What a processor does with so many threads.

    Attributes:
        processor: `processor_key` of the target.
        threads: How many copied at the same time.
        flops: Float32 operations per second of one thread; a multiply-add counts two.
        near: Bytes read and written per second by all threads, in the caches that cores have for themselves.
        shared: The same in the cache that they share.
        memory: The same in main memory.
        name: What people call the processor.
        measured_at: Seconds since 1970.
    """

    processor: str
    threads: int
    flops: float
    near: float
    shared: float
    memory: float
    name: str
    measured_at: float


Row = ChoiceRow | SpeedRow
_KINDS: Final[dict[str, type[Row]]] = {"choice": ChoiceRow, "speed": SpeedRow}
_TYPES: Final[dict[str, Any]] = {"str": str, "int": int, "float": (int, float), "bool": bool, "Mapping[str, Any]": dict}


def to_line(row: Row) -> str:
    """A row as a line of JSON."""
    kind = next(name for name, cls in _KINDS.items() if isinstance(row, cls))
    return json.dumps({"kind": kind, **asdict(row)}, sort_keys=True)


def from_line(line: str, where: str) -> Row:
    """Inverse of `to_line`.

    Args:
        line: The line.
        where: File and number of the line, for messages.

    Raises:
        LoadError: it is no such line.
    """
    try:
        tree = json.loads(line)
    except ValueError as error:
        raise LoadError(f"{where} is no JSON: {error}", help="export the database again") from None
    cls = _KINDS.get(str(tree.pop("kind", ""))) if isinstance(tree, dict) else None
    if cls is None:
        raise LoadError(f"{where} is neither a choice nor a speed: {shown(tree)}", help="export the database again")
    wrong = [f.name for f in fields(cls) if not isinstance(tree.get(f.name), _TYPES[str(f.type)])]
    unknown = sorted(set(tree) - {f.name for f in fields(cls)})
    if wrong or unknown:
        raise LoadError(
            f"{where} lacks, or has a value of another type for, {', '.join(wrong) or 'nothing'}; "
            f"it has {', '.join(unknown) or 'nothing'} that is not known",
            help="export the database again with this version",
        )
    return cls(**tree)
