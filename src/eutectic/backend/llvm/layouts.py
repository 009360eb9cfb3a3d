"""In which layouts our kernels can compute a call, and an estimate of what that costs.

Channels in blocks of vectors put a vector of channels at each point: weights are read as they lie, and no vector is
cut by the end of a row. The estimates are fitted to what `benchmarks/layouts.py` measures on a processor with vectors
of 512 bits, and on one with vectors of 256 bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, prod
from typing import Final

from eutectic.backend.llvm.machine import Machine, lane_speed
from eutectic.ir.dtype import item_bytes
from eutectic.ir.services import Speeds
from eutectic.relax.analysis.uses import operands_of
from eutectic.relax.expr import Call
from eutectic.relax.op.nn.channel_norm import CHANNEL_NORMS
from eutectic.relax.op.nn.conv_blocks import blocked_kernel, is_plain
from eutectic.relax.op.nn.conv_winograd import WINOGRAD
from eutectic.relax.op.nn.inverted_residual import INVERTED_RESIDUAL
from eutectic.relax.op.registry import has_trait, op_def, said_in_layout
from eutectic.relax.struct_info import TensorStructInfo, TupleStructInfo
from eutectic.relax.transform.layouts.offers import ROW_MAJOR, LayoutOffer, likely_sizes

_FROM_ROWS: Final = (0.95, 1.05)  # convolution, row-major: at most, and for each part of a vector that rows fill
_FROM_LONG_ROWS: Final = (0.7, 0.02)  # of that with steps of two, by which vectors are taken apart, and longer ones
_GROUPS_IN_BLOCKS: Final = (0.45, 0.25)  # several of a few channels each, with steps of one, and longer ones
_GROUPED_ROWS: Final = (0.92, 3), (0.8, 8)  # in groups, with steps of one, and longer: at most, of many filters in each
_DEPTHWISE_ROWS: Final = (0.36, 0.12)  # with steps of one, and longer ones
_NORMS: Final = (1.25, 0.85)  # nanoseconds for each element of a group norm, row-major and in blocks
_SAME_SET: Final = 4096, 0.75  # bytes between channels of rows that keep each other out of a cache, and what is left
# Nanoseconds for each element that is interpolated, by method, more than in blocks or channels last.
_INTERPOLATED_ROWS: Final = {"linear": 0.3, "nearest": 1.5, "bilinear": 15.0, "bicubic": 40.0}
_NAMES: Final = {4: "NCHW", 5: "NCDHW"}  # the layouts of the graph that have others beside them, by axes
_WINOGRAD_ROWS: Final = 2.2  # nanoseconds for each element of data and result, as vectors lie across rows


@dataclass(frozen=True)
class _Shares:
    """Shares of `lane_speed` that convolutions reach, by vectors in a block of the result.

    Attributes:
        to_blocks: From blocks, or windows of one tap.
        rows_to_blocks: From row-major data, windows of several taps.
        depthwise: Windows of each channel, with steps of one and longer ones.
    """

    to_blocks: Mapping[float, float]
    rows_to_blocks: Mapping[float, float]
    depthwise: Mapping[float, tuple[float, float]]


_SHARES_WIDE: Final = _Shares(
    to_blocks={0.5: 0.57, 1: 1.04, 2: 1.07},
    rows_to_blocks={0.5: 0.5, 1: 0.98, 2: 1.0},
    depthwise={0.5: (0.4, 0.2), 1: (0.8, 0.5), 2: (0.8, 0.5)},
)
# With vectors of 256 bits and less a line of memory is a block of two, and a tile has one of each of several blocks.
_SHARES_NARROW: Final = _Shares(
    to_blocks={0.5: 0.57, 1: 1.07, 2: 1.05},
    rows_to_blocks={0.5: 0.5, 1: 1.0, 2: 1.0},
    depthwise={0.5: (0.4, 0.2), 1: (0.75, 0.42), 2: (0.6, 0.3)},
)
_MOST_VECTORS: Final = 4  # in a block, as many as sums of several points still fit into registers with


def layout_offers(call: Call, machine: Machine, speeds: Speeds | None = None) -> Sequence[LayoutOffer]:
    """The layouts in which a call can be computed, row-major first.

    Args:
        call: A call of an operator, with its struct info.
        machine: What the code is for.
        speeds: What it was measured to do, if it was.
    """
    infos, results = [value.struct_info for value in operands_of(call)], _results(call)
    if not infos or not results or not all(map(_is_known, (*infos, *results))):
        return (ROW_MAJOR,)
    tensors, result = [info for info in infos if isinstance(info, TensorStructInfo)], results[0]
    lanes = machine.lanes()
    if call.op in WINOGRAD:
        return [*_by_winograd(tensors, result)]
    if call.op is INVERTED_RESIDUAL:
        return [*_channels_last(tensors, lanes)]
    if has_trait(call, "convolution") and not has_trait(call, "transposed"):
        is_full = is_plain(call) and all(_sizes(tensors[1]))
        rate = lanes * lane_speed(machine, speeds)
        shares = _SHARES_WIDE if machine.is_wide else _SHARES_NARROW
        return [*_convolutions(call, tensors, result, lanes, rate, shares)] if is_full else (ROW_MAJOR,)
    if call.op in CHANNEL_NORMS:
        return [*_norms(call, tensors[0], lanes)]
    return [_rows(call, result), *_others(call, tensors, results, lanes)]


def _results(call: Call) -> list[TensorStructInfo]:
    """The types of all results; none where one of them is no tensor."""
    info = call.struct_info
    infos = info.fields if isinstance(info, TupleStructInfo) else (info,)
    tensors = [item for item in infos if isinstance(item, TensorStructInfo)]
    return tensors if len(tensors) == len(infos) else []


def _is_known(info: object) -> bool:
    """Whether a tensor has elements, and a known number of channels; images may be as many and as large as any."""
    if not isinstance(info, TensorStructInfo) or info.dims is None or 0 in _sizes(info):
        return False
    return None not in (_sizes(info)[1:2] if len(info.dims) in _NAMES else _sizes(info))


def _sizes(info: TensorStructInfo) -> list[int | None]:
    return [getattr(size, "value", None) for size in info.dims or ()]


def _blocks(channels: int, lanes: int) -> list[int]:
    """Sizes of blocks that divide channels: two vectors, or one; else all channels that are few, and half a vector."""
    sizes = [size for size in (2 * lanes, lanes) if size > 1 and channels % size == 0]
    half = lanes // 2
    if sizes or half <= 1 or not channels or channels % half:
        return sizes
    return [channels, half] if lanes < channels <= _MOST_VECTORS * lanes else [half]


def _vectors(size: int, lanes: int) -> tuple[float, float]:
    """By which number of vectors the share of a block is known, and the part of them that it fills."""
    vectors = size / lanes
    return (vectors, 1.0) if vectors in _SHARES_WIDE.to_blocks else (2, vectors / ceil(vectors))


# ---- convolutions


def _convolutions(
    call: Call, infos: Sequence[TensorStructInfo], result: TensorStructInfo, lanes: int, rate: float, shares: _Shares
) -> Iterator[LayoutOffer]:
    """Row-major, and every pair of blocks, or rows, of the data and blocks of the result."""
    attrs = call.attrs
    assert attrs is not None
    (_, channels, *_), (filters, depth, *window) = likely_sizes(infos[0]), likely_sizes(infos[1])
    flops, groups, is_long = 2.0 * prod(likely_sizes(result)) * depth * prod(window), attrs["groups"], _is_long(call)
    is_depthwise = groups > 1 and groups == channels == filters
    best, rows = flops / rate, _NAMES[len(result.dims or ())]  # nanoseconds
    of_group = 0 if is_depthwise else filters // groups
    yield LayoutOffer(cost=best / _rows_share(call, result, window, lanes, of_group))
    for out in _blocks(filters, lanes):
        written, (vectors, filled) = f"{rows}{out}c", _vectors(out, lanes)
        has_groups = groups > 1 and channels == filters and depth < lanes and out % depth == 0
        if has_groups:  # whole ones, such as single channels
            share = shares.depthwise[vectors][is_long] if depth == 1 else _GROUPS_IN_BLOCKS[is_long]
            yield LayoutOffer((written, blocked_kernel(written, written, True)), (written,), best / (share * filled))
        if (filters // groups) % out:
            continue
        for data in (0, *(size for size in _blocks(channels, lanes) if depth % size == 0)):
            read = f"{rows}{data}c" if data else ""
            kernel = blocked_kernel(read or rows, written, False)
            known = shares.to_blocks if data or prod(window) == 1 else shares.rows_to_blocks
            reached = 1.0 if data or prod(window) > 1 else _left_of_cache(infos[0])
            yield LayoutOffer((read, kernel), (written,), best / (known[vectors] * filled * reached))


def _left_of_cache(data: TensorStructInfo) -> float:
    """The share of the speed that is left where a point's channels, as rows have them, are in one set of a cache."""
    step, left = _SAME_SET
    return left if prod(likely_sizes(data)[2:]) * item_bytes(data.dtype or "float32") % step == 0 else 1.0


def _rows_share(call: Call, result: TensorStructInfo, window: Sequence[int], lanes: int, of_group: int) -> float:
    """The share of the peak that a row-major convolution reaches: vectors lie along rows, and rows may end in them.

    In groups each vector of the data is loaded for the few filters of one, and a tile has no more of them.

    Args:
        call: The convolution.
        result: Its type.
        window: Sizes of the window.
        lanes: Of a vector.
        of_group: Filters of a group; 0 where each channel is one.
    """
    attrs = call.attrs
    assert attrs is not None
    _, _, *space = likely_sizes(result)
    is_product = {*window, *attrs["strides"]} == {1} and not any(attrs["padding"])
    row = max(1, prod(space) if is_product else space[-1])
    used = row / (-(-row // lanes) * lanes)
    if not of_group:
        return _DEPTHWISE_ROWS[_is_long(call)] * used
    if attrs["groups"] > 1:
        most, few = _GROUPED_ROWS[_is_long(call)]
        return most * used * of_group / (of_group + few)
    most, each = _FROM_ROWS
    step = max(attrs["strides"])
    return min(most, each * used) * (1 if step == 1 else _FROM_LONG_ROWS[step > 2])


def _is_long(call: Call) -> bool:
    """Whether windows leave elements out."""
    assert call.attrs is not None
    return bool(max(call.attrs["strides"]) > 1)


def _by_winograd(infos: Sequence[TensorStructInfo], result: TensorStructInfo) -> Iterator[LayoutOffer]:
    """Channels in blocks or last, for data and result; the estimate is that of the pass that chose the method."""
    lanes, rows = likely_sizes(infos[1])[-2], _NAMES[len(result.dims or ())]
    layouts = (_in_blocks(rows, lanes), _in_blocks(rows, 0))
    for data in layouts:
        for out in layouts:
            yield LayoutOffer((data, ""), (out,))
    yield LayoutOffer(cost=_WINOGRAD_ROWS * (prod(likely_sizes(infos[0])) + prod(likely_sizes(result))))


def _channels_last(infos: Sequence[TensorStructInfo], lanes: int) -> Iterator[LayoutOffer]:
    """Channels last, or in blocks for the data alone: results in other layouts would be stored one by one."""
    yield LayoutOffer(("NHWC",), ("NHWC",))
    for size in _blocks(likely_sizes(infos[0])[1], lanes):
        yield LayoutOffer((f"NCHW{size}c",), ("NHWC",))
    yield LayoutOffer(cost=sum(prod(likely_sizes(info)) for info in infos[:1]))


# ---- what moves no products


def _norms(call: Call, data: TensorStructInfo, lanes: int) -> Iterator[LayoutOffer]:
    """Row-major, and blocks of channels where those are normalised over all points of an image."""
    sizes, attrs = likely_sizes(data), call.attrs
    assert attrs is not None
    in_rows, in_blocks = (each * prod(sizes) for each in _NORMS)
    yield LayoutOffer(cost=in_rows)
    axes = [axis % len(sizes) for axis in (attrs["channel_axis"], *sorted(attrs["axes"]))]
    rows = _NAMES.get(len(sizes), "")
    if rows and axes == [*range(1, len(sizes))] and attrs["layout"] in ("", rows):
        for size in _blocks(sizes[1], lanes):
            yield LayoutOffer((f"{rows}{size}c",), (f"{rows}{size}c",), in_blocks)


def _others(
    call: Call, infos: Sequence[TensorStructInfo], results: Sequence[TensorStructInfo], lanes: int
) -> Iterator[LayoutOffer]:
    """Blocks of channels, and channels last, for what costs as much in any layout: one for all tensors."""
    shape = likely_sizes(results[0])
    rows = _NAMES.get(len(shape))
    if rows is None:
        return
    for size in (*_blocks(shape[1], lanes), 0):
        operands = _operands(call, infos, shape, size)
        if operands is not None:
            yield LayoutOffer(operands, (_in_blocks(rows, size),) * len(results))


def _rows(call: Call, result: TensorStructInfo) -> LayoutOffer:
    """Row-major: neighbours of an image that is interpolated come from places of their own, one by one."""
    method = None if call.attrs is None else call.attrs.get("method")
    cost = _INTERPOLATED_ROWS.get(str(method))
    return ROW_MAJOR if cost is None else LayoutOffer(cost=cost * prod(likely_sizes(result)))


def _in_blocks(names: str, size: int) -> str:
    """Axes with channels in blocks of a size; of size 0 with channels last."""
    return f"{names}{size}c" if size else f"{names.replace('C', '')}C"


def _operands(call: Call, infos: Sequence[TensorStructInfo], shape: Sequence[int], size: int) -> tuple[str, ...] | None:
    """Layouts of the operands for a result in blocks; None when the call cannot be computed so."""
    if has_trait(call, "pointwise"):
        layouts = [_spread(likely_sizes(info), shape, size) for info in infos]
        return None if None in layouts else tuple(name for name in layouts if name is not None)
    rows = _NAMES[len(shape)]
    name, definition = _in_blocks(rows, size), op_def(call.op)
    if definition is None or call.attrs is None:
        return None
    fields = dict(call.attrs.items()) if definition.in_layouts_fn is not None else {}
    is_pool = fields.get("layout") == fields.get("out_layout") == rows
    is_image = fields.get("layout") == rows and "out_layout" not in fields
    images = infos[:1] if is_image else infos  # the others say what is done with an image
    if any(len(_sizes(info)) != len(shape) or (size and likely_sizes(info)[1] % size) for info in images):
        return None
    if is_pool or is_image or said_in_layout(call, rows, name) is not None:
        return (name,) * len(images)
    return None


def _spread(sizes: Sequence[int], shape: Sequence[int], size: int) -> str | None:
    """The layout of an operand that is broadcast to a result in blocks; None where there is none.

    Axes are counted from the last. An operand of one element, or without channels, is the same for all of a block.
    """
    if not sizes:
        return ""
    names = _NAMES[len(shape)][-len(sizes) :]
    if len(sizes) < len(shape) - 1 or len(sizes) > len(shape):
        return None
    channels = sizes[names.index("C")]
    if channels == 1:
        return _in_blocks(names, min(size, 1))
    return _in_blocks(names, size) if channels == shape[1] else None
