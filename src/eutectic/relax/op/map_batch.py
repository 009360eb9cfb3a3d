"""relax.map_batch: a function for pieces of a batch, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from eutectic.ir.attrs import Attrs
from eutectic.ir.node import node
from eutectic.relax.base import Expr, StructInfo
from eutectic.relax.expr import Call, Tuple
from eutectic.relax.op.call_packed import stated
from eutectic.relax.op.numerics import Array
from eutectic.relax.op.registry import attrs_of, define_op, refuse, short_name
from eutectic.relax.op.shapes import dims_text, int_of, static
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.support.deep import deep

MAP_BATCH: Final = "relax.map_batch"
_MAP_BATCH: Final = define_op(MAP_BATCH, arity=3, fusion="opaque", traits=["calls"])


@node("relax.attrs.MapBatchAttrs")
class MapBatchAttrs(Attrs):
    """How many places of the first axis a piece has."""

    size: int


def map_batch(
    function: Any,
    batched: Sequence[Expr],
    whole: Sequence[Expr] = (),
    size: int = 1,
    *,
    sinfo_args: StructInfo | Sequence[StructInfo],
    span: Any = None,
) -> Call:
    """Call a function for each piece of a batch, and put the results of all pieces one after another.

    Args:
        function: A graph function of the module. It takes a piece of each tensor of `batched`, then all of `whole`, and
            gives one tensor or a tuple of tensors, with as many places along the first axis as a piece has.
        batched: At least one tensor, `(n, ...)`, which is cut along its first axis.
        whole: Tensors that every call is given as they are.
        size: Places of the first axis in a piece; divides `n`.
        sinfo_args: Struct info of the result: that of the function, with `n` for the first size.
        span: Python source of the call, for errors.

    Returns:
        What `sinfo_args` states.

    Raises:
        TypeInferenceError: nothing is cut, sizes are not known or differ, or pieces would not have the same size.

    Reference: jax.lax.map with a batch size.
    """
    attrs = MapBatchAttrs(int_of(size, "size"))
    out = stated(sinfo_args)
    c = Call(_MAP_BATCH.op, (function, Tuple(tuple(batched)), Tuple(tuple(whole))), attrs, (out,), span)
    return Call(c.op, c.args, attrs, (out,), span, struct_info=_infer(c))


def pieces(c: Call) -> int:
    """How many pieces a call of `map_batch` computes."""
    batched = c.args[1]
    assert isinstance(batched, Tuple)
    info = batched.fields[0].struct_info
    assert isinstance(info, TensorStructInfo)
    assert info.static_shape is not None
    return info.static_shape[0] // attrs_of(c, MapBatchAttrs).size


@_MAP_BATCH.infer
def _infer(c: Call) -> StructInfo:
    batched, size = c.args[1], attrs_of(c, MapBatchAttrs).size
    if len(c.sinfo_args) != 1:
        refuse(c, f"{short_name(c)} needs the struct info of its result", help="pass sinfo_args")
    if not isinstance(batched, Tuple) or not batched.fields:
        refuse(c, f"{short_name(c)} has nothing that is cut into pieces", help="give a tuple of tensors")
    counts = [_count(c, field.struct_info) for field in batched.fields]
    if len(set(counts)) > 1 or size < 1 or counts[0] % size:
        listed = ", ".join(map(str, counts))
        refuse(c, f"{short_name(c)} of {listed} in pieces of {size}", help="the size of a piece divides all of them")
    return c.sinfo_args[0]


def _count(c: Call, info: StructInfo | None) -> int:
    """Places along the first axis of a tensor."""
    if not isinstance(info, TensorStructInfo) or not info.dims or (count := static(info.dims[0])) is None:
        known = dims_text(info.dims) if isinstance(info, TensorStructInfo) else type(info).__name__
        refuse(c, f"{short_name(c)} cuts tensors whose first size is known, got {known}")
    return count


@_MAP_BATCH.reference
def _reference(attrs: MapBatchAttrs, function: Callable[..., Any], batched: Sequence[Array], whole: Any) -> Any:
    count = len(batched[0]) // attrs.size
    parts = [[tensor[i * attrs.size : (i + 1) * attrs.size] for tensor in batched] for i in range(count)]
    return _joined([function(*part, *whole) for part in parts])


@deep
def _joined(results: Sequence[Any]) -> Any:
    if isinstance(results[0], (tuple, list)):
        return tuple(_joined(fields) for fields in zip(*results, strict=True))
    return np.concatenate(results, axis=0)
