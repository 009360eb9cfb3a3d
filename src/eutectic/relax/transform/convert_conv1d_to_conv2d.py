"""ConvertConv1DToConv2D: signals as images of one row, so that there is one kind of convolution to be fast at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from eutectic.ir.module import IRModule
from eutectic.ir.node import replace
from eutectic.ir.op import Op
from eutectic.ir.transform import PassContext
from eutectic.relax.analysis.uses import holds_tensors, operands_of
from eutectic.relax.base import Expr
from eutectic.relax.expr import BindingBlock, Call, Constant, Function, Tuple, TupleGetItem, Var, VarBinding
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.op import expand_dims, nn, squeeze
from eutectic.relax.op.nn.channel_norm import CHANNEL_NORMS
from eutectic.relax.op.nn.conv import ConvAttrs
from eutectic.relax.op.nn.depth_to_space import DepthToSpaceAttrs
from eutectic.relax.op.nn.pool import PoolAttrs
from eutectic.relax.op.registry import attrs_of, has_trait, infer_call, said_in_layout
from eutectic.relax.struct_info import TensorStructInfo, TupleStructInfo
from eutectic.relax.transform.infra import FunctionPass, mutated

_Lifted: TypeAlias = "Callable[[Call, Sequence[Expr]], Call]"
_ROW: Final = 2  # the axis of an image that signals do not have


@dataclass(frozen=True)
class ConvertConv1DToConv2D(FunctionPass):
    """Compute what is made of convolutions of signals on images of one row.

    Convolutions of images have layouts of data and weights to choose from, and those of signals have them so, too:
    signals are otherwise read element by element, with steps of two and more or from channels that are far apart. What
    is the same for images (`_LIFTED`, norms of channels, what cuts or joins along an axis, whatever is pointwise)
    follows a convolution that it reads, so that no row comes and goes in between. Functions for a library, and
    composites, keep theirs.

    Before, and after::

        lv = nn.conv1d(x, w, strides=2)            lv = nn.conv2d(expand_dims(x, 2), expand_dims(w, 2), strides=(1, 2))
        gv = nn.relu(lv)                           lv1 = nn.relu(lv)
                                                   gv = squeeze(lv1, 2)

    Accuracy: sums of products may run in another order.
    Cost: linear in the size of the function and of the weights.
    """

    def run_function(self, function: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Rewrite one function."""
        if any(map(function.attr, ("Codegen", "Composite", "Primitive"))):
            return function
        return mutated(function, _Lifter())


class _Lifter(PyExprMutator):
    """Writes signals as images.

    Attributes:
        images: What a variable of the function is as an image, or as a tuple of images, within one block.
        computed: Those of the variables that are computed as images.
    """

    def __init__(self) -> None:
        super().__init__()
        self.images: dict[Var, Expr] = {}
        self.computed: set[Var] = set()

    def visit_binding_block(self, block: BindingBlock) -> BindingBlock:
        """Images are visible in the block that they are made in."""
        outside, self.images, self.computed = (self.images, self.computed), {}, set()
        rewritten = super().visit_binding_block(block)
        self.images, self.computed = outside
        return rewritten

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """Compute a signal as an image, of which the row then goes away for those who want a signal."""
        lifted = self._lifted(binding.value)
        if lifted is None:
            super().visit_var_binding_(binding)
            return
        image = self.builder_.emit(lifted, binding.var.name_hint)
        super().visit_var_binding_(VarBinding(binding.var, self._signal(image)))
        self.images[binding.var] = image
        self.computed.add(binding.var)

    def _lifted(self, value: Expr) -> Expr | None:
        """What gives the images of a value; None where it is not computed as such."""
        if isinstance(value, TupleGetItem) and value.tuple_value in self.computed:
            return TupleGetItem(self.images[value.tuple_value], value.index)
        lift = self._way(value) if isinstance(value, Call) else None
        if lift is None:
            return None
        assert isinstance(value, Call)
        return lift(value, [self._operand(arg) for arg in value.args])

    def _signal(self, image: Expr) -> Expr:
        """An image without its row, and so each of a tuple of images."""
        if not isinstance(image.struct_info, TupleStructInfo):
            return squeeze(image, [_ROW])
        images = (self.builder_.emit(TupleGetItem(image, k)) for k in range(len(image.struct_info.fields)))
        signals: Expr = self.builder_.normalize(Tuple(tuple(squeeze(each, [_ROW]) for each in images)))
        return signals

    def _way(self, call: Call) -> _Lifted | None:
        """How a call is computed on images; None where it is not."""
        if not isinstance(call.op, Op) or not _is_signal(call.struct_info):
            return None
        is_begin = call.op.name == "relax.nn.conv1d"
        if not is_begin and self.computed.isdisjoint(operands_of(call)):
            return None
        if has_trait(call, "pointwise"):
            return _pointwise
        if (along := _along_axes(call)) is not None:
            return along
        lift = _channel_norm if call.op in CHANNEL_NORMS else _LIFTED.get(call.op.name)
        return lift if lift is not None and _is_plain(call) else None

    def _operand(self, arg: Expr) -> Expr:
        """An argument as images: a tensor, or a tuple of tensors."""
        if not isinstance(arg, Tuple):
            return self._image(arg)
        fields: Expr = self.builder_.normalize(Tuple(tuple(map(self._image, arg.fields))))
        return fields

    def _image(self, arg: Expr) -> Expr:
        """A tensor with the axis of rows, before the last of its own; what has one axis or none is for each row."""
        info = arg.struct_info
        if not isinstance(info, TensorStructInfo) or info.ndim < _ROW:
            same: Expr = self.visit_expr(arg)
            return same
        if isinstance(arg, Constant):
            return Constant(np.expand_dims(arg.data, info.ndim - 1), span=arg.span)
        if arg in self.images:
            return self.images[arg]
        image = self.builder_.emit(expand_dims(self.visit_expr(arg), info.ndim - 1))
        if isinstance(arg, Var):
            self.images[arg] = image
        return image


def _is_signal(info: Any) -> bool:
    """Whether a result is a signal, or all of several are."""
    infos = info.fields if isinstance(info, TupleStructInfo) else (info,)
    return all(isinstance(each, TensorStructInfo) and each.ndim == _ROW + 1 for each in infos)


def _is_plain(call: Call) -> bool:
    """Whether batch, channels and space follow each other in all that has a layout, or axes."""
    attrs = call.attrs
    assert attrs is not None
    names = {"layout": "NCW", "data_layout": "NCW", "kernel_layout": "OIW", "out_layout": "NCW"}
    if any(attrs.get(name) not in (None, "", plain) for name, plain in names.items()):
        return False
    if "channel_axis" in attrs:
        return [axis % (_ROW + 1) for axis in (attrs["channel_axis"], *attrs["axes"])] == [1, _ROW]
    return True


def _pointwise(call: Call, args: Sequence[Expr]) -> Call:
    return infer_call(replace(call, args=tuple(args), struct_info=None))


def _both(numbers: Sequence[int], row: int) -> tuple[int, ...]:
    """Numbers of an axis, or before and after it, for rows and columns."""
    return tuple(number for column in numbers for number in (row, column))


def _conv(call: Call, args: Sequence[Expr]) -> Call:
    attrs, (data, weight) = attrs_of(call, ConvAttrs), args
    return nn.conv2d(
        data,
        weight,
        strides=_both(attrs.strides, 1),
        padding=_both(attrs.padding, 0),
        dilation=_both(attrs.dilation, 1),
        groups=attrs.groups,
        out_dtype=None if attrs.out_dtype == "void" else attrs.out_dtype,
        span=call.span,
    )


def _pool(constructor: Callable[..., Call]) -> _Lifted:
    def lift(call: Call, args: Sequence[Expr]) -> Call:
        attrs = attrs_of(call, PoolAttrs)
        return constructor(
            args[0],
            pool_size=_both(attrs.pool_size, 1),
            strides=_both(attrs.strides, 1),
            padding=_both(attrs.padding, 0),
            dilation=_both(attrs.dilation, 1),
            ceil_mode=attrs.ceil_mode,
            count_include_pad=attrs.count_include_pad,
            span=call.span,
        )

    return lift


def _depth_to_space(call: Call, args: Sequence[Expr]) -> Call:
    attrs = attrs_of(call, DepthToSpaceAttrs)
    sides, crops = _both(attrs.block_shape, 1), _both(attrs.crops, 0)
    return nn.depth_to_space(args[0], sides, crops, "NCHW", span=call.span)


def _along_axes(call: Call) -> _Lifted | None:
    """How a call that speaks of axes is computed on images."""
    said = said_in_layout(call, "NCW", "NCHW")
    if said is None:
        return None

    def lift(_: Call, args: Sequence[Expr]) -> Call:
        images = (arg if holds_tensors(arg) else number for arg, number in zip(args, said.args, strict=True))
        return infer_call(replace(said, args=tuple(images), struct_info=None))

    return lift


def _channel_norm(call: Call, args: Sequence[Expr]) -> Call:
    assert call.attrs is not None
    attrs = replace(call.attrs, channel_axis=1, axes=(_ROW, _ROW + 1))
    return infer_call(replace(call, args=tuple(args), attrs=attrs, struct_info=None))


_LIFTED: Final[Mapping[str, _Lifted]] = {
    "relax.nn.conv1d": _conv,
    "relax.nn.max_pool1d": _pool(nn.max_pool2d),
    "relax.nn.avg_pool1d": _pool(nn.avg_pool2d),
    "relax.nn.depth_to_space": _depth_to_space,
}
"""What is the same for images, by the name of the operator."""
