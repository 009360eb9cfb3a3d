"""Programs from text that comes from outside: nothing in it is run, and it sees only the names it needs."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final

from eutectic.ir.module import BaseFunc, IRModule
from eutectic.relax import op
from eutectic.script import ir, relax, tir
from eutectic.script.parser.entry import parse_definition
from eutectic.script.parser.environment import Environment, Namespace
from eutectic.script.parser.source import Source, parse_text
from eutectic.script.printer.metadata import Metadata
from eutectic.support.deep import deep

_IMPORTS: Final = {"tvm.script", "eutectic.script", "tvm", "eutectic", "__future__"}


def from_source(
    program: str,
    extra_vars: Mapping[str, Any] | None = None,
    check_well_formed: bool = True,
    *,
    metadata: Metadata | Mapping[str, Any] | None = None,
    file: str = "<script>",
) -> IRModule | BaseFunc:
    """A module or function from its text.

    The text is read as syntax and never run. It may use `I`, `R` and `T`, what is listed in
    `extra_vars`, and nothing else: no other Python names, no attributes of Python objects.

    Args:
        program: One class under `@I.ir_module`, or one function under `@R.function` or `@T.prim_func`.
        extra_vars: Further names the text may use, with their values.
        check_well_formed: Whether the result is verified.
        metadata: Constants that the text refers to as `metadata["relax.expr.Constant"][0]`,
            as `script.print_with_metadata` gives them.
        file: What messages call the text.

    Returns:
        An `IRModule`, `relax.Function` or `tir.PrimFunc`.

    Raises:
        ScriptError: the text is not well written, or asks for something it may not use; has the place.
        TypeInferenceError: an operator refuses its arguments; has the place.
        WellFormedError: the program breaks an invariant of the IR.
    """
    if not isinstance(program, str):
        raise TypeError(f"from_source takes text, got {type(program).__name__}")
    source, tree = parse_text(program, file)
    names = {**_namespaces(), "metadata": metadata if metadata is not None else Metadata(), **(extra_vars or {})}
    node = _definition(source, tree)
    return parse_definition(source, node, Environment(names, trusted=False), check_well_formed=check_well_formed)


def _definition(source: Source, tree: ast.Module) -> ast.FunctionDef | ast.ClassDef:
    definitions: list[ast.FunctionDef | ast.ClassDef] = []
    for statement in tree.body:
        match statement:
            case ast.FunctionDef() | ast.ClassDef():
                definitions.append(statement)
            case ast.ImportFrom(module=module) if module in _IMPORTS:
                continue
            case ast.Import(names=names) if all(alias.name in _IMPORTS for alias in names):
                continue
            case ast.Expr(value=ast.Constant(value=str())):
                continue
            case _:
                kind = type(statement).__name__
                source.refuse(statement, f"a {kind} statement may not stand beside the definition in a text")
    if len(definitions) > 1:
        source.refuse(
            definitions[1], "expected one definition", help="put the functions into a class under @I.ir_module"
        )
    if not definitions:
        source.refuse(tree, "the text has no definition", help="such as a class under @I.ir_module")
    return definitions[0]


def _namespaces() -> dict[str, Namespace]:
    if not _CACHE:
        r = Namespace("R", {**_members(op), **_members(relax)})
        kinds = ("spatial", "reduce", "scan", "opaque", "remap", "S", "R")
        axis = Namespace("T.axis", {kind: getattr(tir.axis, kind) for kind in kinds})
        i, t = Namespace("I", _members(ir)), Namespace("T", {**_members(tir), "axis": axis})
        script = Namespace("tvm.script", {"ir": i, "relax": r, "tir": t, "ir_module": ir.ir_module})
        operators = Namespace("relax.op", _members(op))
        graph = Namespace("relax", {"op": operators, "const": relax.const, "call_tir": relax.call_tir})
        _CACHE.update({"I": i, "R": r, "T": t, "relax": graph})
        _CACHE["tvm"] = Namespace("tvm", {"script": script, "relax": graph})
    return _CACHE


_CACHE: dict[str, Namespace] = {}


@deep
def _members(module: ModuleType) -> dict[str, Any]:
    """What a namespace module offers: what it exports, or else what it defines; modules inside become namespaces."""
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
    out: dict[str, Any] = {}
    for name in getattr(module, "__all__", own):
        value = getattr(module, name)
        title = f"{module.__name__.rpartition('.')[2]}.{name}"
        if not name.startswith("_"):
            out[name] = Namespace(title, _members(value)) if isinstance(value, ModuleType) else value
    return out
