"""ConvertMatmulToDensePack: products read constant weights in panels, from front to end."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from eutectic.ir.module import IRModule
from eutectic.ir.transform import PassContext
from eutectic.relax.expr import Call, Constant, Function
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.op.nn.dense_pack import dense_pack
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.relax.transform.dense_pack.choice import PANEL_OFFERS, ProductSizes
from eutectic.relax.transform.infra import FunctionPass
from eutectic.support.large_pages import LargePages
from eutectic.target import Target, target_or_current
from eutectic.topi.nn.dense_pack import panels_of


@dataclass(frozen=True)
class ConvertMatmulToDensePack(FunctionPass):
    """Put the constant second matrix of a product into panels, which kernels would make at each call, or do without.

    Only float32, and one matrix for the whole batch; what is faster is estimated by who makes the kernels for the
    target. Functions for a library, and composites, keep theirs.

    before:                          after:
        gv = matmul(x, w)                gv = nn.dense_pack(x, w_in_panels, units=3072)

    Accuracy: sums have the terms that they had, in the same order.
    Cost: a copy of each matrix that is put into panels.

    Attributes:
        target: What for, as the text of a target; when empty, the current target, else this machine.
    """

    target: str = ""

    def run_function(self, function: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Convert within one function."""
        if any(map(function.attr, ("Codegen", "Composite", "Primitive"))):
            return function
        fresh = _Converter(target_or_current(self.target or None)).visit_expr(function)
        assert isinstance(fresh, Function)
        return fresh


class _Converter(PyExprMutator):
    def __init__(self, target: Target) -> None:
        super().__init__()
        self._target = target
        self._memory = LargePages()
        self._packed: dict[tuple[int, int], Constant] = {}  # once for all products with one matrix, which its id names

    def visit_call_(self, call: Call) -> Any:
        """Convert one product."""
        sizes = _sizes(call)
        for offer in () if sizes is None else PANEL_OFFERS.ask(sizes, self._target)[:1]:
            weight = call.args[1]
            assert isinstance(weight, Constant)
            packed = self._in_panels(weight, offer.panel)
            return super().visit_call_(dense_pack(call.args[0], packed, weight.data.shape[1], span=call.span))
        return super().visit_call_(call)

    def _in_panels(self, weight: Constant, panel: int) -> Constant:
        key = id(weight), panel
        if key not in self._packed:
            self._packed[key] = Constant(self._memory.copy(panels_of(weight.data, panel)), span=weight.span)
        return self._packed[key]


def _sizes(call: Call) -> ProductSizes | None:
    """The sizes of a product with a constant matrix; None for other calls."""
    if getattr(call.op, "name", "") != "relax.matmul":
        return None
    data, weight = call.args
    info, result = data.struct_info, call.struct_info
    if not isinstance(weight, Constant) or weight.data.ndim != 2 or weight.data.dtype != "float32":
        return None
    if not isinstance(info, TensorStructInfo) or not isinstance(result, TensorStructInfo):
        return None
    if (info.dtype, result.dtype) != ("float32", "float32") or info.shape is None or 0 in weight.data.shape:
        return None
    terms, columns = weight.data.shape
    return ProductSizes(None if info.static_shape is None else prod(info.static_shape[:-1]), terms, columns)
