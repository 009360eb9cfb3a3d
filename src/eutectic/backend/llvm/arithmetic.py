"""Arithmetic and comparisons in LLVM, with the meaning of `tir.interpret.scalar`.

Floats may be contracted to fused multiply-adds and are nothing else than IEEE: no
reassociation, NaN and infinities kept, `llvm.maximum` and `llvm.minimum`. Integers
wrap around; a division by zero gives 0 instead of a trap.
"""

from __future__ import annotations

from typing import Final

from eutectic.backend.llvm.function_text import FunctionText
from eutectic.backend.llvm.types import constant, splat, vector
from eutectic.ir.dtype import is_float
from eutectic.ir.prim_expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    Div,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mul,
    Sub,
    TruncDiv,
    TruncMod,
    element_dtype,
)
from eutectic.support.errors import CodegenError

_FLOAT: Final = {Add: "fadd contract", Sub: "fsub contract", Mul: "fmul contract", Div: "fdiv"}
_INTEGER: Final = {Add: "add", Sub: "sub", Mul: "mul"}
_FLOAT_COMPARE: Final[dict[type, str]] = {EQ: "oeq", NE: "une", LT: "olt", LE: "ole", GT: "ogt", GE: "oge"}
_COMPARE: Final[dict[type, str]] = {EQ: "eq", NE: "ne", LT: "lt", LE: "le", GT: "gt", GE: "ge"}
_SUFFIX: Final = {"half": "f16", "float": "f32", "double": "f64"}


def overload(kind: str) -> str:
    """How the name of an LLVM intrinsic ends for a type: `v8f32` for `<8 x float>`."""
    if kind.startswith("<"):
        lanes, element = kind[1:-1].split(" x ")
        return f"v{lanes}{_SUFFIX.get(element, element)}"
    return _SUFFIX.get(kind, kind)


def binary(text: FunctionText, node: type, dtype: str, kind: str, a: str, b: str, divisor: int | None = None) -> str:
    """`a node b`.

    Args:
        text: Where instructions go.
        node: Class of the expression.
        dtype: Dtype of the operands.
        kind: LLVM type of the operands.
        a: First operand.
        b: Second operand.
        divisor: Its value, when it is a known integer.

    Raises:
        CodegenError: bfloat16, whose arithmetic must have been lowered to float32.
    """
    element = element_dtype(dtype)
    if element == "bfloat16":
        raise CodegenError("arithmetic of bfloat16 must be lowered to float32 first", help="run LegalizeNarrowFloat")
    if is_float(element):
        return _float(text, node, element, kind, a, b)
    if element == "bool":
        return _bool(text, node, kind, a, b)
    unsigned = element.startswith("uint")
    if node in _INTEGER:
        return text.assign(f"{_INTEGER[node]} {kind} {a}, {b}")
    if node in (Max, Min):
        name = f"llvm.{'u' if unsigned else 's'}{'max' if node is Max else 'min'}.{overload(kind)}"
        return text.call(kind, name, [(kind, a), (kind, b)])
    return _divide(text, node, dtype, kind, (a, b), divisor)


def _bool(text: FunctionText, node: type, kind: str, a: str, b: str) -> str:
    words = {Add: "or", Mul: "and", Max: "or", Min: "and", Sub: "xor"}
    if node not in words:
        raise CodegenError(f"{node.__name__} of bools cannot be compiled")
    return text.assign(f"{words[node]} {kind} {a}, {b}")


def _float(text: FunctionText, node: type, element: str, kind: str, a: str, b: str) -> str:
    if node in _FLOAT:
        return text.assign(f"{_FLOAT[node]} {kind} {a}, {b}")
    if node in (Max, Min):
        name = f"llvm.{'maximum' if node is Max else 'minimum'}.{overload(kind)}"
        return text.call(kind, name, [(kind, a), (kind, b)])
    if node in (FloorDiv, TruncDiv):
        quotient = text.assign(f"fdiv {kind} {a}, {b}")
        return text.call(kind, f"llvm.{'floor' if node is FloorDiv else 'trunc'}.{overload(kind)}", [(kind, quotient)])
    rest = text.assign(f"frem {kind} {a}, {b}")
    if node is TruncMod:
        return rest
    return _with_sign_of_divisor(text, element, kind, rest, b)


def _with_sign_of_divisor(text: FunctionText, element: str, kind: str, rest: str, b: str) -> str:
    """NumPy's remainder from C's: the divisor's sign, also of a zero."""
    lanes, single = _shape(kind)
    zero = splat(single, constant(element, 0.0), lanes)
    flags = vector("i1", lanes)
    nonzero = text.assign(f"fcmp une {kind} {rest}, {zero}")
    low = text.assign(f"fcmp olt {kind} {rest}, {zero}")
    other = text.assign(f"fcmp olt {kind} {b}, {zero}")
    differ = text.assign(f"xor {flags} {low}, {other}")
    moved = text.assign(f"fadd {kind} {rest}, {b}")
    whole = text.assign(f"select {flags} {differ}, {kind} {moved}, {kind} {rest}")
    signed = text.call(kind, f"llvm.copysign.{overload(kind)}", [(kind, rest), (kind, b)])
    return text.assign(f"select {flags} {nonzero}, {kind} {whole}, {kind} {signed}")


def _shape(kind: str) -> tuple[int, str]:
    if not kind.startswith("<"):
        return 1, kind
    lanes, element = kind[1:-1].split(" x ")
    return int(lanes), element


def _divide(text: FunctionText, node: type, dtype: str, kind: str, ab: tuple[str, str], divisor: int | None) -> str:
    lanes, single = _shape(kind)
    a, b = ab
    unsigned = dtype.startswith("uint")
    if node is Div:
        node = TruncDiv
    if divisor is not None and divisor > 0:
        return _divide_by_constant(text, node, kind, a, divisor, unsigned)
    flags = vector("i1", lanes)
    zero, one = splat(single, "0", lanes), splat(single, "1", lanes)
    none = text.assign(f"icmp eq {kind} {b}, {zero}")
    safe = text.assign(f"select {flags} {none}, {kind} {one}, {kind} {b}")
    if unsigned:
        result = text.assign(f"{'udiv' if node in (TruncDiv, FloorDiv) else 'urem'} {kind} {a}, {safe}")
        return text.assign(f"select {flags} {none}, {kind} {zero}, {kind} {result}")
    minus = text.assign(f"icmp eq {kind} {b}, {splat(single, '-1', lanes)}")  # the least integer by -1 would trap
    safe = text.assign(f"select {flags} {minus}, {kind} {one}, {kind} {safe}")
    quotient, rest = text.assign(f"sdiv {kind} {a}, {safe}"), text.assign(f"srem {kind} {a}, {safe}")
    negated = text.assign(f"sub {kind} {zero}, {a}")
    if node in (FloorDiv, FloorMod):
        quotient, rest = _floor(text, kind, quotient, rest, safe)
    if node in (TruncDiv, FloorDiv):
        result = text.assign(f"select {flags} {minus}, {kind} {negated}, {kind} {quotient}")
    else:
        result = text.assign(f"select {flags} {minus}, {kind} {zero}, {kind} {rest}")
    return text.assign(f"select {flags} {none}, {kind} {zero}, {kind} {result}")


def _floor(text: FunctionText, kind: str, quotient: str, rest: str, b: str) -> tuple[str, str]:
    """Quotient and remainder rounded down from those rounded to zero."""
    lanes, single = _shape(kind)
    flags = vector("i1", lanes)
    zero = splat(single, "0", lanes)
    inexact = text.assign(f"icmp ne {kind} {rest}, {zero}")
    signs = text.assign(f"xor {kind} {rest}, {b}")
    differ = text.assign(f"icmp slt {kind} {signs}, {zero}")
    down = text.assign(f"and {flags} {inexact}, {differ}")
    lower = text.assign(f"sub {kind} {quotient}, {splat(single, '1', lanes)}")
    moved = text.assign(f"add {kind} {rest}, {b}")
    return (
        text.assign(f"select {flags} {down}, {kind} {lower}, {kind} {quotient}"),
        text.assign(f"select {flags} {down}, {kind} {moved}, {kind} {rest}"),
    )


def _divide_by_constant(text: FunctionText, node: type, kind: str, a: str, divisor: int, unsigned: bool) -> str:
    lanes, single = _shape(kind)
    b = splat(single, str(divisor), lanes)
    if unsigned:
        return text.assign(f"{'udiv' if node in (TruncDiv, FloorDiv) else 'urem'} {kind} {a}, {b}")
    if node is TruncDiv:
        return text.assign(f"sdiv {kind} {a}, {b}")
    if node is TruncMod:
        return text.assign(f"srem {kind} {a}, {b}")
    if divisor & (divisor - 1) == 0:
        if node is FloorDiv:
            return text.assign(f"ashr {kind} {a}, {splat(single, str(divisor.bit_length() - 1), lanes)}")
        return text.assign(f"and {kind} {a}, {splat(single, str(divisor - 1), lanes)}")
    quotient, rest = text.assign(f"sdiv {kind} {a}, {b}"), text.assign(f"srem {kind} {a}, {b}")
    return _floor(text, kind, quotient, rest, b)[0 if node is FloorDiv else 1]


def compare(text: FunctionText, node: type, dtype: str, kind: str, a: str, b: str) -> str:
    """`a node b` as an i1 or a vector of them."""
    element = element_dtype(dtype)
    if is_float(element):
        if element == "bfloat16":
            raise CodegenError("comparisons of bfloat16 must be lowered to float32 first")
        return text.assign(f"fcmp {_FLOAT_COMPARE[node]} {kind} {a}, {b}")
    word = _COMPARE[node]
    if node not in (EQ, NE):
        word = ("u" if element.startswith("uint") or element in ("bool", "handle") else "s") + word
    return text.assign(f"icmp {word} {kind} {a}, {b}")
