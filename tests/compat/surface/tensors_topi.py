"""Examples of `tvm.topi`, by families, against NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from tests.compat.surface.examples import example
from tests.compat.surface.running import GENERATOR, close, evaluated, floats, whole
from tests.compat.surface.tensors_functions import UNARY
from tvm import te, tir, topi

from eutectic.compat.surface import SURFACES

LISTED = {name.name for name in SURFACES["tvm.topi"].names()}


def tensor(value: Any, name: str = "x") -> Any:
    """A placeholder for an array."""
    return te.placeholder(value.shape, str(value.dtype), name=name)


def check(function: Callable[..., Any], wanted: Any, *arrays: Any) -> None:
    """See that a function of tensors computes what NumPy does."""
    inputs = {tensor(array, f"x{number}"): array for number, array in enumerate(arrays)}
    close(function(*inputs), inputs, wanted)


def called(name: str, wanted: Callable[..., Any], *arrays: Any) -> None:
    """See that an operator of that name does."""
    check(getattr(topi, name), wanted(*arrays), *arrays)


SAME: dict[str, Callable[[Any], Any]] = {
    **UNARY,
    "negative": np.negative,
    "identity": np.array,
    "sign": np.sign,
    "fast_exp": np.exp,
    "fast_tanh": np.tanh,
    "fast_erf": UNARY["erf"],
}
BROADCAST: dict[str, Callable[[Any, Any], Any]] = {
    name: getattr(np, name) for name in ["add", "subtract", "multiply", "divide", "power", "maximum", "minimum"]
} | {
    **{name: getattr(np, name) for name in ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]},
    "log_add_exp": np.logaddexp,
    "floor_divide": np.floor_divide,
    "floor_mod": np.mod,
    "mod": np.fmod,
}
WHOLE: dict[str, Callable[[Any, Any], Any]] = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "left_shift": np.left_shift,
    "right_shift": np.right_shift,
}
TRUTH: dict[str, Callable[[Any, Any], Any]] = {
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}

for _name in LISTED & set(SAME):
    _values = floats(3, 4, low=1.1, high=2.9) if _name == "acosh" else floats(3, 4)
    example(f"tvm.topi.{_name}")(partial(called, _name, SAME[_name], _values))
for _name in LISTED & set(BROADCAST):
    example(f"tvm.topi.{_name}")(partial(called, _name, BROADCAST[_name], floats(3, 4), floats(4)))
for _name in LISTED & set(WHOLE):
    example(f"tvm.topi.{_name}")(partial(called, _name, WHOLE[_name], whole(3, 4), whole(3, 1)))
for _name in LISTED & set(TRUTH):
    _sides = (GENERATOR.integers(0, 2, (3, 4)).astype(bool) for _ in range(2))
    example(f"tvm.topi.{_name}")(partial(called, _name, TRUTH[_name], *_sides))


@example("tvm.topi.atan2", "tvm.topi.bitwise_not", "tvm.topi.logical_not", "tvm.topi.ceil_log2", "tvm.topi.cast")
def _elements() -> None:
    check(topi.atan2, np.arctan2(a := floats(3, 4), b := floats(4)), a, b)
    check(lambda x: topi.bitwise_not(data=x), ~(n := whole(5)), n)
    check(lambda x: topi.logical_not(data=x), ~(t := whole(5, high=3) == 1), t)
    check(topi.ceil_log2, [0, 1, 2, 2, 3], np.array([1, 2, 3, 4, 5], "int32"))
    assert topi.ceil_log2(9) == 4
    assert topi.ceil_log2(8) == 3
    check(lambda x: topi.cast(x, "int32"), [1, 2], np.array([1.5, 2.5], "float32"))


@example("tvm.topi.clip", "tvm.topi.reinterpret", "tvm.topi.where", "tvm.topi.elemwise_sum", "tvm.topi.broadcast_to")
def _more_elements() -> None:
    values = floats(3, 4)
    check(lambda x: topi.clip(x, 0.3, 0.6), values.clip(0.3, 0.6), values)
    check(lambda x: topi.reinterpret(x, "int32"), values.view("int32"), values)
    choice = values > 0.5
    check(topi.where, np.where(choice, values, -values), choice, values, -values)
    check(lambda *xs: topi.elemwise_sum(xs), 3 * values, values, values, values)
    check(lambda x: topi.broadcast_to(x, (2, 3, 4)), np.broadcast_to(values, (2, 3, 4)), values)


@example(*(f"tvm.topi.{name}" for name in ("sum", "prod", "max", "min", "all", "any", "argmax", "argmin")))
def _reductions() -> None:
    values, truth = floats(3, 4, 5), floats(3, 4) > 0.4
    for name in ("sum", "prod", "max", "min"):
        for axis, keepdims in ((None, False), (1, True), ((0, 2), False)):
            wanted = getattr(np, name)(values, axis=axis, keepdims=keepdims)
            check(lambda x, n=name, a=axis, k=keepdims: getattr(topi, n)(x, axis=a, keepdims=k), wanted, values)
    for name in ("all", "any"):
        check(lambda x, n=name: getattr(topi, n)(x, axis=1), getattr(np, name)(truth, axis=1), truth)
    for name in ("argmax", "argmin"):
        check(lambda x, n=name: getattr(topi, n)(x, axis=1), getattr(np, name)(values, axis=1), values)
        assert getattr(topi, name)(tensor(values), axis=1).dtype == "int32"
        same = np.zeros(6, "float32")
        check(lambda x, n=name: getattr(topi, n)(x, axis=0, select_last_index=True), 5, same)
        check(lambda x, n=name: getattr(topi, n)(x, select_last_index=True), 5, same.reshape(2, 3))


TURNED = ("transpose", "reshape", "expand_dims", "squeeze", "concatenate", "stack", "split", "flip")
FILLED = ("repeat", "tile", "trilu", "full", "full_like", "arange", "eye", "expand_like", "one_hot")


@example(*(f"tvm.topi.{name}" for name in TURNED))
def _shapes() -> None:
    a = floats(2, 1, 6)
    check(lambda x: topi.transpose(x, (2, 0, 1)), a.transpose(2, 0, 1), a)
    check(lambda x: topi.reshape(x, (3, 4)), a.reshape(3, 4), a)
    check(lambda x: topi.expand_dims(x, axis=0, num_newaxis=2), a[None, None], a)
    check(lambda x: topi.squeeze(x, axis=1), a[:, 0], a)
    check(lambda x, y: topi.concatenate((x, y), axis=1), np.concatenate((a, a), 1), a, a)
    check(lambda x, y: topi.stack((x, y), axis=1), np.stack((a, -a), 1), a, -a)
    for number, part in enumerate(np.split(a, [2, 5], axis=2)):
        check(lambda x, n=number: topi.split(x, [2, 5], axis=2)[n], part, a)
    check(lambda x: topi.flip(x, axis=2), a[:, :, ::-1], a)


@example(*(f"tvm.topi.{name}" for name in FILLED))
def _filled() -> None:
    a = floats(3, 4)
    check(lambda x: topi.repeat(x, repeats=2, axis=1), a.repeat(2, 1), a)
    check(lambda x: topi.tile(x, reps=(2, 3)), np.tile(a, (2, 3)), a)
    check(lambda x: topi.trilu(x, k=1, upper=True), np.triu(a, 1), a)
    check(lambda: topi.full((2, 3), "float32", 7.0), np.full((2, 3), 7.0))
    check(lambda x: topi.full_like(x, fill_value=2.0), np.full((3, 4), 2.0), a)
    check(lambda: topi.arange(2, 9, 3, "int32"), np.arange(2, 9, 3))
    check(lambda: topi.eye(3, 4, k=1), np.eye(3, 4, k=1))
    check(lambda x, y: topi.expand_like(x, y, (1,)), np.broadcast_to(a[:, None], (3, 2, 4)), a, floats(3, 2, 4))
    at = np.array([0, 2, 1], "int32")
    check(lambda x: topi.one_hot(x, 5, -1, 4, -1, "int32"), np.where(np.arange(4) == at[:, None], 5, -1), at)


@example("tvm.topi.matmul", "tvm.topi.tensordot", "tvm.topi.einsum", "tvm.topi.dft", "tvm.topi.hamming_window")
def _products() -> None:
    a, b = floats(3, 4), floats(3, 5)
    check(lambda x, y: topi.matmul(a=x, b=y, transp_a=True), a.T @ b, a, b)
    c = floats(3, 4, 2)
    check(lambda x, y: topi.tensordot(x, y, axes=((0, 1), (0, 1))), np.tensordot(a, c, ((0, 1), (0, 1))), a, c)
    check(lambda x, y: topi.tensordot(x, y, axes=1), np.tensordot(a.T, b, 1), a.T.copy(), b)
    check(lambda x, y: topi.einsum("ij,ik->kj", x, y), np.einsum("ij,ik->kj", a, b), a, b)
    im = floats(3, 4)
    for inverse, transform in ((False, np.fft.fft), (True, np.fft.ifft)):
        wanted = transform(a + 1j * im)
        check(lambda x, y, i=inverse: topi.dft(x, y, i)[0], wanted.real, a, im)
        check(lambda x, y, i=inverse: topi.dft(x, y, i)[1], wanted.imag, a, im)
    check(lambda: topi.hamming_window(7, False, 0.54, 0.46, "float32"), np.hamming(7))


@example("tvm.topi.take", "tvm.topi.gather", "tvm.topi.gather_nd", "tvm.topi.adv_index", "tvm.topi.index_tensor")
def _taken() -> None:
    a, at = floats(3, 4), np.array([[2, 0], [1, 1]], "int32")
    check(lambda x, i: topi.take(x, i, axis=1, mode="clip"), a.take(at, 1), a, at)
    rows = np.array([[3, 0], [1, 1], [0, 2]], "int32")
    check(lambda x, i: topi.take(x, i, axis=1, batch_dims=1), np.take_along_axis(a, rows, 1), a, rows)
    check(lambda x, i: topi.gather(x, 1, i), np.take_along_axis(a, rows, 1), a, rows)
    check(topi.gather_nd, a[at[0], at[1]], a, at)
    check(lambda x, i: topi.adv_index(x, [i]), a[at], a, at)
    check(lambda x, i, j: topi.index_tensor(x, [i, j]), a[at, at[0]], a, at, at[0].copy())


@example("tvm.topi.strided_slice", "tvm.topi.dynamic_strided_slice", "tvm.topi.strided_set", "tvm.topi.slice_scatter")
def _slices() -> None:
    a = floats(5, 6)
    check(lambda x: topi.strided_slice(x, [1, 5], [4, 0], [2, -2]), a[1:4:2, 5:0:-2], a)
    check(lambda x: topi.strided_slice(x, [1, 2], [3, -1], slice_mode="size"), a[1:4, 2:], a)
    begin = [tir.const(1, "int32")]
    check(lambda x: topi.dynamic_strided_slice(x, axes=[1], begin=begin, strides=[2], shape=(5, 2)), a[:, 1:5:2], a)
    for cut, numbers in ((np.s_[1:4:2, ::2], ([1, 0], [4, 6], [2, 2])), (np.s_[4:0:-2], ([4], [0], [-2]))):
        wanted = a.copy()
        wanted[cut] = part = -a[cut]
        check(lambda x, v, n=numbers: topi.strided_set(x, v, *n), wanted, a, part.copy())
    wanted = a.copy()
    wanted[:, 1:5:3] = 0
    check(lambda x, v: topi.slice_scatter(x, v, 1, 5, 3, 1), wanted, a, np.zeros((5, 2), "float32"))


@example("tvm.topi.meshgrid", "tvm.topi.unravel_index", "tvm.topi.shape", "tvm.topi.tensor_size")
def _coordinates() -> None:
    a, b = floats(3), floats(4)
    for indexing in ("ij", "xy"):
        for number, wanted in enumerate(np.meshgrid(a, b, indexing=indexing)):
            check(lambda x, y, n=number, i=indexing: topi.meshgrid([x, y], i)[n], wanted, a, b)
    at = np.array([5, 11, 0], "int32")
    check(lambda x: topi.unravel_index(x, (3, 4)), np.stack(np.unravel_index(at, (3, 4))), at)
    check(lambda x: topi.shape(x, "int64"), [2, 3], floats(2, 3))
    check(lambda x: topi.tensor_size(x), [6], floats(2, 3))


@example("tvm.topi.layout_transform", "tvm.topi.matrix_set_diag", "tvm.topi.collapse_sum", "tvm.topi.sliding_window")
def _rearranged() -> None:
    a = floats(1, 8, 2, 3)
    blocked = a.reshape(1, 2, 4, 2, 3).transpose(0, 1, 3, 4, 2)
    check(lambda x: topi.layout_transform(x, "NCHW", "NCHW4c"), blocked, a)
    check(lambda x: topi.layout_transform(x, "NCHW4c", "NCHW"), a, blocked.copy())
    check(lambda x: topi.layout_transform(x, "NCHW", "NHWC"), a.transpose(0, 2, 3, 1), a)
    square, diagonal = floats(2, 4, 4), floats(2, 3)
    wanted = square.copy()
    wanted[:, range(3), range(1, 4)] = diagonal
    check(lambda x, d: topi.matrix_set_diag(x, d, k=1), wanted, square, diagonal)
    check(lambda x: topi.collapse_sum(x, (8, 1, 3)), a.sum((0, 2))[:, None], a)
    windows = np.lib.stride_tricks.sliding_window_view(b := floats(2, 5), 3, axis=1)[:, ::2]
    check(lambda x: topi.sliding_window(x, 1, [3], [2]), windows, b)


@example("tvm.topi.searchsorted", "tvm.topi.reverse_sequence", "tvm.topi.sequence_mask")
def _sequences() -> None:
    known, values = np.sort(floats(2, 6)), floats(2, 3)
    for right in (False, True):
        wanted = [np.searchsorted(row, v, "right" if right else "left") for row, v in zip(known, values, strict=True)]
        check(lambda s, v, r=right: topi.searchsorted(s, v, r, "int32"), wanted, known, values)
    a, lengths = floats(2, 4), np.array([3, 1], "int32")
    wanted = np.stack([np.concatenate((row[:n][::-1], row[n:])) for row, n in zip(a, lengths, strict=True)])
    check(lambda x, n: topi.reverse_sequence(x, n, seq_axis=1, batch_axis=0), wanted, a, lengths)
    wanted = np.where(np.arange(4) < lengths[:, None], a, -1)
    check(lambda x, n: topi.sequence_mask(x, n, -1, axis=1), wanted, a, lengths)


@example(*(f"tvm.topi.image.{name}" for name in ["resize1d", "resize2d", "affine_grid", "grid_sample"]))
def _images() -> None:
    import torch

    def interpolated(array: Any, size: Any, **options: Any) -> Any:
        return torch.nn.functional.interpolate(torch.from_numpy(array), size, **options).numpy()

    a = floats(1, 2, 4, 5)
    check(
        lambda x: topi.image.resize2d(x, None, (8, 7), method="linear", coordinate_transformation_mode="half_pixel"),
        interpolated(a, (8, 7), mode="bilinear", align_corners=False),
        a,
    )
    wanted = interpolated(a[:, :, 0], 9, mode="linear", align_corners=True)
    check(
        lambda x: topi.image.resize1d(x, None, (9,), coordinate_transformation_mode="align_corners"),
        wanted,
        a[:, :, 0].copy(),
    )
    maps = floats(1, 2, 3)
    grid = torch.nn.functional.affine_grid(torch.from_numpy(maps), (1, 2, 3, 6), align_corners=True)
    places = grid.permute(0, 3, 1, 2).contiguous().numpy()
    check(lambda m: topi.image.affine_grid(m, (3, 6)), places, maps)
    for method in ("bilinear", "nearest"):
        for padding in ("zeros", "border"):
            options = {"mode": method, "padding_mode": padding, "align_corners": True}
            sampled = torch.nn.functional.grid_sample(torch.from_numpy(a), grid, **options).numpy()
            check(
                lambda x, g, m=method, p=padding: topi.image.grid_sample(x, g, m, "NCHW", p, True), sampled, a, places
            )


@example("tvm.topi.image.dilation2d_nchw", "tvm.topi.image.dilation2d_nhwc")
def _dilation() -> None:
    a, weight = floats(1, 2, 5, 6), floats(2, 2, 3)
    wanted = np.full((1, 2, 2, 4), -math.inf)
    for y in range(2):
        for x in range(3):
            wanted = np.maximum(wanted, a[:, :, y : y + 3 : 2, x : x + 4] + weight[:, y, x][:, None, None])
    check(lambda d, w: topi.image.dilation2d_nchw(d, w, (2, 1), 0, 1), wanted, a, weight)
    last = wanted.transpose(0, 2, 3, 1)
    check(
        lambda d, w: topi.image.dilation2d_nhwc(d, w, (2, 1), 0, 1),
        last,
        a.transpose(0, 2, 3, 1).copy(),
        weight.transpose(1, 2, 0).copy(),
    )


@example("tvm.te.create_prim_func", "tvm.te.compute", "tvm.te.placeholder", "tvm.te.var", "tvm.te.size_var")
def _functions() -> None:
    n = te.size_var("n")
    x = te.placeholder((n, 4), "float32", name="x")
    y = te.compute((n, 4), lambda i, j: x[i, j] * 2.0, name="y")
    func = te.create_prim_func([x, y])
    assert func.attrs["global_symbol"] == "main"
    assert [buffer.name for buffer in func.buffer_map.values()] == ["x", "y"]
    assert 'T.block("y")' in func.script()
    assert isinstance(te.var("k", "int64"), tir.Var)


@example(*(f"tvm.te.{name}" for name in ["Tensor", "Tensor.shape", "Tensor.dtype", "Tensor.op", "Tensor.ndim"]))
@example("tvm.te.PlaceholderOp", "tvm.te.ComputeOp")
def _tensors() -> None:
    x = te.placeholder((2, 3), "int32", name="x")
    y = te.compute((2, 3), lambda i, j: x[i, j] + 1, name="y", tag="mine", attrs={"key": 1})
    assert isinstance(x, te.Tensor)
    assert isinstance(x.op, te.PlaceholderOp)
    assert isinstance(y.op, te.ComputeOp)
    assert (y.op.name, y.op.tag, y.dtype, y.ndim) == ("y", "mine", "int32", 2)
    assert list(y.op.input_tensors) == [x]
    assert [int(size) for size in y.shape] == [2, 3]
    assert len(y.op.axis) == 2
    np.testing.assert_array_equal(evaluated(y, {x: np.ones((2, 3), "int32")}), 2)
