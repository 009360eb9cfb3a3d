"""Modules as text, and the entry point that all nodes print through."""

from __future__ import annotations

import re
from typing import Any

from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.node import Node
from eutectic.ir.prim_expr import PrimExpr
from eutectic.ir.printer import plain, register_printer
from eutectic.relax.base import Expr, StructInfo
from eutectic.relax.expr import BindingBlock, Constant, Function, MatchCast, VarBinding
from eutectic.script.printer.names import identifier
from eutectic.script.printer.prim import prim_text
from eutectic.script.printer.relax import INDENT, RelaxPrinter

_TIR = re.compile(r'^(?:[^"]|"(?:[^"\\]|\\.)*")*?\bT\.')  # outside of string literals
_OMITTED = "# Metadata omitted. Use show_meta=True in script() method to show it."


def print_text(item: Any, *, name: str | None = None, show_meta: bool = False, module_alias: str = "cls") -> str:
    """Text of a module, function, expression, struct info or scalar.

    Args:
        item: What to print.
        name: Name of a function printed alone; None takes its `global_symbol`, else `main`.
        show_meta: List dtype and shape of the constants that are only referred to.
        module_alias: What calls of the module's functions are written on.
    """
    constants: list[Constant] = []
    printer = RelaxPrinter(constants, module_alias)
    match item:
        case IRModule():
            lines = _module(item, printer)
        case Function():
            lines = printer.function(item, name or str(item.attr("global_symbol", "main")))
            lines = [*_imports(lines, "R"), "", *lines]
        case BindingBlock():
            lines = printer.block(item)
        case VarBinding() | MatchCast():
            lines = printer.binding(item)
        case StructInfo():
            lines = [printer.info(item)]
        case GlobalVar():
            lines = [f'I.GlobalVar("{item.name_hint}")']
        case PrimExpr():
            lines = [prim_text(item, printer.scalar_var)]
        case Expr():
            lines = [printer.expr(item)]
        case Node():
            lines = [plain(item)]
        case _:
            lines = [repr(item)]
    return "\n".join([*lines, *_metadata(constants, show_meta)])


def _module(mod: IRModule, printer: RelaxPrinter) -> list[str]:
    body: list[str] = []
    names = [gv.name_hint for gv in mod.get_global_vars()]
    for name in sorted(names, key=lambda name: (identifier(name) != name, name)):
        printer.function_name(name)  # what is an identifier already keeps its name
    if len(mod.attrs):
        body.append(f"I.module_attrs({printer.attr(mod.attrs)})")
    if mod.global_infos:
        body.append(f"I.module_global_infos({printer.attr(mod.global_infos)})")
    for gv, function in mod.functions_items():
        if body:
            body.append("")
        if isinstance(function, Function):
            body += printer.function(function, gv.name_hint)
        else:
            body.append(f"{printer.function_name(gv.name_hint)} = {plain(function)}")
    lines = ["@I.ir_module", "class Module:", *(INDENT + line if line else line for line in body or ["pass"])]
    return [*_imports(lines, "IR"), "", *lines]


def _imports(lines: list[str], always: str) -> list[str]:
    """The header: which namespaces the text uses."""
    names = {"I": "ir as I", "T": "tir as T", "R": "relax as R"}
    used = {*always, *("T" for line in lines if _TIR.search(line))}
    return [f"# from tvm.script import {name}" for key, name in names.items() if key in used]


def _metadata(constants: list[Constant], show_meta: bool) -> list[str]:
    if not constants:
        return []
    if not show_meta:
        return ["", _OMITTED]
    rows = [f'#   ["relax.expr.Constant"][{i}]: {c.data.dtype}{list(c.data.shape)}' for i, c in enumerate(constants)]
    return ["", "# metadata", *rows]


register_printer(print_text)
