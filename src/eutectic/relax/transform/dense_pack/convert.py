"""ConvertMatmulToDensePack: products read constant weights in panels, from front to end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, prod
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from eutectic.ir.dtype import to_numpy
from eutectic.ir.module import IRModule
from eutectic.ir.transform import PassContext
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call, Constant, Function
from eutectic.relax.op.datatype import astype
from eutectic.relax.op.nn.dense_pack import dense_pack
from eutectic.relax.op.numerics import dtype_of
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.relax.transform.dense_pack.choice import PANEL_OFFERS, PanelOffer, ProductSizes
from eutectic.relax.transform.infra import FunctionPass
from eutectic.relax.transform.widening import WIDE, WideningMutator
from eutectic.support.large_pages import LargePages
from eutectic.target import target_or_current
from eutectic.topi.nn.dense_pack import panels_of

Array: TypeAlias = npt.NDArray[Any]
_NARROW: Final = ("float16", "bfloat16")


@dataclass(frozen=True)
class WeightsRemark:
    """Weights of a product that were rounded, in `PassContext.remarks`.

    Attributes:
        dtype: What they are in memory; products and sums stay float32.
    """

    dtype: str


@dataclass(frozen=True)
class ConvertMatmulToDensePack(FunctionPass):
    """Put the constant second matrix of a product into panels, which kernels would make at each call, or do without.

    One matrix for the whole batch, of float32 or of 16 bits; what is faster is estimated by who makes the kernels for
    the target. Functions for a library, and composites, keep theirs.

    Rows that are few wait for weights, of which there is half as much in 16 bits: so those of float32 are rounded where
    that is asked for, and matrices that are narrow already stay so. Products and sums are of float32 either way.

    before:                          after:
        gv = matmul(x, w)                gv = nn.dense_pack(x, w_in_panels, units=3072)

    Accuracy: sums have the terms that they had, in the same order. Weights that are rounded have a relative error of
    2**-9 (bfloat16) or 2**-12 (float16); a matrix with one that would become infinite stays float32.
    Cost: a copy of each matrix that is put into panels.

    Attributes:
        target: What for, as the text of a target; when empty, the current target, else this machine.
        narrow: Dtype to which weights are rounded, `bfloat16` or `float16`, where that is faster; empty keeps theirs.
        kept: Dtypes of data whose products stay as they are, with commas between: those that a library multiplies.
    """

    target: str = ""
    narrow: str = ""
    kept: str = ""

    def run_function(self, function: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Convert within one function."""
        if any(map(function.attr, ("Codegen", "Composite", "Primitive"))):
            return function
        fresh = _Converter(self, ctx).visit_expr(function)
        assert isinstance(fresh, Function)
        return fresh


@dataclass(frozen=True)
class _Product:
    """A product with a constant matrix.

    Attributes:
        data: The first matrix, or several.
        weight: The second one.
        given: Dtype of the data.
        result: Dtype of the result.
        sizes: What is asked for.
    """

    data: Expr
    weight: Constant
    given: str
    result: str
    sizes: ProductSizes


class _Converter(WideningMutator):
    def __init__(self, settings: ConvertMatmulToDensePack, ctx: PassContext) -> None:
        super().__init__()
        self._target, self._narrow = target_or_current(settings.target or None), settings.narrow
        self._kept, self._ctx = settings.kept.split(","), ctx
        self._memory = LargePages()
        self._packed: dict[tuple[int, int, str], Constant] = {}  # once for all products with a matrix, named by its id

    def visit_call_(self, call: Call) -> Any:
        """Convert one product."""
        product = _product(call)
        chosen = None if product is None or product.given in self._kept else self._chosen(product)
        if product is None or chosen is None:
            return super().visit_call_(call)
        dtype, panel = chosen
        data, packed = self.widened(self.visit_expr(product.data)), self._in_panels(product.weight, panel, dtype)
        fresh = dense_pack(data, packed, product.sizes.columns, span=call.span)
        return fresh if product.result == WIDE else astype(self.builder_.emit(fresh), product.result, span=call.span)

    def _chosen(self, product: _Product) -> tuple[str, int] | None:
        """The dtype of weights in memory, and columns of a panel; None where a product is better left as it is."""
        own, offers = product.sizes.dtype, self._offers(product, product.sizes.dtype)
        if self._narrow and own == WIDE:
            wide = offers[0].cost if offers else inf
            for offer in self._offers(product, self._narrow):
                if offer.cost < wide and _fits(product.weight.data, self._narrow):
                    self._ctx.remarks.append(WeightsRemark(self._narrow))
                    return self._narrow, offer.panel
        if not offers and own != product.given == WIDE:  # rounded for another processor
            own, offers = WIDE, self._offers(product, WIDE)
        return next(((own, offer.panel) for offer in offers), None)

    def _offers(self, product: _Product, dtype: str) -> Sequence[PanelOffer]:
        """The best offer for weights of a dtype, if there is one."""
        return PANEL_OFFERS.ask(replace(product.sizes, dtype=dtype), self._target)[:1]

    def _in_panels(self, weight: Constant, panel: int, dtype: str) -> Constant:
        key = id(weight), panel, dtype
        if key not in self._packed:
            panels = panels_of(weight.data.astype(to_numpy(dtype), copy=False), panel)
            self._packed[key] = Constant(self._memory.copy(panels), span=weight.span)
        return self._packed[key]


def _fits(weight: Array, dtype: str) -> bool:
    """Whether all numbers are finite, and none becomes infinite."""
    with np.errstate(over="ignore"):
        return bool(np.isfinite(weight.astype(to_numpy(dtype))).all())


def _product(call: Call) -> _Product | None:
    """A product with a constant matrix; None for other calls."""
    if getattr(call.op, "name", "") != "relax.matmul":
        return None
    data, weight = call.args
    info, result = data.struct_info, call.struct_info
    if not isinstance(weight, Constant) or weight.data.ndim != 2 or 0 in weight.data.shape:
        return None
    if not isinstance(info, TensorStructInfo) or not isinstance(result, TensorStructInfo) or info.shape is None:
        return None
    dtype = dtype_of(weight.data)
    if dtype not in (WIDE, *_NARROW) or not {info.dtype, result.dtype} <= {dtype, WIDE}:
        return None
    rows = None if info.static_shape is None else prod(info.static_shape[:-1])
    terms, columns = weight.data.shape
    return _Product(data, weight, info.dtype, result.dtype, ProductSizes(rows, terms, columns, dtype))
