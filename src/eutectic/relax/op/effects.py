"""Operators that are there for what they do, not for a result: print, assert_op."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any, Final

from eutectic.ir.attrs import Attrs
from eutectic.ir.node import node
from eutectic.relax.base import Expr, StructInfo
from eutectic.relax.expr import Call, StringImm, Tuple, convert
from eutectic.relax.op.registry import attrs_of, call, define_op, refuse
from eutectic.relax.struct_info import PrimStructInfo, TensorStructInfo, TupleStructInfo

_PRINT: Final = define_op("relax.print", pure=False)
_ASSERT: Final = define_op("relax.assert_op", arity=2, pure=False)


@node("relax.attrs.FormatAttrs")
class FormatAttrs(Attrs):
    """The text, with `{}` where a value stands; empty shows the values alone."""

    format: str = ""


def _text(format: str | Expr) -> str:
    return format.value if isinstance(format, StringImm) else str(format)


def print(*values: Any, format: str | Expr = "", span: Any = None) -> Call:
    """Write values to the standard output when the program runs; only a function that is not pure may do so.

    Args:
        values: Tensors, shapes, scalars.
        format: A text with `{}` for each value; empty writes the values, apart by spaces.
        span: Python source of the call, for errors.

    Returns:
        A tuple without fields.

    Raises:
        TypeInferenceError: `format` has another number of places than there are values.

    Reference: TVM relax.op.print.
    """
    text, operands = _text(format), values
    if not text and values and isinstance(values[0], (str, StringImm)):  # as TVM's constructor takes it
        text, operands = _text(values[0]), values[1:]
    return call(_PRINT, *operands, attrs=FormatAttrs(text), span=span)


@_PRINT.infer
def _infer_print(c: Call) -> StructInfo:
    _fits(c, attrs_of(c, FormatAttrs).format, len(c.args))
    return TupleStructInfo(())


def _fits(c: Call, text: str, count: int) -> None:
    try:
        text.format(*range(count))
    except (IndexError, KeyError, ValueError) as error:
        refuse(c, f"the format {text!r} does not fit {count} values ({error})", help="write {} for each value")


def _shown(text: str, values: Sequence[Any]) -> str:
    return text.format(*values) if text else " ".join(map(str, values))


@_PRINT.reference
def _reference_print(attrs: FormatAttrs, *values: Any) -> tuple[()]:
    builtins.print(_shown(attrs.format, values))
    return ()


def assert_op(
    condition: Any, format_args: Expr | Sequence[Any] | None = None, format: str | Expr = "", *, span: Any = None
) -> Call:
    """End the program when a condition does not hold; only a function that is not pure may do so.

    Args:
        condition: A bool, or a bool tensor without axes.
        format_args: Values that the message shows.
        format: The message, with `{}` for each value.
        span: Python source of the call, for errors.

    Returns:
        A tuple without fields.

    Raises:
        TypeInferenceError: the condition is no bool, or the message has another number of places.
        AssertionError: at run time, the condition does not hold.

    Reference: TVM relax.op.assert_op.
    """
    shown = format_args if isinstance(format_args, (list, tuple)) else [] if format_args is None else [format_args]
    operands = format_args if isinstance(format_args, Tuple) else Tuple(tuple(map(convert, shown)))
    return call(_ASSERT, convert(condition), operands, attrs=FormatAttrs(_text(format)), span=span)


@_ASSERT.infer
def _infer_assert(c: Call) -> StructInfo:
    info, values = c.args[0].struct_info, c.args[1].struct_info
    is_tensor = isinstance(info, TensorStructInfo) and info.ndim in (-1, 0)
    if not (is_tensor or isinstance(info, PrimStructInfo)) or getattr(info, "dtype", "") not in ("", "bool"):
        refuse(c, "the condition of assert_op must be one bool", help="compare, and reduce with min")
    _fits(c, attrs_of(c, FormatAttrs).format, len(values.fields) if isinstance(values, TupleStructInfo) else 1)
    return TupleStructInfo(())


@_ASSERT.reference
def _reference_assert(attrs: FormatAttrs, condition: Any, values: tuple[Any, ...]) -> tuple[()]:
    if not bool(condition):
        shown = _shown(attrs.format, values)
        raise AssertionError("Assertion Failed" + (f": {shown}" if shown else ""))
    return ()
