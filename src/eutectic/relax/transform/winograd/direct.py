"""Convolutions by Winograd's method as direct sums again: for other processors, and calls with NaN or infinities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from eutectic.ir.module import IRModule
from eutectic.ir.transform import PassContext
from eutectic.relax.analysis.uses import walk_calls
from eutectic.relax.expr import Call, Constant, Function
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.op.nn.conv import conv2d, conv3d
from eutectic.relax.op.nn.conv_winograd import WINOGRAD
from eutectic.relax.transform.infra import FunctionPass
from eutectic.topi.nn.winograd_transforms import unpacked_weights


@dataclass(frozen=True)
class ConvertWinogradToConv2D(FunctionPass):
    """Inverse of `ConvertConv2DToWinograd`: direct sums where transformed weights are constants.

    The weights of windows are least-squares solutions, in float64, of what was rounded: within about one rounding of
    the original ones.

    before:                                 after:
        gv = nn.conv2d_winograd(x, transformed_w)        gv = nn.conv2d(x, w)

    Layouts: data and results keep theirs, as far as `nn.conv2d` and `nn.conv3d` have them; row-major ones are always
    possible.
    """

    def run_function(self, function: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Convert within one function."""
        if not any(map(_is_winograd, walk_calls(function))):
            return function
        fresh = _Converter().visit_expr(function)
        assert isinstance(fresh, Function)
        return fresh


def has_winograd(mod: IRModule) -> bool:
    """Whether a function of a module has convolutions by Winograd's method."""
    functions = [function for _, function in mod.functions_items() if isinstance(function, Function)]
    return any(_is_winograd(call) for function in functions for call in walk_calls(function))


def _is_winograd(call: Call) -> bool:
    return call.op in WINOGRAD


class _Converter(PyExprMutator):
    def visit_call_(self, call: Call) -> Any:
        """Convert one convolution."""
        weight = call.args[1] if _is_winograd(call) else None
        if isinstance(weight, Constant) and call.attrs is not None:
            direct = Constant(_plain(weight.data), span=weight.span)
            options = {name: call.attrs[name] for name in ("padding", "data_layout", "out_layout")}
            convolution = conv2d if direct.data.ndim == 4 else conv3d
            return super().visit_call_(convolution(call.args[0], direct, **options, span=call.span))
        return super().visit_call_(call)


def _plain(packed: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.ascontiguousarray(unpacked_weights(packed))
