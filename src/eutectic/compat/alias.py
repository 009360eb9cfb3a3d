"""Modules under TVM's names that answer with ours."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final

from eutectic import __version__
from eutectic.compat.surface import why_not
from eutectic.compat.table import MODULES, PACKAGES
from eutectic.support.spelling import did_you_mean

ROOT: Final = "tvm"


class AliasModule(ModuleType):
    """A module of TVM's name; attributes come from our modules, and what we lack says so."""

    def _sources(self) -> Iterator[ModuleType]:
        return (import_module(name) for name in MODULES[self.__name__])

    def __getattr__(self, name: str) -> Any:
        child = f"{self.__name__}.{name}"
        if child in MODULES:
            return import_module(child)
        if not name.startswith("_"):
            for source in self._sources():
                try:
                    return getattr(source, name)
                except AttributeError:
                    continue
        raise AttributeError(self._lacking(name), name=name, obj=self)

    def why_not(self, name: str) -> str | None:
        """Why a name is not here, and what to use; None where nothing is said about it."""
        return why_not(self.__name__, name)

    def _lacking(self, name: str) -> str:
        hint = self.why_not(name) or did_you_mean(name, dir(self))
        return f"eutectic {__version__} has no {self.__name__}.{name}" + (f"; {hint}" if hint else "")

    def __dir__(self) -> list[str]:
        names = {name for source in self._sources() for name in dir(source) if not name.startswith("_")}
        prefix = f"{self.__name__}."
        names.update(
            name[len(prefix) :] for name in MODULES if name.startswith(prefix) and "." not in name[len(prefix) :]
        )
        return sorted(names)


class AliasFinder(MetaPathFinder, Loader):
    """Finds `tvm` and everything below it among the aliases."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        """A spec for TVM's modules; None for all others."""
        if fullname != ROOT and not fullname.startswith(f"{ROOT}."):
            return None
        if fullname not in MODULES:
            hint = why_not(fullname) or did_you_mean(fullname, MODULES)
            text = f"eutectic {__version__} has no module {fullname}" + (f"; {hint}" if hint else "")
            raise ModuleNotFoundError(text, name=fullname)
        return ModuleSpec(fullname, self, is_package=fullname in PACKAGES)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """An empty alias."""
        return AliasModule(spec.name, f"Eutectic under the name of {spec.name}.")

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run: attributes are looked up when asked for."""


_finder: Final = AliasFinder()


def install_as_tvm(*, replace: bool = False) -> None:
    """Let `import tvm`, and all of its modules that have a counterpart here, give ours.

    Calling it again changes nothing.

    Args:
        replace: Also where a real TVM is installed or imported; it is hidden, not changed,
            until `uninstall`.

    Raises:
        ImportError: there is a real TVM, and `replace` is False.
    """
    if _finder in sys.meta_path:
        return
    real = [name for name in sys.modules if name == ROOT or name.startswith(f"{ROOT}.")]
    if not replace and (real or find_spec(ROOT) is not None):
        raise ImportError("a real tvm is installed here; pass replace=True to hide it in this process")
    _hidden.update({name: sys.modules.pop(name) for name in real})
    sys.meta_path.insert(0, _finder)


def uninstall() -> None:
    """Undo `install_as_tvm`: forget the aliases and show a real TVM again."""
    if _finder not in sys.meta_path:
        return
    sys.meta_path.remove(_finder)
    for name in [name for name, module in sys.modules.items() if isinstance(module, AliasModule)]:
        del sys.modules[name]
    sys.modules.update(_hidden)
    _hidden.clear()


_hidden: dict[str, ModuleType] = {}
