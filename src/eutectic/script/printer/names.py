"""Names in printed text: hints made unique within a scope, and valid as identifiers."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable

_RESERVED = frozenset({"R", "T", "I", "cls", "metadata", "range", "float"})


def identifier(hint: str) -> str:
    """`hint` as a Python identifier."""
    text = re.sub(r"\W", "_", hint) or "v"
    if text[0].isdigit() or keyword.iskeyword(text) or text in _RESERVED:
        text = f"_{text}" if text[0].isdigit() else f"{text}_"
    return text


class Names:
    """Gives each object of a scope its own name; duplicates get `_1`, `_2`.

    Scopes nest: what is named between `open` and `close` loses its name at the
    `close`, after which the name is free again.
    """

    def __init__(self, taken: Iterable[str] = (), *, addresses: bool = False) -> None:
        self._addresses = addresses  # whether names end with where their objects lie in memory
        self._taken = set(taken)
        self._given: dict[int, str] = {}
        self._keep: list[object] = []  # ids stay valid only while their objects live
        self._texts: dict[str, str] = {}
        self._scopes: list[list[int]] = []

    def of(self, item: object, hint: str) -> str:
        """The name of `item`, chosen at its first use."""
        if id(item) not in self._given:
            address = f"_{id(item):#x}" if self._addresses else ""
            self._given[id(item)] = self._fresh(identifier(hint) + address)
            self._keep.append(item)
            if self._scopes:
                self._scopes[-1].append(id(item))
        return self._given[id(item)]

    def knows(self, item: object) -> bool:
        """Whether `item` has a name."""
        return id(item) in self._given

    def of_text(self, text: str) -> str:
        """The name of whatever is known as `text`; different texts get different names."""
        if text not in self._texts:
            self._texts[text] = self._fresh(identifier(text))
        return self._texts[text]

    def open(self) -> None:
        """Begin a scope."""
        self._scopes.append([])

    def close(self) -> None:
        """End the innermost scope and free its names."""
        for key in self._scopes.pop():
            self._taken.discard(self._given.pop(key))

    def _fresh(self, base: str) -> str:
        name, number = base, 0
        while name in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name)
        return name
