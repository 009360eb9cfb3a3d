"""What names mean while a script is parsed: variables of the program first, then what surrounds it.

A decorator reads the user's own source and sees everything the user's code sees. A text that
comes from outside sees the names it is given and nothing else; attributes are looked up in
closed namespaces only, so that no text can reach Python objects and run code.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

_PLAIN: Final = ("range", "float", "int", "bool", "True", "False", "None")


class Namespace:
    """Names that a text may use after a dot.

    Args:
        title: What messages call it.
        members: Values by name; other namespaces among them.
    """

    def __init__(self, title: str, members: Mapping[str, Any]) -> None:
        self.title = title
        self.members = dict(members)

    def __repr__(self) -> str:
        return f"<namespace {self.title}>"


class Environment:
    """Python names around a script.

    Args:
        names: Values by name.
        trusted: Whether the script is the user's own source, which may use any Python object.
    """

    def __init__(self, names: Mapping[str, Any], *, trusted: bool) -> None:
        self.names = names
        self.trusted = trusted

    def find(self, name: str) -> Any:
        """The value of a name.

        Raises:
            KeyError: it means nothing here.
        """
        if name in self.names:
            return self.names[name]
        if self.trusted or name in _PLAIN:
            try:
                return getattr(builtins, name)
            except AttributeError:
                raise KeyError(name) from None
        raise KeyError(name)

    def known(self) -> Iterable[str]:
        """All names, for suggestions."""
        return [*self.names, *(dir(builtins) if self.trusted else _PLAIN)]


class Scopes:
    """Variables of the program, innermost scope last."""

    def __init__(self) -> None:
        self._frames: list[dict[str, Any]] = [{}]
        self.hidden: dict[str, str] = {}  # names that went out of scope, and what to say when they are used

    @contextmanager
    def frame(self) -> Iterator[dict[str, Any]]:
        """A scope whose names vanish at the end."""
        names: dict[str, Any] = {}
        self._frames.append(names)
        try:
            yield names
        finally:
            self._frames.pop()

    def define(self, name: str, value: Any) -> None:
        """Give a name a value in the innermost scope."""
        self._frames[-1][name] = value
        self.hidden.pop(name, None)

    def find(self, name: str) -> Any:
        """The innermost value of a name.

        Raises:
            KeyError: it has none.
        """
        for frame in reversed(self._frames):
            if name in frame:
                return frame[name]
        raise KeyError(name)

    def known(self) -> Iterable[str]:
        """All names, for suggestions."""
        return {name for frame in self._frames for name in frame}
