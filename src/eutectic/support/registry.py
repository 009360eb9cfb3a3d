"""Functions found by name: how passes reach code that is registered by packages above them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from eutectic.support.spelling import did_you_mean

_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {}


def register_global_func(name: str, function: Callable[..., Any] | None = None, override: bool = False) -> Any:
    """Register a function under a name; without `function` it is a decorator.

    Raises:
        ValueError: the name is taken and `override` is False.
    """

    def register(given: Callable[..., Any]) -> Callable[..., Any]:
        if name in _FUNCTIONS and not override:
            raise ValueError(f"global function {name!r} is registered already", "pass override=True to replace it")
        _FUNCTIONS[name] = given
        return given

    return register if function is None else register(function)


def get_global_func(name: str, allow_missing: bool = False) -> Callable[..., Any] | None:
    """The function registered under `name`.

    Raises:
        ValueError: there is none, unless `allow_missing`.
    """
    if name not in _FUNCTIONS and not allow_missing:
        hint = did_you_mean(name, _FUNCTIONS)
        raise ValueError(f"no global function is called {name!r}" + (f"; {hint}" if hint else ""))
    return _FUNCTIONS.get(name)
