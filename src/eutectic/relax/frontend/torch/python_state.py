"""What a model keeps in Python from call to call: noticed where forward changes it, and put back.

torch.export runs forward once, and what Python does in it is no part of the program: a counter that is an attribute
stays at what it was. Buffers are a part of it, with what is written and assigned to them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import MethodType, NoneType
from typing import Any, Final

import torch
from torch import nn

from eutectic.relax.frontend.torch.state_holders import MISSING, Holder, holders
from eutectic.support.advice import advise
from eutectic.support.shown import shown

_MOST: Final = 6  # changes that are told
_PLAIN: Final = (bool, int, float, complex, str, bytes, NoneType, torch.dtype, torch.device, MethodType)


@contextmanager
def state_kept(module: nn.Module) -> Iterator[list[str]]:
    """Have each run of forward begin with what the module keeps in Python now, and leave it so.

    Args:
        module: The module that is traced.

    Yields:
        A list that gets a line for each thing that a run of forward changed.
    """
    before = [(holder, holder.read()) for holder in holders(module)]
    changes: list[str] = []

    def begin(*_: Any) -> None:
        _restore(before)

    def end(*_: Any) -> None:
        changes.extend(() if changes else _changes(before))

    hooks = [module.register_forward_pre_hook(begin, prepend=True), module.register_forward_hook(end)]
    try:
        yield changes
    finally:
        for hook in hooks:
            hook.remove()
        _restore(before)


def advise_of(changes: Sequence[str]) -> None:
    """Warn of what forward changes and the compiled model does not."""
    if not changes:
        return
    more = [f"and {len(changes) - _MOST} more"] if len(changes) > _MOST else []
    text = (
        "forward changes what the model keeps in Python, which calls of the compiled model will not do:",
        *changes[:_MOST],
        *more,
        "it is now what it was before; the program has the values of one run of forward. Keep what must change from "
        'call to call in a buffer, which a call can write: self.register_buffer("count", torch.tensor(0)), and '
        "self.count += 1 in forward",
    )
    advise("\n  ".join(text))


def _restore(before: Sequence[tuple[Holder, dict[str, Any]]]) -> None:
    for holder, content in before:
        holder.write(content)


def _changes(before: Sequence[tuple[Holder, dict[str, Any]]]) -> list[str]:
    return [line for holder, content in before for line in _changed(holder, content)]


def _changed(holder: Holder, was: dict[str, Any]) -> Iterator[str]:
    now = holder.read()
    for name in {**was, **now}:
        old, new = was.get(name, MISSING), now.get(name, MISSING)
        if not _same(old, new):
            yield f"{holder.place_of(name)}: {_told(old)} became {_told(new)}"


def _told(value: Any) -> str:
    return "nothing" if value is MISSING else shown(value).replace("torch.FakeTensor", "torch.Tensor")


def _same(old: Any, new: Any) -> bool:
    """Whether two values are one object, or are equal all through; tensors are not compared by their elements."""
    pairs, seen = [(old, new)], set()
    while pairs:
        x, y = pairs.pop()
        if x is y or (id(x), id(y)) in seen:
            continue
        seen.add((id(x), id(y)))
        inside = _parts(x, y)
        if inside is None:
            return False
        pairs.extend(inside)
    return True


def _parts(x: Any, y: Any) -> list[tuple[Any, Any]] | None:
    """Pairs that must be the same for two different objects to be; None where they are not."""
    if type(x) is not type(y):
        return None
    if isinstance(x, _PLAIN):
        return [] if x == y or (x != x and y != y) else None
    if isinstance(x, dict):
        return [(x[key], y[key]) for key in x] if list(x) == list(y) else None
    if isinstance(x, (list, tuple, deque)):
        return list(zip(x, y, strict=True)) if len(x) == len(y) else None
    return [] if isinstance(x, (set, frozenset)) and x == y else None
