"""Compiles samples of torch's operators for several targets, and says of each whether the results are right."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from eutectic.backend.dnnl.library import availability
from eutectic.support.errors import EutecticError, InternalError, UnsupportedOperatorError
from eutectic.testing.operator_programs import results_of
from eutectic.testing.operator_samples import Calls, Sample
from eutectic.testing.operator_truth import Truth, eager_results

EQUAL: Final = "equal"
REFUSED: Final = "refused"
WRONG: Final = "wrong"
NO_CONVERTER: Final = "no converter of "  # how a refusal begins that no form of the operator would escape
BATCH: Final = 64  # samples per export at most, which costs more than the samples
_CALL: Final = re.compile(r"calls\.(\d+)\b")  # the place of an operator in `Calls`


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one sample.

    Attributes:
        sample: The call.
        result: `equal`, `refused`, or `wrong`.
        said: Why it was refused, or what is wrong.
    """

    sample: Sample
    result: str
    said: str = ""


def targets() -> tuple[str, ...]:
    """The targets that results are compared for: without and, where it is installed, with oneDNN."""
    return ("llvm", "llvm -libs=dnnl") if availability().ok else ("llvm",)


def sweep(samples: Sequence[Sample], wanted: Sequence[str]) -> Iterator[Outcome]:
    """The outcome of every sample, in order; see `Sweep`.

    Args:
        samples: The calls.
        wanted: Targets; a sample is right when it is for all of them.
    """
    return Sweep(wanted).outcomes(samples)


class Sweep:
    """Compiles samples of one operator, many as one model where all of them can be.

    A batch that fails is halved until single samples tell which of them failed, and why; the next batch is smaller,
    and batches grow as long as they do not fail. An error that names the operators it refuses, and where they are, is
    no reason to halve: samples that it names are refused, each reason being confirmed once by a sample alone, and the
    others go on together.

    Args:
        wanted: Targets; a sample is right when it is for all of them.
    """

    def __init__(self, wanted: Sequence[str]) -> None:
        self._wanted = tuple(wanted)
        self._confirmed: set[str] = set()
        self._size = 1
        self._was_halved = False

    def outcomes(self, samples: Sequence[Sample]) -> Iterator[Outcome]:
        """The outcome of every sample, in order."""
        begin = 0
        while begin < len(samples):
            batch = list(samples[begin : begin + self._size])
            begin += len(batch)
            self._was_halved = False
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # samples are odd on purpose, and torch warns of some
                outcomes = self._together(batch)
            self._size = min(BATCH, self._size * 8) if self._went_well(outcomes) else max(1, self._size // 4)
            yield from outcomes

    def _went_well(self, outcomes: Sequence[Outcome]) -> bool:
        """Whether a batch was not halved, and more samples like it need not be."""
        if len(outcomes) > 1:
            return not self._was_halved
        return outcomes[0].result == EQUAL or outcomes[0].said in self._confirmed

    def _together(self, samples: list[Sample]) -> list[Outcome]:
        if len(samples) == 1:
            return [self._alone(samples[0])]
        try:
            said = _first_fault(samples, self._wanted)
        except UnsupportedOperatorError as error:
            said = error.message
            refused = {index: self._named(samples[index], said) for index, said in reasons_by_call(error).items()}
            if refused:
                rest = [sample for index, sample in enumerate(samples) if index not in refused]
                others = iter(self._together(rest) if rest else ())
                return [refused[index] if index in refused else next(others) for index in range(len(samples))]
        except Exception as error:  # one of them cannot be compiled or called: the halves tell which, and why
            said = f"{type(error).__name__}: {error}"
        return [Outcome(sample, EQUAL) for sample in samples] if said is None else self._halved(samples, said)

    def _halved(self, samples: list[Sample], said: str) -> list[Outcome]:
        """The outcomes of samples that fail together; if none does by itself, that they do is wrong."""
        self._was_halved = True
        half = len(samples) // 2
        outcomes = [*self._together(samples[:half]), *self._together(samples[half:])]
        if all(outcome.result == EQUAL for outcome in outcomes):
            outcomes[0] = Outcome(samples[0], WRONG, f"together with the next {len(samples) - 1} samples: {said}")
        return outcomes

    def _named(self, sample: Sample, said: str) -> Outcome:
        """The outcome of a sample that the error of a batch names."""
        return Outcome(sample, REFUSED, said) if said in self._confirmed else self._alone(sample)

    def _alone(self, sample: Sample) -> Outcome:
        calls = Calls([sample])
        try:
            (eager,) = eager_results(calls)
        except Exception as error:
            return _of_an_error(sample, calls, self._wanted, error)
        truth = Truth(sample, eager)
        try:
            for target, (ours,) in results_of(calls, self._wanted):
                said = truth.fault(ours)
                if said is not None:
                    return Outcome(sample, WRONG, f"{target}: {said}")
        except InternalError as error:
            return Outcome(sample, WRONG, f"internal error: {error.message}")
        except EutecticError as error:
            if isinstance(error, UnsupportedOperatorError):
                self._confirmed.add(reason(error))
            return Outcome(sample, REFUSED, reason(error))
        except Exception as error:
            return Outcome(sample, WRONG, f"{type(error).__name__} instead of an EutecticError: {error}")
        return Outcome(sample, EQUAL)


def _first_fault(samples: Sequence[Sample], wanted: Sequence[str]) -> str | None:
    """The first thing that is wrong with the results of samples compiled together; None when all are right."""
    calls = Calls(samples)
    truths = [Truth(sample, eager) for sample, eager in zip(samples, eager_results(calls), strict=True)]
    for target, results in results_of(calls, wanted):
        for sample, truth, ours in zip(samples, truths, results, strict=True):
            said = truth.fault(ours)
            if said is not None:
                return f"{sample}: {target}: {said}"
    return None


def _of_an_error(sample: Sample, calls: Calls, wanted: Sequence[str], eager: Exception) -> Outcome:
    """The outcome where eager raises: so must we, with an error of ours."""
    said = str(eager).splitlines()[0] if str(eager) else type(eager).__name__
    try:
        list(results_of(calls, wanted))
    except InternalError as error:
        return Outcome(sample, WRONG, f"internal error: {error.message}")
    except EutecticError as error:
        return Outcome(sample, REFUSED, f"as in eager: {reason(error)}")
    except Exception as error:
        return Outcome(sample, WRONG, f"{type(error).__name__} instead of an EutecticError: {error}")
    return Outcome(sample, WRONG, f"gives a result, eager raises {type(eager).__name__}: {said}")


def reason(error: EutecticError) -> str:
    """A refusal in one line: the code, the operators with their reasons, or the message."""
    if isinstance(error, UnsupportedOperatorError):
        return _reason_of_uses((operator, why) for operator, why, _ in error.uses)
    return f"{error.code} {error.message}"


def reasons_by_call(error: UnsupportedOperatorError) -> dict[int, str]:
    """Why each of several samples is refused, by its place in the batch; nothing if a use is of none of them."""
    places = [_CALL.match(place) for _, _, place in error.uses]
    uses: dict[int, list[tuple[str, str]]] = {}
    for (operator, why, _), place in zip(error.uses, places, strict=True):
        if place is None:
            return {}
        uses.setdefault(int(place.group(1)), []).append((operator, why))
    return {index: _reason_of_uses(uses[index]) for index in sorted(uses)}


def _reason_of_uses(uses: Iterable[tuple[str, str]]) -> str:
    """Operators without any converter, if there are such; else the operators with their reasons."""
    listed = sorted(set(uses))
    bare = [operator for operator, why in listed if not why]
    return f"{NO_CONVERTER}{', '.join(bare)}" if bare else "; ".join(f"{operator}: {why}" for operator, why in listed)
