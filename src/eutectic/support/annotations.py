"""What an annotation accepts, and how a message says it; for telling which argument of a failed call was wrong."""

from __future__ import annotations

import collections.abc
import inspect
import numbers
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin

_UNIONS: Final = (Union, types.UnionType)
_SCALARS: Final[dict[Any, tuple[type, ...]]] = {
    int: (numbers.Integral,),
    float: (numbers.Real,),
    complex: (numbers.Number,),
}
_ITEMS: Final = 64  # of a container are looked at; a message needs one that is wrong


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function by parameter; none where they name what exists for type checkers only."""
    target = inspect.unwrap(function)
    try:
        return typing.get_type_hints(target)
    except (AttributeError, NameError, TypeError):
        return {}


def accepts(hint: Any, value: Any, items: int = _ITEMS) -> bool:
    """Whether a value may be what an annotation says; what cannot be decided is accepted.

    Args:
        hint: The annotation.
        value: The value.
        items: How many items of a container are looked at.
    """
    if hint is Any or isinstance(hint, (str, typing.ForwardRef)):
        return True
    if isinstance(hint, TypeVar):
        return accepts(hint.__bound__, value, items) if hint.__bound__ is not None else True
    origin, parts = get_origin(hint), get_args(hint)
    if hint is None or hint is type(None):
        return value is None
    if origin in _UNIONS:
        return any(accepts(part, value, items) for part in parts)
    if origin is Literal:
        return any(value is part or (type(value) is type(part) and value == part) for part in parts)
    if origin is typing.Annotated:
        return accepts(parts[0], value, items)
    if origin is not None:
        return _accepts_generic(origin, parts, value, items)
    return _accepts_class(hint, value)


def _accepts_class(hint: Any, value: Any) -> bool:
    if hint in _SCALARS:
        return isinstance(value, _SCALARS[hint]) and not (hint is int and isinstance(value, float))
    if not isinstance(hint, type):
        return True
    try:
        return isinstance(value, hint)
    except TypeError:  # a protocol that is not checked at run time
        return True


def _accepts_generic(origin: Any, parts: tuple[Any, ...], value: Any, items: int) -> bool:
    if origin is collections.abc.Callable:
        return callable(value)
    if not isinstance(origin, type) or origin is type:
        return origin is not type or isinstance(value, type)
    sequence = issubclass(list, origin) and not issubclass(origin, list)
    if not isinstance(value, origin) or (sequence and isinstance(value, (str, bytes))):
        return False
    if isinstance(value, Mapping) and len(parts) == 2:
        pairs = list(value.items())[:items]
        return all(accepts(parts[0], k, items) and accepts(parts[1], v, items) for k, v in pairs)
    if isinstance(value, tuple) and parts and parts[-1] is not Ellipsis and issubclass(origin, tuple):
        return len(value) == len(parts) and all(accepts(*pair, items) for pair in zip(parts, value, strict=True))
    if isinstance(value, (list, tuple, set, frozenset)) and parts:
        return all(accepts(parts[0], item, items) for item in list(value)[:items])
    return True


def described(hint: Any) -> str:
    """An annotation in words: `an int, a Tensor or None`."""
    options = [text for part in _options(hint) if (text := _word(part))]
    options = list(dict.fromkeys(options))
    options.sort(key=lambda text: text == "None")
    return ", ".join(options[:-1]) + (" or " if len(options) > 1 else "") + (options[-1] if options else "a value")


def _options(hint: Any) -> list[Any]:
    if get_origin(hint) in _UNIONS:
        return [option for part in get_args(hint) for option in _options(part)]
    return [hint]


def _word(hint: Any) -> str:
    origin, parts = get_origin(hint), get_args(hint)
    if hint is None or hint is type(None):
        return "None"
    if isinstance(hint, TypeVar):
        return described(hint.__bound__) if hint.__bound__ is not None else ""
    if origin is Literal:
        return " or ".join(map(repr, parts))
    if origin is collections.abc.Callable:
        return "a function"
    if origin is not None and isinstance(origin, type):
        return _container(origin, parts)
    if not isinstance(hint, type):
        return ""
    return {"str": "text", "bool": "True or False"}.get(hint.__name__) or _with_article(hint.__name__)


def _container(origin: type, parts: tuple[Any, ...]) -> str:
    name = {"Sequence": "sequence", "Iterable": "sequence", "Mapping": "dict"}.get(origin.__name__, origin.__name__)
    inner = [described(part) for part in parts if part is not Ellipsis and part is not Any]
    of = f" of ({' or '.join(dict.fromkeys(inner))})" if inner and origin is not type else ""
    return _with_article(name) + of


def _with_article(name: str) -> str:
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
