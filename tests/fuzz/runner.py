"""Runs cases in processes of their own, so that one that ends its process is a fault like any other."""

from __future__ import annotations

import json
import random
import select
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from tests.fuzz.families import outcome

SECONDS: Final = 300.0  # after which a case counts as one that never ends
CASES: Final = 150  # of a process, which then makes room for a fresh one


@dataclass(frozen=True)
class Fault:
    """A case that went wrong.

    Attributes:
        family: Its family.
        number: The case.
        kind: `wrong`, `internal error`, `signal` or `endless`.
        detail: What was seen.
    """

    family: str
    number: int
    kind: str
    detail: str

    @property
    def reproducer(self) -> str:
        """The command that runs the case again."""
        return f"python -m tests.fuzz --family {self.family} --case {self.number}"


@dataclass
class Report:
    """What a run found.

    Attributes:
        counts: Cases by family and outcome.
        refusals: How often each reason was given, by family.
        faults: Cases that went wrong.
    """

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    refusals: Counter[tuple[str, str]] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)

    def add(self, family: str, number: int, answer: dict[str, str]) -> None:
        """Count an answer of a worker."""
        kind, detail = answer["kind"], answer["detail"]
        self.counts[family, kind] += 1
        if kind == "refused":
            self.refusals[family, detail] += 1
        elif kind != "equal":
            self.faults.append(Fault(family, number, kind, detail))


class Worker:
    """A process that runs the cases of one family, one after another."""

    def __init__(self, family: str) -> None:
        self.family, self.done = family, 0
        command = [sys.executable, "-m", "tests.fuzz", "--family", family, "--worker"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def run(self, number: int, seconds: float = SECONDS) -> dict[str, str]:
        """What becomes of a case."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.done += 1
        try:
            self.process.stdin.write(f"{number}\n")
            self.process.stdin.flush()
            ready, _, _ = select.select([self.process.stdout], [], [], seconds)
            line = self.process.stdout.readline() if ready else None
        except BrokenPipeError:
            line = ""
        if line is None:
            self.stop()
            return {"kind": "endless", "detail": f"no answer in {seconds:.0f} seconds"}
        if not line:
            return {"kind": "signal", "detail": f"the process ended with {self.process.wait()}"}
        answer: dict[str, str] = json.loads(line)
        return answer

    @property
    def is_usable(self) -> bool:
        """Whether it can run another case."""
        return self.process.poll() is None and self.done < CASES

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):  # what was to be read by a process that has ended
                    stream.close()


def answer(family: str, number: int) -> dict[str, str]:
    """What becomes of a case, as data."""
    try:
        text = outcome(family, number)
    except AssertionError:
        return {"kind": "wrong", "detail": traceback.format_exc()}
    except Exception:
        return {"kind": "internal error", "detail": traceback.format_exc()}
    kind, _, detail = text.partition(": ")
    return {"kind": kind, "detail": detail}


def work(family: str) -> None:
    """Run the cases whose numbers come in, and write what becomes of them."""
    out = sys.stdout
    sys.stdout = sys.stderr  # what a case prints is no answer
    for line in sys.stdin:
        print(json.dumps(answer(family, int(line))), file=out, flush=True)


def numbers(seed: int, family: str) -> Iterator[int]:
    """The cases of a family in a run."""
    rng = random.Random(f"{seed} {family}")
    while True:
        yield rng.randrange(1 << 48)


def fuzz(families: Sequence[str], minutes: float, seed: int, say: Any) -> Report:
    """Run cases of all families in turn until the time is over; each family gets the same share of it.

    Args:
        families: Their names.
        minutes: How long.
        seed: Decides which cases.
        say: Called with each fault.
    """
    report, workers = Report(), {family: Worker(family) for family in families}
    cases = {family: numbers(seed, family) for family in families}
    spent = dict.fromkeys(families, 0.0)
    end = time.monotonic() + minutes * 60
    try:
        while time.monotonic() < end:
            family = min(spent, key=lambda name: spent[name])
            if not workers[family].is_usable:
                workers[family].stop()
                workers[family] = Worker(family)
            number, start = next(cases[family]), time.monotonic()
            before = len(report.faults)
            report.add(family, number, workers[family].run(number))
            spent[family] += time.monotonic() - start
            for fault in report.faults[before:]:
                say(fault)
    finally:
        for worker in workers.values():
            worker.stop()
    return report
