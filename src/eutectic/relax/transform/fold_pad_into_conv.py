"""FoldPadIntoConv: explicit zero padding before a convolution becomes its padding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eutectic.ir.module import IRModule
from eutectic.ir.node import replace
from eutectic.ir.span import merged_span
from eutectic.ir.transform import PassContext
from eutectic.relax.analysis.uses import get_var2val, is_call_of
from eutectic.relax.expr import Call, Constant, Function, PrimValue, Var
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.op.registry import has_trait
from eutectic.relax.transform.infra import FunctionPass, mutated


@dataclass(frozen=True)
class FoldPadIntoConv(FunctionPass):
    """Add the widths of a constant zero `nn.pad` to the padding of the convolution that reads it.

    Only spatial axes, only widths that are not negative. Other readers of the padded
    value keep it.

    before:                                 after:
        lv = nn.pad(x, (0,0,0,0,0,1,0,1))       lv1 = nn.conv2d(x, w, padding=(0,0,1,1))
        lv1 = nn.conv2d(lv, w)
    """

    def run_function(self, function: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Fold inside one function."""
        return mutated(function, _Folder(function))


class _Folder(PyExprMutator):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self._values = get_var2val(function)

    def visit_call_(self, call: Call) -> Any:
        """Fold the padding of one convolution's input."""
        pads = has_trait(call, "convolution") and not has_trait(call, "transposed")
        if pads and isinstance(call.args[0], Var):
            pad = self._values.get(call.args[0])
            padding = _joined_padding(call, pad)
            if padding is not None:
                assert isinstance(pad, Call) and call.attrs is not None
                span = merged_span([pad.span, call.span])
                call = Call(call.op, (pad.args[0], call.args[1]), replace(call.attrs, padding=padding), (), span)
        return super().visit_call_(call)


def _joined_padding(conv: Call, pad: Any) -> tuple[int, ...] | None:
    """The convolution's padding with the explicit one added: all begins, then all ends; None when it cannot be."""
    if not is_call_of(pad, "relax.nn.pad") or conv.attrs is None:
        return None
    if pad.attrs["pad_mode"] != "constant" or not _pads_zero(pad):
        return None
    layout = conv.attrs["data_layout"]
    widths = pad.attrs["pad_width"]
    if len(widths) != 2 * len(layout) or any(width < 0 for width in widths):
        return None
    spatial = [i for i, axis in enumerate(layout) if axis not in "NC"]
    if any(widths[2 * i] or widths[2 * i + 1] for i in range(len(layout)) if i not in spatial):
        return None
    begin, end = conv.attrs["padding"][: len(spatial)], conv.attrs["padding"][len(spatial) :]
    return (
        *(b + widths[2 * i] for b, i in zip(begin, spatial, strict=True)),
        *(e + widths[2 * i + 1] for e, i in zip(end, spatial, strict=True)),
    )


def _pads_zero(pad: Call) -> bool:
    if len(pad.args) > 1:
        value = pad.args[1]
        if isinstance(value, PrimValue):
            return bool(getattr(value.value, "value", 1) == 0)
        return isinstance(value, Constant) and value.data.size == 1 and not value.data.any()
    return pad.attrs is not None and pad.attrs.get("pad_value", 0) == 0
