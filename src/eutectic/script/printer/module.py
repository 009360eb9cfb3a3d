"""Modules as text, and the entry point that all nodes print through."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from eutectic.ir.global_info import DummyGlobalInfo
from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.node import Node
from eutectic.ir.prim_expr import PrimExpr
from eutectic.ir.prim_type import Type
from eutectic.ir.printer import register_printer
from eutectic.ir.visit import post_order
from eutectic.relax.base import Expr, StructInfo
from eutectic.relax.expr import BindingBlock, Constant, Function, MatchCast, VarBinding
from eutectic.relax.vdevice import VDevice
from eutectic.script.printer.layout import laid_out
from eutectic.script.printer.metadata import Metadata
from eutectic.script.printer.names import identifier
from eutectic.script.printer.options import print_options
from eutectic.script.printer.plain import plain
from eutectic.script.printer.prim import prim_text
from eutectic.script.printer.relax import INDENT, RelaxPrinter
from eutectic.script.printer.tir import TirPrinter
from eutectic.tir.buffer import Buffer, BufferRegion
from eutectic.tir.function import PrimFunc
from eutectic.tir.iter_var import IterVar, Range
from eutectic.tir.stmt import Stmt

_TIR = re.compile(r'^(?:[^"]|"(?:[^"\\]|\\.)*")*?\bT\.')  # outside of string literals
_OMITTED = "# Metadata omitted. Use show_meta=True in script() method to show it."


def print_text(
    item: Any,
    *,
    name: str | None = None,
    show_meta: bool = False,
    module_alias: str = "cls",
    declare: bool = True,
    verbose_expr: bool = False,
    **options: Any,
) -> str:
    """Text of a module, function, expression, struct info or scalar.

    Args:
        item: What to print.
        name: Name of a function printed alone; None takes its `global_symbol`, else `main`.
        show_meta: List dtype and shape of the constants that are only referred to.
        module_alias: What calls of the module's functions are written on.
        declare: Write declarations of free variables and buffers before a statement printed alone.
        verbose_expr: Accepted as TVM does; expressions are always written in full.
        options: Further options, by the names of TVM's `script()`: see `PrintOptions` and `print_options`.

    Raises:
        TypeError: there is no such option.
        ValueError: an option has a value that it cannot have.
    """
    metadata = Metadata()
    if not options:  # the common case is not slowed down
        lines = _printed(item, name, RelaxPrinter(metadata, module_alias), declare)
        return "\n".join([*lines, *_trailer(metadata, show_meta)])
    wanted = print_options(item, **options)
    lines = _printed(item, name, RelaxPrinter(metadata, module_alias, wanted), declare)
    return "\n".join(laid_out([*lines, *_trailer(metadata, show_meta)], wanted))


def _printed(item: Any, name: str | None, printer: RelaxPrinter, declare: bool) -> list[str]:
    return _statement(item, printer, declare) if isinstance(item, Stmt) else _lines(item, name, printer)


def print_with_metadata(item: Any, *, name: str | None = None) -> tuple[str, Metadata]:
    """Text of a program, and the values it refers to, which `from_source` takes back.

    Args:
        item: An `IRModule` or a function.
        name: Name of a function printed alone; None takes its `global_symbol`, else `main`.
    """
    metadata = Metadata()
    return "\n".join([*_lines(item, name, RelaxPrinter(metadata)), ""]), metadata


def _lines(item: Any, name: str | None, printer: RelaxPrinter) -> list[str]:
    match item:
        case IRModule():
            lines = _module(item, name or "Module", printer)
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
        case PrimFunc():
            lines = _tir(printer).function(item, name or str(item.attr("global_symbol", "main")))
            lines = [*_imports(lines, "T"), "", *lines]
        case Buffer():
            lines = [f"T.Buffer({_tir(printer).declaration(item, always_dtype=True)})"]
        case BufferRegion() | Range() | IterVar() | Type():
            lines = [_tir(printer).text(item)]
        case PrimExpr():
            tensor = any(isinstance(part, Buffer) for part in post_order(item))
            lines = [_tir(printer).text(item) if tensor else prim_text(item, printer.scalar_var)]
        case Expr():
            lines = [printer.expr(item)]
        case Node():
            lines = [plain(item)]
        case _:
            lines = [repr(item)]
    return lines


def _statement(item: Stmt, printer: RelaxPrinter, declare: bool) -> list[str]:
    tir = _tir(printer)
    declarations = tir.declare_free(item)  # which gives names, wanted or not
    return [*(declarations if declare else []), *tir.run(item)]


def _tir(printer: RelaxPrinter) -> TirPrinter:
    """A printer of tensor programs that shares the module's names and metadata."""
    tir_printer = TirPrinter(printer.metadata, printer.functions, printer.alias, printer.options)
    tir_printer.module = printer.module
    tir_printer.begin()
    return tir_printer


def _module(mod: IRModule, shown: str, printer: RelaxPrinter) -> list[str]:
    printer.module = shown
    body: list[str] = []
    printer.infos = mod.global_infos
    names = [gv.name_hint for gv in mod.get_global_vars()]
    for name in sorted(names, key=lambda name: (identifier(name) != name, name)):
        printer.function_name(name)  # what is an identifier already keeps its name
    if len(mod.attrs):
        body.append(f"I.module_attrs({printer.attr(mod.attrs)})")
    if mod.global_infos:
        body.append(f"I.module_global_infos({_infos(mod, printer)})")
    for gv, function in mod.functions_items():
        if body:
            body.append("")
        if isinstance(function, Function):
            body += printer.function(function, gv.name_hint)
        elif isinstance(function, PrimFunc):
            body += _tir(printer).function(function, gv.name_hint)
        else:
            body.append(f"{printer.function_name(gv.name_hint)} = {plain(function)}")
    always = "IR" if not mod.functions or any(isinstance(f, Function) for f in mod.functions.values()) else "IT"
    lines = ["@I.ir_module", f"class {shown}:", *(INDENT + line if line else line for line in body or ["pass"])]
    return [*_imports(lines, always), "", *lines]


def _infos(mod: IRModule, printer: RelaxPrinter) -> str:
    """The lists of global information, by kind."""
    lists = (
        f"{printer.attr(kind)}: [{', '.join(_info(i, printer) for i in infos)}]"
        for kind, infos in mod.global_infos.items()
    )
    return "{" + ", ".join(lists) + "}"


def _info(info: Any, printer: RelaxPrinter) -> str:
    if isinstance(info, VDevice):
        described = {"kind": info.target.kind.name, **info.target.as_options()}
        return f"I.vdevice({printer.attr(described)}, {info.vdevice_id}, {printer.attr(info.memory_scope)})"
    return "I.dummy_global_info()" if isinstance(info, DummyGlobalInfo) else printer.attr(info)


def _imports(lines: list[str], always: str) -> list[str]:
    """The header: which namespaces the text uses."""
    names = {"I": "ir as I", "T": "tir as T", "R": "relax as R"}
    used = {*always, *("T" for line in lines if _TIR.search(line))}
    return [f"# from tvm.script import {name}" for key, name in names.items() if key in used]


def _trailer(metadata: Metadata, show_meta: bool) -> list[str]:
    if not len(metadata):
        return []
    if not show_meta:
        return ["", _OMITTED]
    rows = [f'#   ["{kind}"][{i}]: {_summary(v)}' for kind, values in metadata.items() for i, v in enumerate(values)]
    return ["", "# metadata", *rows]


def _summary(value: Any) -> str:
    data = value.data if isinstance(value, Constant) else value
    return f"{data.dtype}{list(data.shape)}" if isinstance(data, np.ndarray) else type(value).__name__


register_printer(print_text)
