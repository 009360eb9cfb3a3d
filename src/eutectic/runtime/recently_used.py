"""RecentlyUsed: the last few of some things that are costly to make, such as kernels for different sizes."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import count
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class RecentlyUsed(Generic[Key, Value]):
    """Values by key; of more than `limit`, the ones that were not asked for longest are forgotten.

    Safe to use from several threads at once, without a lock, which a fork could leave locked: two threads that ask
    for the same new key at once both make a value, and both get the one that is kept.

    Args:
        limit: Values that are kept; positive.
    """

    def __init__(self, limit: int) -> None:
        self._limit, self._clock = limit, count()
        self._entries: dict[Key, tuple[Value, list[int]]] = {}  # with the time of the last use

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Key, make: Callable[[], Value]) -> Value:
        """The value of a key, made when it is not there."""
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries.setdefault(key, (make(), [next(self._clock)]))
            self._forget()
        entry[1][0] = next(self._clock)
        return entry[0]

    def _forget(self) -> None:
        """Drop the oldest ones; each step is one operation on the dictionary, which no other thread can divide."""
        by_age = sorted(self._entries.copy().items(), key=lambda entry: -entry[1][1][0])
        for key, _ in by_age[self._limit :]:
            self._entries.pop(key, None)
