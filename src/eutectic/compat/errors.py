"""TVM's error classes by our own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from eutectic.support.errors import EutecticError, FrontendError, InternalError, ScriptError
from eutectic.support.errors import EutecticError as TVMError
from eutectic.support.errors import FrontendError as OpError
from eutectic.support.errors import UnsupportedOperatorError as OpNotImplemented

DiagnosticError = ScriptError
REGISTERED: Final[dict[str, type[BaseException]]] = {}

__all__ = [
    "DiagnosticError",
    "EutecticError",
    "InternalError",
    "OpAttributeInvalid",
    "OpAttributeRequired",
    "OpAttributeUnImplemented",
    "OpError",
    "OpNotImplemented",
    "TVMError",
    "register_error",
]


class OpAttributeInvalid(FrontendError, AttributeError):
    """For converters of one's own: an attribute of an operator has a value that it cannot have."""


class OpAttributeRequired(FrontendError, AttributeError):
    """For converters of one's own: an attribute of an operator is missing."""


class OpAttributeUnImplemented(FrontendError, NotImplementedError):
    """For converters of one's own: an attribute of an operator is not supported."""


def register_error(name_or_cls: Any = None, cls: type[BaseException] | None = None) -> Any:
    """Class decorator that lists an error class under its name; errors are Python classes here, and need no more.

    Args:
        name_or_cls: The class, or the name for it.
        cls: The class, where a name is given.
    """
    if isinstance(name_or_cls, type):
        return _listed(name_or_cls.__name__, name_or_cls)
    if cls is not None:
        return _listed(name_or_cls, cls)
    decorate: Callable[[type[BaseException]], type[BaseException]] = lambda decorated: _listed(  # noqa: E731
        name_or_cls or decorated.__name__, decorated
    )
    return decorate


def _listed(name: str, cls: type[BaseException]) -> type[BaseException]:
    REGISTERED[name] = cls
    return cls
