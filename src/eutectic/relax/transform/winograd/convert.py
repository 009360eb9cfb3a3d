"""ConvertConv2DToWinograd: convolutions with constant 3x3 windows, where fewer multiplications pay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from eutectic.ir.module import IRModule
from eutectic.ir.transform import PassContext
from eutectic.relax.expr import Call, Constant, Function
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.op.nn.conv_blocks import is_plain
from eutectic.relax.op.nn.conv_winograd import conv2d_winograd
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.relax.transform.infra import FunctionPass
from eutectic.relax.transform.winograd.accuracy import is_accurate
from eutectic.relax.transform.winograd.choice import WINOGRAD_OFFERS, ConvolutionSizes, WinogradOffer
from eutectic.target import Target, target_or_current
from eutectic.topi.nn.winograd_transforms import TAPS, in_panels, transformed_weights


@dataclass(frozen=True)
class ConvertConv2DToWinograd(FunctionPass):
    """Compute convolutions by Winograd's minimal filtering where that is faster, and accurate with their weights.

    Only float32 convolutions of 3x3 windows at every point, in one group, of sizes and weights that are constants.
    What is faster is estimated by who makes the kernels for the target. The error on the layer's own weights is
    measured before (`accuracy.py`): relative L2 below 3e-6, in each output channel below 1e-5; otherwise smaller tiles
    are tried, and then the convolution stays. Functions for a library, and composites, keep theirs.

    before:                                 after:
        gv = nn.conv2d(x, w, padding=1)         gv = nn.conv2d_winograd(x, transformed_w, padding=1)

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
        fresh = _Converter(target_or_current(self.target or None)).visit_expr(function)
        assert isinstance(fresh, Function)
        return fresh


class _Converter(PyExprMutator):
    def __init__(self, target: Target) -> None:
        super().__init__()
        self._target = target

    def visit_call_(self, call: Call) -> Any:
        """Convert one convolution."""
        sizes = _sizes(call)
        for offer in () if sizes is None else WINOGRAD_OFFERS.ask(sizes, self._target):
            weight = call.args[1]
            assert isinstance(weight, Constant)
            factors = transformed_weights(weight.data, offer.tile).astype(weight.data.dtype)
            if is_accurate(weight.data, factors):
                return super().visit_call_(_converted(call, weight, factors, offer))
        return super().visit_call_(call)


def _converted(call: Call, weight: Constant, factors: npt.NDArray[Any], offer: WinogradOffer) -> Call:
    assert call.attrs is not None
    packed = Constant(in_panels(factors, offer.lanes, offer.panel), span=weight.span)
    return conv2d_winograd(call.args[0], packed, call.attrs["padding"], span=call.span)


def _sizes(call: Call) -> ConvolutionSizes | None:
    """The sizes of a convolution that the method is for; None when it is for others."""
    attrs = call.attrs
    if not is_plain(call) or attrs is None or attrs["groups"] != 1:
        return None
    weight = call.args[1]
    if {*attrs["strides"], *attrs["dilation"]} != {1} or not isinstance(weight, Constant):
        return None
    if weight.data.shape[2:] != (TAPS, TAPS) or not np.isfinite(weight.data).all():
        return None
    infos = [info for info in (call.args[0].struct_info, call.struct_info) if isinstance(info, TensorStructInfo)]
    sizes = [getattr(size, "value", None) for item in infos for size in item.dims or ()]
    if len(sizes) != 8 or None in sizes:
        return None
    batch, channels, _, _, _, filters, height, width = sizes
    return ConvolutionSizes(batch, channels, filters, height, width)  # type: ignore[arg-type]  # none is None
