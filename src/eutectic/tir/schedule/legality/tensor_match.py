"""Whether a statement computes what the description of a tensor intrinsic says, and on which regions."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from eutectic.arith.analyzer import Analyzer
from eutectic.ir.dtype import is_integer
from eutectic.ir.op import Op
from eutectic.ir.prim_expr import (
    Add,
    BinaryExpr,
    Call,
    Cast,
    Comparison,
    FloatImm,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    PrimExpr,
    Select,
    Var,
    add,
    sub,
)
from eutectic.support.deep import deep
from eutectic.tir.analysis.index_facts import reads_memory
from eutectic.tir.block import BlockRealize
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.iter_var import Range
from eutectic.tir.schedule.error import shown
from eutectic.tir.statement_mutator import operands_of, with_operands, with_values
from eutectic.tir.stmt import BufferStore, For, SeqStmt, Stmt

_EITHER_WAY = (Add, Mul, Min, Max)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the buffer of a description is in the program.

    Attributes:
        buffer: The buffer of the program.
        begin: Index of its first element on each axis of that; leading ones are of single elements.
    """

    buffer: Buffer
    begin: tuple[PrimExpr, ...]


class MismatchError(Exception):
    """Says what differs; never leaves the primitive that asked."""


class Matcher:
    """Compares statements loop by loop, with the loops of both counted from zero.

    Axes of blocks stand for their values, and loops of one iteration for their first one. Indices
    of a buffer differ from those of the description by the same amount everywhere.

    Args:
        analyzer: What is known of the variables around the program's statement.
    """

    def __init__(self, analyzer: Analyzer) -> None:
        self.analyzer = analyzer.copy()
        self.here: dict[Var, PrimExpr] = {}
        self.there: dict[Var, PrimExpr] = {}
        self.places: dict[Buffer, Place] = {}
        self.start: dict[Var, PrimExpr] = {}

    @deep
    def statement(self, mine: Stmt, wanted: Stmt) -> None:
        """Compare a statement of the program with one of the description.

        Raises:
            MismatchError: they differ, or are not shown to be the same.
        """
        mine, wanted = _peeled(mine, self.here), _peeled(wanted, self.there)
        if isinstance(mine, For) and isinstance(wanted, For):
            self.loops(mine, wanted)
        elif isinstance(mine, SeqStmt) and isinstance(wanted, SeqStmt) and len(mine) == len(wanted):
            for part, other in zip(mine.seq, wanted.seq, strict=True):
                self.statement(part, other)
        elif isinstance(mine, BufferStore) and isinstance(wanted, BufferStore):
            self.store(mine, wanted)
        else:
            raise MismatchError(f"there is {_kind(mine)} where {_kind(wanted)} is described")

    def loops(self, mine: For, wanted: For) -> None:
        """Compare two loops."""
        name, extent = mine.loop_var.name, mine.static_extent
        if extent is None or extent != wanted.static_extent:
            message = f"loop {name} has {shown(mine.extent)} iterations, and {shown(wanted.extent)} are described"
            raise MismatchError(message)
        if mine.kind != "serial" or len(mine.annotations):
            raise MismatchError(f"loop {name} is not serial, or has annotations")
        counter = Var(name, mine.loop_var.dtype)
        zero = IntImm(counter.dtype, 0)
        self.analyzer.bind(counter, Range(min=zero, extent=mine.extent))
        self.start[counter] = zero
        self.here[mine.loop_var] = add(with_values(mine.min, self.here), counter)
        self.there[wanted.loop_var] = counter  # a description's loops begin at zero
        self.statement(mine.body, wanted.body)

    def store(self, mine: BufferStore, wanted: BufferStore) -> None:
        """Compare two stores."""
        if mine.predicate is not None:
            raise MismatchError("a store has a predicate")
        self.access(mine.buffer, mine.indices, wanted.buffer, wanted.indices)
        self.value(mine.value, wanted.value)

    def access(self, mine: Buffer, indices: tuple[PrimExpr, ...], wanted: Buffer, others: tuple[PrimExpr, ...]) -> None:
        """Compare two accesses, the first of which finds out where the buffer is."""
        leading = len(indices) - len(others)
        known = self.places.get(wanted)
        if mine.dtype != wanted.dtype:
            raise MismatchError(f"{mine.name} is {mine.dtype} where {wanted.name} is {wanted.dtype}")
        if leading < 0 or (known is not None and known.buffer is not mine):
            raise MismatchError(f"{mine.name} is accessed where {wanted.name} is described")
        actual = [with_values(index, self.here) for index in indices]
        asked = [None] * leading + [with_values(index, self.there) for index in others]
        begins: list[PrimExpr] = []
        for axis, (index, other) in enumerate(zip(actual, asked, strict=True)):
            target = IntImm(index.dtype, 0) if other is None else _in_dtype(other, index.dtype)
            begin = known.begin[axis] if known is not None else self.begin_of(index, target)
            if reads_memory(index) or not self.analyzer.can_prove_equal(index, add(begin, target)):
                listed = ", ".join(shown(item) for item in indices)
                wants = ", ".join(shown(item) for item in others)
                message = f"{mine.name}[{listed}] does not run like {wanted.name}[{wants}], from one place on"
                raise MismatchError(message)
            begins.append(begin)
        self.places[wanted] = Place(mine, tuple(begins))

    def begin_of(self, index: PrimExpr, target: PrimExpr) -> PrimExpr:
        """Where the buffer would begin, if the indices were the same from there on."""
        return self.analyzer.simplify(sub(with_values(index, self.start), with_values(target, self.start)))

    @deep
    def value(self, mine: PrimExpr, wanted: PrimExpr) -> None:
        """Compare two values."""
        if mine.dtype != wanted.dtype:
            raise MismatchError(f"{shown(mine)} is {mine.dtype} where {shown(wanted)} is {wanted.dtype}")
        if isinstance(mine, BufferLoad) and isinstance(wanted, BufferLoad) and mine.predicate is None:
            self.access(mine.buffer, mine.indices, wanted.buffer, wanted.indices)
        elif isinstance(wanted, FloatImm):
            if not isinstance(mine, FloatImm) or struct.pack("d", mine.value) != struct.pack("d", wanted.value):
                raise MismatchError(f"{shown(mine)} is computed where {shown(wanted)} is described")
        elif is_integer(wanted.dtype) and not reads_memory(wanted):
            other = _in_dtype(with_values(wanted, self.there), wanted.dtype)
            if reads_memory(mine) or not self.analyzer.can_prove_equal(with_values(mine, self.here), other):
                raise MismatchError(f"{shown(mine)} is computed where {shown(wanted)} is described")
        else:
            self.operation(mine, wanted)

    def operation(self, mine: PrimExpr, wanted: PrimExpr) -> None:
        """Compare two operations and their operands; integers may be added or multiplied either way round."""
        same = type(mine) is type(wanted) and isinstance(wanted, BinaryExpr | Comparison | Select | Not | Cast | Call)
        if isinstance(mine, Call) and isinstance(wanted, Call):
            same = mine.op is wanted.op or (
                isinstance(mine.op, Op) and isinstance(wanted.op, Op) and mine.op.name == wanted.op.name
            )
        operands, asked = operands_of(mine), operands_of(wanted)
        if not same or len(operands) != len(asked):
            raise MismatchError(f"{shown(mine)} is computed where {shown(wanted)} is described")
        before = dict(self.places)
        try:
            for a, b in zip(operands, asked, strict=True):
                self.value(a, b)
        except MismatchError:
            if not (isinstance(wanted, _EITHER_WAY) and is_integer(wanted.dtype)):
                raise
            self.places = before
            for a, b in zip(reversed(operands), asked, strict=True):
                self.value(a, b)


def _peeled(stmt: Stmt, values: dict[Var, PrimExpr]) -> Stmt:
    """The statement below blocks and loops of one iteration, whose variables get their values."""
    while True:
        if isinstance(stmt, For) and stmt.static_extent == 1 and stmt.kind == "serial" and not len(stmt.annotations):
            values[stmt.loop_var] = with_values(stmt.min, values)
            stmt = stmt.body
        elif isinstance(stmt, BlockRealize):
            block = stmt.block
            if not stmt.always_runs:
                raise MismatchError(f"block {block.name_hint} runs under a condition")
            if block.init is not None or block.alloc_buffers or block.match_buffers:
                raise MismatchError(f"block {block.name_hint} has initial values or buffers of its own")
            for axis, value in zip(block.iter_vars, stmt.iter_values, strict=True):
                values[axis.var] = with_values(value, values)
            stmt = block.body
        else:
            return stmt


@deep
def _in_dtype(expr: PrimExpr, dtype: str) -> PrimExpr:
    """An index with the variables that it has, which are of `dtype`, and constants of that dtype too."""
    if isinstance(expr, IntImm):
        return IntImm(dtype, expr.value)
    operands = operands_of(expr)
    if not operands or all(operand.dtype == dtype for operand in operands):
        return expr
    return with_operands(expr, [_in_dtype(operand, dtype) for operand in operands])


def _kind(stmt: Stmt) -> str:
    names = {For: "a loop", BufferStore: "a store", SeqStmt: "a sequence"}
    return names.get(type(stmt), f"a {type(stmt).__name__}")
