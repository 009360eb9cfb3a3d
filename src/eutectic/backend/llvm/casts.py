"""Conversions between dtypes in LLVM, with the meaning of `tir.interpret.scalar.casting`.

Everything is rounded once: what goes from more than 32 bits to a 16-bit float goes
through a float32 that is rounded to odd (Boldo and Melquiond, 2008).
"""

from __future__ import annotations

from typing import Final

from eutectic.backend.llvm.arithmetic import overload
from eutectic.backend.llvm.function_text import FunctionText
from eutectic.backend.llvm.types import constant, register_type, splat, vector
from eutectic.ir.dtype import NARROW_INTEGERS, is_float, item_bytes
from eutectic.ir.prim_expr import element_dtype, lanes_of, with_lanes

_NARROW: Final = ("float16", "bfloat16")


def cast(text: FunctionText, source: str, target: str, value: str) -> str:
    """A value of dtype `source` as one of dtype `target`, which has as many lanes."""
    lanes = lanes_of(target)
    old, new = element_dtype(source), element_dtype(target)
    if old == new:
        return value
    if new == "bool":
        return _to_bool(text, old, source, value)
    if is_float(old):
        return _from_float(text, old, new, lanes, value)
    return _from_integer(text, old, new, lanes, value)


def _to_bool(text: FunctionText, old: str, source: str, value: str) -> str:
    lanes = lanes_of(source)
    if old in _NARROW:
        value, old = cast(text, source, with_lanes("float32", lanes), value), "float32"
    single = register_type(old)
    kind = vector(single, lanes)
    zero = splat(single, constant(old, 0), lanes)
    return text.assign(f"{'fcmp une' if is_float(old) else 'icmp ne'} {kind} {value}, {zero}")


def _from_float(text: FunctionText, old: str, new: str, lanes: int, value: str) -> str:
    have, want = vector(register_type(old), lanes), vector(register_type(new), lanes)
    if old == "bfloat16":
        wide = _bfloat_to_float(text, lanes, value)
        return wide if new == "float32" else _from_float(text, "float32", new, lanes, wide)
    if not is_float(new):
        if old == "float16":
            return _from_float(
                text, "float32", new, lanes, text.assign(f"fpext {have} {value} to {vector('float', lanes)}")
            )
        if new in NARROW_INTEGERS:  # what does not fit wraps around, as between integers
            whole = _from_float(text, old, "int32", lanes, value)
            return text.assign(f"trunc {vector('i32', lanes)} {whole} to {want}")
        name = f"llvm.fpto{'u' if new.startswith('uint') else 's'}i.sat.{overload(want)}.{overload(have)}"
        return text.call(want, name, [(have, value)])
    if old == "float64" and new in _NARROW:
        return _from_float(text, "float32", new, lanes, _double_to_odd_float(text, lanes, value))
    if new == "bfloat16":
        if old == "float16":
            value = text.assign(f"fpext {have} {value} to {vector('float', lanes)}")
        return _float_to_bfloat(text, lanes, value)
    word = "fpext" if item_bytes(new) > item_bytes(old) else "fptrunc"
    return text.assign(f"{word} {have} {value} to {want}")


def _from_integer(text: FunctionText, old: str, new: str, lanes: int, value: str) -> str:
    have, want = vector(register_type(old), lanes), vector(register_type(new), lanes)
    unsigned = old == "bool" or old.startswith("uint")
    if not is_float(new):
        bits, wanted = (1 if old == "bool" else 8 * item_bytes(old)), 8 * item_bytes(new)
        if bits == wanted:
            return value
        word = "trunc" if bits > wanted else "zext" if unsigned else "sext"
        return text.assign(f"{word} {have} {value} to {want}")
    word = "uitofp" if unsigned else "sitofp"
    if new not in _NARROW:
        return text.assign(f"{word} {have} {value} to {want}")
    through = "double" if item_bytes(old) > 2 and old != "bool" else "float"  # 16 bits are exact in a float
    as_float = text.assign(f"{word} {have} {value} to {vector(through, lanes)}")
    return _from_float(text, "float64" if through == "double" else "float32", new, lanes, as_float)


def _bfloat_to_float(text: FunctionText, lanes: int, value: str) -> str:
    half, whole, real = vector("i16", lanes), vector("i32", lanes), vector("float", lanes)
    wide = text.assign(f"zext {half} {value} to {whole}")
    bits = text.assign(f"shl {whole} {wide}, {splat('i32', '16', lanes)}")
    return text.assign(f"bitcast {whole} {bits} to {real}")


def _float_to_bfloat(text: FunctionText, lanes: int, value: str) -> str:
    """Rounded to nearest, ties to even; NaN stays NaN with its quiet bit set."""
    half, whole, real = vector("i16", lanes), vector("i32", lanes), vector("float", lanes)
    flags = vector("i1", lanes)
    bits = text.assign(f"bitcast {real} {value} to {whole}")
    high = text.assign(f"lshr {whole} {bits}, {splat('i32', '16', lanes)}")
    odd = text.assign(f"and {whole} {high}, {splat('i32', '1', lanes)}")
    bias = text.assign(f"add {whole} {odd}, {splat('i32', '32767', lanes)}")
    rounded = text.assign(f"add {whole} {bits}, {bias}")
    near = text.assign(f"lshr {whole} {rounded}, {splat('i32', '16', lanes)}")
    quiet = text.assign(f"or {whole} {high}, {splat('i32', '64', lanes)}")
    is_nan = text.assign(f"fcmp uno {real} {value}, {value}")
    chosen = text.assign(f"select {flags} {is_nan}, {whole} {quiet}, {whole} {near}")
    return text.assign(f"trunc {whole} {chosen} to {half}")


def _double_to_odd_float(text: FunctionText, lanes: int, value: str) -> str:
    wide, real = vector("double", lanes), vector("float", lanes)
    whole, flags = vector("i32", lanes), vector("i1", lanes)
    near = text.assign(f"fptrunc {wide} {value} to {real}")
    back = text.assign(f"fpext {real} {near} to {wide}")
    inexact = text.assign(f"fcmp one {wide} {back}, {value}")
    size = text.call(wide, f"llvm.fabs.{overload(wide)}", [(wide, value)])
    grown = text.call(wide, f"llvm.fabs.{overload(wide)}", [(wide, back)])
    above = text.assign(f"fcmp ogt {wide} {grown}, {size}")
    bits = text.assign(f"bitcast {real} {near} to {whole}")
    one = splat("i32", "1", lanes)
    lower = text.assign(f"sub {whole} {bits}, {one}")
    cut = text.assign(f"select {flags} {above}, {whole} {lower}, {whole} {bits}")
    odd = text.assign(f"or {whole} {cut}, {one}")
    chosen = text.assign(f"select {flags} {inexact}, {whole} {odd}, {whole} {bits}")
    return text.assign(f"bitcast {whole} {chosen} to {real}")
