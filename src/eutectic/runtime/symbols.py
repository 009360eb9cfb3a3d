"""Addresses of C functions that generated code may call by name."""

from __future__ import annotations

from eutectic.support.errors import CodegenError

_REGISTERED: dict[str, int] = {}


def register_symbol(name: str, address: int) -> None:
    """Let generated code call a C function.

    Args:
        name: What `call_extern` calls it.
        address: Where it is; it must stay there as long as code that calls it.

    Raises:
        CodegenError: the name is not a C identifier, or stands for another function already.
    """
    if not (name.isascii() and name.isidentifier()):
        raise CodegenError(f"{name!r} cannot be the name of a C function")
    if _REGISTERED.get(name, address) != address:
        raise CodegenError(f"{name} is registered already, with another address")
    _REGISTERED[name] = address


def is_registered(name: str) -> bool:
    """Whether generated code may call a C function of this name."""
    return name in _REGISTERED


def registered_address(name: str) -> int | None:
    """Address of a function that was registered; None when none of that name was."""
    return _REGISTERED.get(name)
