"""Small kernels as tensor programs: what is computed, as loops around one block, and vector code that computes it.

An operand gives for each iteration the element that is multiplied; so products of matrices, windows that move by any
step, and windows of each channel by itself are one form. Sums begin with what is there and add terms in the order of
the description, so that the vector code gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from eutectic.ir.dtype import is_float, item_bytes
from eutectic.ir.node import replace
from eutectic.ir.prim_expr import FloatImm, IntImm, PrimExpr, Var, add, cast, mul
from eutectic.tir.access import block_access
from eutectic.tir.block import Block, BlockRealize
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.function import PrimFunc
from eutectic.tir.iter_var import IterVar, Range
from eutectic.tir.stmt import BufferStore, For, Stmt, seq

Functions: TypeAlias = "tuple[PrimFunc, PrimFunc]"  # the description and the implementation
Indices: TypeAlias = "tuple[PrimExpr, ...]"
Step: TypeAlias = "Callable[[Indices], Stmt]"  # what is done in an iteration
_TRUE: Final = IntImm("bool", 1)


@dataclass(frozen=True)
class Operand:
    """What is multiplied.

    Attributes:
        shape: Each element is used.
        dtype: Converted to that of the sums before anything is multiplied.
        at: The element of an iteration, from the variables of all loops.
    """

    shape: tuple[int, ...]
    dtype: str
    at: Callable[[Indices], Indices]


@dataclass(frozen=True)
class Sums:
    """`C[tile] += A[...] * B[...]`, over all terms.

    Attributes:
        a: The first operand.
        b: The second one.
        tile: Sizes of the result: rows that are written out, and lanes of vectors.
        terms: Sizes of the loops that add up, from the outermost to the innermost.
        dtype: Of the sums.
    """

    a: Operand
    b: Operand
    tile: tuple[int, ...]
    terms: tuple[int, ...]
    dtype: str

    def functions(self) -> Functions:
        """The loops as they are described, and code that has the whole tile in registers."""
        described = self._params()
        axes = "S" * len(self.tile) + "R" * len(self.terms)
        desc = description("update", described, (*self.tile, *self.terms), axes, self._step(*described))
        return desc, self._implementation()

    def _params(self) -> tuple[Buffer, Buffer, Buffer]:
        a, b = (buffer(name, item.shape, item.dtype) for name, item in (("A", self.a), ("B", self.b)))
        return a, b, buffer("C", self.tile, self.dtype)

    def _step(self, a: Buffer, b: Buffer, c: Buffer) -> Step:
        def add_term(at: Indices) -> Stmt:
            place = at[: len(self.tile)]
            factors = (self._widened(BufferLoad(x, item.at(at))) for x, item in ((a, self.a), (b, self.b)))
            return BufferStore(c, add(BufferLoad(c, place), mul(*factors)), place)

        return add_term

    def _widened(self, value: BufferLoad) -> PrimExpr:
        return value if value.dtype == self.dtype else cast(self.dtype, value)

    def _implementation(self) -> PrimFunc:
        a, b, c = self._params()
        sums = Buffer("sums", self.tile, self.dtype, scope="local")
        terms = tuple(Var(f"k{number}", "int32") for number in range(len(self.terms)))
        step = self._step(a, b, sums)
        adding = vectors(self.tile, lambda at: step((*at, *terms)))
        body = seq(
            vectors(self.tile, lambda at: BufferStore(sums, BufferLoad(c, at), at)),
            loops(terms, self.terms, ["serial"] * len(terms), adding),
            vectors(self.tile, lambda at: BufferStore(c, BufferLoad(sums, at), at)),
        )
        return function((a, b, c), body, (sums,))


def filled(tile: tuple[int, ...], dtype: str) -> Functions:
    """`C[tile] = 0`."""

    def zeros(target: Buffer) -> Step:
        zero = FloatImm(dtype, 0.0) if is_float(dtype) else IntImm(dtype, 0)
        return lambda at: BufferStore(target, zero, at)

    described, used = (buffer("C", tile, dtype) for _ in range(2))
    desc = description("fill", [described], tile, "S" * len(tile), zeros(described))
    return desc, function([used], vectors(tile, zeros(used)))


def buffer(name: str, shape: tuple[int, ...], dtype: str) -> Buffer:
    """A parameter; its elements are accessed by indices, so that nothing but the alignment of an element is needed."""
    return Buffer(name, shape, dtype, data_alignment=item_bytes(dtype))


def loops(variables: Sequence[Var], extents: Sequence[int], kinds: Sequence[str], body: Stmt) -> Stmt:
    """A nest of loops from zero on."""
    for var, extent, kind in reversed(list(zip(variables, extents, kinds, strict=True))):
        body = For(var, IntImm("int32", 0), IntImm("int32", extent), kind, body)
    return body


def vectors(tile: tuple[int, ...], step: Step) -> Stmt:
    """A statement for each element of a tile: rows are written out, those of the last axis are lanes."""
    *rows, lane = (Var(name, "int32") for name in ("row", "lane")[-len(tile) :])
    return loops([*rows, lane], tile, [*["unrolled"] * len(rows), "vectorized"], step((*rows, lane)))


def function(params: Sequence[Buffer], body: Stmt, own: Sequence[Buffer] = ()) -> PrimFunc:
    """A function with a root block that states its regions, and allocates buffers of its own."""
    root = Block((), (), (), "root", body, alloc_buffers=tuple(own))
    reads, writes = block_access(root)
    realize = BlockRealize((), _TRUE, replace(root, reads=reads, writes=writes))
    return PrimFunc(tuple(params), realize)  # type: ignore[arg-type]  # buffers become parameters


def description(name: str, params: Sequence[Buffer], extents: Sequence[int], axes: str, step: Step) -> PrimFunc:
    """Loops around one block; `axes` has `S` for spatial axes and `R` for those of a reduction."""
    kinds = {"S": "data_par", "R": "comm_reduce"}
    outside = [Var(letter, "int32") for letter in "ijkl"[: len(extents)]]
    inner = [Var(f"v{loop.name}", "int32") for loop in outside]
    iter_vars = [
        IterVar(Range(extent), var, kinds[kind]) for extent, var, kind in zip(extents, inner, axes, strict=True)
    ]
    block = Block(tuple(iter_vars), (), (), name, step(tuple(inner)))
    reads, writes = block_access(block)
    realize = BlockRealize(tuple(outside), _TRUE, replace(block, reads=reads, writes=writes))
    return function(params, loops(outside, extents, ["serial"] * len(outside), realize))
