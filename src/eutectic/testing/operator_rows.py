"""Sweeps operators, one row of the table each, in this process or in several, with a log to go on from."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from eutectic.support.errors import EutecticError
from eutectic.testing.operator_samples import samples
from eutectic.testing.operator_sweep import NO_CONVERTER, REFUSED, WRONG, Outcome, Sweep


@dataclass(frozen=True)
class Settings:
    """What operators are asked.

    Attributes:
        count: Samples per operator and dtype; None means all that torch has.
        targets: The targets that results are compared for.
        dtypes: Dtypes of the samples.
    """

    count: int | None
    targets: tuple[str, ...]
    dtypes: tuple[str, ...]

    def as_json(self) -> list[Any]:
        """The settings as a log has them."""
        return [self.count, list(self.targets), list(self.dtypes)]


@dataclass(frozen=True)
class Row:
    """What became of the samples of one operator.

    Attributes:
        operator: Name in torch's table.
        counts: Numbers of results by dtype and result.
        reasons: Why samples were refused, each reason once.
        wrong: A sentence for each sample that is wrong.
    """

    operator: str
    counts: dict[str, dict[str, int]]
    reasons: list[str]
    wrong: list[str]


def rows(operators: Sequence[str], settings: Settings, log: Path | None = None, jobs: int = 1) -> Iterator[Row]:
    """The row of every operator, as they get done.

    Args:
        operators: Names in torch's table.
        settings: What is asked.
        log: One JSON object a line. An operator that is in it with these settings is not swept again, one that is done
            is appended. It belongs to one version of the code.
        jobs: Processes that work side by side.

    Raises:
        EutecticError: one of the processes was ended from outside, for want of memory perhaps.
    """
    known = {row.operator: row for row in _logged(log, settings)}
    yield from (known[operator] for operator in operators if operator in known)
    for row in _fresh([operator for operator in operators if operator not in known], settings, jobs):
        if log is not None:
            with log.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"settings": settings.as_json(), **asdict(row)}) + "\n")
        yield row


def row_of(operator: str, settings: Settings) -> Row:
    """Sweep one operator.

    An operator of which no sample of the first dtype can be imported, for want of a converter, is not asked
    about the other dtypes.

    Args:
        operator: Name in torch's table.
        settings: What is asked.
    """
    sweep = Sweep(settings.targets)
    by_dtype = (samples(operator, dtype, settings.count) for dtype in settings.dtypes)
    first = next((asked for asked in by_dtype if asked), [])
    outcomes = list(sweep.outcomes(first))
    if not all(outcome.said.startswith(NO_CONVERTER) for outcome in outcomes):
        outcomes += sweep.outcomes(list(chain.from_iterable(by_dtype)))
    return _row(operator, outcomes)


def _row(operator: str, outcomes: Sequence[Outcome]) -> Row:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for outcome in outcomes:
        counts[outcome.sample.dtype][outcome.result] += 1
    reasons = sorted({outcome.said for outcome in outcomes if outcome.result == REFUSED})
    wrong = [f"{outcome.sample}: {outcome.said}" for outcome in outcomes if outcome.result == WRONG]
    return Row(operator, {dtype: dict(counter) for dtype, counter in counts.items()}, reasons, wrong)


def _logged(log: Path | None, settings: Settings) -> Iterator[Row]:
    """The rows of a log that were swept with the same settings."""
    lines = log.read_text(encoding="utf-8").splitlines() if log is not None and log.exists() else []
    for fields in map(json.loads, lines):
        if fields.pop("settings") == settings.as_json():
            yield Row(**fields)


def _fresh(operators: Sequence[str], settings: Settings, jobs: int) -> Iterator[Row]:
    if jobs == 1 or len(operators) < 2:
        yield from (row_of(operator, settings) for operator in operators)
        return
    # Processes that are started anew: a fork of one in which torch has run threads may wait forever.
    with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_with_one_thread) as pool:
        waiting = {pool.submit(row_of, operator, settings): operator for operator in operators}
        try:
            for future in as_completed(waiting):
                yield _result_of(future, waiting)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _result_of(future: Future[Row], waiting: dict[Future[Row], str]) -> Row:
    try:
        return future.result()
    except BrokenProcessPool as error:
        lost = [operator for other, operator in waiting.items() if other is future or not other.done()]
        raise EutecticError(
            f"a process of the sweep was ended from outside, at {lost[0]} or soon after it",
            help="sweep the operators that the log lacks with --jobs 1; if memory was short, with fewer --samples",
        ) from error


def _with_one_thread() -> None:
    """Processes side by side share the cores of the machine."""
    torch.set_num_threads(1)
