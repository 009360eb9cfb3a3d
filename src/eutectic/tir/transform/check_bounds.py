"""CheckBounds: accesses that leave their buffers are refused, and those that may are looked at when they happen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from eutectic.ir.module import IRModule
from eutectic.ir.node import replace
from eutectic.ir.prim_expr import PrimExpr
from eutectic.ir.transform import PassContext, with_functions
from eutectic.support.errors import CodegenError, EutecticError, OutOfBoundsError, PassError
from eutectic.tir.analysis.access_excerpt import access_excerpt
from eutectic.tir.analysis.access_sites import sizes_of
from eutectic.tir.analysis.bounds import Fault, Prover, Question, verdicts_of
from eutectic.tir.analysis.memory_names import Demand, demands_of
from eutectic.tir.block import Block
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.function import PrimFunc
from eutectic.tir.op import checked_index
from eutectic.tir.program_excerpt import index_shown, shown
from eutectic.tir.statement_mutator import StmtMutator, rewrite_expr, updated
from eutectic.tir.stmt import Allocate, AssertStmt, BufferStore, DeclBuffer, Stmt
from eutectic.tir.transform.infra import PrimFuncPass, with_body
from eutectic.tir.trusted import is_trusted, trust, trusted_copy


@dataclass(frozen=True)
class CheckBounds(PrimFuncPass):
    """Make every access of a program one that stays inside of its buffer.

    Most are proved to; the program keeps these as they are. An access that leaves its buffer whenever it is
    executed is refused. An index of which neither is known (it is read from memory, or computed from a number that
    the caller gives) becomes a checked one, which fails the call before anything outside is touched.

    before:                                  after:
        B[i] = A[n + i]                          B[i] = A[T.checked_index(n + i, 4, "...")]

    Cost: constant bounds of each index; proofs only where these do not decide.
    """

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """See the class."""
        return check_bounds(func, next((gv.name_hint for gv, f in mod.functions_items() if f is func), "main"))


def check_bounds(func: PrimFunc, name: str = "") -> PrimFunc:
    """`CheckBounds` of one function; a function that was checked before is returned as it is.

    Args:
        func: Any well-formed function.
        name: Its name, for messages.

    Raises:
        OutOfBoundsError: an access leaves its buffer whenever it is executed.
    """
    if is_trusted(func):
        return func
    name = name or str(func.attr("global_symbol") or "main")
    verdicts = verdicts_of(func)
    demands = demands_of(func, verdicts.sites, Prover(sizes_of(func)))
    for demand in demands:
        if demand.holds is False or _is_late(demand):
            raise _refused_name(func, name, demand)
    if verdicts.faults:
        raise _refused(func, name, verdicts.faults)
    if not verdicts.open and not demands:
        return trust(func)
    return trust(with_body(func, _Checking(verdicts.open, demands).stmt(func.body)))


def _is_late(demand: Demand) -> bool:
    """Whether a name is given where no statement can look at it."""
    place = demand.naming.place
    return isinstance(place, Buffer)


def _refused(func: PrimFunc, name: str, faults: Sequence[Fault]) -> OutOfBoundsError:
    first = faults[0]
    return OutOfBoundsError(
        f"{_said(first)}: {name} touches memory outside of it",
        at=access_excerpt(func, name, [fault.site.place for fault in faults]),
        notes=[_said(fault) for fault in faults[1:4]],
        help="let the loop end earlier, put the access under a condition, or give the buffer the shape that is meant",
    )


def _said(fault: Fault) -> str:
    place = fault.site.place
    index = index_shown(place.indices[fault.axis])
    extent = shown(fault.extent)
    return f"index {index} {fault.values}, axis {fault.axis} of buffer {place.buffer.name} has extent {extent}"


def _refused_name(func: PrimFunc, name: str, demand: Demand) -> EutecticError:
    if demand.naming.place in func.buffer_map.values():
        return CodegenError(demand.message, help="leave the strides and the offset out, or make them variables")
    return OutOfBoundsError(
        f"{name}: {demand.message}",
        at=access_excerpt(func, name, []),
        help="declare it within the memory that is there, with sizes that are known where it is declared",
    )


class _Checking(StmtMutator):
    """Puts checked indices, and assertions about names of memory, where they are needed."""

    def __init__(self, questions: Sequence[Question], demands: Sequence[Demand]) -> None:
        self.axes: dict[int, set[int]] = {}
        for question in questions:
            self.axes.setdefault(id(question.site.place), set()).add(question.axis)
        self.demands: dict[int, list[Demand]] = {}
        for demand in demands:
            self.demands.setdefault(id(demand.naming.place), []).append(demand)
        self._memo: dict[int, PrimExpr] = {}

    def expr(self, expr: PrimExpr) -> PrimExpr:
        """The expression with checked indices."""
        return rewrite_expr(expr, lambda item: None, self._memo, self._checked)

    def _checked(self, original: PrimExpr, rewritten: PrimExpr) -> PrimExpr:
        axes = self.axes.get(id(original))
        if axes is None or not isinstance(rewritten, BufferLoad):
            return rewritten
        return replace(rewritten, indices=_indices(rewritten.buffer, rewritten.indices, axes, rewritten.predicate))

    def visit_store(self, stmt: BufferStore) -> Stmt:
        """A store, which is checked after what is in it."""
        store = super().visit_store(stmt)
        assert isinstance(store, BufferStore)
        axes = self.axes.get(id(stmt))
        return (
            store
            if axes is None
            else replace(store, indices=_indices(store.buffer, store.indices, axes, store.predicate))
        )

    def visit_decl(self, stmt: DeclBuffer) -> Stmt:
        """A declaration; what is asked of it is asked before the buffer is used."""
        decl = super().visit_decl(stmt)
        assert isinstance(decl, DeclBuffer)
        return updated(decl, body=self._asserted(stmt, decl.body))

    def visit_allocate(self, stmt: Allocate) -> Stmt:
        """An allocation, after its size was looked at."""
        return self._asserted(stmt, super().visit_allocate(stmt))

    def block(self, block: Block) -> Block:
        """A block; its regions with names are looked at first."""
        rewritten = super().block(block)
        body, init = rewritten.body, rewritten.init
        for match in reversed(block.match_buffers):
            body = self._asserted(match, body)
            init = None if init is None else self._asserted(match, init)
        return updated(rewritten, body=body, init=init)

    def _asserted(self, place: object, body: Stmt) -> Stmt:
        for demand in reversed(self.demands.get(id(place), ())):
            body = AssertStmt(demand.condition, _as_text(demand.message), body)  # type: ignore[arg-type]  # the node converts texts
        return body


def _indices(
    buffer: Buffer, indices: tuple[PrimExpr, ...], axes: set[int], predicate: PrimExpr | None
) -> tuple[PrimExpr, ...]:
    out = list(indices)
    for axis in axes:
        said = (
            f"index {index_shown(indices[axis])} is outside of axis {axis} of buffer {buffer.name}, "
            f"which has extent {shown(buffer.shape[axis])}"
        )
        out[axis] = checked_index(indices[axis], buffer.shape[axis], _as_text(said), predicate)
    return tuple(out)


def _as_text(said: str) -> str:
    """A message that stays the same as a text within native code."""
    return said.replace('"', "'")


BOUNDS: Final = ("checked", "trusted")


def bounds_of(bounds: str) -> str:
    """How accesses are taken to be inside of their buffers.

    Raises:
        PassError: it is none of `BOUNDS`.
    """
    if bounds not in BOUNDS:
        raise PassError(f"unknown bounds {bounds!r}", help=f"one of {', '.join(BOUNDS)}")
    return bounds


def checked_module(mod: IRModule, bounds: str = "checked") -> IRModule:
    """A module whose tensor programs are checked; the module itself when none changed.

    Args:
        mod: The module.
        bounds: `checked`, or `trusted`: the accesses are believed to be inside.

    Raises:
        OutOfBoundsError: an access leaves its buffer whenever it is executed.
        PassError: `bounds` is neither.
    """
    changed: dict[Any, Any] = {}
    trusted = bounds_of(bounds) == "trusted"
    for gv, func in mod.functions_items():
        if isinstance(func, PrimFunc):
            fresh = trusted_copy(func) if trusted else check_bounds(func, gv.name_hint)
            if fresh is not func:
                changed[gv] = fresh
    return with_functions(mod, changed)
