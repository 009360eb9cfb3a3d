"""UnrollLoop: loops of kind `unrolled` become one copy of their body per iteration."""

from __future__ import annotations

from dataclasses import dataclass

from eutectic.ir.module import IRModule
from eutectic.ir.node import replace
from eutectic.ir.prim_expr import IntImm, PrimExpr, Ramp, Var, add
from eutectic.ir.transform import PassContext, register_config_key
from eutectic.support.errors import CodegenError
from eutectic.tir.analysis.index_facts import IndexFacts, statements
from eutectic.tir.buffer import BufferLoad
from eutectic.tir.function import PrimFunc
from eutectic.tir.statement_mutator import StmtMutator, updated
from eutectic.tir.stmt import BufferStore, For, SeqStmt, Stmt, seq
from eutectic.tir.substitute import Substituter
from eutectic.tir.transform.infra import PrimFuncPass, with_body

MAX_STATEMENTS = "tir.UnrollLoop.max_statements"
register_config_key(MAX_STATEMENTS, 4096)


@dataclass(frozen=True)
class UnrollLoop(PrimFuncPass):
    """Repeat the bodies of unrolled loops, with the value of the loop variable in each.

    Loops of any kind but threads that run once are replaced by their body. An
    unrolled loop whose extent is not constant becomes serial.

    before:                                  after:
        for i in T.unroll(2):                    y[0] = x[0]
            y[i] = x[i]                          y[1] = x[1]

    Raises:
        CodegenError: the copies have more statements than `tir.UnrollLoop.max_statements`, 4096 by default.

    Cost: linear in the size of the result.
    """

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """See the class."""
        return unroll_loop(func, ctx.option(MAX_STATEMENTS))


def unroll_loop(func: PrimFunc, max_statements: int = 4096) -> PrimFunc:
    """`UnrollLoop` of one function.

    Raises:
        CodegenError: the copies have more than `max_statements` statements.
    """
    return with_body(func, _Unrolling(func.body, max_statements).stmt(func.body))


class _Unrolling(StmtMutator):
    """Inner loops first; statements of copies are counted."""

    def __init__(self, root: Stmt, max_statements: int) -> None:
        self.root, self.max_statements = root, max_statements
        self._facts: IndexFacts | None = None

    @property
    def facts(self) -> IndexFacts:
        if self._facts is None:
            self._facts = IndexFacts(self.root)
        return self._facts

    def visit_for(self, stmt: For) -> Stmt:
        loop = updated(stmt, body=self.stmt(stmt.body))
        count = loop.static_extent
        if count == 1 and loop.kind != "thread_binding":
            return _Copying({loop.loop_var: loop.min}, self.facts, rename=False).stmt(loop.body)
        if loop.kind != "unrolled":
            return loop
        if count is None:
            return replace(loop, kind="serial")
        size = count * sum(not isinstance(part, (For, SeqStmt)) for part in statements(loop.body))
        if size > self.max_statements:
            raise CodegenError(
                f"unrolling loop {loop.loop_var.name} of {count} iterations gives {size} statements, "
                f"more than {self.max_statements}",
                help="unroll an inner loop only, or split the loop and unroll its inner part",
            )
        copies = [
            _Copying({loop.loop_var: add(loop.min, IntImm(loop.loop_var.dtype, i))}, self.facts, rename=i > 0)
            for i in range(count)
        ]
        return seq(*(copy.stmt(loop.body) for copy in copies))


class _Copying(Substituter):
    """A copy with simplified indices."""

    def __init__(self, values: dict[Var, PrimExpr], facts: IndexFacts, rename: bool) -> None:
        super().__init__(values, rename)
        self.facts = facts

    def leaf(self, expr: PrimExpr) -> PrimExpr | None:
        rewritten = super().leaf(expr)
        if isinstance(expr, BufferLoad):
            rewritten = expr if rewritten is None else rewritten
            assert isinstance(rewritten, BufferLoad)
            return updated(rewritten, indices=self.simplified(rewritten.indices))
        return rewritten

    def simplified(self, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        """Indices in normal form."""
        simplified = tuple(simplified_index(self.facts, index) for index in indices)
        return indices if all(a is b for a, b in zip(simplified, indices, strict=True)) else simplified

    def visit_store(self, stmt: BufferStore) -> Stmt:
        store = super().visit_store(stmt)
        assert isinstance(store, BufferStore)
        return updated(store, indices=self.simplified(store.indices))


def simplified_index(facts: IndexFacts, index: PrimExpr) -> PrimExpr:
    """An index in normal form; of vectors only equal steps are looked into."""
    if isinstance(index, Ramp):
        return updated(index, base=facts.simplify(index.base))
    return facts.simplify(index) if index.dtype in ("int32", "int64") else index
