"""Tensors of a torch module that a compiled model was made of: read, written, or watched for changes.

A tensor of torch counts its changes in place in `_version`; one that is replaced is another object. Tensors that were
made in inference mode count nothing: of them only replacement is seen.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from time import perf_counter
from typing import Any, Final

from eutectic.support.advice import advise
from eutectic.support.errors import CallError
from eutectic.support.plain_memory import as_array

_VERSION: Final = attrgetter("_version")
_PAUSE: Final = 2e-4  # seconds
_CALLS: Final = 16  # after which it is looked at again whether tensors were replaced
_FEW: Final = 16  # tensors, which are always looked at together
_SOME: Final = 4  # of more of them, which a warning looks at when it does not look at all
_SELDOM: Final = 512  # times as long as it took to look at some of them, before anything is done again
_REST: Final = 256  # times as long as it took to look at all of them, before that is done again
LONGEST_PAUSE: Final = 0.5  # seconds: a look that the system interrupted seems to have taken long

Place = tuple[Any, str]  # a mapping of a module, and the key of a tensor in it


class Tensors:
    """Tensors of a module by where they are kept, so that replaced ones are found.

    Args:
        places: Where each is.
    """

    def __init__(self, places: Sequence[Place]) -> None:
        self._places = tuple(places)

    def __call__(self) -> list[Any]:
        """The tensors as they are now; None for those that are gone."""
        return [owner.get(key) for owner, key in self._places]

    def positions(self, others: Tensors) -> list[int]:
        """Where tensors are among these, by where they are kept."""
        known = {(id(owner), key): number for number, (owner, key) in enumerate(self._places)}
        return [known[id(owner), key] for owner, key in others._places]


def places_of(model: Any, names: Sequence[str]) -> list[Place]:
    """Where a module, or an exported program, keeps tensors.

    Args:
        model: The module or program.
        names: Names of parameters and buffers.
    """
    if hasattr(model, "graph_signature"):
        stores: Sequence[Mapping[str, Any]] = (model.state_dict, model.constants)
        return [(next(store for store in stores if name in store), name) for name in names]
    places: list[Place] = []
    for name in names:
        path, _, key = name.rpartition(".")
        owner = model.get_submodule(path)
        places.append((owner._buffers if key in owner._buffers else owner._parameters, key))
    return places


def all_places(model: Any) -> list[Place]:
    """Where a module, or an exported program, keeps all of its parameters and buffers."""
    if hasattr(model, "graph_signature"):
        return places_of(model, list(model.state_dict))
    stores = (store for module in model.modules() for store in (module._parameters, module._buffers))
    return [(store, key) for store in stores for key, tensor in store.items() if tensor is not None]


class Shared:
    """Tensors of a module as arrays that share their memory, so that changes in place need no look at them.

    Args:
        tensors: Gives the tensors as they are now.
        written: Those among them that calls write: each call takes what the module has then.

    Raises:
        CallError: one is not in plain memory of the processor.
    """

    def __init__(self, tensors: Tensors, written: Tensors | None = None) -> None:
        self._tensors, self._written = tensors, written
        self._at = tensors.positions(written) if written is not None else []
        self.refresh()

    def refresh(self) -> None:
        """Take the tensors that are there now, after some were replaced.

        Raises:
            CallError: one is gone, or not in plain memory of the processor.
        """
        self._arrays = [as_array(_present(tensor).detach(), "a weight") for tensor in self._tensors()]

    def __call__(self) -> list[Any]:
        """The arrays."""
        if self._written is None:
            return self._arrays
        arrays = self._arrays.copy()
        for place, tensor in zip(self._at, self._written(), strict=True):
            arrays[place] = as_array(_present(tensor).detach(), "a buffer")
        return arrays


def _present(tensor: Any) -> Any:
    if tensor is None:
        raise CallError("a parameter or buffer of the module is gone", help="compile the module again")
    return tensor


class Watch:
    """Whether tensors of a module changed since it was made or last asked.

    It does not keep the module: when that is gone, nothing can change.

    Args:
        model: The module or exported program.
        except_for: Tensors that the compiled model writes itself.
    """

    def __init__(self, model: Any, except_for: Sequence[Any] = ()) -> None:
        own = {id(tensor) for tensor in except_for}
        self._tensors = Tensors([place for place in all_places(model) if id(place[0].get(place[1])) not in own])
        self._remember()
        weakref.finalize(model, self._forget).atexit = False

    def _remember(self) -> None:
        self._all = self._tensors()
        self._counting = [tensor for tensor in self._all if tensor is not None and not tensor.is_inference()]
        self._versions = list(map(_VERSION, self._counting))
        self._calls = self._turn = 0

    def _forget(self) -> None:
        self._tensors = Tensors(())
        self._remember()

    def changed(self) -> bool:
        """Whether something changed in place; every so often also whether something was replaced."""
        return self.changed_in_place() or self.looks()

    def changed_in_place(self) -> bool:
        """Whether a tensor counted a change."""
        return list(map(_VERSION, self._counting)) != self._versions

    def some_changed(self) -> bool:
        """Whether a few tensors changed in place: others each time, from all over the module; all when they are few."""
        count = len(self._counting)
        step = 1 if count <= _FEW else -(-count // _SOME)
        self._turn = (self._turn + 1) % step
        these = slice(self._turn, None, step)
        return list(map(_VERSION, self._counting[these])) != self._versions[these]

    def looks(self) -> bool:
        """Every so often, whether a tensor is another object; changes in place are of no interest."""
        self._calls += 1
        return self._calls % _CALLS == 1 and self.replaced()

    def replaced(self) -> bool:
        """Whether a tensor is another object."""
        return any(now is not before for now, before in zip(self._tensors(), self._all, strict=True))

    def reset(self) -> None:
        """What is now counts as unchanged."""
        self._remember()


def warning_of_changes(watch: Watch, name: str) -> Callable[[], bool]:
    """What a model of frozen weights does before each call: say once that they changed; False when it is done.

    A network has put the tensors of its module out of the caches, so that asking all of them takes some percent of a
    call of milliseconds. All are asked for one part in `_REST` of the time, and a few for one in `_SELDOM`, `_PAUSE`
    after the last time at the earliest: optimizers and checkpoints change all of them, or those of a layer, which is
    found soon, and take longer than that themselves. No pause is longer than `LONGEST_PAUSE`.

    Args:
        watch: Looks at the weights.
        name: What the model is called.
    """
    paused = rested = 0.0

    def look() -> bool:
        nonlocal paused, rested
        now = perf_counter()
        if now < paused:
            return True
        if now < rested:
            changed = watch.some_changed()
            paused = min(now + max(_PAUSE, _pause(_SELDOM, now)), rested)
        else:
            changed = watch.changed_in_place() or watch.replaced()
            rested, paused = now + _pause(_REST, now), now + _PAUSE
        if not changed:
            return True
        advise(
            f"parameters or buffers of {name} changed after it was compiled; the compiled model goes on with the old "
            'values. Compile it again, or with weights="live", to follow them'
        )
        return False

    return look


def _pause(times: int, begun: float) -> float:
    """Seconds until the next look, as a multiple of how long this one took."""
    return min(times * (perf_counter() - begun), LONGEST_PAUSE)
