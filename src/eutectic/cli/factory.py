"""package.module:factory on the command line: import, call, and errors that show the line of the user's own code."""

from __future__ import annotations

import importlib
import inspect
import linecache
import os
import sys
import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from eutectic.support.errors import EutecticError, Excerpt, LoadError
from eutectic.support.shown import shown
from eutectic.support.spelling import did_you_mean

FORMS: Final = "MODEL is a .pt2 or .eut file, or package.module:factory, such as nets:small"
_OURS: Final = str(Path(__file__).resolve().parents[1])


def call_factory(text: str) -> Any:
    """What the factory gives that is named by `package.module:factory`.

    Args:
        text: Names of a module, looked for in the current folder first, and of a function in it without parameters.

    Raises:
        LoadError: there is no such module or function, or the user's code fails; the line where it does is shown.
    """
    where, _, name = text.partition(":")
    if not where or not name:
        raise LoadError(f"{text!r} names no model", help=FORMS)
    factory = _factory(_module(where, text), name, text)
    return _in_users_code(factory, text)


def _module(where: str, text: str) -> ModuleType:
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module: ModuleType = _in_users_code(lambda: importlib.import_module(where), text)
        return module
    except LoadError as error:
        cause = error.__cause__
        if isinstance(cause, ModuleNotFoundError) and cause.name and f"{where}.".startswith(f"{cause.name}."):
            raise LoadError(
                f"there is no module {cause.name} for {text}",
                help=f"it is looked for in {os.getcwd()} and in sys.path; PYTHONPATH adds folders",
            ) from None
        raise


def _factory(module: ModuleType, name: str, text: str) -> Callable[[], Any]:
    factory: Callable[[], Any] | None = getattr(module, name, None)
    if factory is None:
        functions = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        near = did_you_mean(name, functions) or f"write a function {name} that returns (module, args)"
        raise LoadError(f"{module.__name__} has no factory {name}", help=near)
    if not callable(factory):
        raise LoadError(
            f"{text} is no factory but {shown(factory)}", help="write a function that returns (module, args)"
        )
    try:
        inspect.signature(factory).bind()
    except TypeError as error:
        raise LoadError(
            f"the factory {text} cannot be called without arguments: {error}",
            help="write a function without parameters, or give each a default",
        ) from None
    except ValueError:  # a callable that does not say its parameters; the call tells
        pass
    return factory


def _in_users_code(call: Callable[[], Any], text: str) -> Any:
    try:
        return call()
    except EutecticError:
        raise
    except (Exception, SystemExit) as error:
        said = f": {error}" if str(error) else ""
        places = _places(error)
        raise LoadError(
            f"{text} failed with {type(error).__name__}{said}",
            at=places[-1] if places else None,
            notes=[f"called from {place.where}: {place.text.strip()}" for place in reversed(places[:-1])],
            help="this is code of yours; --debug shows the whole traceback",
        ) from error


def _places(error: BaseException) -> list[Excerpt]:
    """The user's own lines on the way to an error, outermost first."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        text = linecache.getline(error.filename, error.lineno).rstrip()
        column = max((error.offset or 1) - 1, 0)
        return [Excerpt(f"{error.filename}:{error.lineno}", text, error.lineno, column)]
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_users(frame.filename)]
    return [_excerpt(frame) for frame in frames]


def _excerpt(frame: traceback.FrameSummary) -> Excerpt:
    line = linecache.getline(frame.filename, frame.lineno or 0).rstrip()
    indent = len(line) - len(line.lstrip())
    return Excerpt(f"{frame.filename}:{frame.lineno}", line, frame.lineno or 0, indent, len(line) - indent)


def _is_users(file: str) -> bool:
    paths = sysconfig.get_paths()
    others = (_OURS, paths["stdlib"], paths["purelib"], paths["platlib"], "<frozen ")
    return not file.startswith(others)
