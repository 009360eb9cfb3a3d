"""The beginning of a function as a function of a piece of the batch, and what calls that for each piece."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from eutectic.ir.module import GlobalVar
from eutectic.ir.structural import structural_equal
from eutectic.relax.analysis.uses import used_vars
from eutectic.relax.base import ShapeExpr, StructInfo
from eutectic.relax.expr import (
    Binding,
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    Function,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.op.map_batch import map_batch
from eutectic.relax.op.registry import has_trait
from eutectic.relax.struct_info import TensorStructInfo, TupleStructInfo
from eutectic.relax.transform.split_batch.steps import Batch
from eutectic.support.deep import deep


@dataclass(frozen=True)
class Piece:
    """A function in two: what is computed for each piece of the batch, and the rest.

    Attributes:
        function: Computes a piece: takes that of each of `batched`, then `whole`.
        size: Places along the first axis of a piece.
        batched: What is cut.
        whole: What every call is given as it is.
        results: Variables of the outer function that it computes.
        outer: The outer function.
    """

    function: Function
    size: int
    batched: tuple[Var, ...]
    whole: tuple[Var, ...]
    results: tuple[Var, ...]
    outer: Function
    _members: tuple[VarBinding, ...]

    @staticmethod
    def of(outer: Function, batch: Batch, size: int) -> Piece | None:
        """A function cut in two; None where an option of an operator says how large the batch is.

        Args:
            outer: The function.
            batch: Its beginning.
            size: Places of a piece.
        """
        bound = {binding.var for binding in batch.members}
        read = dict.fromkeys(var for binding in batch.members for var in used_vars(binding.value) if var not in bound)
        batched = tuple(var for var in read if var in batch.cut)
        whole = tuple(var for var in read if var not in batch.cut)
        used = {var for binding in _others(outer, batch.members) for var in used_vars(binding.value)}
        used.update(used_vars(outer.body.body))
        results = tuple(binding.var for binding in batch.members if binding.var in used)
        cutter = _Cutter(size)
        params = [cutter.param(var, cut=True) for var in batched] + [cutter.param(var, cut=False) for var in whole]
        body = cutter.body(batch.members, results)
        if body is None:
            return None
        return Piece(Function(params, body), size, batched, whole, results, outer, batch.members)

    def calling(self, inner: GlobalVar) -> Function:
        """The outer function with a call for each piece.

        Args:
            inner: The name of `function`.
        """
        infos = [var.struct_info for var in self.results]
        known = [info for info in infos if info is not None]
        called = map_batch(inner, self.batched, self.whole, self.size, sinfo_args=known)
        first, *blocks = self.outer.body.blocks
        own = {id(binding) for binding in self._members}
        rest = [binding for binding in first.bindings if id(binding) not in own]
        block = type(first)((*self._bound(called), *rest))
        body = SeqExpr((block, *blocks), self.outer.body.body)
        return replace(self.outer, body=body)

    def _bound(self, called: Call) -> list[Binding]:
        if len(self.results) == 1:
            return [VarBinding(self.results[0], called)]
        every = DataflowVar("pieces", called.struct_info)
        return [
            VarBinding(every, called),
            *(VarBinding(var, TupleGetItem(every, i)) for i, var in enumerate(self.results)),
        ]


def _others(function: Function, members: Sequence[VarBinding]) -> list[Binding]:
    own = {id(binding) for binding in members}
    return [binding for block in function.body.blocks for binding in block.bindings if id(binding) not in own]


class _Cutter(PyExprMutator):
    """Writes operators for a piece of the batch."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def param(self, var: Var, *, cut: bool) -> Var:
        """The parameter for a variable of the outer function."""
        fresh = Var(var.name_hint, self._piece(var.struct_info) if cut else var.struct_info, var.span)
        self.set_var_remap(var, fresh)
        return fresh

    def body(self, members: Sequence[VarBinding], results: Sequence[Var]) -> SeqExpr | None:
        """What computes the results; None where an operator gives something else than a piece."""
        self.builder_.begin_block(is_dataflow=True)
        for binding in members:
            emit = self.builder_.emit_output if binding.var in results else self.builder_.emit
            fresh = emit(self.visit_expr(binding.value), binding.var.name_hint)
            if not structural_equal(fresh.struct_info, self._piece(binding.var.struct_info)):
                self.builder_.end_block()
                return None
            self.set_var_remap(binding.var, fresh)
        given = [self.visit_expr(var) for var in results]
        block: BindingBlock = self.builder_.end_block()
        assert isinstance(block, DataflowBlock)
        return SeqExpr((block,), given[0] if len(given) == 1 else Tuple(tuple(given)))

    def visit_call_(self, call: Call) -> Any:
        """A call, whose other shape is that of a piece."""
        if has_trait(call, "view") and len(call.args) > 1 and isinstance(shape := call.args[1], ShapeExpr):
            pieces = ShapeExpr((self._size, *shape.values[1:]))  # type: ignore[arg-type]  # converted by the node
            return super().visit_call_(replace(call, args=(call.args[0], pieces), struct_info=None))
        return super().visit_call_(call)

    @deep
    def _piece(self, info: StructInfo | None) -> StructInfo | None:
        """The types of a piece of a value."""
        if isinstance(info, TupleStructInfo):
            return TupleStructInfo(tuple(piece for piece in map(self._piece, info.fields) if piece is not None))
        if not isinstance(info, TensorStructInfo) or info.static_shape is None:
            return info
        return TensorStructInfo(ShapeExpr((self._size, *info.static_shape[1:])), info.dtype)  # type: ignore[arg-type]
