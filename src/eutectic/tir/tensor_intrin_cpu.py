"""Tensor intrinsics for CPUs, as vector code; `tir.TensorIntrin.get` makes them when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final, TypeAlias

from eutectic.ir.dtype import item_bytes
from eutectic.ir.node import replace
from eutectic.ir.prim_expr import FloatImm, IntImm, PrimExpr, Var, add, cast, mul
from eutectic.tir.access import block_access
from eutectic.tir.block import Block, BlockRealize
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.function import PrimFunc
from eutectic.tir.iter_var import IterVar, Range
from eutectic.tir.stmt import BufferStore, For, Stmt

Functions: TypeAlias = "tuple[PrimFunc, PrimFunc]"  # the description and the implementation
_TRUE: Final = IntImm("bool", 1)


def _buffers(*shapes: tuple[str, str, tuple[int, ...]]) -> list[Buffer]:
    # elements are accessed by indices, so that nothing but the alignment of an element is needed
    return [Buffer(name, shape, dtype, data_alignment=item_bytes(dtype)) for name, dtype, shape in shapes]


def _loops(variables: Sequence[Var], extents: Sequence[int], kinds: Sequence[str], body: Stmt) -> Stmt:
    for var, extent, kind in reversed(list(zip(variables, extents, kinds, strict=True))):
        body = For(var, IntImm("int32", 0), IntImm("int32", extent), kind, body)
    return body


def _function(params: Sequence[Buffer], body: Stmt) -> PrimFunc:
    """A function with a root block that states its regions."""
    root = Block((), (), (), "root", body)
    reads, writes = block_access(root)
    realize = BlockRealize((), _TRUE, replace(root, reads=reads, writes=writes))
    return PrimFunc(tuple(params), realize)  # type: ignore[arg-type]  # buffers become parameters


def _description(
    name: str, params: Sequence[Buffer], extents: Sequence[int], axes: str, store: Callable[[Sequence[Var]], Stmt]
) -> PrimFunc:
    """Loops around one block; `axes` has `S` for spatial axes and `R` for those of a reduction."""
    kinds = {"S": "data_par", "R": "comm_reduce"}
    loops = [Var(letter, "int32") for letter in "ijk"[: len(extents)]]
    inner = [Var(f"v{loop.name}", "int32") for loop in loops]
    iter_vars = [
        IterVar(Range(extent), var, kinds[kind]) for extent, var, kind in zip(extents, inner, axes, strict=True)
    ]
    block = Block(tuple(iter_vars), (), (), name, store(inner))
    reads, writes = block_access(block)
    realize = BlockRealize(tuple(loops), _TRUE, replace(block, reads=reads, writes=writes))
    return _function(params, _loops(loops, extents, ["serial"] * len(loops), realize))


def _dot(rows: int, a_dtype: str, b_dtype: str) -> Functions:
    """`C[i] += sum over k of A[k] * B[i, k]` for four values of k, in 32 bits."""

    def params() -> list[Buffer]:
        return _buffers(("A", a_dtype, (4,)), ("B", b_dtype, (rows, 4)), ("C", "int32", (rows,)))

    def term(a: Buffer, b: Buffer, i: PrimExpr, k: PrimExpr) -> PrimExpr:
        return mul(cast("int32", BufferLoad(a, (k,))), cast("int32", BufferLoad(b, (i, k))))

    a, b, c = params()
    desc = _description(
        "dot",
        (a, b, c),
        (rows, 4),
        "SR",
        lambda v: BufferStore(c, add(BufferLoad(c, (v[0],)), term(a, b, v[0], v[1])), (v[0],)),
    )
    x, y, z = params()
    lane = Var("lane", "int32")
    total: PrimExpr = BufferLoad(z, (lane,))
    for k in range(4):
        total = add(total, term(x, y, lane, IntImm("int32", k)))
    impl = _function((x, y, z), _loops([lane], [rows], ["vectorized"], BufferStore(z, total, (lane,))))
    return desc, impl


def _outer_product(rows: int, columns: int) -> Functions:
    """`C[i, j] += A[i, 0] * B[0, j]` in float32: one step of a product of matrices, with a row of vectors of C."""
    zero = IntImm("int32", 0)

    def params() -> list[Buffer]:
        shapes = (("A", (rows, 1)), ("B", (1, columns)), ("C", (rows, columns)))
        return _buffers(*((name, "float32", shape) for name, shape in shapes))

    def step(buffers: Sequence[Buffer], i: PrimExpr, j: PrimExpr, k: PrimExpr) -> Stmt:
        a, b, c = buffers
        value = add(BufferLoad(c, (i, j)), mul(BufferLoad(a, (i, k)), BufferLoad(b, (k, j))))
        return BufferStore(c, value, (i, j))

    described, used = params(), params()
    desc = _description("update", described, (rows, columns, 1), "SSR", lambda v: step(described, *v))
    row, lane = Var("row", "int32"), Var("lane", "int32")
    body = step(used, row, lane, zero)
    return desc, _function(used, _loops([row, lane], [rows, columns], ["unrolled", "vectorized"], body))


def _fill(rows: int, columns: int) -> Functions:
    """`C[i, j] = 0` in float32."""

    def zeros(buffer: Buffer, at: Sequence[Var]) -> Stmt:
        return BufferStore(buffer, FloatImm("float32", 0.0), tuple(at))

    described, used = (_buffers(("C", "float32", (rows, columns)))[0] for _ in range(2))
    desc = _description("fill", [described], (rows, columns), "SS", partial(zeros, described))
    row, lane = Var("row", "int32"), Var("lane", "int32")
    body = _loops([row, lane], [rows, columns], ["unrolled", "vectorized"], zeros(used, (row, lane)))
    return desc, _function([used], body)


CPU_INTRINSICS: Final[Mapping[str, Callable[[], Functions]]] = MappingProxyType(
    {
        "dot_4x4_i8i8s32": partial(_dot, 4, "int8", "int8"),
        "dot_16x4_u8i8i32": partial(_dot, 16, "uint8", "int8"),
        "matmul_4x16x1_f32": partial(_outer_product, 4, 16),
        "fill_4x16_f32": partial(_fill, 4, 16),
    }
)
"""Functions of each intrinsic by its name."""
