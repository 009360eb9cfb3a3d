"""Packages whose parts are imported when they are first asked for, by PEP 562.

A package says once, at the end of its `__init__`, which of its names live where. Type checkers, which do not run
that, are told by imports under `TYPE_CHECKING`; `tests/house` compares the two. Submodules need no entry: `a.b.c`
works after `import a`, whether or not somebody has imported `a.b` before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from eutectic.support.door import behind_door
from eutectic.support.spelling import did_you_mean

_LENT: Final[dict[str, dict[str, str]]] = {}


def lazy(
    namespace: dict[str, Any], members: Mapping[str, Iterable[str]] | None = None, *, places: bool = False
) -> None:
    """Give a package a `__getattr__` and a `__dir__`.

    What comes out of it is behind a door, as what `open_doors` finds in a package.

    Args:
        namespace: The globals of the package.
        members: Names by the module that defines them; none of them may be a submodule's, which takes its place in
            the package when it is imported.
        places: Whether errors that know no place in the user's source get that of the call.
    """
    package = str(namespace["__name__"])
    home = {name: module for module, names in (members or {}).items() for name in names}

    def __getattr__(name: str) -> Any:
        module = home.get(name) or _LENT.get(package, {}).get(name)
        if module is not None:
            member = behind_door(getattr(import_module(module), name), package, name, places=places)
            return namespace.setdefault(name, member)  # of two threads the second takes what the first has put there
        if name.isidentifier() and not name.startswith("_") and _has_submodule(package, name):
            return import_module(f"{package}.{name}")
        hint = did_you_mean(name, {*namespace.get("__all__", ()), *home})
        raise AttributeError(f"module {package!r} has no attribute {name!r}" + (f"; {hint}" if hint else ""), name=name)

    def __dir__() -> list[str]:
        return sorted({*namespace, *namespace.get("__all__", ()), *home, *_LENT.get(package, ())})

    namespace.update(__getattr__=__getattr__, __dir__=__dir__)


def lend(package: str, members: Mapping[str, Iterable[str]]) -> None:
    """Let a lazy package show names of packages above it, which it must not import itself.

    Args:
        package: Full name of the package.
        members: Names by the module that defines them.
    """
    _LENT.setdefault(package, {}).update({name: module for module, names in members.items() for name in names})


def _has_submodule(package: str, name: str) -> bool:
    """Whether a package has a submodule; nothing is run to find out, so that an error within it is not hidden."""
    return find_spec(f"{package}.{name}") is not None
