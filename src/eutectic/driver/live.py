"""Compiled models that follow the weights of the torch module they were made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from eutectic.driver.compiled import CompiledModel
from eutectic.driver.importing import Imported
from eutectic.driver.weights import Shared, Tensors, Watch, places_of, warning_of_changes
from eutectic.runtime.signature import ModelSignature

CHANGES: Final = 2
"""Changes that are followed by compiling again, so that who loads a checkpoint keeps folded and packed weights."""


@dataclass(frozen=True)
class Live:
    """How a model is compiled again.

    Attributes:
        again: From the exported program, with the weights of now as constants.
        anew: From the module, exported once more.
        with_weights: From the exported program, with weights as inputs.
    """

    again: Callable[[], CompiledModel]
    anew: Callable[[], CompiledModel]
    with_weights: Callable[[], CompiledModel]


def watch_weights(compiled: CompiledModel, imported: Imported, weights: str, live: Live) -> None:
    """Have a model look at its weights before each call, where it was made of a torch module that has some.

    Args:
        compiled: The model.
        imported: What it was made of.
        weights: `frozen` warns once when they changed, `live` follows them.
        live: How it is compiled again.
    """
    if imported.source is None:
        return
    if weights == "live":
        follow(compiled, imported, live)
        return
    watch = _watch_of(imported)
    compiled.before_calls(warning_of_changes(watch, f"the {type(imported.source).__name__}"))


def follow(compiled: CompiledModel, imported: Imported, live: Live) -> None:
    """Have a model look at its weights before each call.

    After each of the first changes it is compiled again. From then on its weights are inputs, which share memory with
    the tensors of the module: changes in place need nothing any more, and kernels read weights as torch has them.

    Args:
        compiled: The model.
        imported: What it was made of.
        live: How it is compiled again.
    """
    _Follower(compiled, imported, live).begin()


class _Follower:
    """Looks at the weights of one model."""

    def __init__(self, compiled: CompiledModel, imported: Imported, live: Live) -> None:
        self._compiled, self._live = compiled, live
        self._source, self._state = imported.source, imported.state
        self._watch = _watch_of(imported)
        self._changes = 0
        self._is_other = False  # whether tensors are other ones than those of the exported program
        self._shared: Shared | None = None

    def begin(self) -> None:
        """Look before each call from now on."""
        self._compiled.before_calls(self.look)

    def look(self) -> bool:
        """Follow what changed since the last call."""
        if self._shared is not None:
            if self._watch.looks():
                self._replaced(self._shared)
        elif self._watch.changed():
            self._changed()
        return True

    def _changed(self) -> None:
        self._is_other = self._is_other or self._watch.replaced()
        self._watch.reset()
        self._changes += 1
        if self._changes <= CHANGES or not self._take_weights():
            self._compiled.become(self._live.anew() if self._is_other else self._live.again(), self._state)

    def _take_weights(self) -> bool:
        """Let the weights be inputs; not when they are of other dtypes by now."""
        model = self._live.with_weights()
        signature = model.signature
        assert isinstance(signature, ModelSignature)  # it was made of an exported program
        places = places_of(self._source, [buffer.name for buffer in signature.state])
        shared = Shared(Tensors(places), self._state)
        if not _fits(signature, shared):
            return False
        self._shared = shared
        self._compiled.become(model, shared)
        return True

    def _replaced(self, shared: Shared) -> None:
        """Take other tensors; those of another dtype or shape are another program's."""
        self._is_other = True
        self._watch.reset()
        shared.refresh()
        signature = self._compiled.signature
        assert isinstance(signature, ModelSignature)
        if not _fits(signature, shared):
            self._shared = None
            self._compiled.become(self._live.anew(), self._state)


def _watch_of(imported: Imported) -> Watch:
    """What tells changes of weights, those of buffers aside that calls write."""
    return Watch(imported.source, except_for=imported.state() if imported.state is not None else ())


def _fits(signature: ModelSignature, shared: Shared) -> bool:
    """Whether weights have the dtypes and shapes that a program was exported with."""
    pairs = zip(signature.state, shared(), strict=True)
    return all(buffer.dtype == array.dtype and buffer.shape == array.shape for buffer, array in pairs)
