"""DecomposeConvTranspose: transposed convolutions as convolutions whose results interleave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, Final

import numpy as np

from eutectic.ir.module import IRModule
from eutectic.ir.prim_expr import IntImm, PrimExpr
from eutectic.ir.transform import PassContext
from eutectic.relax.analysis.uses import operands_of
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call, Constant, Function
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.interpret import Interpreter
from eutectic.relax.op import concat, flip, nn, permute_dims, reshape, strided_slice, zeros
from eutectic.relax.op.layout import SPATIAL, arrange_dims, order
from eutectic.relax.op.nn.conv_transpose import ConvTransposeAttrs
from eutectic.relax.op.registry import attrs_of, has_trait
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.relax.transform.conv_transpose.residues import Axis, AxisPlan, Window, are_alike, plan_apart, plan_axis
from eutectic.relax.transform.infra import FunctionPass

_CONVOLUTIONS: Final[dict[int, Callable[..., Call]]] = {1: nn.conv1d, 2: nn.conv2d, 3: nn.conv3d}
_MUCH_MORE: Final = 1.1  # points, for which several kernels are worth their start
_VECTORS: Final = 16  # channels that fill the vectors of any processor


@dataclass(frozen=True)
class DecomposeConvTranspose(FunctionPass):
    """Compute a transposed convolution as convolutions with stride 1, one for each residue modulo the strides.

    The taps that meet at a point of the result depend on its residues only (`residues.py`), so that nothing is
    multiplied with the zeros that a dilated image has. Where the windows of all residues are alike, as with kernels
    that are multiples of the strides, one convolution computes them as channels, over all points that any of them
    needs; else, and where these are noticeably more than each needs, each has its own. `nn.depth_to_space` interleaves
    the results and cuts off what is too much. With stride 1 there is one residue, and what is left is a convolution
    with turned weights.

    Weights that are constants are cut at compile time. Others are cut at run time, and only where the windows stay
    within the data, as weights that are not finite would make NaN of the zeros around it. Sizes of images may vary.
    Functions for a library, and composites, keep theirs.

    before:                                            after:
        gv = nn.conv2d_transpose(x, w, strides=2)          lv = nn.conv2d(x, w1)
                                                           gv = nn.depth_to_space(lv, 2)

    Accuracy: sums of products may run in another order.
    Cost: linear in the size of the function and of the weights.

    Attributes:
        varying: Whether weights that are not constants are cut, too.
    """

    varying: bool = True

    def run_function(self, function: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Decompose within one function."""
        if any(map(function.attr, ("Codegen", "Composite", "Primitive"))):
            return function
        fresh = _Decomposer(self.varying).visit_expr(function)
        assert isinstance(fresh, Function)
        return fresh


class _Decomposer(PyExprMutator):
    def __init__(self, varying: bool) -> None:
        super().__init__()
        self._varying = varying

    def visit_call_(self, call: Call) -> Any:
        """Decompose one transposed convolution."""
        call = self.visit_expr_post_order(call)
        if not (has_trait(call, "convolution") and has_trait(call, "transposed")):
            return call
        if not (self._varying or isinstance(call.args[1], Constant)):
            return call
        step = _Step.of(call)
        return step.decomposed(self.builder_.emit) if step is not None and step.is_exact else call


@dataclass(frozen=True)
class _Step:
    """A transposed convolution and how it is computed.

    Attributes:
        call: The call.
        attrs: Its options.
        sizes: Elements of the weights as `IO` and spatial axes.
        plans: The residues of each spatial axis.
    """

    call: Call
    attrs: ConvTransposeAttrs
    sizes: tuple[int, ...]
    plans: tuple[AxisPlan, ...]

    @staticmethod
    def of(call: Call) -> _Step | None:
        """The plan of a call; None where sizes of the weights are not known."""
        attrs = attrs_of(call, ConvTransposeAttrs)
        data, info = call.args[0].struct_info, call.args[1].struct_info
        if not isinstance(info, TensorStructInfo) or not isinstance(data, TensorStructInfo) or data.dims is None:
            return None
        rank = len(attrs.strides)
        dims = arrange_dims(info.dims or (), attrs.kernel_layout, "IO" + SPATIAL[rank]) if info.dims else ()
        sizes = tuple(size.value for size in dims if isinstance(size, IntImm))
        if len(sizes) != rank + 2 or 0 in sizes or not isinstance(_channels(data.dims, attrs), IntImm):
            return None
        options = (attrs.strides, attrs.dilation, attrs.padding[:rank], attrs.padding[rank:], attrs.output_padding)
        axes = [Axis(*numbers) for numbers in zip(sizes[2:], *options, strict=True)]
        space = arrange_dims(data.dims, attrs.data_layout, "NC" + SPATIAL[rank])[2:]
        return _Step(call, attrs, sizes, _plans(axes, space, sizes[1] if attrs.groups == 1 else None))

    @property
    def rank(self) -> int:
        """Number of spatial axes."""
        return len(self.plans)

    @property
    def crops(self) -> tuple[int, ...]:
        """Points that are too many: before each axis, then after each."""
        return tuple(plan.crops[side] for side in (0, 1) for plan in self.plans)

    @property
    def is_exact(self) -> bool:
        """Whether the zeros around the data meet finite weights only."""
        weight = self.call.args[1]
        if not any(any(window.padding) for plan in self.plans for window in plan.windows):
            return True
        return isinstance(weight, Constant) and bool(np.isfinite(weight.data.astype(np.float64)).all())

    def decomposed(self, emit: Callable[[Expr], Expr]) -> Expr:
        """The same result by convolutions.

        Args:
            emit: Binds what is read several times.
        """
        canonical = "NC" + SPATIAL[self.rank]
        data = _in_order(self.call.args[0], self.attrs.data_layout, canonical)
        data = emit(data) if isinstance(data, Call) else data
        weight = _computed(self._flipped_weight())
        weight = emit(weight) if isinstance(weight, Call) else weight
        residues = list(product(*(plan.windows for plan in self.plans)))
        joined = [residues] if self.attrs.groups == 1 and are_alike(self.plans) else [[each] for each in residues]
        parts = [self._convolution(data, weight, windows) for windows in joined]
        out = parts[0]
        if prod(self.attrs.strides) > 1 or any(self.crops):
            pieces = parts if len(parts) > 1 else out
            out = nn.depth_to_space(pieces, self.attrs.strides, self.crops, canonical, span=self.call.span)
        return _in_order(out, canonical, self.attrs.out_layout)

    def _flipped_weight(self) -> Expr:
        """The weights as `OI` and spatial axes, which run backwards."""
        rank, groups = self.rank, self.attrs.groups
        weight = _in_order(self.call.args[1], self.attrs.kernel_layout, "IO" + SPATIAL[rank])
        inputs, filters, *taps = self.sizes
        cut = reshape(weight, (groups, inputs // groups, filters, *taps))
        turned = permute_dims(cut, [0, 2, 1, *range(3, 3 + rank)])
        turned = reshape(turned, (groups * filters, inputs // groups, *taps))
        for axis, count in enumerate(taps):
            turned = flip(turned, 2 + axis) if count > 1 else turned
        return turned

    def _convolution(self, data: Expr, weight: Expr, residues: Sequence[tuple[Window, ...]]) -> Expr:
        """The points of some residues, whose windows are alike, as channels."""
        windows = residues[0]
        if any(not window.taps for window in windows):
            return zeros(self._grid(data, len(residues)), _dtype(self.call), span=self.call.span)
        pieces = [self._taken(weight, each) for each in residues]
        joined = pieces[0] if len(pieces) == 1 else concat(pieces, axis=0)
        return _CONVOLUTIONS[self.rank](
            data,
            _computed(joined),
            padding=[window.padding[side] for side in (0, 1) for window in windows],
            dilation=[window.dilation for window in windows],
            groups=self.attrs.groups,
            out_dtype=None if self.attrs.out_dtype == "void" else self.attrs.out_dtype,
            span=self.call.span,
        )

    def _taken(self, weight: Expr, windows: Sequence[Window]) -> Expr:
        """The weights of a residue."""
        last = [count - 1 for count in self.sizes[2:]]  # tap t lies at last - t
        begin = [end - window.taps[0] for end, window in zip(last, windows, strict=True)]
        end = [end - window.taps[-1] + 1 for end, window in zip(last, windows, strict=True)]
        steps = [window.taps[0] - window.taps[1] if len(window.taps) > 1 else 1 for window in windows]
        if all(len(window.taps) == count for window, count in zip(windows, self.sizes[2:], strict=True)):
            return weight
        return strided_slice(weight, list(range(2, 2 + self.rank)), begin, end, steps)

    def _grid(self, data: Expr, residues: int) -> tuple[PrimExpr | int, ...]:
        """Sizes of what a convolution of some residues gives."""
        info = data.struct_info
        assert isinstance(info, TensorStructInfo) and info.dims is not None
        space = [size + plan.longer for size, plan in zip(info.dims[2:], self.plans, strict=True)]
        return (info.dims[0], self.sizes[1] * self.attrs.groups * residues, *space)


def _plans(axes: Sequence[Axis], space: Sequence[PrimExpr], filters: int | None) -> tuple[AxisPlan, ...]:
    """The residues of each axis: together where one convolution computes them with little more work, else apart.

    Args:
        axes: The axes.
        space: Their sizes in the data.
        filters: Channels of the result; None where there are groups, each of which has a convolution for each residue.
    """
    together = tuple(map(plan_axis, axes))
    apart = [plan_apart(axis) for axis in axes]
    each = tuple(plan for plan in apart if plan is not None)
    if len(each) < len(axes):
        return together
    if filters is not None and are_alike(together):
        sizes = [size.value for size in space if isinstance(size, IntImm)]
        fill = filters % _VECTORS == 0 and len(sizes) == len(axes)
        if not fill or _points(together, sizes) < _MUCH_MORE * _points(each, sizes):
            return together
    return each


def _points(plans: Sequence[AxisPlan], sizes: Sequence[int]) -> int:
    """Points of the grid of one residue."""
    return prod(size + plan.longer for size, plan in zip(sizes, plans, strict=True))


def _channels(dims: Sequence[PrimExpr], attrs: ConvTransposeAttrs) -> PrimExpr:
    return dims[attrs.data_layout.index("C")]


def _dtype(call: Call) -> str:
    assert isinstance(call.struct_info, TensorStructInfo)
    return call.struct_info.dtype


def _in_order(value: Expr, layout: str, wanted: str) -> Expr:
    """A value whose axes are in another order."""
    if layout == wanted:
        return value
    return permute_dims(value, list(order(layout, wanted)), span=value.span)


def _computed(value: Expr) -> Expr:
    """What depends on constants only as one."""
    leaves: list[Expr] = [value]
    while leaves:
        leaf = leaves.pop()
        if isinstance(leaf, Call):
            leaves += operands_of(leaf)
        elif not isinstance(leaf, Constant):
            return value
    return Constant(np.ascontiguousarray(Interpreter(IRModule()).evaluate(value, {}, {})), span=value.span)
