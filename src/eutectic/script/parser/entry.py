"""Where parsing starts: the decorators of scripts, and `from_source`."""

from __future__ import annotations

import ast
import sys
from collections import ChainMap
from types import FrameType, FunctionType
from typing import Any, NoReturn

from eutectic.ir.module import BaseFunc, IRModule
from eutectic.relax.analysis.well_formed import problems_of
from eutectic.relax.dpl.rewriter import PatternMatchingRewriter
from eutectic.relax.expr import Function
from eutectic.script.parser.decorators import decorator_of
from eutectic.script.parser.environment import Environment, Scopes
from eutectic.script.parser.evaluate import Evaluator
from eutectic.script.parser.module import ModuleParser
from eutectic.script.parser.relax import FunctionOptions, RelaxParser
from eutectic.script.parser.source import Source, definition_at
from eutectic.script.parser.tir import TirParser
from eutectic.support.errors import EutecticError, ScriptError, WellFormedError
from eutectic.support.shown import kind_of
from eutectic.tir.function import PrimFunc
from eutectic.tir.well_formed import verify_well_formed


class PendingFunction:
    """A function in the body of a class, which is parsed together with the class.

    Args:
        function: The Python function.
        decorator: Name of its decorator.
    """

    def __init__(self, function: FunctionType, decorator: str) -> None:
        self.function, self._decorator = function, decorator

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        """Raise: nothing parsed the class.

        Raises:
            ScriptError: always.
        """
        name = self.function.__qualname__
        raise ScriptError(
            f"{name} under {self._decorator} was not parsed", help="decorate the class around it with @I.ir_module"
        )


def ir_module(cls: type | None = None, *, check_well_formed: bool = True) -> Any:
    """Class decorator: the functions inside, parsed as one module.

    Args:
        cls: The class.
        check_well_formed: Whether the result is verified.

    Returns:
        An `IRModule`.

    Raises:
        ScriptError: the class is not well written; points at the place.
    """

    def decorate(decorated: type) -> IRModule:
        return _class_module(decorated, sys._getframe(1), check_well_formed)

    if cls is None:
        return decorate
    return _class_module(cls, sys._getframe(1), check_well_formed)


def rewriter(cls: type | None = None, *, check_well_formed: bool = True) -> Any:
    """Class decorator: functions `pattern` and `replacement` of one signature, as a rewriter.

    Args:
        cls: The class.
        check_well_formed: Whether the two functions are verified.

    Returns:
        A `PatternMatchingRewriter`.
    """

    def decorate(decorated: type) -> Any:
        return PatternMatchingRewriter.from_module(_class_module(decorated, sys._getframe(1), check_well_formed))

    if cls is None:
        return decorate
    return PatternMatchingRewriter.from_module(_class_module(cls, sys._getframe(1), check_well_formed))


def relax_function(
    function: Any = None,
    *,
    pure: bool = True,
    private: bool = False,
    name: str | None = None,
    check_well_formed: bool = True,
) -> Any:
    """Decorator of graph functions.

    Args:
        function: The Python function.
        pure: Whether calls have no side effects.
        private: Whether it is without a `global_symbol`.
        name: Its name in the module, where that is not an identifier of Python.
        check_well_formed: Whether the result is verified.

    Returns:
        A `relax.Function`; in the body of a class it waits for the class's decorator.

    Raises:
        ScriptError: the function is not well written; points at the place.
    """
    return _function_decorator(function, "@R.function", check_well_formed, sys._getframe(1))


def prim_func(
    function: Any = None, *, private: bool = False, name: str | None = None, check_well_formed: bool = True
) -> Any:
    """Decorator of tensor programs.

    Args:
        function: The Python function.
        private: Whether it is without a `global_symbol`.
        name: Its name in the module, where that is not an identifier of Python.
        check_well_formed: Whether the result is verified.

    Returns:
        A `tir.PrimFunc`; in the body of a class it waits for the class's decorator.

    Raises:
        ScriptError: the function is not well written; points at the place.
    """
    return _function_decorator(function, "@T.prim_func", check_well_formed, sys._getframe(1))


def _mark(decorator: Any, kind: str, *options: str) -> None:
    decorator.script_kind, decorator.script_options = kind, (*options, "check_well_formed")


_mark(ir_module, "module")
_mark(rewriter, "rewriter")
_mark(relax_function, "relax.function", "pure", "private", "name")
_mark(prim_func, "tir.prim_func", "private", "name")


def _function_decorator(function: Any, name: str, check: bool, frame: FrameType) -> Any:
    def decorate(decorated: Any, frame: FrameType) -> Any:
        if not isinstance(decorated, FunctionType):
            raise ScriptError(f"{name} decorates functions, got a {type(decorated).__name__}")
        if (
            "__qualname__" in frame.f_locals
            and "__module__" in frame.f_locals
            and frame.f_locals is not frame.f_globals
        ):
            return PendingFunction(decorated, name)
        names: list[Any] = [_captured(decorated), dict(frame.f_locals), frame.f_globals]
        environment = Environment(ChainMap(*names), trusted=True)
        code = decorated.__code__
        source, node = definition_at(code.co_filename, code.co_firstlineno, decorated.__name__, (ast.FunctionDef,))
        return parse_definition(source, node, environment, check_well_formed=check)

    if function is None:
        return lambda decorated: decorate(decorated, sys._getframe(1))
    return decorate(function, frame)


def _class_module(cls: type, frame: FrameType, check: bool) -> IRModule:
    if not isinstance(cls, type):
        raise ScriptError(f"@I.ir_module decorates classes, got {kind_of(cls)}", help="write it above a class")
    captured = [_captured(item.function) for item in vars(cls).values() if isinstance(item, PendingFunction)]
    names: list[Any] = [*captured, dict(frame.f_locals), frame.f_globals]
    file = frame.f_code.co_filename
    source, node = definition_at(file, frame.f_lineno, cls.__name__, (ast.ClassDef,))
    module = parse_definition(source, node, Environment(ChainMap(*names), trusted=True), check_well_formed=check)
    assert isinstance(module, IRModule)
    return module


def _captured(function: FunctionType) -> dict[str, Any]:
    """What a function sees of the functions around it."""
    out: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            out[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return out


def parse_definition(
    source: Source, node: ast.FunctionDef | ast.ClassDef, environment: Environment, *, check_well_formed: bool = True
) -> IRModule | BaseFunc:
    """A class as a module, or a function alone.

    Args:
        source: The text.
        node: The definition in it.
        environment: Names around it.
        check_well_formed: Whether the result is verified.

    Raises:
        ScriptError: it is not well written.
        WellFormedError: it breaks an invariant of the IR.
    """
    try:
        return _parse_and_check(source, node, environment, check_well_formed)
    except EutecticError as error:
        raise error.with_traceback(None) from None  # the place is in the error; the parser's frames say nothing
    except RecursionError:
        raise source.error(node, "nested too deeply") from None


def _parse_and_check(
    source: Source, node: ast.FunctionDef | ast.ClassDef, environment: Environment, check_well_formed: bool
) -> IRModule | BaseFunc:
    parsed = _parse(source, node, environment)
    if not check_well_formed:
        return parsed
    if isinstance(parsed, (IRModule, PrimFunc)):
        verify_well_formed(parsed)
    if isinstance(parsed, (IRModule, Function)):
        problems = problems_of(parsed)
        if problems:
            raise WellFormedError(
                f"{node.name} is ill-formed: {problems[0]}", at=source.excerpt(node), notes=problems[1:]
            )
    return parsed


def _parse(source: Source, node: ast.FunctionDef | ast.ClassDef, environment: Environment) -> IRModule | BaseFunc:
    kind, options = decorator_of(node, Evaluator(source, Scopes(), environment))
    if isinstance(node, ast.ClassDef):
        return ModuleParser(source, node, environment).parse()
    if kind == "relax.function":
        return RelaxParser(source, environment).function(node, FunctionOptions.of(options))
    private = bool(options.get("private", False))
    return TirParser(source, environment).function(node, private=private, name=options.get("name"))
