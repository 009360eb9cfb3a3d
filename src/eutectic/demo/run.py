"""The demo's work, without its output: compile, name the pictures, compare with eager, measure both in turns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from eutectic.demo.subjects import Picture, Subject
from eutectic.driver.report import CompileReport
from eutectic.testing.models import eager
from eutectic.testing.timing import interleaved, medians

Progress = Callable[[str, int, int], None]
Logits = npt.NDArray[Any]


class Compiled(Protocol):
    """What the compiler returns."""

    @property
    def report(self) -> CompileReport:
        """What became of every operator."""
        ...

    def __call__(self, *inputs: Any) -> Any:
        """Run the network."""
        ...


class CompileModel(Protocol):
    """The compiler, as much of it as the demo uses."""

    def __call__(
        self, model: Any, inputs: tuple[Any, ...], /, *, threads: int | None, progress: Progress | None
    ) -> Compiled:
        """Compile `model` for inputs like `inputs`."""
        ...


@dataclass(frozen=True, slots=True)
class PhotoResult:
    """What compiled code and eager say about one picture."""

    photo: str
    label: str
    probability: float
    eager_label: str
    eager_probability: float


@dataclass(frozen=True, slots=True)
class ModelResult:
    """What the demo found about one network.

    Attributes:
        name: Key of the network in the registry.
        title: Its name for people.
        report: What became of every operator.
        photos: One result for each picture.
        absolute_error: Largest difference of a logit from eager's, over all pictures.
        relative_error: The same, divided by the largest logit of eager's in absolute value.
        latency_ms: Median of the compiled network on one picture.
        eager_latency_ms: Median of torch eager, measured in turns with it.
        threads: Threads that torch used.
    """

    name: str
    title: str
    report: CompileReport
    photos: tuple[PhotoResult, ...]
    absolute_error: float
    relative_error: float
    latency_ms: float
    eager_latency_ms: float
    threads: int


def show(
    subject: Subject,
    compile_model: CompileModel,
    *,
    threads: int | None = None,
    rounds: int = 15,
    progress: Progress | None = None,
) -> ModelResult:
    """Compile one network, run it on its pictures and measure it.

    Args:
        subject: The network and its pictures.
        compile_model: The compiler.
        threads: For the compiled network and for torch; None leaves both to their defaults.
        rounds: Turns of the measurement.
        progress: Called by the compiler with a step's name, steps done, and steps in all.
    """
    model, _ = subject.entry.build()
    first = eager.tensor(subject.pictures[0].values)
    with eager.threads(threads) as torch_threads:
        fast = compile_model(model, (first,), threads=threads, progress=progress)
        outputs = [_both(model, fast, picture) for picture in subject.pictures]
        seconds = medians(
            interleaved(
                {
                    "compiled": eager.without_gradients(fast, (first,)),
                    "eager": eager.without_gradients(model, (first,)),
                },
                rounds=rounds,
            )
        )
    difference = max(float(np.abs(ours - theirs).max()) for ours, theirs in outputs)
    scale = max(float(np.abs(theirs).max()) for _, theirs in outputs)
    return ModelResult(
        name=subject.entry.name,
        title=subject.entry.title,
        report=fast.report,
        photos=tuple(_photo(subject, *row) for row in zip(subject.pictures, outputs, strict=True)),
        absolute_error=difference,
        relative_error=difference / scale if scale else difference,
        latency_ms=seconds["compiled"] * 1e3,
        eager_latency_ms=seconds["eager"] * 1e3,
        threads=torch_threads,
    )


def _both(model: Any, fast: Compiled, picture: Picture) -> tuple[Logits, Logits]:
    x = eager.tensor(picture.values)
    return eager.logits(fast, x), eager.logits(model, x)


def _photo(subject: Subject, picture: Picture, outputs: tuple[Logits, Logits]) -> PhotoResult:
    (label, probability), (eager_label, eager_probability) = (_best(subject, logits) for logits in outputs)
    return PhotoResult(picture.name, label, probability, eager_label, eager_probability)


def _best(subject: Subject, logits: Logits) -> tuple[str, float]:
    """Name and probability of the class with the largest logit."""
    row = logits[0].astype(np.float64)
    exponents = np.exp(row - row.max())
    best = int(row.argmax())
    return subject.label(best), float(exponents[best] / exponents.sum())
