"""How packages reach code of packages above them: functions found by name, and who fills other registries.

A registry belongs to a package below, what is in it comes from above. `provide` says once which modules fill
which registry; whoever owns one calls `load_providers` before it says that something is not there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any, Final

from eutectic.support.spelling import did_you_mean

_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {}
_PROVIDERS: Final[dict[str, tuple[str, ...]]] = {}
_FUNCTION: Final = "function "  # begins the registry of a global function, which has one entry
_ADDED: Final[dict[str, None]] = {}
_PACKAGE: Final = f"{__name__.partition('.')[0]}."
_DOOR: Final = f"{_PACKAGE}support.door"


def provide(modules: Mapping[str, Iterable[str]]) -> None:
    """Say which modules fill registries when they are imported.

    Args:
        modules: Full names by registry; that of a global function is `function` and its name.
    """
    _PROVIDERS.update({registry: tuple(names) for registry, names in modules.items()})


def load_providers(registry: str) -> None:
    """Import the modules that fill a registry; costs a look-up when that has been done.

    A module that is just being imported may ask for its own registry: it finds what there is by then.
    """
    for module in _PROVIDERS.get(registry, ()):
        import_module(module)
    _PROVIDERS.pop(registry, None)


def register_global_func(
    func_name: str | Callable[..., Any], f: Callable[..., Any] | None = None, override: bool = False
) -> Any:
    """Register a function under a name; without `f` it is a decorator, and without a name it takes the function's.

    Raises:
        ValueError: the name is taken and `override` is False.
    """
    name = func_name if isinstance(func_name, str) else func_name.__name__

    def register(registered: Callable[..., Any]) -> Callable[..., Any]:
        load_providers(_FUNCTION + name)
        note_addition(f"global function {name}")
        if name in _FUNCTIONS and not override:
            raise ValueError(f"global function {name!r} is registered already", "pass override=True to replace it")
        _FUNCTIONS[name] = registered
        return registered

    function = f if isinstance(func_name, str) else func_name
    return register if function is None else register(function)


def get_global_func(name: str, allow_missing: bool = False) -> Callable[..., Any] | None:
    """The function registered under `name`.

    Raises:
        ValueError: there is none, unless `allow_missing`.
    """
    if name not in _FUNCTIONS:
        load_providers(_FUNCTION + name)
    if name not in _FUNCTIONS and not allow_missing:
        provided = (registry.removeprefix(_FUNCTION) for registry in _PROVIDERS if registry.startswith(_FUNCTION))
        hint = did_you_mean(name, [*_FUNCTIONS, *provided])
        raise ValueError(f"no global function is called {name!r}" + (f"; {hint}" if hint else ""))
    return _FUNCTIONS.get(name)


def note_addition(what: str) -> None:
    """Note that something is registered, unless a module of this package does it.

    To be called by the function that registers.

    Args:
        what: What it is, such as `backend mine`.
    """
    frame = sys._getframe(1)
    own = frame.f_globals.get("__name__")
    while frame.f_back is not None and frame.f_globals.get("__name__") in (own, _DOOR):
        frame = frame.f_back
    if not str(frame.f_globals.get("__name__")).startswith(_PACKAGE):
        _ADDED[what] = None


def additions() -> tuple[str, ...]:
    """What others than this package registered: what a compilation gives may depend on it from then on."""
    return tuple(_ADDED)
