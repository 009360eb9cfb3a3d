"""Layouts that our code generator offers, and that networks in blocks compute what rows compute."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eutectic
from eutectic.backend.llvm.layouts import layout_offers
from eutectic.backend.llvm.machine import machine_of
from eutectic.driver.pipeline import pipeline
from eutectic.driver.pipeline_text import Pipeline
from eutectic.ir.module import IRModule
from eutectic.ir.prim_expr import Var as SizeVar
from eutectic.relax import op
from eutectic.relax.expr import Call, Constant, TupleGetItem, Var
from eutectic.relax.op import nn
from eutectic.relax.struct_info import TensorStructInfo, TupleStructInfo
from eutectic.relax.transform import AssignLayouts, ConvertConv2DToWinograd
from eutectic.relax.transform.layouts.offers import ROW_MAJOR, LayoutOffer
from eutectic.target import Target
from eutectic.testing.graphs import arrays, assert_close, evaluate, graph, weights

WIDE = "llvm -mcpu=x86-64-v4"


def t(*shape: int, dtype: str = "float32") -> Var:
    return Var("x", TensorStructInfo(shape, dtype))


def offers(call: Call, target: str = WIDE) -> list[LayoutOffer]:
    return list(layout_offers(call, machine_of(Target(target))))


def written(call: Call, target: str = WIDE) -> list[str]:
    """The layouts in which a result is offered, without repetitions."""
    return list(dict.fromkeys(offer.result for offer in offers(call, target)))


def conv(channels: int, filters: int, size: int = 7, kernel: int = 3, groups: int = 1, **options: Any) -> Call:
    return nn.conv2d(
        t(1, channels, size, size), t(filters, channels // groups, kernel, kernel), groups=groups, **options
    )


def conv3d(channels: int, filters: int, groups: int = 1) -> Call:
    return nn.conv3d(t(1, channels, 4, 7, 7), t(filters, channels // groups, 3, 3, 3), groups=groups, padding=1)


@pytest.mark.parametrize(
    ("target", "blocks"),
    [
        ("llvm -mcpu=x86-64-v4", ["", "NCHW32c", "NCHW16c"]),
        ("llvm -mcpu=x86-64-v3", ["", "NCHW16c", "NCHW8c"]),
        ("llvm -mcpu=x86-64", ["", "NCHW8c", "NCHW4c"]),
    ],
)
def test_blocks_are_vectors_of_the_machine(target: str, blocks: list[str]):
    assert written(conv(64, 64), target) == blocks
    assert written(nn.relu(t(1, 64, 7, 7)), target) == [*blocks, "NHWC"]


@pytest.mark.parametrize(
    ("call", "blocks"),
    [
        (conv(64, 48), ["", "NCHW16c"]),
        (conv(64, 24), ["", "NCHW24c", "NCHW8c"]),
        (conv(64, 40), ["", "NCHW40c", "NCHW8c"]),
        (conv(40, 40, groups=40), ["", "NCHW40c", "NCHW8c"]),
        (conv(80, 40, groups=2), [""]),
        (conv(64, 72), ["", "NCHW8c"]),
        (conv(64, 8), ["", "NCHW8c"]),
        (conv(64, 20), [""]),
        (conv(64, 64, groups=4), ["", "NCHW16c"]),
        (conv(64, 64, groups=16), ["", "NCHW32c", "NCHW16c"]),
        (conv(48, 48, groups=6), ["", "NCHW16c"]),
        (conv(48, 48, groups=4), [""]),
        (conv(32, 64, groups=16), [""]),
        (conv(64, 64, groups=64), ["", "NCHW32c", "NCHW16c"]),
        (conv(64, 128, groups=64), [""]),
        (conv(3, 16), ["", "NCHW16c"]),
        (conv3d(64, 48), ["", "NCDHW16c"]),
        (conv3d(64, 64, groups=64), ["", "NCDHW32c", "NCDHW16c"]),
        (conv3d(64, 20), [""]),
        (nn.conv2d(t(1, 16, 5, 5, dtype="float16"), t(16, 16, 1, 1, dtype="float16")), [""]),
        (nn.conv2d(t(1, 5, 5, 16), t(16, 16, 1, 1), data_layout="NHWC"), [""]),
        (nn.conv2d_transpose(t(1, 16, 5, 5), t(16, 16, 1, 1)), [""]),
        (nn.max_pool2d(t(1, 32, 6, 6), 2), ["", "NCHW32c", "NCHW16c", "NHWC"]),
        (nn.max_pool2d(t(1, 32, 6, 6), 2, layout="NHWC"), [""]),
        (nn.max_pool3d(t(1, 32, 4, 6, 6), 2), ["", "NCDHW32c", "NCDHW16c", "NDHWC"]),
        (op.add(t(1, 32, 4, 6, 6), t(32, 1, 1, 1)), ["", "NCDHW32c", "NCDHW16c", "NDHWC"]),
        (op.add(t(1, 32, 4, 6, 6), t(6, 6)), [""]),
        (op.concat([t(1, 32, 4, 6, 6), t(1, 16, 4, 6, 6)], axis=1), ["", "NCDHW16c", "NDHWC"]),
        (nn.instance_norm(t(1, 32, 4, 6, 6), t(32), t(32), 1, (2, 3, 4)), ["", "NCDHW32c", "NCDHW16c"]),
        (op.concat([t(1, 32, 6, 6), t(1, 16, 6, 6)], axis=1), ["", "NCHW16c", "NHWC"]),
        (op.concat([t(1, 24, 6, 6), t(1, 24, 6, 6)], axis=1), ["", "NHWC"]),
        (op.split(t(1, 48, 6, 6), 3, 1), ["", "NCHW16c", "NHWC"]),
        (op.split(t(1, 64, 6, 6), [24], 1), ["", "NCHW8c", "NHWC"]),
        (op.split(t(1, 64, 6, 6), [20], 1), ["", "NHWC"]),
        (op.split(t(1, 32, 6, 6), 2, 2), ["", "NCHW32c", "NCHW16c", "NHWC"]),
        (op.strided_slice(t(1, 48, 6, 6), [1], [16], [48]), ["", "NCHW16c", "NHWC"]),
        (op.strided_slice(t(1, 64, 6, 6), [1], [8], [40]), ["", "NHWC"]),
        (op.strided_slice(t(1, 32, 6, 6), [2, -1], [0, 1], [6, 5], [2, 1]), ["", "NCHW32c", "NCHW16c", "NHWC"]),
        (nn.pad(t(1, 32, 6, 6), [0] * 4 + [1] * 4, pad_mode="reflect"), ["", "NCHW32c", "NCHW16c", "NHWC"]),
        (nn.pad(t(1, 32, 6, 6), [0, 0, 0, 16] + [0] * 4), ["", "NCHW16c", "NHWC"]),
        (nn.pad(t(1, 32, 6, 6), [0, 0, 0, 8] + [0] * 4), ["", "NCHW8c", "NHWC"]),
        (nn.pad(t(1, 32, 6, 6), [0, 0, 0, 4] + [0] * 4), ["", "NHWC"]),
        (op.add(t(1, 32, 6, 6), t(32, 1, 1)), ["", "NCHW32c", "NCHW16c", "NHWC"]),
        (op.add(t(1, 32, 6, 6), t(6)), [""]),
        (op.image.resize2d(t(1, 32, 6, 6), (12, 12)), ["", "NCHW32c", "NCHW16c", "NHWC"]),
        (op.image.resize2d(t(1, 6, 6, 32), (12, 12), layout="NHWC"), [""]),
        (op.image.grid_sample(t(1, 32, 6, 6), t(1, 2, 5, 5)), ["", "NCHW32c", "NCHW16c", "NHWC"]),
        (op.exp(t(64, 64)), [""]),
        (op.permute_dims(t(1, 32, 6, 6), (0, 2, 3, 1)), [""]),
        (nn.softmax(t(1, 32, 6, 6)), [""]),
        (op.tril(t(1, 32, 6, 6)), [""]),
        (nn.group_norm(t(1, 32, 6, 6), t(32), t(32), 4, 1, (2, 3)), ["", "NCHW32c", "NCHW16c"]),
        (nn.group_norm(t(1, 32, 6, 6), t(32), t(32), 4, -3, (-1, -2), layout="NCHW"), ["", "NCHW32c", "NCHW16c"]),
        (nn.group_norm(t(1, 32, 6, 6), t(32), t(32), 4, 1, 2), [""]),
        (nn.group_norm(t(1, 6, 6, 32), t(32), t(32), 4, 3, (1, 2)), [""]),
        (nn.group_norm(t(1, 2, 6, 6, 16), t(32), t(32), 4, 1, (2, 3), layout="NCHW16c"), [""]),
        (nn.instance_norm(t(1, 24, 6, 6), t(24), t(24), 1, (2, 3)), ["", "NCHW24c", "NCHW8c"]),
        (nn.instance_norm(t(1, 24, 6), t(24), t(24), 1, 2), [""]),
    ],
)
def test_what_is_offered(call: Call, blocks: list[str]):
    assert written(call) == blocks
    assert offers(call)[0].result == ""


def cost(call: Call, operand: str, result: str) -> float:
    return next(offer.cost for offer in offers(call) if (offer.operand(0), offer.result) == (operand, result))


@pytest.mark.parametrize(("size", "is_far"), [(32, True), (28, False), (64, True), (16, False)])
def test_channels_that_share_a_set_of_a_cache_cost_more(size: int, is_far: bool):
    """Windows of one point read all channels of it, which rows have at distances of 4096 bytes."""
    call = nn.conv2d(t(1, 64, size, size), t(64, 64, 1, 1))
    assert (cost(call, "", "NCHW16c") > cost(call, "NCHW16c", "NCHW16c")) == is_far


def test_rows_that_are_interpolated_cost_more_than_blocks():
    linear, nearest = (op.image.resize2d(t(1, 32, 6, 6), (12, 12), method=m) for m in ("linear", "nearest_neighbor"))
    assert cost(linear, "", "") > cost(linear, "NCHW16c", "NCHW16c") == cost(nearest, "", "")


def test_operands_are_laid_out_as_they_broadcast():
    of = {
        offer.result: offer.operands
        for offer in offers(op.where(t(1, 1, 6, 6, dtype="bool"), t(3, 32, 1, 1), t(32, 6, 6)))
    }
    assert of["NCHW16c"] == ("NCHW1c", "NCHW16c", "CHW16c")
    assert {offer.operands for offer in offers(op.clip(t(1, 32, 6, 6), 0, 1)) if offer.result} == {
        ("NCHW32c",),
        ("NCHW16c",),
        ("NHWC",),
    }
    assert of["NHWC"] == ("NHWC", "NHWC", "HWC")


def test_weights_go_with_data_and_result():
    found = {(offer.operands, offer.results) for offer in offers(conv(48, 32)) if offer.result == "NCHW32c"}
    assert found == {(("", "OIHW32o"), ("NCHW32c",)), (("NCHW16c", "OIHW16i32o"), ("NCHW32c",))}
    (_, depthwise) = offers(conv(48, 48, groups=48))
    assert depthwise.operands == ("NCHW16c", "OIHW16o")
    (_, several) = offers(conv(48, 48, groups=12))
    assert several.operands == ("NCHW16c", "OIHW16o")


def test_estimates_say_what_was_measured():
    """Rows of 7 waste more than half of a vector, long ones nothing; depthwise blocks are better than rows."""

    def gain(call: Call) -> float:
        rows, *blocks = offers(call)
        return rows.cost / min(offer.cost for offer in blocks)

    assert gain(conv(512, 512, 7, padding=1)) > 2
    assert 1 < gain(conv(64, 64, 56, padding=1)) < 1.5
    assert gain(conv(960, 160, 7, 1)) > 1.2
    assert gain(conv(96, 96, 112, padding=1, groups=96)) > 2
    assert gain(conv(96, 96, 112, padding=1, groups=96, strides=2)) > 3
    assert 0.8 < gain(conv(128, 128, 56, padding=1, groups=32)) < 1.2, "groups of four: rows are as good as blocks"
    assert 1.1 < gain(conv(512, 512, 14, padding=1, groups=2)) < 1.5
    assert 1.2 < gain(conv(256, 256, 28, padding=1, groups=4, strides=2)) < 2
    assert gain(conv(3, 96, 224, 4, strides=4)) > 20
    whole, half = (min(o.cost for o in offers(conv(240, 40, 28, 1)) if o.result == f"NCHW{n}c") for n in (40, 8))
    assert 1.4 * whole < half, "vectors of half the width"


@pytest.mark.parametrize(
    "call",
    [
        nn.relu(Var("x", TensorStructInfo(None, "float32", ndim=4))),
        nn.relu(t(1, SizeVar("c", "int64"), 7, 7)),
        op.add(t(1, 32, 7, 7), t(SizeVar("c", "int64"), 7, 7)),
        op.concat(Var("x", TupleStructInfo((t(1, 32, 7, 7).struct_info,) * 2)), axis=1),
        nn.relu(t(0, 32, 7, 7)),
        nn.relu(t(1, 32, 0, 7)),
    ],
)
def test_no_offer_for_sizes_that_are_not_known_or_zero(call: Call):
    assert offers(call) == [ROW_MAJOR]


# ---- what is computed


def _rows(mod: IRModule) -> Any:
    """A network without layouts."""
    passes = pipeline("llvm").passes
    return eutectic.compile(mod, pipeline=Pipeline(tuple(p for p in passes if p.info.name != "AssignLayouts")))


def test_order_of_sums_is_that_of_rows_without_a_window():
    """Products over channels, depthwise windows and pools give the very same bits."""

    def body(bb: Any, x: Any) -> Any:
        x = bb.emit(nn.relu(bb.emit(nn.conv2d(x, weights(144, 512, 1, 1)))))
        x = bb.emit(nn.conv2d(x, weights(144, 1, 3, 3), padding=1, groups=144))
        x = bb.emit(nn.max_pool2d(bb.emit(op.add(x, weights(144, 1, 1))), 3, 2, 1))
        return nn.avg_pool2d(x, 2, 1)

    mod = graph({"x": (2, 512, 7, 7)}, body)
    (x,) = arrays(mod["main"])
    made = eutectic.compile(mod, target="llvm")
    assert "NCHW16c" in AssignLayouts(WIDE)(mod).script()
    assert made(x).tobytes() == _rows(mod)(x).tobytes()


def _network(dtype: str, widths: list[int], kernel: int, stride: int, groups: int) -> IRModule:
    """Convolutions of all kinds with bias, activation and residual."""

    def weight(*shape: int) -> Any:
        return Constant(weights(*shape).data.astype(dtype))

    def body(bb: Any, x: Any) -> Any:
        for number, width in enumerate(widths):
            depth = x.struct_info.static_shape[1]
            parts = groups if number and depth % groups == width % groups == 0 else 1
            options = {"padding": kernel // 2, "strides": stride if number else 1, "groups": parts}
            y = bb.emit(nn.conv2d(x, weight(width, depth // parts, kernel, kernel), **options))
            y = bb.emit(op.clip(bb.emit(op.add(y, weight(1, width, 1, 1))), -3, 4))
            y = bb.emit(op.add(y, bb.emit(nn.conv2d(y, weight(width, 1, 3, 3), padding=1, groups=width))))
            x = bb.emit(op.add(y, x)) if y.struct_info.static_shape == x.struct_info.static_shape else y
        return bb.emit(op.mean(x, (2, 3)))

    return graph({"x": ((2, widths[0], 7, 9), dtype)}, body)


@pytest.mark.slow
@settings(max_examples=12)
@given(
    st.lists(st.sampled_from([3, 16, 24, 32, 40, 48, 56, 64]), min_size=2, max_size=3),
    st.sampled_from([1, 3, 5]),
    st.integers(1, 2),
    st.sampled_from([1, 2, 4, 8]),
)
def test_networks_are_right_in_float64(widths: list[int], kernel: int, stride: int, groups: int):
    mod, truth = (_network(dtype, widths, kernel, stride, groups) for dtype in ("float32", "float64"))
    (x,) = arrays(mod["main"])
    want = evaluate(truth, x.astype("float64"))
    assert_close(eutectic.compile(mod, target="llvm")(x).astype("float64"), want, 5e-5)


@pytest.mark.parametrize("groups", [1, 8])
def test_values_that_are_no_numbers_stay_where_they_are(groups: int):
    """Blocks are full: no channel that is not there takes part, and none of another group."""
    mod = _network("float32", [16, 32, 32], 3, 1, groups)
    (x,) = arrays(mod["main"])
    x[0, 3, 2, 2], x[1, 0, 0, 0] = np.nan, np.inf
    got, want = (made(x) for made in (eutectic.compile(mod, target="llvm"), _rows(mod)))
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(want))


def test_a_batch_of_any_size_is_compiled_once():
    n = SizeVar("n", "int64")
    mod = graph({"x": (n, 32, 7, 7)}, lambda bb, x: nn.relu(bb.emit(nn.conv2d(x, weights(32, 32, 3, 3), padding=1))))
    assert "NCHW32c" in AssignLayouts(WIDE)(mod).script()
    made = eutectic.compile(mod, target="llvm")
    for size in (1, 2, 5):
        x = np.random.default_rng(size).standard_normal((size, 32, 7, 7)).astype("float32")
        assert_close(made(x), evaluate(mod, x))


@pytest.mark.parametrize("width", [16, 24, 64])
def test_norms_between_convolutions_stay_in_their_layout(width: int):
    """Groups inside of blocks, across their borders, and of one channel."""

    def body(bb: Any, x: Any) -> Any:
        x = bb.emit(nn.conv2d(x, weights(width, 3, 3, 3), padding=1))
        x = bb.emit(nn.silu(bb.emit(nn.group_norm(x, weights(width), weights(width), 4, 1, (2, 3)))))
        x = bb.emit(nn.conv2d(x, weights(width, width, 3, 3), padding=1))
        x = bb.emit(nn.relu(bb.emit(nn.instance_norm(x, weights(width), weights(width), 1, (2, 3)))))
        return nn.conv2d(x, weights(8, width, 1, 1))

    mod = graph({"x": (2, 3, 20, 18)}, body)
    (x,) = arrays(mod["main"])
    text = AssignLayouts(WIDE)(mod).script()
    assert len(re.findall(r'_norm\(.* layout="NCHW\d+c"', text)) == 2
    made = eutectic.compile(mod, target="llvm", verify=True)
    assert_close(made(x), evaluate(mod, x), 5e-5)


@pytest.mark.parametrize("width", [16, 24, 64])
def test_what_is_cut_between_convolutions_stays_in_its_layout(width: int):
    """Pieces of channels, of rows, and ends that are mirrored."""

    def body(bb: Any, x: Any) -> Any:
        x = bb.emit(nn.conv2d(x, weights(2 * width, 3, 3, 3), padding=1))
        parts = bb.emit(op.split(x, 2, 1))
        a, b = (bb.emit(TupleGetItem(parts, k)) for k in range(2))
        x = bb.emit(op.multiply(bb.emit(op.tanh(a)), bb.emit(op.sigmoid(b))))
        x = bb.emit(nn.pad(x, [0] * 4 + [1, 2, 2, 1], pad_mode="reflect"))
        y = bb.emit(nn.conv2d(x, weights(width, width, 3, 3)))
        x = bb.emit(op.add(y, bb.emit(op.strided_slice(x, [2, 3], [0, 0], [-2, -2]))))
        return nn.conv2d(x, weights(8, width, 1, 1))

    mod = graph({"x": (2, 3, 20, 18)}, body)
    (x,) = arrays(mod["main"])
    text = AssignLayouts(WIDE)(mod).script()
    at_end = int(width % 16 == 0)  # else vectors of channels are cut, and all is in rows
    assert (text.count('src_layout="NCHW"'), text.count('dst_layout="NCHW"')) == (0, at_end)
    made = eutectic.compile(mod, target="llvm", verify=True)
    assert_close(made(x), evaluate(mod, x), 5e-5)


@pytest.mark.parametrize("width", [16, 32])
def test_volumes_are_in_blocks(width: int):
    """Convolutions with and without groups and steps, a residual, a norm, pools and pieces of channels."""

    def body(bb: Any, x: Any) -> Any:
        x = bb.emit(nn.relu(bb.emit(nn.conv3d(x, weights(width, 3, 3, 3, 3), strides=(1, 2, 2), padding=1))))
        y = bb.emit(nn.conv3d(x, weights(width, width, 3, 3, 3), padding=1))
        x = bb.emit(op.add(x, bb.emit(nn.conv3d(y, weights(width, 1, 3, 1, 3), padding=(1, 0, 1), groups=width))))
        x = bb.emit(nn.instance_norm(x, weights(width), weights(width), 1, (2, 3, 4)))
        x = bb.emit(nn.max_pool3d(x, (1, 2, 2), (1, 2, 2)))
        x = bb.emit(op.concat([x, bb.emit(nn.avg_pool3d(x, 3, 1, 1))], 1))
        x = bb.emit(nn.conv3d(x, weights(width, 2 * width, 2, 1, 1), strides=2))
        return nn.adaptive_avg_pool3d(x, 1)

    mod = graph({"x": (2, 3, 4, 20, 18)}, body)
    (x,) = arrays(mod["main"])
    text = AssignLayouts(WIDE)(mod).script()
    assert f'out_layout="NCDHW{width}c"' in text
    assert 'src_layout="NCDHW",' not in text
    made = eutectic.compile(mod, target="llvm", verify=True)
    assert_close(made(x), evaluate(mod, x), 5e-5)


def test_winograds_method_is_not_used_on_rows_that_can_be_copied():
    """What reads and what writes rows is not alike: each vector would be taken apart."""
    mod = graph(
        {"x": (1, 64, 32, 32)},
        lambda bb, x: nn.softmax(bb.emit(nn.conv2d(nn.softmax(x), weights(64, 64, 3, 3), padding=1))),
    )
    text = AssignLayouts(WIDE)(ConvertConv2DToWinograd(WIDE)(mod)).script()
    assert re.search(r'conv2d_winograd\(.*data_layout="NCHW16c", out_layout="NCHW16c"', text)


def test_the_pipeline_says_it():
    assert ",AssignLayouts{target=llvm}," in str(pipeline("llvm"))
    mod = _network("float32", [16, 32], 3, 1, 1)
    made = eutectic.compile(mod, target="llvm", verify=True)
    assert "AssignLayouts" in dict(made.report.passes)
    assert "conv2d_nchwc" in made.lowered.script()
