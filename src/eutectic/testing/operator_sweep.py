"""Compiles samples of torch's operators for several targets, and says of each whether the results are right."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

import eutectic
from eutectic.backend.dnnl.library import availability
from eutectic.relax.frontend.torch import export_model
from eutectic.support.errors import EutecticError, InternalError, UnsupportedOperatorError
from eutectic.testing.operator_samples import Calls, Sample
from eutectic.testing.operator_truth import Truth, eager_results

EQUAL: Final = "equal"
REFUSED: Final = "refused"
WRONG: Final = "wrong"
NO_CONVERTER: Final = "no converter of "  # how a refusal begins that no form of the operator would escape
BATCH: Final = 8  # samples per export, which costs more than the samples


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
    """The outcome of every sample, in order; several are compiled as one model where all of them can be.

    Args:
        samples: The calls.
        wanted: Targets; a sample is right when it is for all of them.
    """
    if not samples:
        return
    (first,) = _quietly(list(samples[:1]), wanted)
    yield first
    size = BATCH if first.result == EQUAL else 1  # what the first is refused for, the others will often be too
    for begin in range(1, len(samples), size):
        yield from _quietly(list(samples[begin : begin + size]), wanted)


def _quietly(samples: list[Sample], wanted: Sequence[str]) -> list[Outcome]:
    """Outcomes without what torch warns of: samples are odd on purpose."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _outcomes(samples, wanted)


def _outcomes(samples: list[Sample], wanted: Sequence[str]) -> list[Outcome]:
    if len(samples) == 1:
        return [_alone(samples[0], wanted)]
    try:
        calls = Calls(samples)
        eager = eager_results(calls)
        for results in _results(calls, wanted):
            if any(Truth(*pair).fault(ours) for *pair, ours in zip(samples, eager, results, strict=True)):
                break
        else:
            return [Outcome(sample, EQUAL) for sample in samples]
    except Exception:  # one of them cannot be compiled or called: the halves tell which, and why
        pass
    half = len(samples) // 2
    return [*_outcomes(samples[:half], wanted), *_outcomes(samples[half:], wanted)]


def _alone(sample: Sample, wanted: Sequence[str]) -> Outcome:
    calls = Calls([sample])
    try:
        (eager,) = eager_results(calls)
    except Exception as error:
        return _of_an_error(sample, calls, wanted, error)
    truth = Truth(sample, eager)
    try:
        for target, (ours,) in zip(wanted, _results(calls, wanted), strict=True):
            said = truth.fault(ours)
            if said is not None:
                return Outcome(sample, WRONG, f"{target}: {said}")
    except InternalError as error:
        return Outcome(sample, WRONG, f"internal error: {error.message}")
    except EutecticError as error:
        return Outcome(sample, REFUSED, reason(error))
    except Exception as error:
        return Outcome(sample, WRONG, f"{type(error).__name__} instead of an EutecticError: {error}")
    return Outcome(sample, EQUAL)


def _of_an_error(sample: Sample, calls: Calls, wanted: Sequence[str], eager: Exception) -> Outcome:
    """The outcome where eager raises: so must we, with an error of ours."""
    said = str(eager).splitlines()[0] if str(eager) else type(eager).__name__
    try:
        list(_results(calls, wanted))
    except InternalError as error:
        return Outcome(sample, WRONG, f"internal error: {error.message}")
    except EutecticError as error:
        return Outcome(sample, REFUSED, f"as in eager: {reason(error)}")
    except Exception as error:
        return Outcome(sample, WRONG, f"{type(error).__name__} instead of an EutecticError: {error}")
    return Outcome(sample, WRONG, f"gives a result, eager raises {type(eager).__name__}: {said}")


def _results(calls: Calls, wanted: Sequence[str]) -> Iterator[list[Any]]:
    program = export_model(calls.eval(), calls.inputs())
    for target in wanted:
        compiled = eutectic.compile(program, target=target, threads=1, fallback="error")
        with torch.no_grad():
            yield compiled(*calls.inputs())


def reason(error: EutecticError) -> str:
    """A refusal in one line: the code, the operators with their reasons, or the message."""
    if isinstance(error, UnsupportedOperatorError):
        notes = sorted({note.rpartition(", at ")[0] or note for note in error.facts if not note.startswith("while ")})
        bare = [note for note in notes if ":" not in note]
        return f"{NO_CONVERTER}{', '.join(bare)}" if bare else "; ".join(notes)
    return f"{error.code} {error.message}"
