"""The graph dialect as TVMScript text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from eutectic.ir.attrs import DictAttrs
from eutectic.ir.dtype import from_numpy
from eutectic.ir.module import GlobalVar
from eutectic.ir.node import Node
from eutectic.ir.op import Op
from eutectic.ir.prim_expr import FloatImm, IntImm, PrimExpr
from eutectic.ir.prim_expr import Var as ScalarVar
from eutectic.relax.base import Expr, ShapeExpr, ShapeStructInfo, StructInfo
from eutectic.relax.expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    DataTypeImm,
    ExternFunc,
    Function,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
)
from eutectic.relax.op.registry import op_def
from eutectic.relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from eutectic.relax.vdevice import VDevice, device_text
from eutectic.script.printer.metadata import Metadata
from eutectic.script.printer.names import Names
from eutectic.script.printer.options import PrintOptions
from eutectic.script.printer.prim import float_text, prim_text
from eutectic.support.deep import deep

INDENT = "    "
# Calls whose result the caller states; they have forms of their own.
_STATED = frozenset(
    f"relax.call_{how}"
    for how in ("dps_packed", "tir", "tir_inplace", "tir_with_grad", "pure_packed", "inplace_packed")
)


class RelaxPrinter:
    """Prints graph functions and expressions of one module.

    Args:
        metadata: Values without a text of their own met so far; shared by the functions of a module.
        module_alias: What calls of the module's functions are written on.
        options: How it is printed.
    """

    def __init__(
        self, metadata: Metadata | None = None, module_alias: str = "cls", options: PrintOptions | None = None
    ) -> None:
        self.metadata = metadata if metadata is not None else Metadata()
        self.alias, self.module = module_alias, "Module"
        self.options = options or PrintOptions()
        self.names = self._fresh_names()
        self.functions = Names(self._reserved)
        self.uses_module = False
        self.infos: Mapping[str, Any] = {}  # of the module being printed
        self._symbols: dict[int, ScalarVar] = {}  # symbolic sizes met in the present function
        self._in_signature = False

    @property
    def _reserved(self) -> tuple[str, ...]:
        options = self.options
        return (self.module, self.alias, options.ir_prefix, options.tir_prefix, options.relax_prefix)

    def _fresh_names(self) -> Names:
        return Names(self._reserved, addresses=self.options.show_object_address)

    # ---- functions and statements

    def function(self, function: Function, name: str, *, local: bool = False) -> list[str]:
        """Lines of a function definition."""
        outer = self.names
        if not local:
            self.names, self._symbols, self.uses_module = self._fresh_names(), {}, False
        self._in_signature = True
        params = ", ".join(f"{self.var(p)}: {self.info(p.struct_info)}" for p in function.params)
        ret = self.info(function.ret_struct_info)
        self._in_signature = False
        shown = name if local else self.function_name(name)
        lines = [self._decorator(function, name, shown, local), f"def {shown}({params}) -> {ret}:"]
        attrs, body = self._attrs(function, shown), self.body(function.body)
        if not local and self.uses_module and self.alias != self.module:
            attrs.append(f"{self.alias} = {self.module}")
        if not local:
            attrs = [*(f"{self.scalar_var(v)} = T.{v.dtype}()" for v in self._symbols.values()), *attrs]
        body = [*attrs, *body]
        lines += [INDENT + line for line in body]
        self.names = outer
        return self.options.marked_lines(function, lines)

    def _decorator(self, function: Function, name: str, shown: str, local: bool) -> str:
        options = []
        if name != shown:
            options.append(f"name={quoted(name)}")
        if not function.is_pure:
            options.append("pure=False")
        if not local and function.attr("global_symbol") is None:
            options.append("private=True")
        return "@R.function" + (f"({', '.join(options)})" if options else "")

    def _attrs(self, function: Function, name: str) -> list[str]:
        items = (
            [(k, v) for k, v in function.attrs.items() if not (k == "global_symbol" and v == name)]
            if function.attrs
            else []
        )
        return [f"R.func_attr({{{', '.join(f'{quoted(k)}: {self.attr(v)}' for k, v in items)}}})"] if items else []

    def body(self, body: SeqExpr) -> list[str]:
        """Lines of a function's or branch's statements, the `return` last."""
        return [*(line for block in body.blocks for line in self.block(block)), f"return {self.expr(body.body)}"]

    def block(self, block: BindingBlock) -> list[str]:
        """Lines of a block."""
        lines = [line for binding in block.bindings for line in self.binding(binding)]
        if not isinstance(block, DataflowBlock):
            return self.options.marked_lines(block, lines)
        outputs = [self.var(b.var) for b in block.bindings if not isinstance(b.var, DataflowVar)]
        lines = ["with R.dataflow():", *(INDENT + line for line in [*lines, f"R.output({', '.join(outputs)})"])]
        return self.options.marked_lines(block, lines)

    @deep
    def binding(self, binding: Binding) -> list[str]:
        """Lines of one binding."""
        return self.options.marked_lines(binding, self._binding(binding))

    def _binding(self, binding: Binding) -> list[str]:
        value = binding.value
        if isinstance(binding, MatchCast):
            cast = f"R.match_cast({self.expr(value)}, {self.info(binding.struct_info)})"
            return [f"{self.var(binding.var)}: {self.info(binding.var.struct_info)} = {cast}"]
        if isinstance(value, Function):
            return self.function(value, self.var(binding.var), local=True)
        if isinstance(value, If):
            return self._if(value, binding.var)
        text = self.expr(value)
        return [f"{self.var(binding.var)}{self._stated(binding.var, value)} = {text}"]

    def _stated(self, var: Var, value: Any) -> str:
        """The type of a variable, where it is to be written."""
        info = var.struct_info
        if info is None or (not self.options.show_all_struct_info and info == value.struct_info):
            return ""
        return f": {self.info(info)}"

    def _if(self, value: If, var: Var) -> list[str]:
        lines = [f"if {self.expr(value.cond)}:"]
        for head, branch in (("", value.true_branch), ("else:", value.false_branch)):
            assert isinstance(branch, SeqExpr)
            if head:
                lines.append(head)
            inner = [line for block in branch.blocks for line in self.block(block)]
            inner.append(f"{self.var(var)}: {self.info(var.struct_info)} = {self.expr(branch.body)}")
            lines += [INDENT + line for line in inner]
        return lines

    # ---- expressions

    def var(self, var: Var) -> str:
        """Name of a variable."""
        return self.options.marked(var, self.names.of(var, var.name_hint))

    def function_name(self, name: str) -> str:
        """Identifier of a function of the module."""
        return self.functions.of_text(name)

    def scalar_var(self, var: ScalarVar) -> str:
        """Name of a symbolic size."""
        self._symbols[id(var)] = var
        return self.names.of(var, var.name)

    @deep
    def expr(self, expr: Any) -> str:
        """An expression in one line."""
        return self.var(expr) if isinstance(expr, Var) else self.options.marked(expr, self._expr(expr))

    def _expr(self, expr: Any) -> str:
        match expr:
            case Call():
                return self.call(expr)
            case Constant():
                return self.constant(expr)
            case Tuple():
                return tuple_text(self.expr(item) for item in expr.fields)
            case TupleGetItem():
                return f"{self.expr(expr.tuple_value)}[{expr.index}]"
            case ShapeExpr():
                return f"R.shape([{', '.join(map(self.prim, expr.values))}])"
            case PrimValue():
                return f"R.prim_value({self.prim_value(expr.value)})"
            case StringImm():
                return f"R.str({quoted(expr.value)})"
            case DataTypeImm():
                return f"R.dtype({quoted(expr.value)})"
            case ExternFunc():
                return f"R.ExternFunc({quoted(expr.global_symbol)})"
            case GlobalVar():
                self.uses_module = True
                return f"{self.alias}.{self.function_name(expr.name_hint)}"
            case Op():
                return quoted(expr.name)
            case SeqExpr():
                return "; ".join(self.body(expr))
            case _:
                return f"<{type(expr).__name__}>"

    def prim(self, value: PrimExpr) -> str:
        """A size inside a shape literal."""
        return prim_text(value, self.scalar_var)

    def prim_value(self, value: PrimExpr) -> str:
        """A scalar argument."""
        if isinstance(value, FloatImm):
            return f"T.{value.dtype}({float_text(value.value)})"
        if isinstance(value, IntImm) and value.dtype == "bool":
            return f"T.bool({bool(value.value)})"
        return prim_text(value, self.scalar_var)

    def constant(self, constant: Constant) -> str:
        """A constant: inline when it is a number, else by its place in the metadata."""
        data = constant.data
        dtype = from_numpy(data.dtype)
        if data.ndim == 0 and constant.struct_info == TensorStructInfo(ShapeExpr(()), dtype):
            value = data.item()
            if isinstance(value, (bool, int)):
                return f"R.const({value}, {quoted(dtype)})"
            if isinstance(value, float) and np.asarray(value).astype(data.dtype).tobytes() == data.tobytes():
                return f"R.const({number_text(value)}, {quoted(dtype)})"  # not a NaN with a payload
        return self.metadata.reference("relax.expr.Constant", constant)

    def call(self, call: Call) -> str:
        """A call: operands by position, then every option by name."""
        op = call.op
        if isinstance(op, Op):
            special = self._special_call(call)
            if special is not None:
                return special
            parts = [self.argument(arg) for arg in call.args]
            parts += [f"{key}={self.attr(value)}" for key, value in (call.attrs.items() if call.attrs else [])]
            if call.sinfo_args:
                parts.append(f"sinfo_args={tuple_text(map(self.info, call.sinfo_args))}")
            if op_def(op) is None:
                return self._call_by_name(op.name, call)
            return f"R.{op.name.removeprefix('relax.')}({', '.join(parts)})"
        args = ", ".join(map(self.expr, call.args))
        if isinstance(op, ExternFunc):
            infos = f", sinfo_args={tuple_text(map(self.info, call.sinfo_args))}" if call.sinfo_args else ""
            return f"R.call_packed({quoted(op.global_symbol)}{', ' + args if args else ''}{infos})"
        return f"{self.expr(op)}({args})"

    def _call_by_name(self, name: str, call: Call) -> str:
        """A call of an operator that only its name is known of."""
        parts = [quoted(name), *map(self.expr, call.args)]
        if call.attrs is not None:
            parts.append(f"attrs={self.attr(dict(call.attrs.items()))}")
        if call.sinfo_args:
            parts.append(f"sinfo_args={tuple_text(map(self.info, call.sinfo_args))}")
        return f"R.call_op({', '.join(parts)})"

    def argument(self, arg: Any) -> str:
        """An operand of an operator: scalars are written bare."""
        return self.prim_value(arg.value) if isinstance(arg, PrimValue) else self.expr(arg)

    def _special_call(self, call: Call) -> str | None:
        name = call.op.name
        if name not in _STATED:
            return None
        head = call.args[0]
        target = quoted(head.global_symbol) if isinstance(head, ExternFunc) else self.expr(head)
        infos = list(map(self.info, call.sinfo_args))
        options = [f"{key}={self.attr(value)}" for key, value in (call.attrs.items() if call.attrs else [])]
        if name in ("relax.call_pure_packed", "relax.call_inplace_packed"):
            options = [*map(self.expr, call.args[1:]), *options, f"sinfo_args={tuple_text(infos)}"]
            return f"R.{name.removeprefix('relax.')}({', '.join([target, *options])})"
        out = infos[0] if len(infos) == 1 else f"[{', '.join(infos)}]"
        options.append(f"out_sinfo={out}")
        if len(call.args) > 2:
            options.append(f"tir_vars={self.expr(call.args[2])}")
        return f"R.{name.removeprefix('relax.')}({target}, {self.expr(call.args[1])}, {', '.join(options)})"

    @deep
    def attr(self, value: Any) -> str:
        """An option or annotation as a Python literal."""
        match value:
            case str():
                return quoted(value)
            case float():
                return number_text(value)
            case tuple() | list():
                return "[" + ", ".join(map(self.attr, value)) + "]"
            case dict() | DictAttrs():
                return "{" + ", ".join(f"{quoted(str(k))}: {self.attr(v)}" for k, v in value.items()) + "}"
            case IntImm():
                return f"T.{value.dtype}({value.value})"
            case PrimExpr():
                return self.prim(value)
            case StructInfo():
                return self.info(value)
            case Op() | GlobalVar() | Expr():
                return self.expr(value)
            case VDevice():
                return quoted(device_text(value, self.infos))
            case None | bool() | int():
                return repr(value)
            case _:
                kind = value.type_key if isinstance(value, Node) else f"{type(value).__module__}.{type(value).__name__}"
                return self.metadata.reference(kind, value)

    # ---- struct info

    @deep
    def info(self, info: Any) -> str:
        """Struct info as an annotation."""
        match info:
            case TensorStructInfo():
                return self._tensor(info)
            case ShapeStructInfo():
                if info.values is not None:
                    return f"R.Shape([{', '.join(map(self._dim, info.values))}])"
                return f"R.Shape(ndim={info.ndim})"
            case PrimStructInfo():
                return (
                    f"R.Prim(value={self._dim(info.value)})"
                    if info.value is not None
                    else f"R.Prim({quoted(str(info.dtype))})"
                )
            case TupleStructInfo():
                return f"R.Tuple({', '.join(map(self.info, info.fields))})"
            case FuncStructInfo():
                return self._callable(info)
            case ObjectStructInfo() | None:
                return "R.Object"
            case _:
                return f"<{type(info).__name__}>"

    def _tensor(self, info: TensorStructInfo) -> str:
        parts = []
        if info.dims is not None:
            parts.append(tuple_text(map(self._dim, info.dims)))
        elif info.shape is not None:
            parts.append(self.expr(info.shape))
        if info.dtype:
            parts.append(f"dtype={quoted(info.dtype)}")
        if info.vdevice is not None:
            parts.append(f"vdevice={quoted(device_text(info.vdevice, self.infos))}")
        if info.shape is None and info.ndim >= 0:
            parts.append(f"ndim={info.ndim}")
        return f"R.Tensor({', '.join(parts)})" if parts else "R.Tensor"

    def _callable(self, info: FuncStructInfo) -> str:
        purity = "True" if info.purity else "False"
        if info.params is None:
            return f"R.Callable(ret={self.info(info.ret)}, purity={purity})"
        return f"R.Callable({tuple_text(map(self.info, info.params))}, {self.info(info.ret)}, {purity})"

    def _dim(self, value: PrimExpr | None) -> str:
        """A size in an annotation; in a signature symbolic ones are quoted, which defines them."""
        assert value is not None
        text = self.prim(value)
        return text if isinstance(value, IntImm) or not self._in_signature else quoted(text)


def number_text(value: float) -> str:
    """A Python float as an expression that reads back to the same value."""
    return f'float("{value}")' if value != value or value in (float("inf"), float("-inf")) else repr(float(value))


def quoted(text: str) -> str:
    """A string literal in double quotes."""
    body = repr(text)[1:-1]
    return '"' + (body if repr(text)[0] == '"' else body.replace("\\'", "'").replace('"', '\\"')) + '"'


def tuple_text(items: Iterable[str]) -> str:
    """Items as a tuple display."""
    listed = list(items)
    return f"({listed[0]},)" if len(listed) == 1 else f"({', '.join(listed)})"
