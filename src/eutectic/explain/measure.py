"""From a compiled model to its explanation: takes the times of groups, where that is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from statistics import median
from time import perf_counter
from typing import Any, Final

from eutectic.driver.plan import NO_TIME, GroupRecord
from eutectic.driver.plan_sizes import at_sizes, has_symbols
from eutectic.driver.report import CompileReport
from eutectic.explain.data import Timing
from eutectic.explain.explanation import Explanation
from eutectic.explain.machine import machine_speed
from eutectic.runtime.executable import Executable, KernelTime
from eutectic.runtime.instructions import CallHost, Filled, HostCall
from eutectic.runtime.library import DivisibleKernel, KernelPart
from eutectic.runtime.team import available_threads
from eutectic.support.registry import register_global_func

_SECONDS: Final = 0.3  # that repeated calls may take, beside the first
_LEAST, _MOST = 3, 50  # repeated calls
_PART_RUNS: Final = 5


def explained(
    report: CompileReport,
    executable: Executable,
    timed: Callable[[], Executable],
    args: Sequence[Any],
    threads: int | None,
    measure: bool,
) -> Explanation:
    """The explanation of a model.

    Args:
        report: What its compilation left.
        executable: What runs.
        timed: Gives what runs and takes the time of each kernel, or `executable` where there is nothing of the kind.
        args: Arguments as arrays, when measuring.
        threads: As it was compiled with.
        measure: Whether to run it. Symbolic sizes are those of these arguments then, else those of the example that it
            was compiled with.
    """
    varies = has_symbols(report.plan)
    if not measure:
        sizes = {size.name: size.value for size in report.plan.sizes}
        plan = at_sizes(report.plan, sizes) if varies else report.plan
        return Explanation(plan, notes=report.notes, threads=available_threads(threads))
    plan = at_sizes(report.plan, executable.sizes(args)) if varies else report.plan
    used = available_threads(threads)
    seconds = _median_call(executable, args)
    timings = tuple(_timings(report.plan.groups, timed(), args))
    return Explanation(plan, timings, seconds, machine_speed(used), used, report.notes)


def _median_call(executable: Executable, args: Sequence[Any]) -> float:
    executable.run(args)
    times: list[float] = []
    while _goes_on(times):
        start = perf_counter()
        executable.run(args)
        times.append(perf_counter() - start)
    return median(times)


def _goes_on(times: Sequence[float]) -> bool:
    return len(times) < _LEAST or (sum(times) < _SECONDS and len(times) < _MOST)


def _timings(groups: Sequence[GroupRecord], executable: Executable, args: Sequence[Any]) -> Iterator[Timing]:
    """What can be timed, in the order of execution.

    Args:
        groups: What was compiled.
        executable: What runs, and takes the time of each.
        args: Its arguments.
    """
    executable.run(args)
    rows: list[list[KernelTime]] = []
    while _goes_on([sum(time.seconds for time in row) for row in rows]):
        rows.append(executable.profile(args)[1])
    is_work = [isinstance(step, (Filled, CallHost, HostCall)) for step in executable.instructions]
    columns = (column for column in zip(*rows, strict=True) if is_work[column[0].instruction])
    spent = [median(time.seconds for time in column) for column in columns]
    parts, found = _parts(executable), units(groups)
    for numbers, seconds in _assigned(found, _summed(spent, [groups[numbers[0]].times for numbers in found])):
        symbol = groups[numbers[0]].region
        known = parts.get(symbol, ()) if len(numbers) > 1 or symbol else ()
        yield from _divided(numbers, seconds, known if len(known) == len(numbers) else ())


def units(groups: Sequence[GroupRecord]) -> list[tuple[int, ...]]:
    """Numbers of groups that one instruction computes: each alone, those of one call of a library together."""
    executed = [(number, group) for number, group in enumerate(groups) if group.kind not in NO_TIME]
    runs = groupby(executed, key=lambda item: item[1].region or item[0])
    return [tuple(number for number, _ in run) for _, run in runs]


def _summed(spent: Sequence[float], times: Sequence[int]) -> list[float]:
    """Seconds of units, of neighbours that are computed piece by piece the sums over all pieces.

    Args:
        spent: Of everything that is computed, in order.
        times: Of the units in order, how often a call computes each.
    """
    summed: list[float] = []
    at = 0
    for count, run in groupby(times):
        width = len(list(run))
        summed += (sum(spent[at + i : at + count * width : width]) for i in range(width))
        at += count * width
    return summed if at == len(spent) else list(spent)


def _assigned(
    found_units: Sequence[tuple[int, ...]], spent: Sequence[float]
) -> Iterator[tuple[tuple[int, ...], float]]:
    """Seconds of each unit; where there are not as many instructions as units, of all together."""
    if len(found_units) == len(spent):
        yield from zip(found_units, spent, strict=True)
    elif found_units:
        yield tuple(number for unit in found_units for number in unit), sum(spent)


def _divided(numbers: tuple[int, ...], seconds: float, parts: Sequence[KernelPart]) -> Iterator[Timing]:
    """A unit as it was timed, or in the proportions of its parts."""
    total = sum(part.seconds for part in parts)
    if not total:
        yield Timing(numbers, seconds)
        return
    for number, part in zip(numbers, parts, strict=True):
        yield Timing((number,), seconds * part.seconds / total, part.how)


def _parts(executable: Executable) -> dict[str, list[KernelPart]]:
    """By symbol of a region its parts, each with its median."""
    kernels = zip(executable.library_symbols(), executable.libraries(), strict=True)
    return {symbol: _median_parts(kernel) for symbol, kernel in kernels if isinstance(kernel, DivisibleKernel)}


def _median_parts(kernel: DivisibleKernel) -> list[KernelPart]:
    kernel.parts()
    runs = [kernel.parts() for _ in range(_PART_RUNS)]
    return [KernelPart(median(part.seconds for part in column), column[0].how) for column in zip(*runs, strict=True)]


register_global_func("eutectic.explained", explained)
