"""Tensor intrinsics for CPUs: families of microkernels, whose sizes and dtypes are in their names.

`tir.TensorIntrin.get` makes one when it is asked for. All are vector code of the intermediate language, so that they
run in the interpreter, and on every processor: rows that are wider than its vectors take several of them.

A tile of sums stays in vector registers where it fits: of 16 registers 12 are for sums, of 32 up to 28. So
`matmul_6x16x64_f32` is for vectors of 256 bits, and `matmul_14x32x64_f32` for vectors of 512 bits.

Reference: K. Goto and R. van de Geijn, "Anatomy of high-performance matrix multiplication", ACM TOMS 2008.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Final, NoReturn

from eutectic.ir.dtype import is_float
from eutectic.ir.prim_expr import IntImm, PrimExpr, Var, add, cast, mul
from eutectic.support.errors import ScheduleError
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.microkernel import Functions, Operand, Sums, buffer, description, filled, function, loops
from eutectic.tir.stmt import BufferStore

FORMS: Final = (
    "matmul_{rows}x{columns}x{terms}_{dtypes}",
    "conv_{points}x{filters}x{taps}x{channels}s{stride}_{dtypes}",
    "depthwise_{points}x{channels}x{taps}s{stride}_{dtypes}",
    "dot_{rows}x4_{dtypes}",
    "fill_{rows}x{columns}_{dtype}",
)
"""What names look like, by families. One dtype is that of everything, two are those of factors and of sums, and three
those of each factor and of sums; a stride of one may be left out."""
_DTYPES: Final[Mapping[str, str]] = MappingProxyType(
    {"bf16": "bfloat16", "f16": "float16", "f32": "float32", "f64": "float64"}
    | {"i8": "int8", "s8": "int8", "u8": "uint8", "i32": "int32", "s32": "int32"}
)
_DTYPE: Final = "|".join(_DTYPES)
_OF_SUMS: Final = ("float32", "float64", "int32")
_MOST_SUMS: Final = 1024  # of a tile: all are written out


@dataclass(frozen=True)
class _Dtypes:
    a: str
    b: str
    sums: str


def cpu_intrinsic(name: str) -> Functions | None:
    """The functions of an intrinsic; None where no family has such names.

    Raises:
        ScheduleError: the family has no member of these sizes or dtypes.
    """
    for form, make in _FAMILIES.items():
        found = re.fullmatch(rf"{form}_((?:{_DTYPE}){{1,3}})", name)
        if found is not None:
            *sizes, dtypes = found.groups(default="1")
            return make(name, [int(size) for size in sizes], _dtypes(dtypes))
    return None


def _dtypes(text: str) -> _Dtypes:
    parts = [_DTYPES[part] for part in re.findall(_DTYPE, text)]
    return _Dtypes(parts[0], parts[-2] if len(parts) == 3 else parts[0], parts[-1])


def _refuse(name: str, why: str) -> NoReturn:
    raise ScheduleError(f"tensor intrinsic {name}: {why}", help=f"names are {', '.join(FORMS)}")


def _require(name: str, tile: Sequence[int], others: Sequence[int], dtypes: _Dtypes) -> None:
    """Sizes that can be written out, and factors that can be added up."""
    if min((*tile, *others)) < 1 or prod(tile) > _MOST_SUMS:
        _refuse(name, f"a tile has 1 to {_MOST_SUMS} elements, and no size is zero")
    factors = {dtypes.a, dtypes.b}
    if dtypes.sums not in _OF_SUMS or any(is_float(factor) != is_float(dtypes.sums) for factor in factors):
        _refuse(name, f"products of {dtypes.a} and {dtypes.b} are not added up in {dtypes.sums}")


# ---- families


def _matmul(name: str, sizes: Sequence[int], dtypes: _Dtypes) -> Functions:
    """`C[i, j] += A[i, k] * B[k, j]`."""
    rows, columns, terms = sizes
    _require(name, (rows, columns), (terms,), dtypes)
    a = Operand((rows, terms), dtypes.a, lambda at: (at[0], at[2]))
    b = Operand((terms, columns), dtypes.b, lambda at: (at[2], at[1]))
    return Sums(a, b, (rows, columns), (terms,), dtypes.sums).functions()


def _conv(name: str, sizes: Sequence[int], dtypes: _Dtypes) -> Functions:
    """`C[i, j] += A[i * stride + k, l] * B[k, l, j]`: a row of windows over all channels."""
    points, filters, taps, channels, stride = sizes
    _require(name, (points, filters), (taps, channels, stride), dtypes)
    a = Operand((_seen(name, points, taps, stride), channels), dtypes.a, lambda at: (_tap(at, stride), at[3]))
    b = Operand((taps, channels, filters), dtypes.b, lambda at: (at[2], at[3], at[1]))
    return Sums(a, b, (points, filters), (taps, channels), dtypes.sums).functions()


def _depthwise(name: str, sizes: Sequence[int], dtypes: _Dtypes) -> Functions:
    """`C[i, j] += A[i * stride + k, j] * B[k, j]`: a row of windows over each channel by itself."""
    points, channels, taps, stride = sizes
    _require(name, (points, channels), (taps, stride), dtypes)
    a = Operand((_seen(name, points, taps, stride), channels), dtypes.a, lambda at: (_tap(at, stride), at[1]))
    b = Operand((taps, channels), dtypes.b, lambda at: (at[2], at[1]))
    return Sums(a, b, (points, channels), (taps,), dtypes.sums).functions()


def _seen(name: str, points: int, taps: int, stride: int) -> int:
    """How many points of the data some windows see, without gaps between them."""
    if points > 1 and stride > taps:
        _refuse(name, f"windows of {taps} that move by {stride} leave data out")
    return (points - 1) * stride + taps


def _tap(at: Sequence[PrimExpr], stride: int) -> PrimExpr:
    return add(at[0] if stride == 1 else mul(at[0], IntImm("int32", stride)), at[2])


def _dot(name: str, sizes: Sequence[int], dtypes: _Dtypes) -> Functions:
    """`C[i] += sum over k of A[k] * B[i, k]` for four values of k."""
    (rows,) = sizes
    _require(name, (rows,), (), dtypes)
    if is_float(dtypes.sums):
        _refuse(name, "four terms at once are integers")

    def params() -> tuple[Buffer, Buffer, Buffer]:
        return buffer("A", (4,), dtypes.a), buffer("B", (rows, 4), dtypes.b), buffer("C", (rows,), dtypes.sums)

    def term(a: Buffer, b: Buffer, i: PrimExpr, k: PrimExpr) -> PrimExpr:
        return mul(cast(dtypes.sums, BufferLoad(a, (k,))), cast(dtypes.sums, BufferLoad(b, (i, k))))

    a, b, c = params()
    desc = description(
        "dot",
        (a, b, c),
        (rows, 4),
        "SR",
        lambda v: BufferStore(c, add(BufferLoad(c, v[:1]), term(a, b, v[0], v[1])), v[:1]),
    )
    x, y, z = params()
    lane = Var("lane", "int32")
    total: PrimExpr = BufferLoad(z, (lane,))
    for k in range(4):
        total = add(total, term(x, y, lane, IntImm("int32", k)))
    return desc, function((x, y, z), loops([lane], [rows], ["vectorized"], BufferStore(z, total, (lane,))))


def _fill(name: str, sizes: Sequence[int], dtypes: _Dtypes) -> Functions:
    """`C[i, j] = 0`."""
    _require(name, sizes, (), dtypes)
    return filled(tuple(sizes), dtypes.sums)


_FAMILIES: Final[Mapping[str, Callable[[str, Sequence[int], _Dtypes], Functions]]] = MappingProxyType(
    {
        r"matmul_(\d+)x(\d+)x(\d+)": _matmul,
        r"conv_(\d+)x(\d+)x(\d+)x(\d+)(?:s(\d+))?": _conv,
        r"depthwise_(\d+)x(\d+)x(\d+)(?:s(\d+))?": _depthwise,
        r"dot_(\d+)x4": _dot,
        r"fill_(\d+)x(\d+)": _fill,
    }
)
