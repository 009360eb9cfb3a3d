"""The public door: what comes out of a public function is an `EutecticError` that names the argument.

A package opens its doors once, at the end of its `__init__`: each function and class that it exports is then
called through one. Calls that succeed pay for nothing but the call itself; calls within the package import the
functions from where they are defined, and do not pass a door at all. When one of Python's own errors arrives at
a door, the arguments are compared with what the function declares, and the one that does not fit is named.
Errors that a user's own code raised (a callback, a `__getattr__`) are the user's, and pass unchanged.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import linecache
import sys
import types
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, Final

from eutectic.support.annotations import accepts, described, hints_of
from eutectic.support.errors import ArgumentError, EutecticError, Excerpt, InternalError
from eutectic.support.shown import clipped, kind_of, shown
from eutectic.support.spelling import did_you_mean

# What Python raises when a value is not what the code expects.
RAW: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    BufferError,
    LookupError,
    RuntimeError,  # of torch, and of a recursion that is too deep
    TypeError,
    ValueError,
)
_PACKAGE: Final = str(Path(__file__).resolve().parents[1])
_LIBRARIES: Final = ("site-packages", "dist-packages", "<", str(Path(inspect.__file__).resolve().parent))
_NOTES: Final = 6  # arguments that are listed


def open_doors(
    namespace: dict[str, Any], leave: Collection[str] = (), *, places: bool = False, package: str | None = None
) -> None:
    """Put a door before every function and class of ours that a package exports.

    Names that the package imports when they are asked for get theirs then (`support/lazy.py`).

    Args:
        namespace: The globals of the package, with `__all__`.
        leave: Names that stay as they are: what looks at the frame of its caller.
        places: Whether errors that know no place in the user's source get that of the call.
        package: The package that users take the names from; None is the one of `namespace`.
    """
    for name in namespace["__all__"]:
        if name in namespace and name not in leave:
            public = package or str(namespace["__name__"])
            namespace[name] = behind_door(namespace[name], public, name, places=places)


def behind_door(member: Any, package: str, name: str, *, places: bool = False) -> Any:
    """What a package exports, with a door before it: functions are wrapped, the constructors of classes replaced.

    Args:
        member: A function or class of ours; anything else stays as it is.
        package: Full name of the package.
        name: Name in the package.
        places: Whether errors that know no place in the user's source get that of the call.
    """
    if str(getattr(member, "__module__", "")).startswith("eutectic."):
        public = f"{package.removeprefix('eutectic.')}.{name}"
        if isinstance(member, types.FunctionType):
            return door(member, public, places=places)
        if isinstance(member, type):
            _door_of_class(member, public)
    return member


def open_methods(cls: type, name: str, leave: Collection[str] = ()) -> None:
    """Put a door before the public methods that a class defines itself.

    Args:
        cls: The class.
        name: What messages call it.
        leave: Names that stay as they are.
    """
    for key, member in list(vars(cls).items()):
        if key.startswith("_") or key in leave:
            continue
        if isinstance(member, types.FunctionType):
            setattr(cls, key, door(member, f"{name}.{key}"))
        elif isinstance(member, staticmethod):
            setattr(cls, key, staticmethod(door(member.__func__, f"{name}.{key}")))


def door(function: Callable[..., Any], name: str, *, places: bool = False) -> Callable[..., Any]:
    """A function behind a door.

    Args:
        function: The function.
        name: What messages call it.
        places: Whether errors that know no place in the user's source get that of the call.
    """
    if hasattr(function, "__public_name__"):
        return function

    @wraps(function)
    def enter(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except EutecticError as error:
            if places and error.at is None:
                error.at = caller_excerpt()
            raise
        except RAW as error:
            refusal = explained(function, name, args, kwargs, error)
            if refusal is None:
                raise
            raise refusal from error

    enter.__public_name__ = name  # type: ignore[attr-defined]  # how a door is known
    return enter


def _door_of_class(cls: type, name: str) -> None:
    if issubclass(cls, (BaseException, enum.Enum)) or getattr(cls, "_is_protocol", False):
        return
    owner = next((base for base in cls.__mro__ if "__post_init__" in vars(base)), None)
    if owner is not None and dataclasses.is_dataclass(cls):
        check = vars(owner)["__post_init__"]
        setattr(owner, "__post_init__", _door_of_fields(check, name.rpartition(".")[0]))  # noqa: B010
    if hasattr(vars(cls).get("__init__"), "__public_name__"):
        return  # a class has one name in messages, whichever package was imported first
    constructor = inspect.unwrap(getattr(cls, "__init__"))  # noqa: B009 - mypy takes the attribute for a call's
    if not isinstance(constructor, types.FunctionType) or not constructor.__module__.startswith("eutectic."):
        return
    if constructor.__code__.co_filename != "<string>":  # where a dataclass gets its own from, which only stores
        setattr(cls, "__init__", door(constructor, name))  # noqa: B010 - mypy takes an assignment for an override


def _door_of_fields(check: Callable[[Any], None], package: str) -> Callable[[Any], None]:
    """The check of a dataclass behind a door; not its constructor, as nodes are made by the hundred thousand."""
    if hasattr(check, "__public_name__"):
        return check

    @wraps(check)
    def enter(self: Any) -> None:
        try:
            check(self)
        except EutecticError:
            raise
        except RAW as error:
            cls = type(self)
            signature = inspect.signature(cls)
            arguments = {name: getattr(self, name, None) for name in signature.parameters}
            refusal = explained(cls, f"{package}.{cls.__name__}", (), arguments, error, signature=signature)
            if refusal is None:
                raise
            raise refusal from error

    enter.__public_name__ = package  # type: ignore[attr-defined]  # how a door is known
    return enter


def explained(
    function: Callable[..., Any],
    name: str,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    error: BaseException,
    kind: type[EutecticError] = ArgumentError,
    signature: inspect.Signature | None = None,
) -> EutecticError | None:
    """What to raise in place of one of Python's own errors.

    Args:
        function: What was called.
        name: What messages call it.
        args: Positional arguments of the call.
        kwargs: Keyword arguments of the call.
        error: What it raised.
        kind: Class of the refusal of an argument.
        signature: Its parameters; None takes the function's.

    Returns:
        An error that names the argument; None to let the original through: a call that lacks arguments, or an
        error of the user's own code.
    """
    signature = signature or inspect.signature(function)
    at = caller_excerpt()
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return _misspelled(signature, name, kwargs, at)
    if _is_users(error):
        return None
    hints = hints_of(function)
    for parameter, value in _given(signature, bound):
        hint = hints.get(parameter, Any)
        if parameter != "self" and not accepts(hint, value):
            wanted, received = described(hint), _told(value)
            notes = [said] if (said := _message(error)) else []
            return kind(f"{name}: {parameter} must be {wanted}, got {received}", at=at, notes=notes)
    listed = [f"{parameter} is {shown(value)}" for parameter, value in _given(signature, bound) if parameter != "self"]
    notes = [*listed[:_NOTES], *([f"and {len(listed) - _NOTES} more"] if len(listed) > _NOTES else [])]
    said = _message(error)
    if said:
        return kind(f"{name}: {said}", at=at, notes=notes)
    if isinstance(error, (AssertionError, AttributeError, KeyError)):
        help = "if the arguments are what the documentation asks for, please report this with them"
        return _unexpected(kind, f"{name} cannot work with these arguments ({_raw(error)})", at, notes, help)
    return kind(f"{name} cannot take these arguments: {_raw(error)}", at=at, notes=notes)


def _unexpected(kind: type[EutecticError], message: str, at: Any, notes: list[str], help: str) -> EutecticError:
    """A refusal that may be a fault of ours; it says so, and has the class that callers expect."""
    return kind(message, code=InternalError.default_code, at=at, notes=notes, help=help)


def _misspelled(
    signature: inspect.Signature, name: str, kwargs: Mapping[str, Any], at: Excerpt | None
) -> ArgumentError | None:
    """The refusal of a keyword that no parameter has; None when the call is wrong otherwise."""
    known = [p for p in signature.parameters.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    names = [p.name for p in known if p.name != "self"]
    unknown = [key for key in kwargs if key not in names]
    if not unknown or any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values()):
        return None
    help = did_you_mean(unknown[0], names) or (f"it takes {', '.join(names)}" if names else "it takes none")
    return ArgumentError(f"{name} has no parameter {unknown[0]!r}", at=at, help=help)


def _given(signature: inspect.Signature, bound: inspect.BoundArguments) -> Iterator[tuple[str, Any]]:
    """Name and value of each argument; those of `*args` one by one."""
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            yield from ((name, item) for item in value)
        elif kind is inspect.Parameter.VAR_KEYWORD:
            yield from value.items()
        else:
            yield name, value


def _told(value: Any) -> str:
    """A value and what it is, without saying the same twice."""
    if value is None or isinstance(value, (bool, type)):
        return kind_of(value)
    return f"{kind_of(value)}: {shown(value)}"


def _message(error: BaseException) -> str:
    """The sentence that our code gave an error; empty when Python raised it by itself."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or not trace.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        return ""
    line = linecache.getline(trace.tb_frame.f_code.co_filename, trace.tb_lineno).strip()
    # of a statement over several lines the first is not always the one that is counted
    return clipped(str(error.args[0])) if line.startswith("raise") and error.args else ""


def _raw(error: BaseException) -> str:
    text = shown(error.args[0]) if isinstance(error, KeyError) and error.args else " ".join(str(error).split())
    name = type(error).__name__
    return f"{name}: {text[:160]}" if text else name


def _is_users(error: BaseException) -> bool:
    """Whether an error was raised by the user's code that one of our functions called."""
    trace, is_users = error.__traceback__, False
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file.startswith(_PACKAGE) or is_users_file(file):
            is_users = not file.startswith(_PACKAGE)
        trace = trace.tb_next
    return is_users


def is_users_file(file: str) -> bool:
    """Whether a source file is neither of this package, nor of Python's library, nor of an installed package."""
    return not file.startswith(_PACKAGE) and not any(part in file for part in _LIBRARIES)


def caller_excerpt() -> Excerpt | None:
    """The line of the innermost frame outside of this package that is a user's file."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_users_file(frame.f_code.co_filename):
            return _excerpt(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return None


def _excerpt(file: str, line: int) -> Excerpt:
    text = linecache.getline(file, line).rstrip("\n")
    column = len(text) - len(text.lstrip())
    return Excerpt(f"{file}:{line}", text, line, column, len(text) - column)
