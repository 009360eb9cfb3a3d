"""ConvertConv2DToWinograd: convolutions with constant 3x3 windows, where fewer multiplications pay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from eutectic.ir.module import IRModule
from eutectic.ir.transform import PassContext
from eutectic.relax.expr import Call, Constant, Function
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.op.nn.conv_blocks import is_plain
from eutectic.relax.op.nn.conv_winograd import conv2d_winograd, conv3d_winograd
from eutectic.relax.op.nn.space_to_batch import batch_to_space, space_to_batch
from eutectic.relax.op.shapes import static
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.relax.transform.infra import FunctionPass
from eutectic.relax.transform.layouts.offers import likely_sizes
from eutectic.relax.transform.offers_by_kind import note_choice, tuned_choice
from eutectic.relax.transform.winograd.accuracy import is_accurate
from eutectic.relax.transform.winograd.choice import POINT, WINOGRAD_OFFERS, ConvolutionSizes, WinogradOffer
from eutectic.target import Target, target_or_current
from eutectic.tir.function_attributes import example_sizes
from eutectic.topi.nn.winograd_transforms import TAPS, in_panels, transformed_weights


@dataclass(frozen=True)
class ConvertConv2DToWinograd(FunctionPass):
    """Compute convolutions by Winograd's minimal filtering where that is faster, and accurate with their weights.

    Only float32 convolutions of 3x3 taps at every point, in one group, of known weights: of images, and of volumes,
    whose windows may have several slices. Where taps are apart, points that are as far from each other become images of
    their own, if the images have one size. Images of sizes that vary are taken to be as large as in the example of the
    function (its attribute `example_sizes`). What is faster is estimated by who makes the kernels for the target, or
    was measured: the services of the context know it then by the sizes, at the choice point `winograd`, as the tile, 0
    for direct sums. The error on the layer's own weights is measured before (`accuracy.py`): relative L2 below 3e-6, in
    each output channel below 1e-5; otherwise smaller tiles are tried, and then the convolution stays. Functions for a
    library, and composites, keep theirs.

    before:                                 after:
        gv = nn.conv2d(x, w, padding=1)         gv = nn.conv2d_winograd(x, transformed_w, padding=1)

        gv = nn.conv2d(x, w, padding=2,         lv = nn.space_to_batch(x, 2, padding=2)
                       dilation=2)              lv1 = nn.conv2d_winograd(lv, transformed_w)
                                                gv = nn.batch_to_space(lv1, 2)

    Accuracy: as said; calls with NaN or infinities are left to other code, see `ConvertWinogradToConv2D`.
    Cost: multiplies the weights of each candidate with a few tiles.

    Attributes:
        target: What for, as the text of a target; when empty, the current target, else this machine.

    Reference: see `eutectic.topi.nn.winograd_transforms`.
    """

    target: str = ""

    def run_function(self, function: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Convert within one function."""
        if any(map(function.attr, ("Codegen", "Composite", "Primitive"))):
            return function
        fresh = _Converter(target_or_current(self.target or None), ctx, example_sizes(function)).visit_expr(function)
        assert isinstance(fresh, Function)
        return fresh


class _Converter(PyExprMutator):
    def __init__(self, target: Target, ctx: PassContext, examples: Mapping[str, int]) -> None:
        super().__init__()
        self._target, self._ctx, self._examples = target, ctx, examples

    def visit_call_(self, call: Call) -> Any:
        """Convert one convolution."""
        sizes = convolution_sizes(call, self._examples)
        way = None if sizes is None else self._chosen(sizes, call.args[1])
        visited = super().visit_call_(call)
        if way is None or sizes is None or not isinstance(visited, Call):
            return visited
        return self._apart(visited, sizes, way) if sizes.is_apart else self._converted(visited, way)

    def _converted(self, call: Call, way: _Way) -> Call:
        assert call.attrs is not None
        convolution = conv2d_winograd if len(call.attrs["strides"]) == 2 else conv3d_winograd
        return convolution(call.args[0], way.packed(call.args[1]), call.attrs["padding"], span=call.span)

    def _apart(self, call: Call, sizes: ConvolutionSizes, way: _Way) -> Call:
        """The images of points between which there are no taps, whole tiles of each, and one image of the results."""
        assert call.attrs is not None
        padding, sides = call.attrs["padding"], sizes.apart
        whole = [-(-size // way.offer.tile) * way.offer.tile for size in sizes.space]
        more = [
            count * side - size for count, side, size in zip(whole, sides, (sizes.height, sizes.width), strict=True)
        ]
        widths = (*padding[:2], padding[2] + more[0], padding[3] + more[1])
        images = self.builder_.emit(space_to_batch(call.args[0], sides, widths, span=call.span))
        results = self.builder_.emit(conv2d_winograd(images, way.packed(call.args[1]), span=call.span))
        return batch_to_space(results, sides, (0, 0, *more), span=call.span)

    def _chosen(self, sizes: ConvolutionSizes, weight: Any) -> _Way | None:
        """How a convolution is computed: as was measured, else as is estimated, and accurate in either case."""
        assert isinstance(weight, Constant)
        workload, measured = sizes.workload(self._target), self._ctx.services.measured
        offers = WINOGRAD_OFFERS.ask(sizes, self._target, measured.speeds)
        ways = [{"tile": tile} for tile in (0, *(offer.tile for offer in offers))]
        tuned = tuned_choice(self._ctx, workload, POINT, ways)
        taken = [o for o in offers if (o.worthwhile if tuned is None else 0 < o.tile <= tuned["tile"])]
        if tuned is not None:
            taken.sort(key=lambda offer: -offer.tile)
        accurate = (way for way in (_Way.of(weight.data, offer) for offer in taken) if way is not None)
        chosen = next(accurate, None)
        note_choice(self._ctx, workload, POINT, {"tile": 0 if chosen is None else chosen.offer.tile}, ways)
        return chosen


@dataclass(frozen=True)
class _Way:
    """An offer, and the weights transformed for it."""

    offer: WinogradOffer
    factors: npt.NDArray[Any]

    @staticmethod
    def of(weight: npt.NDArray[Any], offer: WinogradOffer) -> _Way | None:
        """None where too much would be lost with these weights."""
        factors = transformed_weights(weight, offer.tile).astype(weight.dtype)
        return _Way(offer, factors) if is_accurate(weight, factors) else None

    def packed(self, weight: Any) -> Constant:
        """The transformed weights in the order of the products."""
        return Constant(in_panels(self.factors, self.offer.lanes, self.offer.panel), span=weight.span)


def convolution_sizes(call: Call, examples: Mapping[str, int]) -> ConvolutionSizes | None:
    """The sizes of a convolution that the method is for, likely ones where they vary; None for others.

    Args:
        call: A call of any operator.
        examples: Values of symbolic sizes, by name.
    """
    attrs = call.attrs
    if not is_plain(call) or attrs is None or attrs["groups"] != 1:
        return None
    weight = call.args[1]
    if {*attrs["strides"]} != {1} or not isinstance(weight, Constant):
        return None
    if weight.data.shape[-2:] != (TAPS, TAPS) or not np.isfinite(weight.data).all():
        return None
    infos = [info for info in (call.args[0].struct_info, call.struct_info) if isinstance(info, TensorStructInfo)]
    dims = [size for info in infos for size in info.dims or ()]
    if len(dims) != 2 * weight.data.ndim or static(dims[1]) is None:
        return None
    (images, channels, *_), (_, filters, *slices, height, width) = (likely_sizes(info, examples) for info in infos)
    varies, (*between, down, right) = None in map(static, dims[-2:]), attrs["dilation"]
    if (varies or slices) and {*between, down, right} != {1}:
        return None
    window = prod(weight.data.shape[2:-2])
    return ConvolutionSizes(images, channels, filters, height, width, varies, (down, right), prod(slices), window)
