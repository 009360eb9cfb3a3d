"""What each kind of step asks of oneDNN: descriptors, layouts and argument numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eutectic.backend.dnnl import abi
from eutectic.backend.dnnl.layout import Layout, row_major
from eutectic.backend.dnnl.plan import Planner, Version, expect_chosen
from eutectic.backend.dnnl.primitives import BinaryPost, Post, Primitive, eltwise
from eutectic.backend.dnnl.spec import (
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
)
from eutectic.support.errors import CodegenError

Shape = tuple[int, ...]
Build = Callable[[Sequence[Post]], Primitive]


def lower(planner: Planner, step: Step) -> None:
    """Append the calls of one step.

    Raises:
        CodegenError: oneDNN does not implement it.
    """
    match step:
        case Convolution():
            _convolution(planner, step)
        case Matmul():
            _matmul(planner, step)
        case Pool():
            _pool(planner, step)
        case Binary():
            _binary(planner, step)
        case Eltwise():
            _eltwise(planner, step)
        case Cast():
            planner.cast(step.src, step.dst)


def _convolution(planner: Planner, step: Convolution) -> None:
    layouts, shape, dtype = planner.layouts, planner.shape, planner.dtype
    view = _weight_view(planner, step)
    bias = planner.plain(step.bias) if step.bias is not None else None
    kind = "deconvolution_forward" if step.transposed else "convolution_forward"
    algorithm = abi.DECONVOLUTION_DIRECT if step.transposed else abi.CONVOLUTION_DIRECT
    parameters = (
        layouts.any(shape(step.src), dtype(step.src)),
        layouts.any(view.shape, view.dtype),
        bias,
        layouts.any(step.dst.shape, step.dst.dtype),
        step.strides,
        tuple(d - 1 for d in step.dilation),
        step.padding_begin,
        _padding_end(step, shape(step.src), view.shape),
    )
    args = [abi.ARG_SRC, abi.ARG_WEIGHTS, *([abi.ARG_BIAS] if bias else []), abi.ARG_DST]

    def build(post: Sequence[Post]) -> Primitive:
        return planner.factory.build(kind, algorithm, parameters, args, post)

    def give(primitive: Primitive) -> list[tuple[int, Version]]:
        operands = [
            (abi.ARG_SRC, planner.version(step.src, primitive.layouts[abi.ARG_SRC])),
            (abi.ARG_WEIGHTS, planner.version(step.weight, primitive.layouts[abi.ARG_WEIGHTS], view)),
        ]
        if step.bias is not None:
            operands.append((abi.ARG_BIAS, planner.version(step.bias, primitive.layouts[abi.ARG_BIAS])))
        return operands

    _emit(planner, step, build, give, step.post_ops)


def _weight_view(planner: Planner, step: Convolution) -> Layout:
    # oneDNN's axes are (groups,) outputs, inputs, kernel in both directions; transposed weights come inputs first.
    first, second, *kernel = planner.shape(step.weight)
    split = (step.groups, first // step.groups, second, *kernel)
    strides = row_major(split)
    if step.transposed:
        split = (split[0], split[2], split[1], *kernel)
        strides = (strides[0], strides[2], strides[1], *strides[3:])
    if step.groups == 1:
        split, strides = split[1:], strides[1:]
    return planner.layouts.strided(split, strides, planner.dtype(step.weight))


def _padding_end(step: Convolution, src: Shape, weight: Shape) -> Shape:
    if not step.transposed:
        return step.padding_end
    rank = len(step.strides)
    # The output padding of a transposed convolution is less cut off at the end; oneDNN takes no negative padding, and
    # finds the rest of the output, less than a stride, from the extents.
    return tuple(
        max(
            (src[i + 2] - 1) * step.strides[i]
            + (weight[i - rank] - 1) * step.dilation[i]
            + 1
            - step.padding_begin[i]
            - step.dst.shape[i + 2],
            0,
        )
        for i in range(rank)
    )


def _matmul(planner: Planner, step: Matmul) -> None:
    shape = planner.shape
    dst = step.dst.shape
    src, weight = _pad(shape(step.src), len(dst)), _pad(shape(step.weight), len(dst))
    if step.transpose_weight:
        weight = (*weight[:-2], weight[-1], weight[-2])
    fold = all(d == 1 for d in weight[:-2]) and len(dst) > 2 and _foldable(planner, step)
    if fold:
        # One matrix of all rows is what the library's kernels are best at.
        src, weight, dst = (-1, src[-1]), weight[-2:], (-1, dst[-1])
        rows = step.dst.size // dst[-1]
        src, dst = (rows, src[1]), (rows, dst[1])
    layouts = planner.layouts
    strides = row_major((*weight[:-2], weight[-1], weight[-2]))
    strides = (*strides[:-2], 1, weight[-2]) if step.transpose_weight else row_major(weight)
    view = layouts.strided(weight, strides, planner.dtype(step.weight))
    bias = _plain_as(planner, step.bias, _pad(shape(step.bias), len(dst))) if step.bias is not None else None
    open_weight = layouts.any(weight, view.dtype) if planner.is_constant(step.weight) else view
    rows_of_src = _plain_as(planner, step.src, src)
    parameters = (rows_of_src, open_weight, bias, layouts.plain(dst, step.dst.dtype))
    args = [abi.ARG_SRC, abi.ARG_WEIGHTS, *([abi.ARG_BIAS] if bias else []), abi.ARG_DST]

    def build(post: Sequence[Post]) -> Primitive:
        return planner.factory.build("matmul", None, parameters, args, post)

    def give(primitive: Primitive) -> list[tuple[int, Version]]:
        operands = [
            (abi.ARG_SRC, planner.version(step.src, rows_of_src, rows_of_src)),
            (abi.ARG_WEIGHTS, planner.version(step.weight, primitive.layouts[abi.ARG_WEIGHTS], view)),
        ]
        if step.bias is not None and bias is not None:
            operands.append((abi.ARG_BIAS, planner.version(step.bias, bias, bias)))
        return operands

    _emit(planner, step, build, give, step.post_ops, dst)


def _plain_as(planner: Planner, name: str, shape: Shape) -> Layout:
    """A row-major tensor under another shape."""
    return planner.layouts.plain(shape, planner.dtype(name))


def _foldable(planner: Planner, step: Matmul) -> bool:
    operands = [planner.shape(p.operand) for p in step.post_ops if isinstance(p, PostBinary)]
    return all(s == step.dst.shape or all(d == 1 for d in s[:-1]) for s in operands)


def _pool(planner: Planner, step: Pool) -> None:
    layouts = planner.layouts
    src = planner.produced(step.src)
    primitive = planner.factory.build(
        "pooling_forward",
        abi.POOLING[step.kind],
        (
            src.layout,
            layouts.any(step.dst.shape, step.dst.dtype),
            step.strides,
            step.kernel,
            tuple(d - 1 for d in step.dilation),
            step.padding_begin,
            _reached_padding(step, src.layout.shape),
        ),
        (abi.ARG_SRC, abi.ARG_DST),
    )
    dst = planner.result(step.dst, primitive.layouts[abi.ARG_DST])
    planner.call(primitive, ((abi.ARG_SRC, src), (abi.ARG_DST, dst)), step_source(step))
    planner.define(step.dst, dst)


def _reached_padding(step: Pool, src: Shape) -> Shape:
    """The part of the end padding that the last window reaches; oneDNN refuses a window's size or more."""
    return tuple(
        max(0, (step.dst.shape[i + 2] - 1) * step.strides[i] + (k - 1) * d + 1 - step.padding_begin[i] - src[i + 2])
        for i, (k, d) in enumerate(zip(step.kernel, step.dilation, strict=True))
    )


def _eltwise(planner: Planner, step: Eltwise) -> None:
    src = planner.produced(step.src)
    algorithm, alpha, beta = eltwise(step.post_op)
    primitive = planner.factory.build(
        "eltwise_forward",
        algorithm,
        (src.layout, src.layout, alpha, beta),
        (abi.ARG_SRC, abi.ARG_DST),
    )
    dst = planner.result(step.dst, primitive.layouts[abi.ARG_DST])
    planner.call(primitive, ((abi.ARG_SRC, src), (abi.ARG_DST, dst)), step_source(step))
    planner.define(step.dst, dst)


def _binary(planner: Planner, step: Binary) -> None:
    shape = step.dst.shape or (1,)
    lhs, rhs = step.lhs, step.rhs
    if planner.shape(lhs) != shape and planner.shape(rhs) == shape and step.kind in ("add", "mul", "max", "min"):
        lhs, rhs = rhs, lhs
    layout = _well_computed(planner, step, lhs, rhs, shape)
    left = _operand(planner, lhs, shape, layout)
    right = _operand(planner, rhs, shape, layout)

    def build(post: Sequence[Post]) -> Primitive:
        return _binary_primitive(planner, step, (left.layout, right.layout, layout), post)

    def give(_: Primitive) -> list[tuple[int, Version]]:
        return [(abi.ARG_SRC, left), (abi.ARG_SRC_1, right)]

    _emit(planner, step, build, give, step.post_ops)


def _binary_primitive(
    planner: Planner, step: Binary, layouts: tuple[Layout, Layout, Layout], post: Sequence[Post] = ()
) -> Primitive:
    args = (abi.ARG_SRC, abi.ARG_SRC_1, abi.ARG_DST)
    return planner.factory.build("binary", abi.BINARY[step.kind], layouts, args, post)


def _well_computed(planner: Planner, step: Binary, lhs: str, rhs: str, shape: Shape) -> Layout:
    """The common layout, or row-major where oneDNN has only a reference implementation for it.

    That one takes a hundred times as long, far more than bringing operands into another layout: 6.5 ms for a product of
    64 channels of 56x56, in blocks, with one number for each channel.
    """
    layout = _common_layout(planner, lhs, rhs, shape, step.dst.dtype)
    plain = planner.layouts.plain(shape, step.dst.dtype)
    for candidate in (layout, plain):
        left, right = (_operand_layout(planner, name, shape, candidate) for name in (lhs, rhs))
        if not _binary_primitive(planner, step, (left, right, candidate)).is_reference:
            return candidate
    return layout


def _common_layout(planner: Planner, lhs: str, rhs: str, shape: Shape, dtype: str) -> Layout:
    """The layout that costs the fewest reorders: a full operand's own, preferring one that both have."""
    full = [name for name in (lhs, rhs) if planner.shape(name) == shape and not planner.is_constant(name)]
    if not full:
        return planner.layouts.plain(shape, dtype)
    own = [planner.produced(name).layout for name in full]
    plain = planner.layouts.plain(shape, dtype)
    for layout in own:
        if all(planner.has_version(name, layout) for name in full):
            return layout
    return next((layout for layout in own if not layout.same_bytes(plain)), own[0])


def _operand_layout(planner: Planner, name: str, shape: Shape, layout: Layout) -> Layout:
    """The layout of an operand: that of the result, or row-major with axes of one where it is broadcast."""
    own = planner.shape(name)
    return layout if own == shape else _plain_as(planner, name, _pad(own, len(shape)))


def _operand(planner: Planner, name: str, shape: Shape, layout: Layout) -> Version:
    own = _operand_layout(planner, name, shape, layout)
    return planner.version(name, own) if planner.shape(name) == shape else planner.version(name, own, own)


def _emit(
    planner: Planner,
    step: Convolution | Matmul | Binary,
    build: Build,
    give: Callable[[Primitive], list[tuple[int, Version]]],
    ops: tuple[PostOp, ...],
    folded: Shape | None = None,
) -> None:
    """Call a primitive with as many post-operations as it does well, and the rest one by one."""
    shape = folded or step.dst.shape or (1,)
    primitive, count = _fuse(build, [_post(planner, p, shape) for p in ops])
    target = step.dst if count == len(ops) else planner.temporary(step.dst)
    operands = give(primitive)
    for index, p in enumerate(ops[:count]):
        if isinstance(p, PostBinary):
            layout = expect_chosen(primitive.layouts[abi.arg_post_op(index)])
            view = None if planner.shape(p.operand) == layout.shape else _plain_as(planner, p.operand, layout.shape)
            operands.append((abi.arg_post_op(index), planner.version(p.operand, layout, view)))
    dst = planner.result(target, primitive.layouts[abi.ARG_DST])
    planner.call(primitive, (*operands, (abi.ARG_DST, dst)), step_source(step))
    planner.define(target, dst)
    _tail(planner, target, step.dst, ops[count:])


def _fuse(build: Build, post: Sequence[Post]) -> tuple[Primitive, int]:
    """The primitive with the longest start of `post` that has an optimised kernel."""
    fallback: tuple[Primitive, int] | None = None
    refusal: CodegenError | None = None
    for count in range(len(post), -1, -1):
        try:
            primitive = build(post[:count])
        except CodegenError as error:
            refusal = error
            continue
        if not primitive.is_reference:
            return primitive, count
        fallback = fallback or (primitive, count)
    if fallback is None:
        assert refusal is not None
        raise refusal
    return fallback


def _tail(planner: Planner, src: TensorSpec, dst: TensorSpec, ops: Sequence[PostOp]) -> None:
    for index, p in enumerate(ops):
        target = dst if index == len(ops) - 1 else planner.temporary(dst)
        if isinstance(p, PostEltwise):
            _eltwise(planner, Eltwise(src.name, target, p))
        else:
            _binary(planner, Binary(p.kind, src.name, p.operand, target))
        src = target


def _post(planner: Planner, p: PostOp, shape: Shape) -> Post:
    if isinstance(p, PostEltwise):
        return p
    own = planner.shape(p.operand)
    if planner.tensors[p.operand].size == _size(shape):
        return BinaryPost(p.kind, planner.layouts.any(shape, planner.dtype(p.operand)))
    return BinaryPost(p.kind, _plain_as(planner, p.operand, _pad(own, len(shape))))


def _size(shape: Shape) -> int:
    size = 1
    for d in shape:
        size *= d
    return size


def _pad(shape: Shape, rank: int) -> Shape:
    """The shape with leading ones added or dropped."""
    return (1,) * (rank - len(shape)) + shape if len(shape) <= rank else shape[-rank:]


def step_source(step: Step) -> str:
    """What calls of primitives say of the step that they are for."""
    return f"{type(step).__name__.lower()} {step.dst.name}"
