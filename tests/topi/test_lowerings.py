"""Definitions that the lowering of graph operators needs do what NumPy and the references do."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.topi.evaluate import close, evaluate, reference

from eutectic import te, topi
from eutectic.ir.dtype import from_numpy, to_numpy
from eutectic.relax.op.image.resize import COORDINATES, ROUNDINGS, Resize2DAttrs
from eutectic.relax.op.nn.attention import AttentionAttrs
from eutectic.relax.op.nn.channel_norm import InstanceNormAttrs
from eutectic.relax.op.nn.norm import BatchNormAttrs, RMSNormAttrs
from eutectic.relax.op.nn.pad import PadAttrs
from eutectic.relax.op.quantize import QuantizeAttrs
from eutectic.testing.round_trip import check_round_trip
from eutectic.tir import verify_well_formed
from eutectic.tir.interpret import run

RNG = np.random.default_rng(3)


def values(*shape: int, dtype: str = "float32") -> np.ndarray:
    return RNG.uniform(-3, 3, shape).astype(dtype)


def scanned(kind: str, x: np.ndarray, axis: int | None, dtype: str, exclusive: bool = False) -> np.ndarray:
    func = topi.scan(kind, [te.const(n, "int64") for n in x.shape], from_numpy(x.dtype), axis, dtype, exclusive)
    verify_well_formed(func)
    check_round_trip(func)
    out = np.zeros(x.size if axis is None else x.shape, to_numpy(dtype))
    run(func, x, out)
    return out


@pytest.mark.parametrize("axis", [None, 0, -1])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("dtype", ["int8", "float16", "float32"])
def test_scan(axis: int | None, exclusive: bool, dtype: str):
    x = values(3, 4, dtype=dtype)
    wide = "f8" if dtype.startswith("f") else dtype
    for kind, function, start in (("cumsum", np.cumsum, 0), ("cumprod", np.cumprod, 1)):
        want = function(x.astype(wide), axis=axis, dtype=wide)
        if exclusive:
            along = axis or 0
            first = np.full_like(np.take(want, [0], along), start)
            want = np.concatenate([first, np.delete(want, -1, along)], along)
        close(scanned(kind, x, axis, dtype, exclusive), want.astype(dtype))


def test_scan_of_other_dtypes_and_shapes():
    x = RNG.random((5,)) < 0.5
    close(scanned("cumsum", x, 0, "int64"), np.cumsum(x, dtype="int64"))
    close(scanned("cumsum", values(3, 0), 1, "float32"), np.zeros((3, 0), "f4"))
    close(scanned("cumsum", np.asarray(2.5, "f4"), None, "float32"), np.array([2.5], "f4"))
    with pytest.raises(ValueError, match="axis 2 does not exist"):
        scanned("cumsum", values(3, 2), 2, "float32")
    with pytest.raises(ValueError, match="no scan 'cummax'"):
        scanned("cummax", values(3), 0, "float32")


def test_text_of_a_scan(golden):
    golden(topi.scan("cumsum", [te.var("n", "int64"), te.const(4, "int64")], "float32", 1, "float32").script())


@pytest.mark.parametrize(
    "text", ["ij,jk->ik", "ij,jk", "ij->ji", "ij->", "ij,ij->i", "ii->i", "i,j->ij", "bij,bjk->bki"]
)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "bool"])
def test_einsum(text: str, dtype: str):
    groups = text.split("->")[0].split(",")
    sizes = {"i": 3, "j": 2, "k": 4, "b": 2}
    arrays = [values(*(sizes[c] for c in group), dtype="float32") for group in groups]
    arrays = [np.abs(a) > 2 if dtype == "bool" else a.astype(dtype) for a in arrays]
    wide = [a.astype("float32") if dtype == "float16" else a for a in arrays]
    want = np.asarray(np.einsum(text, *wide)).astype(dtype)
    close(evaluate(lambda *ts: topi.einsum(text, *ts), *arrays, text=True), want)


@pytest.mark.parametrize(
    ("text", "stages"),
    [("ij,jk,kl->il", 2), ("ab,bc,cd,de->ae", 3), ("ab,bc,ca->", 2), ("ij,ij,ij->i", 1), ("ai,bi,ci->abc", 1)],
)
def test_einsum_of_several(text: str, stages: int):
    """A few at a time where that is less work: a chain of products."""
    groups = text.split("->")[0].split(",")
    arrays = [values(*(12 for _ in group), dtype="float32") for group in groups]
    want = np.einsum(text, *(a.astype("f8") for a in arrays))
    got = evaluate(lambda *ts: topi.einsum(text, *ts), *arrays)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * np.abs(want).max())
    func = te.create_prim_func(
        [*(placed := [te.placeholder((12,) * len(g)) for g in groups]), topi.einsum(text, *placed)]
    )
    assert str(func.script()).count("with T.init()") == stages


def test_einsum_of_several_with_sizes_that_vary():
    n = te.var("n", "int64")
    placed = [te.placeholder(shape) for shape in ((n, 8), (8, n), (n, 8))]
    func = te.create_prim_func([*placed, topi.einsum("ij,jk,kl->il", *placed)])
    assert str(func.script()).count("with T.init()") == 2


def test_einsum_of_size_one():
    x, y = values(1, 3), values(4, 3)
    close(evaluate(lambda a, b: topi.einsum("ij,ij->ij", a, b), x, y), x * y)
    with pytest.raises(ValueError, match="does not go with"):
        topi.einsum("ij,jk->ik", te.placeholder((3,)), te.placeholder((3,)))


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=3))
@settings(max_examples=15)
def test_pad_from(widths: list[tuple[int, int]]):
    x = values(*(3 for _ in widths))
    flat = tuple(n for pair in widths for n in pair)
    for mode, ours in (("reflect", "reflect"), ("edge", "replicate"), ("wrap", "circular")):
        want = reference("nn.pad", PadAttrs(flat, 0.0, ours), x)
        close(evaluate(lambda t, m=mode: topi.nn.pad_from(t, flat[::2], flat[1::2], m), x, text=True), want)


def test_pad_from_refuses():
    x = te.placeholder((3,))
    with pytest.raises(ValueError, match="in mode 'constant'"):
        topi.nn.pad_from(x, [1], [1], "constant")
    with pytest.raises(ValueError, match="2 widths for 1 axes"):
        topi.nn.pad_from(x, [1], [1, 1], "edge")


@pytest.mark.parametrize("mode", COORDINATES)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "NCHW2c"])
def test_resize2d(mode: str, layout: str):
    x = values(*{"NCHW": (1, 2, 3, 4), "NHWC": (1, 3, 4, 2), "NCHW2c": (1, 1, 3, 4, 2)}[layout])
    for size in ((5, 2), (1, 7), (3, 4), (6, 12), (3, 2)):
        for method, rounding in (("linear", "round"), *(("nearest_neighbor", name) for name in ROUNDINGS)):
            attrs = Resize2DAttrs(
                layout=layout, method=method, coordinate_transformation_mode=mode, rounding_method=rounding
            )
            got = evaluate(
                lambda t, s=size, m=method, r=rounding: topi.image.resize2d(t, s, layout, m, mode, r), x, text=True
            )
            close(got, reference("image.resize2d", attrs, x, size))


@pytest.mark.parametrize("mode", COORDINATES)
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_nearest_elements_without_floats_are_those_of_floats(mode: str, rounding: str):
    """Wherever a whole number of elements comes of each, or is taken as one, and places are those of such a number."""
    attrs = Resize2DAttrs(
        method="nearest_neighbor", coordinate_transformation_mode=mode, rounding_method=rounding, layout="NCHW"
    )
    for before, after in ((7, 49), (41, 123), (3, 300), (49, 7), (100, 4), (1, 5), (5, 1)):
        x = values(1, 1, 1, before)
        got = evaluate(lambda t, n=after: topi.image.resize2d(t, (1, n), "NCHW", "nearest_neighbor", mode, rounding), x)
        np.testing.assert_array_equal(got, reference("image.resize2d", attrs, x, (1, after)))


@pytest.mark.parametrize("mode", COORDINATES)
@pytest.mark.parametrize(("before", "after"), [(2, 5), (5, 2), (7, 7), (4, 8), (9, 3), (1, 4), (3, 1), (16, 37)])
def test_places_of_a_linear_resize_are_exact(mode: str, before: int, after: int):
    """An element that is its own place gives back the place at which it is looked for."""
    sizes = {"half_pixel": (before, after), "asymmetric": (before, after), "align_corners": (before - 1, after - 1)}
    ratio = Fraction(*sizes[mode]) if sizes[mode][1] else Fraction(0)
    half = Fraction(1, 2) if mode == "half_pixel" else 0
    places = [min(max((i + half) * ratio - half, Fraction(0)), Fraction(before - 1)) for i in range(after)]
    x = np.arange(before, dtype="float64").reshape(1, 1, 1, before)
    got = evaluate(lambda t: topi.image.resize2d(t, (1, after), "NCHW", "linear", mode), x, text=True)
    np.testing.assert_allclose(got[0, 0, 0], np.array(places, "float64"), rtol=1e-15, atol=1e-15)


def test_places_of_a_linear_resize_of_long_axes():
    """Beyond whole numbers of 32 bits."""
    before, after = 3, 1 << 30
    x = te.placeholder((1, 1, 1, before), "float64")
    func = te.create_prim_func([x, topi.image.resize2d(x, (1, after))])
    assert "% T.int64(2147483648)" in func.script()


def test_sizes_that_stay_are_not_looked_at():
    """An infinite neighbour would make NaN of a weight of zero."""
    x = np.array([[[[1.0, np.inf, 2.0], [3.0, 5.0, 4.0]]]], "float32")
    got = evaluate(lambda t: topi.image.resize2d(t, (4, 3)), x)
    np.testing.assert_array_equal(got[..., 0], [[[1, 1.5, 2.5, 3]]])
    np.testing.assert_array_equal(got[..., 2], [[[2, 2.5, 3.5, 4]]])


def test_resize2d_refuses():
    x = te.placeholder((1, 2, 3, 4))
    with pytest.raises(ValueError, match="is not in layout NCHW2c"):
        topi.image.resize2d(x, (2, 2), "NCHW2c")
    with pytest.raises(ValueError, match="does not know 'cubic'"):
        topi.image.resize2d(x, (2, 2), method="cubic")
    with pytest.raises(ValueError, match="coordinates 'other'"):
        topi.image.resize2d(x, (2, 2), coordinate_transformation_mode="other")


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_instance_and_rms_norm(dtype: str):
    x, gamma, beta = values(2, 3, 4, dtype=dtype), values(3, dtype=dtype), values(3, dtype=dtype)
    want = reference("nn.instance_norm", InstanceNormAttrs(1, (2,)), x, gamma, beta)
    close(evaluate(lambda t, g, b: topi.nn.instance_norm(t, g, b, 1, [2]), x, gamma, beta, text=True), want)
    weight = values(4, dtype=dtype)
    want = reference("nn.rms_norm", RMSNormAttrs((-1,)), x, weight)
    close(evaluate(lambda t, w: topi.nn.rms_norm(t, w, -1), x, weight, text=True), want)
    with pytest.raises(TypeError, match="needs a float dtype"):
        topi.nn.rms_norm(te.placeholder((3,), "int32"), te.placeholder((3,), "int32"), 0)


def test_batch_norm_of_training():
    x = values(2, 3, 4)
    gamma, beta, mean, variance = (values(3) for _ in range(4))
    want = reference("nn.batch_norm", BatchNormAttrs(1, momentum=0.25), x, gamma, beta, mean, variance)
    got = evaluate(
        lambda t, *p: topi.nn.batch_norm_training(t, *p, axis=1, epsilon=1e-5, momentum=0.25),
        *(x, gamma, beta, mean, variance),
        text=True,
    )
    for a, b in zip(got, want, strict=True):
        close(a, b)


@pytest.mark.parametrize("out_dtype", ["int8", "uint8", "int32", "float8_e4m3fn"])
def test_quantize(out_dtype: str):
    x = np.array([[0.0, 1.5, -2.5, np.nan], [np.inf, -np.inf, 300.0, 0.25]], "float32")
    for scale, zero in (
        (np.asarray(0.5, "f4"), np.asarray(3, "int32")),
        (np.array([0.5, 1, 2, 0.25], "f4"), np.array([0, 1, 2, -3], "int32")),
    ):
        want = reference("quantize", QuantizeAttrs(-1, out_dtype), x, scale, zero)
        close_bits(evaluate(lambda *t: topi.quantize(*t, -1, out_dtype), x, scale, zero), want)


def close_bits(got: np.ndarray, want: np.ndarray) -> None:
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got.astype("f8"), want.astype("f8"))


def test_dequantize():
    x = RNG.integers(-128, 128, (3, 4)).astype("int8")
    scale, zero = np.abs(values(4)), np.array([0, 1, 2, -3], "int8")
    want = reference("dequantize", QuantizeAttrs(1, "float16"), x, scale, zero)
    close(evaluate(lambda *t: topi.dequantize(*t, 1, "float16"), x, scale, zero, text=True), want)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("k", [-3, 0, 2])
def test_trilu(upper: bool, k: int):
    x = values(2, 3, 4)
    close(evaluate(lambda t: topi.trilu(t, k, upper), x, text=True), (np.triu if upper else np.tril)(x, k))


def test_pieces_and_axes():
    x = values(3, 7)
    got = evaluate(lambda t: topi.split_at(t, [te.const(n, "int32") for n in (2, 0, 5)], -1), x, text=True)
    for a, b in zip(got, (x[:, :2], x[:, 2:2], x[:, 2:]), strict=True):
        close(a, b.copy())
    close(evaluate(lambda t: topi.expand_dims(t, (0, -1)), x, text=True), x[None, ..., None])
    close(evaluate(lambda t: topi.expand_dims(t, 1, 2), x, text=True), x[:, None, None])


def test_slices_from_expressions():
    x = values(6, 5)
    first = [te.const(1, "int64"), te.const(4, "int64")]
    got = evaluate(lambda t: topi.dynamic_strided_slice(t, [0, 1], first, [2, -1], (2, 3)), x, text=True)
    close(got, x[1:5:2, 4:1:-1].copy())


def test_numbers():
    shape = [te.const(4, "int64")]
    close(evaluate(lambda: topi.arange_of(shape, 0.5, 0.25, "float32", "float64")), np.arange(0.5, 1.5, 0.25, "f4"))
    close(evaluate(lambda: topi.arange_of(shape, 7, -2, "int8")), np.arange(7, -1, -2, "int8"))
    close(evaluate(lambda: topi.listed([3, 1, 4], "int64")), np.array([3, 1, 4]))
    close(evaluate(lambda: topi.listed([], "int64")), np.array([], "int64"))


def test_ewise_fma():
    a, b, c = (values(2, 3, dtype="float16") for _ in range(3))
    close(evaluate(topi.ewise_fma, a, b, c, text=True), reference("ewise_fma", None, a, b, c))
    masks = [RNG.random((3,)) < 0.5 for _ in range(3)]
    close(evaluate(topi.ewise_fma, *masks), reference("ewise_fma", None, *masks))
    with pytest.raises(ValueError, match="ewise_fma of"):
        topi.ewise_fma(te.placeholder((3,)), te.placeholder((3,)), te.placeholder((1,)))


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, masked: Any) -> np.ndarray:
    """One head of attention with the scores' mask as a definition under test."""
    scores = (q @ k.T / np.sqrt(q.shape[-1])).astype("float32")
    hidden = evaluate(masked, scores, text=True)
    powers = np.exp(hidden - hidden.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True) @ v


@pytest.mark.parametrize(("mask", "window"), [("TopLeft", None), ("BottomRight", None), ("BottomRight", 2)])
def test_causal_mask(mask: str, window: int | None):
    q, k, v = values(3, 2), values(4, 2), values(4, 2)
    got = attention(q, k, v, lambda t: topi.nn.causal_mask(t, mask, window))
    want = reference("nn.attention", AttentionAttrs(None, mask, window), *(x[None, :, None] for x in (q, k, v)))
    np.testing.assert_allclose(got, want[0, :, 0], rtol=1e-5, atol=1e-6)
