"""What rewrites that compute in float32 share: a narrow value is widened once for all who read it so."""

from __future__ import annotations

from typing import Final

from eutectic.relax.base import Expr
from eutectic.relax.expr import BindingBlock, Constant
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.op.datatype import astype
from eutectic.relax.struct_info import TensorStructInfo

WIDE: Final = "float32"


class WideningMutator(PyExprMutator):
    """Rebuilds a function, some of whose values others read in float32."""

    def __init__(self) -> None:
        super().__init__()
        self._wide: dict[Expr, Expr] = {}  # what a block has in float32, too

    def visit_binding_block(self, block: BindingBlock) -> BindingBlock:
        """Rewrite a block; what an earlier one widened may not be visible in it."""
        self._wide = {}
        return super().visit_binding_block(block)

    def widened(self, value: Expr) -> Expr:
        """A value in float32: as it is, as a constant, or as a variable that is bound here at the first time."""
        if isinstance(value.struct_info, TensorStructInfo) and value.struct_info.dtype == WIDE:
            return value
        if isinstance(value, Constant):
            return Constant(value.data.astype(WIDE), span=value.span)
        if value not in self._wide:
            self._wide[value] = self.builder_.emit(astype(value, WIDE))
        return self._wide[value]
