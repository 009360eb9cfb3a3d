"""Operands and results of calls as records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from eutectic.driver.plan import OperatorRecord, Size, TensorRecord
from eutectic.ir.op import Op
from eutectic.ir.prim_expr import IntImm, PrimExpr
from eutectic.ir.span import Span
from eutectic.relax.analysis.flops import operator_work
from eutectic.relax.base import StructInfo
from eutectic.relax.expr import Call, Constant, Tuple, Var, describe_size
from eutectic.relax.struct_info import TensorStructInfo, TupleStructInfo
from eutectic.support.deep import deep


def operator_record(var: Var, call: Call, op: str, part_of: str = "") -> OperatorRecord:
    """A call as a record.

    Args:
        var: What it is bound to.
        call: A call of an operator, or of a tensor program through `call_tir`.
        op: The name to give it.
        part_of: The operator that it is a part of.
    """
    module, source = place(call.span)
    is_operator = isinstance(call.op, Op) and call.op.name == op
    flops, work = amount(operator_work(call) if is_operator else None)
    return OperatorRecord(
        op,
        var.name_hint,
        module,
        source,
        tuple(operands(call)),
        tuple(tensors_of(var.name_hint, var.struct_info)),
        flops,
        part_of,
        work,
    )


def amount(value: int | PrimExpr | None) -> tuple[int | None, str]:
    """Operations as a number, and as an expression where they are none."""
    if isinstance(value, IntImm):
        return value.value, ""
    return (None, describe_size(value)) if isinstance(value, PrimExpr) else (value, "")


def place(span: Span | None) -> tuple[str, str]:
    """Path of the module, and `file:line`; empty when unknown. Of several places the first that has each."""
    known = span.all if span is not None else ()
    module = next((part.module for part in known if part.module), "")
    return module, next((f"{part.file}:{part.line}" for part in known if part.file), "")


def operands(call: Call) -> Iterator[TensorRecord]:
    """Tensors among the arguments of a call, tuples flattened."""
    for arg in call.args:
        yield from _tensors(arg)


@deep
def _tensors(arg: Any) -> list[TensorRecord]:
    if isinstance(arg, Tuple):
        return [tensor for item in arg.fields for tensor in _tensors(item)]
    name = arg.name_hint if isinstance(arg, Var) else ""
    return list(tensors_of(name, getattr(arg, "struct_info", None), isinstance(arg, Constant)))


@deep
def tensors_of(name: str, info: StructInfo | None, constant: bool = False) -> list[TensorRecord]:
    """The tensors of a value; those of a tuple have names with numbers."""
    if isinstance(info, TupleStructInfo):
        return [t for i, part in enumerate(info.fields) for t in tensors_of(f"{name}[{i}]", part, constant)]
    if not isinstance(info, TensorStructInfo):
        return []
    shape: Iterable[Size] = map(_size, info.dims) if info.dims is not None else ("?",) * max(info.ndim, 1)
    return [TensorRecord(name, tuple(shape), info.dtype or "", constant)]


def _size(size: PrimExpr) -> Size:
    return size.value if isinstance(size, IntImm) else describe_size(size)
