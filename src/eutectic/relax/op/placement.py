"""Where a value lives: hint_on_device, to_vdevice; and the value that is none: null_value."""

from __future__ import annotations

from typing import Any, Final

from eutectic.ir.attrs import Attrs
from eutectic.ir.node import node
from eutectic.relax.base import Expr, StructInfo
from eutectic.relax.expr import Call
from eutectic.relax.op.composed import shape_known
from eutectic.relax.op.numerics import Array
from eutectic.relax.op.registry import attrs_of, call, define_op, tensor_args
from eutectic.relax.op.shapes import like, reject
from eutectic.relax.struct_info import ObjectStructInfo, TensorStructInfo
from eutectic.relax.vdevice import find_vdevice

_HINT: Final = define_op("relax.hint_on_device", arity=1)
_TO: Final = define_op("relax.to_vdevice", arity=1)
_NULL: Final = define_op("relax.null_value", arity=0)


@node("relax.attrs.HintOnDeviceAttrs")
class HintOnDeviceAttrs(Attrs):
    """The device, such as `cpu:0`, and which of its memories."""

    dst_vdevice: str
    memory_scope: str = "global"


@node("relax.attrs.ToVDeviceAttrs")
class ToVDeviceAttrs(Attrs):
    """The virtual device."""

    dst_vdevice: Any


def hint_on_device(data: Expr, dst_vdevice: Any, memory_scope: str = "global", *, span: Any = None) -> Call:
    """A value that is wanted on a device.

    Args:
        data: A tensor.
        dst_vdevice: The device, such as `cpu()`, or its text, such as `cpu:0`.
        memory_scope: Which memory of the device.
        span: Python source of the call, for errors.

    Returns:
        Shape and dtype of `data`; the same elements.

    Raises:
        TypeInferenceError: `data` is no tensor, or the device is another than the processor, where programs run.

    Reference: TVM relax.op.hint_on_device.
    """
    text = str(dst_vdevice)
    if not text.startswith("cpu"):
        reject(f"hint_on_device to {text}: programs run on the processor", help="give cpu()")
    return call(_HINT, data, attrs=HintOnDeviceAttrs(text, memory_scope), span=span)


def to_vdevice(data: Expr, dst_vdevice: Any, *, span: Any = None) -> Call:
    """A value on a virtual device.

    Args:
        data: A tensor.
        dst_vdevice: The virtual device; in a script also its name in the module, such as `llvm:0`.
        span: Python source of the call, for errors.

    Returns:
        Shape and dtype of `data` on that device; the same elements.

    Raises:
        TypeInferenceError: `data` is no tensor.
        ScriptError: the module declares no device of that name.

    Reference: TVM relax.op.to_vdevice.
    """
    return call(_TO, data, attrs=ToVDeviceAttrs(find_vdevice(dst_vdevice)), span=span)


@_HINT.infer
def _infer_hint(c: Call) -> TensorStructInfo:
    (info,) = tensor_args(c)
    return like(info)


@_TO.infer
def _infer_to(c: Call) -> TensorStructInfo:
    (info,) = tensor_args(c)
    return TensorStructInfo(info.shape, info.dtype, attrs_of(c, ToVDeviceAttrs).dst_vdevice, info.ndim)


@_HINT.reference
@_TO.reference
def _same(attrs: Any, x: Array) -> Array:
    return x


@_HINT.legalize
def _legalize(builder: Any, c: Call) -> Expr:
    """Programs run in one memory: the value is there already."""
    return c.args[0] if shape_known(c.struct_info) else c


def null_value(*, span: Any = None) -> Call:
    """The value that stands for none where an operator takes an optional tensor.

    Args:
        span: Python source of the call, for errors.

    Returns:
        An object.

    Reference: TVM relax.op.null_value.
    """
    return call(_NULL, span=span)


@_NULL.infer
def _infer_null(c: Call) -> StructInfo:
    return ObjectStructInfo()


@_NULL.reference
def _reference_null(attrs: None) -> None:
    return None
