"""`tvm.tir.schedule.testing`: comparisons that tests of schedules make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eutectic.ir.module import IRModule
from eutectic.ir.structural import assert_structural_equal
from eutectic.tir.function import PrimFunc
from eutectic.tir.schedule import Schedule, Trace, trace_from_python

__all__ = [
    "assert_structural_equal",
    "assert_structural_equal_ignore_global_symbol",
    "verify_trace_roundtrip",
]


def assert_structural_equal_ignore_global_symbol(func1: PrimFunc, func2: PrimFunc, *args: Any, **kwargs: Any) -> None:
    """Compare two functions whatever the names are that they have outside of their modules.

    Raises:
        ValueError: they differ; the message says where.
    """
    assert_structural_equal(_nameless(func1), _nameless(func2), *args, **kwargs)


def _nameless(func: PrimFunc) -> Any:
    return func.with_attr("global_symbol", "main")


def verify_trace_roundtrip(
    sch: Schedule,
    mod: PrimFunc | IRModule,
    *,
    debug_mask: str | int = "all",
    text_format: str | Sequence[str] = ("python", "json"),
) -> Schedule:
    """Replay the trace of a schedule from its text forms, and see that the same program comes of it.

    Args:
        sch: The schedule.
        mod: The program that it began with.
        debug_mask: As that of `Schedule`, for the replay.
        text_format: `python` or `json`, or both.

    Returns:
        The schedule of the last replay.

    Raises:
        AssertionError: the texts differ after a replay.
        ValueError: the programs do, or the format is unknown.
    """
    replayed = sch
    for name in (text_format,) if isinstance(text_format, str) else text_format:
        replayed = Schedule(mod, debug_mask=debug_mask)
        _replay(sch.trace, replayed, name)
        assert_structural_equal(replayed.mod, sch.mod)
        assert str(replayed.trace) == str(sch.trace), "the trace of the replay is another one"
    return replayed


def _replay(trace: Trace, onto: Schedule, text_format: str) -> None:
    if text_format == "json":
        Trace.apply_json_to_schedule(trace.as_json(), onto)
    elif text_format == "python":
        trace_from_python(trace.as_python()).apply_to_schedule(onto, remove_postproc=False)
    else:
        raise ValueError(f"text_format is 'python' or 'json', got {text_format!r}")
