"""Equal values of a block computed once."""

from __future__ import annotations

from typing import Any

from eutectic.ir.module import GlobalVar
from eutectic.ir.op import Op
from eutectic.ir.structural import StructuralKey
from eutectic.relax.analysis.unused import contains_impure_call
from eutectic.relax.base import Expr
from eutectic.relax.expr import BindingBlock, Call, DataflowVar, Function, Tuple, TupleGetItem, Var, VarBinding
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.support.deep import deep


def share_common_subexpr(function: Function, call_only: bool = False) -> Function:
    """A function in which a value equal to an earlier one of the same block is that one's variable.

    Args:
        function: The function.
        call_only: Look at calls only, not at tuples and fields.
    """
    fresh = _Sharer(call_only).visit_expr(function)
    assert isinstance(fresh, Function)
    return fresh


class _Sharer(PyExprMutator):
    def __init__(self, call_only: bool) -> None:
        super().__init__()
        self._kinds: tuple[type, ...] = (Call,) if call_only else (Call, Tuple, TupleGetItem)
        self._known: dict[Any, Any] = {}

    def visit_binding_block(self, block: BindingBlock) -> BindingBlock:
        """Each block has its own table, since a value of a branch is not available after it."""
        outer, self._known = self._known, {}
        result = super().visit_binding_block(block)
        self._known = outer
        return result

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """Remember the value, or replace its variable by an earlier one."""
        value: Expr = self.visit_expr(binding.value)
        if isinstance(value, self._kinds) and not contains_impure_call(value):
            key = _key(value)
            if key in self._known and self._visible(binding):
                self.set_var_remap(binding.var, self._known[key])
                return
            if key not in self._known:
                super().visit_var_binding_(binding)
                self._known[key] = self.get_var_remap(binding.var)
                return
        super().visit_var_binding_(binding)

    def _visible(self, binding: VarBinding) -> bool:
        """Dataflow variables may take any earlier one's place; an output only stays itself."""
        return isinstance(binding.var, DataflowVar) or not self.builder_.current_block_is_dataflow()


@deep
def _key(value: Any) -> Any:
    """Equal for equal values: operator, operands by identity (constants by content, sizes by symbol), options."""
    match value:
        case Call():
            infos = tuple(StructuralKey(info) for info in value.sinfo_args)
            return ("call", _leaf(value.op), tuple(map(_leaf, value.args)), StructuralKey(value.attrs), infos)
        case Tuple():
            return ("tuple", tuple(map(_leaf, value.fields)))
        case _:
            return ("item", _leaf(value.tuple_value), value.index)


def _leaf(item: Any) -> Any:
    if isinstance(item, Tuple):
        return _key(item)
    return item if isinstance(item, (Var, GlobalVar, Op, Function)) else StructuralKey(item)
