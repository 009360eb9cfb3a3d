"""Modules as text, and the entry point that all nodes print through."""

from __future__ import annotations

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
            lines = ["# from tvm.script import relax as R", "", *lines]
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
    lines = [
        "# from tvm.script import ir as I",
        "# from tvm.script import relax as R",
        "",
        "@I.ir_module",
        "class Module:",
    ]
    body: list[str] = []
    shown = [(key, value) for key, value in mod.attrs.items()]
    if shown:
        body.append(f"I.module_attrs({{{', '.join(f'{chr(34)}{k}{chr(34)}: {printer.attr(v)}' for k, v in shown)}}})")
    if mod.global_infos:
        body.append(f"I.module_global_infos({printer.attr(mod.global_infos)})")
    for gv, function in mod.functions_items():
        if body:
            body.append("")
        if isinstance(function, Function):
            body += printer.function(function, gv.name_hint)
        else:
            body.append(f"{identifier(gv.name_hint)} = {plain(function)}")
    lines += [INDENT + line if line else line for line in body or ["pass"]]
    return lines


def _metadata(constants: list[Constant], show_meta: bool) -> list[str]:
    if not constants:
        return []
    if not show_meta:
        return ["", _OMITTED]
    rows = [f'#   ["relax.expr.Constant"][{i}]: {c.data.dtype}{list(c.data.shape)}' for i, c in enumerate(constants)]
    return ["", "# metadata", *rows]


register_printer(print_text)
