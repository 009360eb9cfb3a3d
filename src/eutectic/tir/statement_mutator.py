"""Rewriting of statements from the outside in, and of expressions from the leaves up.

`ir.visit.rewrite` sees a tree without its scopes; passes that must know where they are derive from `StmtMutator`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter, is_not
from typing import Any, Final, TypeVar

from eutectic.ir.node import Node, replace
from eutectic.ir.prim_expr import (
    And,
    BinaryExpr,
    Broadcast,
    Call,
    Cast,
    Comparison,
    FloatImm,
    IntImm,
    LogicalBinary,
    Not,
    Or,
    PrimExpr,
    Ramp,
    Select,
    Shuffle,
    StringImm,
    Var,
    add,
    compare,
    floordiv,
    floormod,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    mul,
    sub,
    truncdiv,
    truncmod,
)
from eutectic.ir.visit import map_fields
from eutectic.support.deep import deep
from eutectic.support.errors import InternalError
from eutectic.tir.block import Block, BlockRealize
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.expr import Let
from eutectic.tir.stmt import (
    Allocate,
    AssertStmt,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
    seq,
)

N = TypeVar("N", bound=Node)
Change = Callable[[PrimExpr], "PrimExpr | None"]
_FOLDED_DTYPES: Final = ("int32", "int64", "bool")
_FOLDING: Final[dict[str, Callable[[Any, Any], PrimExpr]]] = {
    "tir.Add": add,
    "tir.Sub": sub,
    "tir.Mul": mul,
    "tir.FloorDiv": floordiv,
    "tir.FloorMod": floormod,
    "tir.TruncDiv": truncdiv,
    "tir.TruncMod": truncmod,
    "tir.Min": minimum,
    "tir.Max": maximum,
}
_DIVISIONS: Final = ("tir.FloorDiv", "tir.FloorMod", "tir.TruncDiv", "tir.TruncMod")


def updated(item: N, **fields: Any) -> N:
    """`item` with some fields changed; `item` itself when they have these values already."""
    for name, value in fields.items():
        if getattr(item, name) is not value:
            return replace(item, **fields)
    return item


# ---- expressions


def operands_of(expr: PrimExpr) -> tuple[PrimExpr, ...]:
    """The expressions directly below `expr`, in order; what a `Let` binds is none of them."""
    read = _OPERANDS.get(type(expr))
    if read is None:
        read = _OPERANDS[type(expr)] = _reader(expr)
    return read(expr)


_OPERANDS: Final[dict[type[PrimExpr], Callable[[Any], tuple[PrimExpr, ...]]]] = {}  # by class, as they are asked for


def _reader(expr: PrimExpr) -> Callable[[Any], tuple[PrimExpr, ...]]:
    """What reads the operands of expressions of a class."""
    match expr:
        case IntImm() | FloatImm() | Var() | StringImm():
            return lambda _: ()
        case BinaryExpr() | Comparison() | LogicalBinary():
            return attrgetter("a", "b")
        case BufferLoad():
            return lambda load: load.indices if load.predicate is None else (*load.indices, load.predicate)
        case Call():  # some intrinsics take buffers
            return lambda call: tuple(arg for arg in call.args if isinstance(arg, PrimExpr))
        case Cast() | Broadcast():
            return lambda cast: (cast.value,)
        case Select():
            return attrgetter("condition", "true_value", "false_value")
        case Not():
            return lambda negation: (negation.a,)
        case Let():
            return attrgetter("value", "body")
        case Ramp():
            return attrgetter("base", "stride")
        case Shuffle():
            return lambda shuffle: (*shuffle.vectors, *shuffle.indices)
        case _:
            raise InternalError(f"{type(expr).__name__} is not an expression of tensor programs")


def with_operands(expr: PrimExpr, operands: Sequence[PrimExpr]) -> PrimExpr:
    """`expr` with other operands, in the order of `operands_of`; integer constants are folded."""
    match expr:
        case BinaryExpr():
            return binary(type(expr), operands[0], operands[1])
        case Comparison():
            if isinstance(operands[0], IntImm) and isinstance(operands[1], IntImm):
                return compare(type(expr), operands[0], operands[1])
            return updated(expr, a=operands[0], b=operands[1])
        case And():
            return logical_and(operands[0], operands[1])
        case Or():
            return logical_or(operands[0], operands[1])
        case Not():
            return logical_not(operands[0])
        case BufferLoad():
            rank = len(expr.indices)
            predicate = operands[rank] if len(operands) > rank else None
            return replace(expr, indices=tuple(operands[:rank]), predicate=predicate)
        case Call():
            rest, arguments = iter(operands), expr.args
            return replace(expr, args=tuple(next(rest) if _is_expr(arg) else arg for arg in arguments))
        case Cast() | Broadcast():
            return replace(expr, value=operands[0])
        case Select():
            if isinstance(operands[0], IntImm):
                return operands[1] if operands[0].value else operands[2]
            return Select(*operands)
        case Let():
            return replace(expr, value=operands[0], body=operands[1])
        case Ramp():
            return replace(expr, base=operands[0], stride=operands[1])
        case Shuffle():
            count = len(expr.vectors)
            return replace(expr, vectors=tuple(operands[:count]), indices=tuple(operands[count:]))
        case _:
            return expr


def _is_expr(arg: Node) -> bool:
    return isinstance(arg, PrimExpr)


def binary(kind: type[BinaryExpr], a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """An arithmetic node; index arithmetic on constants, with zero or with one is done at once."""
    constant = isinstance(b, IntImm) or isinstance(a, IntImm)
    if constant and a.dtype in _FOLDED_DTYPES and kind.type_key in _FOLDING:
        by_zero = kind.type_key in _DIVISIONS and isinstance(b, IntImm) and b.value == 0
        if not by_zero:
            if kind.type_key == "tir.Mul" and is_zero(a if isinstance(a, IntImm) else b):
                return IntImm(a.dtype, 0)
            return _FOLDING[kind.type_key](a, b)
    return pair(kind, a, b)


def pair(kind: type[PrimExpr], a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """The node of a kind with two operands."""
    make: Callable[[PrimExpr, PrimExpr], PrimExpr] = kind
    return make(a, b)


def is_zero(expr: PrimExpr) -> bool:
    """Whether an expression is the constant zero."""
    return isinstance(expr, IntImm) and expr.value == 0


def rewrite_expr(
    root: PrimExpr,
    change: Change,
    memo: dict[int, PrimExpr] | None = None,
    replaced: Callable[[PrimExpr, PrimExpr], PrimExpr] | None = None,
) -> PrimExpr:
    """Rebuild an expression from its leaves up; shared parts are rewritten once and stay shared.

    Args:
        root: The expression; buffers in it are not entered.
        change: Called with each expression after its operands; gives the replacement, or None to keep it.
        memo: What was rewritten before, by the id of the original, which the caller keeps alive.
        replaced: Called with each original and what became of it so far; gives what becomes of it.

    Returns:
        The new expression, or `root` itself when nothing changed.
    """
    memo = {} if memo is None else memo
    stack = [root]
    while stack:
        item = stack.pop()
        if id(item) in memo:
            continue
        fresh = item
        if item.child_fields:
            operands = operands_of(item)
            places = [*map(id, operands)]
            if not all(map(memo.__contains__, places)):
                stack.append(item)
                stack += [part for part in reversed(operands) if id(part) not in memo]
                continue
            rewritten = [*map(memo.__getitem__, places)]
            if any(map(is_not, rewritten, operands)):
                fresh = with_operands(item, rewritten)
        done = change(fresh)
        done = fresh if done is None else done
        memo[id(item)] = done if replaced is None else replaced(item, done)
    return memo[id(root)]


def with_values(root: PrimExpr, values: Mapping[Var, PrimExpr]) -> PrimExpr:
    """An expression with variables replaced."""
    if not values or isinstance(root, IntImm):
        return root
    if isinstance(root, Var):
        return values.get(root, root)
    return rewrite_expr(root, lambda item: values.get(item) if isinstance(item, Var) else None)


# ---- statements


class StmtMutator:
    """Rebuilds statements from the outside in; what nothing changed in keeps its identity.

    Subclasses override the method of a kind of statement, or `expr` for the expressions in all of them.
    """

    @deep
    def stmt(self, stmt: Stmt) -> Stmt:
        """The statement that replaces `stmt`."""
        method = _METHODS.get(type(stmt))
        if method is None:
            raise InternalError(f"{type(stmt).__name__} is not a statement of tensor programs")
        rewritten: Stmt = getattr(self, method)(stmt)
        return rewritten

    def expr(self, expr: PrimExpr) -> PrimExpr:
        """The expression that replaces `expr`."""
        return expr

    def exprs(self, items: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        """Several expressions; the same tuple when none changed."""
        rewritten = tuple(map(self.expr, items))
        return rewritten if any(map(is_not, rewritten, items)) else items

    def maybe(self, expr: PrimExpr | None) -> PrimExpr | None:
        """An expression that may be missing."""
        return None if expr is None else self.expr(expr)

    def visit_store(self, stmt: BufferStore) -> Stmt:
        """A store."""
        value, indices = self.expr(stmt.value), self.exprs(stmt.indices)
        return updated(stmt, value=value, indices=indices, predicate=self.maybe(stmt.predicate))

    def visit_evaluate(self, stmt: Evaluate) -> Stmt:
        """An expression computed for its effect."""
        return updated(stmt, value=self.expr(stmt.value))

    def visit_seq(self, stmt: SeqStmt) -> Stmt:
        """A sequence."""
        rewritten = [self.stmt(part) for part in stmt.seq]
        return seq(*rewritten) if any(map(is_not, rewritten, stmt.seq)) else stmt

    def visit_for(self, stmt: For) -> Stmt:
        """A loop."""
        low, extent = self.expr(stmt.min), self.expr(stmt.extent)
        return updated(stmt, min=low, extent=extent, body=self.stmt(stmt.body))

    def visit_while(self, stmt: While) -> Stmt:
        """A loop with a condition."""
        return updated(stmt, condition=self.expr(stmt.condition), body=self.stmt(stmt.body))

    def visit_if(self, stmt: IfThenElse) -> Stmt:
        """A branch."""
        condition = self.expr(stmt.condition)
        then_case = self.stmt(stmt.then_case)
        else_case = None if stmt.else_case is None else self.stmt(stmt.else_case)
        return updated(stmt, condition=condition, then_case=then_case, else_case=else_case)

    def visit_let(self, stmt: LetStmt) -> Stmt:
        """A name for a value."""
        return updated(stmt, value=self.expr(stmt.value), body=self.stmt(stmt.body))

    def visit_attr(self, stmt: AttrStmt) -> Stmt:
        """A remark."""
        return updated(stmt, value=self.expr(stmt.value), body=self.stmt(stmt.body))

    def visit_assert(self, stmt: AssertStmt) -> Stmt:
        """A check."""
        return updated(stmt, condition=self.expr(stmt.condition), body=self.stmt(stmt.body))

    def visit_allocate(self, stmt: Allocate) -> Stmt:
        """Memory."""
        extents, condition = self.exprs(stmt.extents), self.expr(stmt.condition)
        return updated(stmt, extents=extents, condition=condition, body=self.stmt(stmt.body))

    def visit_decl(self, stmt: DeclBuffer) -> Stmt:
        """A name for memory."""
        return updated(stmt, body=self.stmt(stmt.body))

    def visit_realize(self, stmt: BlockRealize) -> Stmt:
        """A block."""
        values, predicate = self.exprs(stmt.iter_values), self.expr(stmt.predicate)
        return updated(stmt, iter_values=values, predicate=predicate, block=self.block(stmt.block))

    def block(self, block: Block) -> Block:
        """What is inside of a block; its regions are left as they are."""
        init = None if block.init is None else self.stmt(block.init)
        return updated(block, init=init, body=self.stmt(block.body))


_METHODS: Final[dict[type[Stmt], str]] = {
    BufferStore: "visit_store",
    Evaluate: "visit_evaluate",
    SeqStmt: "visit_seq",
    For: "visit_for",
    While: "visit_while",
    IfThenElse: "visit_if",
    LetStmt: "visit_let",
    AttrStmt: "visit_attr",
    AssertStmt: "visit_assert",
    Allocate: "visit_allocate",
    DeclBuffer: "visit_decl",
    BlockRealize: "visit_realize",
}


def map_buffer(buffer: Buffer, change: Callable[[PrimExpr], PrimExpr]) -> Buffer:
    """A buffer of the same memory whose sizes, strides and offset went through `change`; itself when none changed."""
    return map_fields(
        buffer, lambda part: part if part is buffer.data or not isinstance(part, PrimExpr) else change(part)
    )  # type: ignore[return-value]  # a buffer stays one
