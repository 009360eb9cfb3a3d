"""The search: which choices are measured first, which candidates, and what is kept.

It knows of rules nothing but their candidates, and of kernels nothing but their times. First come choices between ways
to compute operators, as kernels depend on them, then the kernels that take longest; each gets a part of the time that
is left as large as its share of a call. A candidate takes the place of what is best so far when the whole call is
faster with it, by more than the noise, and gives the same results.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from eutectic.backend.kernel import Built
from eutectic.driver.importing import Imported
from eutectic.driver.settings import Settings
from eutectic.relax.transform.offers_by_kind import ChoiceRemark
from eutectic.runtime.executable import Executable
from eutectic.support.errors import EutecticError
from eutectic.tir.function import PrimFunc
from eutectic.tir.schedule.rules.choosing import ChoicePoint, with_decisions
from eutectic.tir.schedule.rules.cpu import choice_points
from eutectic.tir.schedule.rules.rule import Decisions
from eutectic.tune.database import Database
from eutectic.tune.measure import Array, call_of, contest
from eutectic.tune.network import Network
from eutectic.tune.records import ChoiceRow
from eutectic.tune.report import TunedChoice
from eutectic.tune.results import difference

Progress: TypeAlias = Callable[[str, int, int], object]
_GRAPH_SHARE: Final = 0.6  # of the budget, at most, for choices between ways to compute operators
_LEAST_SHARE: Final = 0.005  # of a call, of a kernel that is worth a search


@dataclass
class _Variant:
    """The best program so far.

    Attributes:
        executable: It.
        chosen: Its decisions by workload, where they are not those that the search began with.
    """

    executable: Executable
    chosen: dict[str, Mapping[str, Decisions]] = field(default_factory=dict)


@dataclass
class _Kernel:
    """A tensor program.

    Attributes:
        key: Its workload.
        name: What people call it.
        decisions: What was found best for it so far, by choice point.
    """

    key: str
    name: str
    decisions: dict[str, Decisions]


@dataclass
class Search:
    """A search for one model.

    Attributes:
        imported: The model.
        settings: What it is compiled for, with the choices that are known.
        args: Arguments of calls.
        expected: Results with the choices of rules and estimates.
        allowed: Relative difference from them that each result may have.
        database: Where choices go.
        processor: What the database calls the processor.
        threads: Threads of a call.
        deadline: When to stop, on `clock`.
        progress: Called with what is measured, milliseconds gone, and milliseconds in all.
        clock: Gives the time in seconds.
        built: Kernels made so far.
        choices: What was measured.
        refused: What could not be used, as sentences.
        known: Choices that the database had.
        left: Kernels and operators that there was not enough time for.
    """

    imported: Imported
    settings: Settings
    args: Sequence[Array]
    expected: Sequence[Array]
    allowed: Sequence[float]
    database: Database
    processor: str
    threads: int
    deadline: float
    progress: Progress | None = None
    clock: Callable[[], float] = time.perf_counter
    built: dict[PrimFunc, Built] = field(default_factory=dict)
    choices: list[TunedChoice] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    known: int = 0
    left: int = 0

    def __post_init__(self) -> None:
        self._began = self.clock()
        rows = self.database.choices(self.processor, self.threads)
        self._rows = {(row.workload, row.point) for row in rows}

    def run(self) -> Network:
        """Search until the deadline; gives the model with what is best, as far as operators are concerned."""
        network = self._operators(Network(self.imported, self.settings, self.built))
        self._kernels(network)
        return network

    @property
    def remaining(self) -> float:
        """Seconds until the deadline."""
        return self.deadline - self.clock()

    # ---- ways to compute operators

    def _operators(self, network: Network) -> Network:
        end = self.clock() + _GRAPH_SHARE * self.remaining
        done: set[tuple[str, str]] = set()
        while (remark := self._next(network, done)) is not None:
            done.add((remark.workload, remark.point))
            if self.clock() >= end:
                self.left += 1
                continue
            others = {(r.workload, r.point) for r in network.choices} - done
            until = self.clock() + (end - self.clock()) / (1 + len(others))
            network = self._operator(network, remark, until)
        return network

    def _next(self, network: Network, done: set[tuple[str, str]]) -> ChoiceRemark | None:
        """The choice for most operators that was not measured yet; others may come up when one was made otherwise."""
        counts: Counter[tuple[str, str]] = Counter()
        for remark in network.choices:
            counts[remark.workload, remark.point] += remark.reach
        remarks = {(remark.workload, remark.point): remark for remark in network.choices}
        fresh = [key for key in counts if key not in done]
        for key in [key for key in fresh if key in self._rows]:
            done.add(key)
            self.known += 1
            fresh.remove(key)
        return remarks[max(fresh, key=lambda key: counts[key])] if fresh else None

    def _operator(self, network: Network, remark: ChoiceRemark, end: float) -> Network:
        best, saved, tried = network, 0.0, 0
        chosen: Decisions = remark.chosen
        for candidate in remark.alternatives:
            if self.clock() >= end:
                break
            self._say(f"{remark.point} of {remark.workload}")
            decisions = {**self.settings.measured.decisions, remark.workload: {remark.point: candidate}}
            settings = replace(self.settings, measured=replace(self.settings.measured, decisions=decisions))
            label = f"{remark.workload}: {_text(candidate)}"
            other = self._network(settings, label)
            gain = None if other is None else self._gain(best.executable, other.executable, label, end)
            tried += 1
            if other is not None and gain is not None:
                best, chosen, saved, self.settings = other, candidate, saved + gain, settings
        choice = TunedChoice(remark.workload, remark.workload, remark.point, remark.chosen, chosen, saved, tried)
        self._keep(choice, is_complete=tried == len(remark.alternatives))
        return best

    def _network(self, settings: Settings, label: str) -> Network | None:
        try:
            return Network(self.imported, settings, self.built)
        except EutecticError as error:
            self.refused.append(f"{label}: {error.message}")
            return None

    # ---- kernels

    def _kernels(self, network: Network) -> None:
        if self.remaining <= 0:
            self.left += len(network.programs)
            return
        variant = _Variant(network.executable)
        seconds = network.seconds_of_kernels(self.args, variant.chosen)
        whole = sum(seconds.values())
        order = sorted((key for key in seconds if seconds[key] >= _LEAST_SHARE * whole), key=lambda key: -seconds[key])
        for place, key in enumerate(order):
            if self.remaining <= 0:
                self.left += len(order) - place
                return
            share = seconds[key] / (sum(seconds[other] for other in order[place:]) or 1.0)
            self._kernel(network, key, variant, self.clock() + share * self.remaining)

    def _kernel(self, network: Network, key: str, best: _Variant, end: float) -> None:
        """Measure the candidates of one kernel; what wins goes into `best`."""
        name, func = network.programs[key]
        kernel = _Kernel(key, name, dict(self.settings.measured.decisions.get(key, {})))
        decided = with_decisions(func, kernel.decisions)
        for point in choice_points(decided, network.machine).values():  # type: ignore[arg-type]  # it has vectors
            if (key, point.name) in self._rows:
                self.known += 1
            else:
                self._point(network, kernel, point, best, end)

    def _point(self, network: Network, kernel: _Kernel, point: ChoicePoint, best: _Variant, end: float) -> None:
        """Measure the candidates at one choice point of a kernel."""
        chosen, saved, tried = point.chosen, 0.0, 0
        candidates = point.alternatives()[1:]
        for place, candidate in enumerate(candidates):
            if self.clock() >= end:
                break
            until = self.clock() + (end - self.clock()) / (len(candidates) - place)
            self._say(f"{kernel.name} {point.name}")
            label = f"{kernel.name} {point.name}: {_text(candidate)}"
            decisions = {**best.chosen, kernel.key: {**kernel.decisions, point.name: candidate}}
            other = self._variant(network, decisions, label)
            gain = None if other is None else self._gain(best.executable, other, label, until)
            tried += 1
            if other is not None and gain is not None:
                chosen, saved = candidate, saved + gain
                best.chosen, best.executable = decisions, other
        if chosen != point.chosen:
            kernel.decisions[point.name] = chosen
        choice = TunedChoice(kernel.name, kernel.key, point.name, point.chosen, chosen, saved, tried)
        self._keep(choice, is_complete=tried == len(candidates))

    def _variant(
        self, network: Network, chosen: Mapping[str, Mapping[str, Decisions]], label: str
    ) -> Executable | None:
        try:
            return network.with_choices(chosen)
        except EutecticError as error:
            self.refused.append(f"{label}: {error.message}")
            return None

    # ---- both

    def _gain(self, best: Executable, other: Executable, label: str, end: float) -> float | None:
        """Seconds that a candidate saves; None when it does not, or computes something else."""
        try:
            results = other.run(self.args)
        except EutecticError as error:
            self.refused.append(f"{label}: {error.message}")
            return None
        if said := difference(self.expected, results, self.allowed):
            self.refused.append(f"{label}: {said}")
            return None
        outcome = contest(call_of(best, self.args), call_of(other, self.args), end, self.clock)
        return outcome.gain if outcome.is_won else None

    def _keep(self, choice: TunedChoice, *, is_complete: bool) -> None:
        """Remember a choice; a later search begins anew where candidates are left that nothing has beaten yet."""
        if choice.measured:
            self.choices.append(choice)
        if is_complete or not choice.is_default:
            self.database.record([self.row(choice)])
        else:
            self.left += 1

    def row(self, choice: TunedChoice) -> ChoiceRow:
        """A choice as the database has it."""
        where = (choice.workload, self.processor, self.threads, choice.point)
        return ChoiceRow(*where, choice.best, choice.is_default, choice.seconds, choice.name, time.time())

    def give_up(self) -> None:
        """Record the defaults in place of what was chosen, and no speeds: all of it together was slower.

        What was not measured to the end stays so: nothing was chosen there, and a later search measures it again.
        """
        self.database.forget_speeds(self.processor, self.threads)
        changed = (choice for choice in self.choices if not choice.is_default)
        self.database.record(self.row(replace(choice, best=choice.default, seconds=0.0)) for choice in changed)

    def _say(self, what: str) -> None:
        if self.progress is not None:
            gone, whole = self.clock() - self._began, self.deadline - self._began
            self.progress(what, min(int(gone * 1e3), int(whole * 1e3)), int(whole * 1e3))


def _text(decisions: Decisions) -> str:
    return ", ".join(f"{name}={str(value).lower()}" for name, value in decisions.items())
