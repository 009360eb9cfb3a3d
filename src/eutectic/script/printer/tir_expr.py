"""Expressions, buffers and regions of tensor programs as text."""

from __future__ import annotations

import math
from typing import Any

from eutectic.ir.attrs import DictAttrs
from eutectic.ir.module import GlobalVar
from eutectic.ir.node import Node
from eutectic.ir.op import Op
from eutectic.ir.prim_expr import Call, FloatImm, IntImm, PrimExpr, SizeVar, StringImm, Var, add
from eutectic.ir.prim_type import PointerType, PrimType, Type
from eutectic.ir.structural import structural_equal
from eutectic.script.printer.metadata import Metadata
from eutectic.script.printer.names import Names
from eutectic.script.printer.options import PrintOptions
from eutectic.script.printer.prim import PrimPrinter, float_text, quoted
from eutectic.support.deep import deep
from eutectic.tir import op as intrinsics
from eutectic.tir.buffer import Buffer, BufferLoad, BufferRegion
from eutectic.tir.expr import Let
from eutectic.tir.iter_var import IterVar, Range

# Intrinsics whose first operand is a dtype, and those that take a name before their arguments.
_DTYPE_FIRST = frozenset({"tir.call_extern", "tir.call_pure_extern", "tir.reinterpret", "tir.undef"})


class TirExprPrinter(PrimPrinter):
    """Prints what stands inside statements.

    Args:
        metadata: Values without a text of their own.
        functions: Names of the module's functions.
        alias: What calls of the module's functions are written on.
        options: How it is printed.
    """

    def __init__(self, metadata: Metadata, functions: Names, alias: str, options: PrintOptions | None = None) -> None:
        self.options = options or PrintOptions()
        self.plain_dtype = self.options.int_dtype
        self.metadata, self.functions, self.alias = metadata, functions, alias
        self.module = "Module"
        self.names = self.fresh_names()
        self.pointers: dict[Var, Buffer] = {}  # the buffers whose data is meant by a pointer
        self.uses_module = False

    def fresh_names(self) -> Names:
        """Nothing has a name yet."""
        options = self.options
        taken = (self.module, self.alias, options.ir_prefix, options.tir_prefix, options.relax_prefix)
        return Names(taken, addresses=options.show_object_address)

    # ---- expressions

    def text(self, expr: Any, level: int = 0) -> str:
        """An expression, in parentheses when it binds less tightly than `level`."""
        return self.options.marked(expr, super().text(expr, level))

    def variable(self, var: Var) -> str:
        """Name of a variable; the pointer of a known buffer is an attribute of it."""
        buffer = self.pointers.get(var)
        if buffer is not None and not self.names.knows(var):
            return f"{self.buffer(buffer)}.data"
        return self.names.of(var, var.name)

    def literal(self, expr: IntImm | FloatImm | StringImm) -> str:
        """A constant; those of the dtypes that the options name are written bare."""
        if isinstance(expr, IntImm) and expr.dtype == "bool":
            return f"T.bool({bool(expr.value)})"
        if isinstance(expr, FloatImm) and expr.dtype == self.options.float_dtype and math.isfinite(expr.value):
            return float_text(expr.value)
        return super().literal(expr)

    def other(self, expr: Any) -> str:
        """Expressions of tensor programs only, and nodes that intrinsics take."""
        match expr:
            case BufferLoad():
                if expr.predicate is None:
                    return f"{self.buffer(expr.buffer)}[{self.indices(expr.indices)}]"
                where = f"[{self.joined(expr.indices)}], predicate={self.text(expr.predicate)}"
                return f"{self.buffer(expr.buffer)}.vload({where})"
            case Call():
                return self.call(expr)
            case Let():
                where = f"{{{self.variable(expr.var)}: {self.text(expr.value)}}}"
                return f"T.Let({self.text(expr.body)}, where={where})"
            case Buffer():
                return self.buffer(expr)
            case BufferRegion():
                return self.region(expr)
            case IterVar():
                return self.iter_var(expr)
            case Range():
                return self.explicit_range(expr)
            case Type():
                return self.type_text(expr)
            case _:
                return self.metadata.reference(expr.type_key, expr)

    def call(self, call: Call) -> str:
        """A call, by the function that makes it; else with its dtype and operator spelt out."""
        if isinstance(call.op, GlobalVar):
            self.uses_module = True
            target = f"{self.alias}.{self.functions.of_text(call.op.name_hint)}"
            if call.dtype == "void":
                return f"{target}({self.joined(call.args)})"
            return f'T.Call("{call.dtype}", {target}, [{self.joined(call.args)}])'
        short = call.op.name.removeprefix("tir.")
        if call.op.name in _DTYPE_FIRST and _rebuilt(call, short, (call.dtype, *call.args)):
            return f'T.{short}("{call.dtype}"{"".join(f", {self.text(arg)}" for arg in call.args)})'
        if _rebuilt(call, short, call.args):
            return f"T.{short}({self.joined(call.args)})"
        return f'T.Call("{call.dtype}", {quoted(call.op.name)}, [{self.joined(call.args)}])'

    def indices(self, values: Any) -> str:
        """What stands in the brackets of an access."""
        return self.joined(values) if values else "()"

    # ---- buffers and ranges

    def buffer(self, buffer: Buffer) -> str:
        """Name of a buffer."""
        return self.names.of(buffer, buffer.name)

    def region(self, region: BufferRegion) -> str:
        """A region; ranges of one element are written as indices."""
        parts = [self.text(r.min) if r.is_point else self.slice(r) for r in region.region]
        return f"{self.buffer(region.buffer)}[{', '.join(parts) or '()'}]"

    def slice(self, taken: Range) -> str:
        """A range inside brackets."""
        end = end_of(taken)
        return self.explicit_range(taken) if end is None else f"{self.text(taken.min)}:{self.text(end)}"

    def explicit_range(self, taken: Range) -> str:
        """A range as a call."""
        end = end_of(taken)
        if end is None:
            return f"T.Range(min={self.text(taken.min)}, extent={self.text(taken.extent)})"
        return f"T.Range({self.text(taken.min)}, {self.text(end)})"

    def iter_var(self, axis: IterVar) -> str:
        """An axis that no statement of its own declares."""
        dom = "None" if axis.dom is None else self.explicit_range(axis.dom)
        return f"T.iter_var({self.variable(axis.var)}, {dom}, {quoted(axis.iter_type)}, {quoted(axis.thread_tag)})"

    def declaration(self, buffer: Buffer, *, always_dtype: bool = False, data: bool = False) -> str:
        """Arguments that declare a buffer: shape, dtype unless it is understood, and what differs from the defaults."""
        parts = [self.display(buffer.shape)]
        if always_dtype or buffer.dtype != self.options.buffer_dtype:
            parts.append(quoted(buffer.dtype))
        if data:
            parts.append(f"data={self.variable(buffer.data)}")
        if buffer.strides:
            parts.append(f"strides={self.display(buffer.strides)}")
        if buffer.elem_offset is not None:
            parts.append(f"elem_offset={self.text(buffer.elem_offset)}")
        if buffer.scope() != "global":
            parts.append(f"scope={quoted(buffer.scope())}")
        if buffer.data_alignment != 64:
            parts.append(f"align={buffer.data_alignment}")
        if buffer.offset_factor:
            parts.append(f"offset_factor={buffer.offset_factor}")
        if buffer.axis_separators:
            parts.append(f"axis_separators=[{', '.join(map(str, buffer.axis_separators))}]")
        return ", ".join(parts)

    def display(self, items: Any) -> str:
        """Expressions as a tuple display."""
        return f"({self.joined(items)},)" if len(items) == 1 else f"({self.joined(items)})"

    # ---- types and annotations

    @deep
    def type_text(self, ir_type: Type) -> str:
        """A type as an annotation."""
        match ir_type:
            case PrimType():
                return f"T.{ir_type.dtype}"
            case PointerType(element_type=PrimType()):
                scope = "" if ir_type.storage_scope == "global" else f", {quoted(ir_type.storage_scope)}"
                return f"T.handle({quoted(ir_type.element_type.as_dtype)}{scope})"
            case PointerType():
                return f"T.handle({self.type_text(ir_type.element_type)}, {quoted(ir_type.storage_scope)})"
            case _:
                return "None"

    def type_of(self, var: Var) -> str:
        """The type of a variable as an annotation."""
        if var.type_annotation is not None and not isinstance(var.type_annotation, PrimType):
            return self.type_text(var.type_annotation)
        return f"T.{var.dtype}(is_size_var=True)" if isinstance(var, SizeVar) else f"T.{var.dtype}"

    @deep
    def attr(self, value: Any) -> str:
        """An annotation as a Python literal; constants that are nodes keep their dtype."""
        match value:
            case str():
                return quoted(value)
            case None | bool() | int():
                return repr(value)
            case float():
                text = float_text(value)
                return f"float({text})" if text.startswith('"') else text
            case tuple() | list():
                return "[" + ", ".join(map(self.attr, value)) + "]"
            case dict() | DictAttrs():
                return "{" + ", ".join(f"{quoted(str(k))}: {self.attr(v)}" for k, v in value.items()) + "}"
            case IntImm():
                return f"T.{value.dtype}({bool(value.value) if value.dtype == 'bool' else value.value})"
            case StringImm():
                return f"T.StringImm({quoted(value.value)})"
            case GlobalVar():
                self.uses_module = True
                return f"{self.alias}.{self.functions.of_text(value.name_hint)}"
            case PrimExpr() | BufferRegion() | Buffer() | IterVar() | Range() | Type():
                return self.text(value)
            case _:
                kind = value.type_key if isinstance(value, Node) else f"{type(value).__module__}.{type(value).__name__}"
                return self.metadata.reference(kind, value)


def end_of(taken: Range) -> PrimExpr | None:
    """The end of a range, or None when `Range(begin, end)` would not give the same extent."""
    try:
        end = add(taken.min, taken.extent)
        return end if structural_equal(Range(taken.min, end).extent, taken.extent) else None
    except (TypeError, ValueError, ZeroDivisionError):
        return None


def _rebuilt(call: Call, short: str, args: Any) -> bool:
    """Whether the function of the intrinsic's name, given `args`, makes the same call."""
    build = getattr(intrinsics, short, None)
    if build is None or not isinstance(call.op, Op):
        return False
    plain = [arg.value if isinstance(arg, StringImm) else arg for arg in args]
    try:
        rebuilt = build(*plain)
    except (TypeError, ValueError, AttributeError, ZeroDivisionError):
        return False
    return (
        isinstance(rebuilt, Call)
        and rebuilt.op is call.op
        and rebuilt.dtype == call.dtype
        and len(rebuilt.args) == len(call.args)
        and all(
            a is b or (isinstance(a, StringImm) and isinstance(b, StringImm) and a.value == b.value)
            for a, b in zip(rebuilt.args, call.args, strict=True)
        )
    )
