"""Checks that a region description means something and that oneDNN may be given it.

Everything is decided on shapes, before any handle exists, so that a refusal
names the step and the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from eutectic.backend.dnnl.abi import BINARY, MAX_NDIMS, POOLING
from eutectic.backend.dnnl.border_layout import border_layout
from eutectic.backend.dnnl.steps import (
    DTYPES,
    PARAMETERS,
    Binary,
    Cast,
    Convolution,
    Eltwise,
    Matmul,
    Pool,
    PostBinary,
    PostEltwise,
    PostOp,
    Step,
    TensorSpec,
    operands,
    post_ops,
    refuse,
)

Shape = tuple[int, ...]

_MAX_EXTENT: Final = 2**31 - 1
_MAX_BYTES: Final = 2**40
_MAX_POST_OPS: Final = 16


def check_region(
    inputs: Sequence[TensorSpec], constants: Sequence[TensorSpec], steps: Sequence[Step], outputs: Sequence[str]
) -> None:
    """Check names, order, shapes and parameters of a whole region.

    Raises:
        CodegenError: the first thing found wrong.
    """
    known: dict[str, Shape] = {}
    for tensor in (*inputs, *constants):
        _define(known, tensor, "region")
    for index, step in enumerate(steps):
        where = f"step {index} ({type(step).__name__} to {step.dst.name!r})"
        for name in operands(step):
            if name not in known:
                raise refuse(f"{where} reads {name!r}, which is neither given nor computed before")
        _define(known, step.dst, where)
        _check_step(step, known, where)
        if step.dst.size and any(0 in known[name] for name in operands(step)):
            raise refuse(f"{where} reduces over an axis of extent 0", help="compute this value outside of the region")
    if not outputs:
        raise refuse("a region has no outputs")
    for name in outputs:
        if name not in known:
            raise refuse(f"output {name!r} is neither given nor computed")


def broadcasts_to(shape: Shape, target: Shape) -> bool:
    """Whether `shape`, aligned at the last axis, expands to `target` without changing it."""
    return len(shape) <= len(target) and all(a in (1, b) for a, b in zip(shape[::-1], target[::-1], strict=False))


def _define(known: dict[str, Shape], tensor: TensorSpec, where: str) -> None:
    name, shape = tensor.name, tensor.shape
    if not name or name in known:
        raise refuse(f"{where}: tensor name {name!r} is {'used twice' if name else 'empty'}")
    if tensor.dtype not in DTYPES:
        raise refuse(f"{where}: tensor {name!r} has dtype {tensor.dtype!r}, only {', '.join(DTYPES)} are supported")
    if len(shape) > MAX_NDIMS or any(not 0 <= d <= _MAX_EXTENT for d in shape) or 4 * math.prod(shape) > _MAX_BYTES:
        raise refuse(f"{where}: tensor {name!r} has shape {shape}, outside of the limits")
    there = border_layout(tensor.layout)
    if tensor.layout and (there is None or not there.fits(shape)):
        raise refuse(f"{where}: tensor {name!r} of shape {shape} has no layout {tensor.layout!r}")
    known[name] = shape


def _check_step(step: Step, known: Mapping[str, Shape], where: str) -> None:
    match step:
        case Convolution():
            _check_convolution(step, known, where)
        case Matmul():
            _check_matmul(step, known, where)
        case Pool():
            _check_pool(step, known, where)
        case Binary():
            _check_binary(step, known, where)
        case Eltwise():
            _expect(step.dst.shape, known[step.src], where)
            _check_post_op(step.post_op, step.dst.shape, known, where)
        case Cast():
            _expect(step.dst.shape, known[step.src], where)
    if len(post_ops(step)) > _MAX_POST_OPS:
        raise refuse(f"{where} has {len(post_ops(step))} post-operations, at most {_MAX_POST_OPS} are allowed")
    for post_op in post_ops(step):
        _check_post_op(post_op, step.dst.shape, known, where)


def _expect(got: Shape, want: Shape, where: str, what: str = "result") -> None:
    if got != want:
        raise refuse(f"{where}: {what} has shape {got}, expected {want}")


def _check_window(rank: int, where: str, **parameters: tuple[int, ...]) -> None:
    for name, values in parameters.items():
        least = 0 if name.startswith("padding") else 1
        if len(values) != rank or any(not least <= v <= _MAX_EXTENT for v in values):
            raise refuse(f"{where}: {name} is {values}, expected {rank} integers of at least {least}")


def _check_convolution(step: Convolution, known: Mapping[str, Shape], where: str) -> None:
    src, weight, dst = known[step.src], known[step.weight], step.dst.shape
    rank = len(src) - 2
    if not 1 <= rank <= 3 or len(weight) != rank + 2 or len(dst) != rank + 2:
        raise refuse(f"{where}: convolution of {src} with {weight} to {dst}: one to three spatial axes are possible")
    _check_window(
        rank,
        where,
        strides=step.strides,
        padding_begin=step.padding_begin,
        padding_end=step.padding_end,
        dilation=step.dilation,
    )
    groups = step.groups
    if groups < 1 or src[1] % groups or dst[1] % groups or 0 in weight:
        raise refuse(f"{where}: {groups} groups, weight {weight} from {src[1]} to {dst[1]} channels")
    channels = (src[1], dst[1] // groups) if step.transposed else (dst[1], src[1] // groups)
    _expect(weight[:2], channels, where, "weight (first two axes)")
    _expect(dst[:1], src[:1], where, "batch of the result")
    if step.bias is not None:
        _expect(known[step.bias], dst[1:2], where, "bias")
    for axis in range(rank):
        _check_conv_axis(step, axis, src[axis + 2], weight[axis + 2], dst[axis + 2], where)


def _check_conv_axis(step: Convolution, axis: int, extent: int, kernel: int, out: int, where: str) -> None:
    stride, begin, end = step.strides[axis], step.padding_begin[axis], step.padding_end[axis]
    reach = (kernel - 1) * step.dilation[axis] + 1
    if not step.transposed:
        want = (extent + begin + end - reach) // stride + 1
        if extent + begin + end < reach or out != want:
            raise refuse(f"{where}: axis {axis + 2} has extent {out}, expected {max(want, 0)}")
        return
    least = (extent - 1) * stride - begin - end + reach
    if not least <= out < least + max(stride, step.dilation[axis]) or out < 1:
        raise refuse(f"{where}: axis {axis + 2} has extent {out}, expected {least} plus a legal output padding")
    if out - least - end >= stride:
        help = "oneDNN cannot express it; compute this step outside of the region"
        raise refuse(
            f"{where}: output padding {out - least} on axis {axis + 2} passes {end} + stride {stride}", help=help
        )


def _check_matmul(step: Matmul, known: Mapping[str, Shape], where: str) -> None:
    src, weight = known[step.src], known[step.weight]
    if min(len(src), len(weight)) < 2:
        raise refuse(f"{where}: matmul of {src} with {weight} needs two axes on both sides")
    k, n = weight[:-3:-1] if step.transpose_weight else weight[-2:]
    if src[-1] != k:
        raise refuse(f"{where}: matmul contracts {src[-1]} with {k}")
    batch = _broadcast(src[:-2], weight[:-2], where)
    _expect(step.dst.shape, (*batch, src[-2], n), where)
    if step.bias is not None:
        _expect(known[step.bias], (n,), where, "bias")


def _check_pool(step: Pool, known: Mapping[str, Shape], where: str) -> None:
    src, dst = known[step.src], step.dst.shape
    rank = len(src) - 2
    if step.kind not in POOLING or not 1 <= rank <= 3 or len(dst) != rank + 2:
        raise refuse(f"{where}: {step.kind} pool from {src} to {dst}; kinds are {', '.join(POOLING)}")
    _check_window(
        rank,
        where,
        kernel=step.kernel,
        strides=step.strides,
        padding_begin=step.padding_begin,
        padding_end=step.padding_end,
        dilation=step.dilation,
    )
    _expect(dst[:2], src[:2], where, "batch and channels")
    if step.kind != "max" and step.dilation != (1,) * rank:
        raise refuse(f"{where}: an average pool cannot be dilated")
    for axis in range(rank):
        _check_pool_axis(step, axis, src[axis + 2], dst[axis + 2], where)


def _check_pool_axis(step: Pool, axis: int, extent: int, out: int, where: str) -> None:
    kernel, stride, dilation = step.kernel[axis], step.strides[axis], step.dilation[axis]
    begin, end = step.padding_begin[axis], step.padding_end[axis]
    reach = (kernel - 1) * dilation + 1
    want = (extent + begin + end - reach) // stride + 1
    if extent + begin + end < reach or out != want:
        raise refuse(f"{where}: axis {axis + 2} has extent {out}, expected {max(want, 0)}")
    for start in range(-begin, out * stride - begin, stride):
        # Taps are start + k * dilation; the first one not negative decides.
        first = start if start >= 0 else start + -(start // dilation) * dilation
        if not (start <= first < min(extent, start + reach)):
            help = "reduce the padding; the value of an empty window is not defined"
            raise refuse(f"{where}: a window on axis {axis + 2} lies in the padding alone", help=help)


def _check_binary(step: Binary, known: Mapping[str, Shape], where: str) -> None:
    if step.kind not in BINARY:
        raise refuse(f"{where}: unknown kind {step.kind!r}; kinds are {', '.join(BINARY)}")
    _expect(step.dst.shape, _broadcast(known[step.lhs], known[step.rhs], where), where)


def _check_post_op(post_op: PostOp, shape: Shape, known: Mapping[str, Shape], where: str) -> None:
    match post_op:
        case PostBinary(kind, operand):
            if kind not in BINARY:
                raise refuse(f"{where}: unknown post-operation {kind!r}; kinds are {', '.join(BINARY)}")
            if not broadcasts_to(known[operand], shape):
                raise refuse(f"{where}: operand {operand!r} of {known[operand]} does not broadcast to {shape}")
        case PostEltwise(algorithm, alpha, beta):
            if algorithm not in PARAMETERS:
                raise refuse(f"{where}: unknown algorithm {algorithm!r}", help=f"known are {', '.join(PARAMETERS)}")
            for name, value in (("alpha", alpha), ("beta", beta)):
                if math.isnan(value) or (value and name not in PARAMETERS[algorithm]):
                    raise refuse(f"{where}: {algorithm} with {name}={value}")
            if algorithm == "clip" and alpha > beta:
                raise refuse(f"{where}: clip to [{alpha}, {beta}] is empty")


def _broadcast(a: Shape, b: Shape, where: str) -> Shape:
    rank = max(len(a), len(b))
    padded = [(1,) * (rank - len(s)) + s for s in (a, b)]
    if any(x != y and 1 not in (x, y) for x, y in zip(*padded, strict=True)):
        raise refuse(f"{where}: shapes {a} and {b} do not broadcast")
    return tuple(y if x == 1 else x for x, y in zip(*padded, strict=True))
