"""The verifier of tensor programs: what every pass may rely on, and must leave behind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from eutectic.ir.dtype import is_integer
from eutectic.ir.module import IRModule
from eutectic.ir.node import Node
from eutectic.ir.prim_expr import PrimExpr, Var, element_dtype, lanes_of
from eutectic.ir.transform import register_verifier
from eutectic.ir.visit import post_order
from eutectic.support.deep import deep
from eutectic.support.errors import WellFormedError
from eutectic.tir.block import DETECT_ACCESS, Block, BlockRealize
from eutectic.tir.buffer import Buffer, BufferLoad, BufferRegion, access_dtype
from eutectic.tir.expr import Let
from eutectic.tir.function import PrimFunc
from eutectic.tir.iter_var import IterVar
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
)

_THREADS: Final = re.compile(r"(blockIdx|threadIdx)\.[xyz]\Z|vthread(\.[xyz])?\Z|cthread\Z")
_AXES: Final = ("data_par", "comm_reduce", "ordered", "opaque")
_Todo: TypeAlias = "Stmt | Callable[[], None]"


def verify_well_formed(obj: PrimFunc | IRModule, assert_mode: bool = True) -> bool:
    """Whether a function, or each tensor function of a module, keeps the rules.

    Variables and buffers are defined once, before their use; accesses have one
    index per axis, and stores the buffer's dtype; the body of a block with axes
    uses these, not the loops around it; conditions are bool; threads are known.

    Args:
        obj: What to check; graph functions of a module are passed over.
        assert_mode: Raise rather than return False.

    Raises:
        WellFormedError: a rule is broken, in `assert_mode`; a note shows the statement.
    """
    functions = obj.functions.values() if isinstance(obj, IRModule) else (obj,)
    for function in functions:
        if isinstance(function, PrimFunc):
            try:
                _Verifier().function(function)
            except WellFormedError:
                if assert_mode:
                    raise
                return False
    return True


class _Verifier:
    """One walk through a function, with what is defined at each place."""

    def __init__(self) -> None:
        self.visible: dict[Node, str] = {}  # variables and buffers, with what defines them
        self.past: set[Node] = set()
        self.loop_depth: dict[Var, int] = {}  # blocks with axes around each loop
        self.blocks = 0
        self.at: Node | None = None

    # ---- faults and definitions

    def fault(self, message: str, help: str | None = None) -> WellFormedError:
        notes = []
        if isinstance(self.at, Stmt):
            lines = self.at.script(declare=False).splitlines()
            shown = lines if len(lines) <= 8 else [*lines[:7], "..."]
            notes.append("in the statement\n" + "\n".join("      " + line for line in shown))
        return WellFormedError(message, notes=notes, help=help)

    def define(self, item: Any, by: str) -> None:
        if item in self.visible or item in self.past:
            raise self.fault(
                f"{by} defines {_kind(item)} {item.name}, which {self.visible.get(item, 'another statement')} defines"
            )
        self.visible[item] = by

    def forget(self, items: Iterable[Node]) -> Callable[[], None]:
        def undo() -> None:
            for item in items:
                self.visible.pop(item, None)
                self.past.add(item)

        return undo

    def buffer(self, buffer: Buffer, by: str, *, new_data: bool = True) -> list[Node]:
        """Define a buffer; returns what became visible."""
        for scalar in (*buffer.shape, *buffer.strides, *filter(None, (buffer.elem_offset,))):
            self.expr(scalar)
        self.define(buffer, by)
        if not new_data:
            self.expr(buffer.data)
            return [buffer]
        if buffer.data in self.visible:
            return [buffer]
        self.visible[buffer.data] = by
        return [buffer, buffer.data]

    # ---- functions

    def function(self, func: PrimFunc) -> None:
        for param in func.params:
            self.define(param, "the signature")
        for param, buffer in func.buffer_map.items():
            if param.dtype != "handle":
                raise self.fault(f"parameter {param.name} of buffer {buffer.name} is {param.dtype}, not a handle")
            for scalar in (*buffer.shape, *buffer.strides, *filter(None, (buffer.elem_offset,))):
                if isinstance(scalar, Var):
                    self.visible.setdefault(scalar, "the signature")
        for buffer in func.buffer_map.values():
            self.buffer(buffer, "the signature")
        todo: list[_Todo] = [func.body]
        while todo:
            item = todo.pop()
            if isinstance(item, Stmt):
                self.at = item
                todo.extend(reversed(self.statement(item)))
            else:
                item()

    # ---- statements

    def statement(self, stmt: Stmt) -> list[_Todo]:
        """Check a statement without its bodies; returns what to do next."""
        match stmt:
            case SeqStmt():
                return list(stmt.seq)
            case Evaluate():
                self.expr(stmt.value)
                return []
            case BufferStore():
                self.store(stmt)
                return []
            case For():
                return self.loop(stmt)
            case While():
                self.condition(stmt.condition, "while")
                return [stmt.body]
            case IfThenElse():
                self.condition(stmt.condition, "if")
                return [stmt.then_case, *([] if stmt.else_case is None else [stmt.else_case])]
            case BlockRealize():
                return self.realize(stmt)
            case Block():
                raise self.fault(
                    f"block {stmt.name_hint} stands without values for its axes", help="wrap it in BlockRealize"
                )
            case _:
                return self.wrapper(stmt)

    def wrapper(self, stmt: Stmt) -> list[_Todo]:
        match stmt:
            case LetStmt():
                self.expr(stmt.value)
                if stmt.value.dtype != stmt.var.dtype:
                    raise self.fault(f"variable {stmt.var.name} of {stmt.var.dtype} is bound to a {stmt.value.dtype}")
                return self.binding(stmt.var, "a let", stmt.body)
            case Allocate():
                for extent in stmt.extents:
                    self.index(extent, "an extent")
                self.condition(stmt.condition, "allocate")
                return self.binding(stmt.buffer_var, "an allocation", stmt.body)
            case DeclBuffer():
                return [stmt.body, self.forget(self.buffer(stmt.buffer, "a declaration", new_data=False))]
            case AssertStmt():
                self.condition(stmt.condition, "assert")
                return [stmt.body]
            case AttrStmt():
                return self.remark(stmt)
            case _:
                raise self.fault(f"{type(stmt).__name__} is not a statement of tensor programs")

    def binding(self, var: Var, by: str, body: Stmt) -> list[_Todo]:
        self.define(var, by)
        return [body, self.forget([var])]

    def remark(self, stmt: AttrStmt) -> list[_Todo]:
        self.expr(stmt.value)
        about = stmt.node
        if isinstance(about, IterVar) and stmt.attr_key == "thread_extent":
            self.thread(about.thread_tag)
            return self.binding(about.var, "a thread axis", stmt.body)
        if isinstance(about, Buffer):
            self.used(about)
        elif isinstance(about, PrimExpr):
            self.expr(about)
        return [stmt.body]

    def loop(self, stmt: For) -> list[_Todo]:
        self.index(stmt.min, "the first value")
        self.index(stmt.extent, "the extent")
        if stmt.thread_binding is not None:
            self.thread(stmt.thread_binding.thread_tag)
        self.loop_depth[stmt.loop_var] = self.blocks
        return self.binding(stmt.loop_var, "a loop", stmt.body)

    def thread(self, tag: str) -> None:
        if not _THREADS.match(tag):
            raise self.fault(f"unknown thread axis {tag!r}", help="use blockIdx.x, threadIdx.y, vthread.z and the like")

    def store(self, stmt: BufferStore) -> None:
        self.access(stmt.buffer, stmt.indices, stmt.predicate)
        for part in (stmt.value, *stmt.indices):
            self.expr(part)
        wanted = access_dtype(stmt.buffer, stmt.indices)
        if stmt.value.dtype != wanted:
            raise self.fault(
                f"a {stmt.value.dtype} is stored into buffer {stmt.buffer.name}, where {wanted} is expected",
                help="convert it with .astype(...)",
            )

    # ---- blocks

    def realize(self, stmt: BlockRealize) -> list[_Todo]:
        block = stmt.block
        self.condition(stmt.predicate, f"the predicate of block {block.name_hint}")
        for axis, value in zip(block.iter_vars, stmt.iter_values, strict=True):
            self.axis(block, axis, value)
        if DETECT_ACCESS in block.annotations:
            raise self.fault(f"block {block.name_hint} does not state its regions yet", help="call tir.complete(func)")
        with_axes = bool(block.iter_vars)
        self.blocks += with_axes
        inside: list[Node] = []
        for axis in block.iter_vars:
            self.define(axis.var, f"block {block.name_hint}")
            inside.append(axis.var)
        for region in (*block.reads, *block.writes):
            self.region(region)
        for buffer in block.alloc_buffers:
            inside += self.buffer(buffer, f"block {block.name_hint}")
        for match in block.match_buffers:
            self.region(match.source)
            inside += self.matched(match.buffer, f"block {block.name_hint}")

        def leave() -> None:
            self.blocks -= with_axes

        return [*([block.init] if block.init is not None else []), block.body, leave, self.forget(inside)]

    def matched(self, buffer: Buffer, by: str) -> list[Node]:
        """A buffer that stands for a region; its strides and offset may be new variables."""
        new: list[Node] = []
        for scalar in (*buffer.strides, *filter(None, (buffer.elem_offset,))):
            if isinstance(scalar, Var) and scalar not in self.visible:
                self.define(scalar, by)
                new.append(scalar)
        return [*new, *self.buffer(buffer, by)]

    def axis(self, block: Block, axis: IterVar, value: PrimExpr) -> None:
        name = f"axis {axis.var.name} of block {block.name_hint}"
        if axis.iter_type not in _AXES:
            raise self.fault(f"{name} is {axis.iter_type}; block axes are {', '.join(_AXES)}")
        if axis.dom is None:
            raise self.fault(f"{name} has no range")
        self.index(axis.dom.min, f"the first value of {name}")
        self.index(axis.dom.extent, f"the extent of {name}")
        self.expr(value)
        if value.dtype != axis.var.dtype:
            raise self.fault(f"{name} is {axis.var.dtype}, but its value is {value.dtype}")

    def region(self, region: BufferRegion) -> None:
        self.used(region.buffer)
        if len(region.region) != len(region.buffer.shape):
            raise self._rank(region.buffer, len(region.region), "a region")
        for taken in region.region:
            self.index(taken.min, f"a region of buffer {region.buffer.name}")
            self.index(taken.extent, f"a region of buffer {region.buffer.name}")

    # ---- expressions

    def condition(self, expr: PrimExpr, what: str) -> None:
        self.expr(expr)
        if expr.dtype != "bool":
            raise self.fault(
                f"the condition of {what} is {expr.dtype}, not bool", help="write a comparison such as `x != 0`"
            )

    def index(self, expr: PrimExpr, what: str) -> None:
        self.expr(expr)
        if not is_integer(element_dtype(expr.dtype)):
            raise self.fault(f"{what} is {expr.dtype}, not an integer")

    @deep
    def expr(self, root: Node) -> None:
        """Check an expression: everything in it is visible here."""
        for item in post_order(root, enter=lambda n: not isinstance(n, (Let, Buffer))):
            match item:
                case Var():
                    self.used(item)
                case BufferLoad():
                    self.access(item.buffer, item.indices, item.predicate)
                case Let():
                    self.expr(item.value)
                    self.define(item.var, "a let")
                    self.expr(item.body)
                    del self.visible[item.var]  # a shared expression is met again
                case _:
                    pass

    def used(self, item: Any) -> None:
        if item not in self.visible:
            raise self.fault(f"{_kind(item)} {item.name} is used where it is not defined")
        if isinstance(item, Var) and self.loop_depth.get(item, self.blocks) < self.blocks:
            raise self.fault(
                f"loop variable {item.name} is used inside a block that the loop is around",
                help="bind it to an axis of the block",
            )

    def access(self, buffer: Buffer, indices: tuple[PrimExpr, ...], predicate: PrimExpr | None) -> None:
        self.used(buffer)
        if len(indices) != len(buffer.shape):
            raise self._rank(buffer, len(indices), "an access")
        for place, index in enumerate(indices):
            if not is_integer(element_dtype(index.dtype)):
                raise self.fault(f"buffer {buffer.name} is indexed with a {index.dtype}")
            if lanes_of(index.dtype) > 1 and place + 1 < len(indices):
                raise self.fault(f"buffer {buffer.name} is indexed with a vector before its last axis")
        if predicate is not None:
            self.expr(predicate)
            if element_dtype(predicate.dtype) != "bool":
                raise self.fault(f"the predicate of an access of buffer {buffer.name} is {predicate.dtype}, not bool")

    def _rank(self, buffer: Buffer, count: int, what: str) -> WellFormedError:
        return self.fault(f"{what} of buffer {buffer.name} has {count} indices for {len(buffer.shape)} axes")


def _kind(item: Node) -> str:
    return "buffer" if isinstance(item, Buffer) else "variable"


def _verify(mod: IRModule, after: str) -> None:
    """Check the tensor functions of a module that a pass made."""
    try:
        verify_well_formed(mod)
    except WellFormedError as error:
        error.with_note(f"after pass {after}")
        raise


register_verifier(_verify)
