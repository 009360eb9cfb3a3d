"""Convolutions, pooling, normalisation, products and attention: values as in eager, lowering exactly as stated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.relax.frontend.torch_compare import check, equal, imported, rand
from torch import nn
from torch.nn import functional as F

import eutectic
from eutectic.relax.expr import Constant
from eutectic.support.errors import UnsupportedOperatorError

CONVOLUTIONS = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
TRANSPOSED = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}


def _layer(kind: Any, *args: Any, **options: Any) -> nn.Module:
    torch.manual_seed(0)
    return kind(*args, **options).eval()


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("transposed", [False, True])
def test_convolution_is_conv_reshape_add(rank: int, transposed: bool):
    layer = _layer((TRANSPOSED if transposed else CONVOLUTIONS)[rank], 4, 6, 3, stride=2, padding=1, groups=2)
    x = rand(2, 4, *[6] * rank)
    model = imported(layer, (x,))
    suffix = "_transpose" if transposed else ""
    assert model.operators == [f"nn.conv{rank}d{suffix}", "reshape", "add"]
    convolved, shaped, added, output = model.bindings
    attrs = convolved.value.attrs
    space = {1: "W", 2: "HW", 3: "DHW"}[rank]
    assert (attrs.data_layout, attrs.kernel_layout) == (f"NC{space}", f"{'IO' if transposed else 'OI'}{space}")
    assert (attrs.strides, attrs.padding, attrs.groups, attrs.out_dtype) == ((2,) * rank, (1,) * 2 * rank, 2, "float32")
    assert shaped.value.args[1].static == (1, 6, *[1] * rank)
    assert isinstance(shaped.value.args[0], Constant)
    assert list(added.value.args) == [convolved.var, shaped.var]
    assert list(output.value.fields) == [added.var]
    assert output.var.name_hint == "gv"
    with torch.no_grad():
        equal(model(x), layer(x))


def test_convolution_without_bias_is_one_call():
    assert imported(_layer(nn.Conv2d, 3, 4, 1, bias=False), (rand(1, 3, 2, 2),)).operators == ["nn.conv2d"]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_convolution_keeps_the_dtype(dtype: torch.dtype):
    layer, x = _layer(nn.Conv2d, 3, 4, 3).to(dtype), rand(1, 3, 5, 5, dtype=dtype)
    model = imported(layer, (x,))
    assert model.bindings[0].value.attrs.out_dtype == str(dtype).removeprefix("torch.")
    with torch.no_grad():
        equal(model(x), layer(x))


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths:UserWarning")
@pytest.mark.parametrize("kernel", [1, 2, 3, 4])
@pytest.mark.parametrize("dilation", [1, 2])
def test_same_and_valid_padding(kernel: int, dilation: int):
    for padding in ("same", "valid"):
        layer = _layer(nn.Conv2d, 2, 3, (kernel, 3), padding=padding, dilation=dilation)
        x = rand(1, 2, 9, 9)
        with torch.no_grad():
            equal(imported(layer, (x,))(x), layer(x))


def test_batch_axis_may_be_left_out():
    for layer, x in (
        (_layer(nn.Conv2d, 3, 4, 3), rand(3, 6, 6)),
        (_layer(nn.ConvTranspose1d, 3, 4, 3), rand(3, 6)),
        (nn.MaxPool2d(2), rand(3, 6, 6)),
        (nn.AdaptiveAvgPool2d(2), rand(3, 6, 6)),
    ):
        with torch.no_grad():
            equal(imported(layer, (x,))(x), layer(x))


@given(
    st.integers(1, 2),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(0, 2),
    st.integers(1, 2),
    st.sampled_from([1, 2, 4]),
    st.booleans(),
)
@settings(max_examples=25)
def test_convolutions(rank: int, kernel: int, stride: int, padding: int, dilation: int, groups: int, bias: bool):
    options: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation}
    options |= {"groups": groups, "bias": bias}
    layer, x = _layer(CONVOLUTIONS[rank], 4, 8, kernel, **options), rand(2, 4, *[8] * rank)
    with torch.no_grad():
        equal(imported(layer, (x,))(x), layer(x))


@given(st.integers(1, 2), st.integers(1, 3), st.integers(1, 3), st.integers(0, 1), st.data())
@settings(max_examples=15)
def test_transposed_convolutions(rank: int, kernel: int, stride: int, padding: int, data: st.DataObject):
    extra = data.draw(st.integers(0, stride - 1))
    options: dict[str, Any] = {"stride": stride, "padding": padding, "output_padding": extra, "groups": 2}
    layer, x = _layer(TRANSPOSED[rank], 4, 6, kernel, **options), rand(2, 4, *[5] * rank)
    with torch.no_grad():
        equal(imported(layer, (x,))(x), layer(x))


POOLS: dict[str, Callable[..., Any]] = {
    "max_pool1d": lambda x: F.max_pool1d(x[:, :, 0], 3, 2, 1, ceil_mode=True),
    "max_pool2d": lambda x: (F.max_pool2d(x, 3, 2, 1), F.max_pool2d(x, (2, 3), dilation=2), F.max_pool2d(x, 2)),
    "max_pool2d_ceil": lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
    "max_pool3d": lambda x: F.max_pool3d(x[:, None], 2),
    "max_pool_indices_unused": lambda x: F.max_pool2d(x, 2, return_indices=True)[0],
    "avg_pool1d": lambda x: F.avg_pool1d(x[:, :, 0], 3, 2, 1),
    "avg_pool2d": lambda x: (F.avg_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 2)),
    "avg_pool2d_ceil": lambda x: (
        F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
        F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
        F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    ),
    "avg_pool3d": lambda x: F.avg_pool3d(x[:, None], 2),
    "adaptive_avg": lambda x: (F.adaptive_avg_pool2d(x, 1), F.adaptive_avg_pool2d(x, (3, None))),
    "adaptive_avg1d": lambda x: F.adaptive_avg_pool1d(x[:, :, 0], 3),
    "adaptive_max": lambda x: (F.adaptive_max_pool2d(x, (3, 2)), F.adaptive_max_pool1d(x[:, :, 0], 2)),
    "nearest": lambda x: (F.interpolate(x, scale_factor=2), F.interpolate(x, size=(5, 11))),
    "nearest_exact": lambda x: F.interpolate(x, size=(5, 11), mode="nearest-exact"),
    "bilinear": lambda x: (
        F.interpolate(x, scale_factor=2, mode="bilinear"),
        F.interpolate(x, size=(5, 11), mode="bilinear", align_corners=True),
        F.interpolate(x, size=(3, 4), mode="bilinear"),
    ),
}


@pytest.mark.parametrize("name", POOLS)
def test_pooling_and_resampling(name: str):
    check(POOLS[name], rand(2, 3, 8, 7))


def test_pooling_keeps_nan():
    x = rand(1, 1, 6, 6)
    x[0, 0, 2, 3] = float("nan")
    check(lambda t: (F.max_pool2d(t, 2), F.avg_pool2d(t, 3), F.adaptive_max_pool2d(t, 2)[:, :, :1]), x)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.avg_pool2d(x, 2, divisor_override=3),
        lambda x: F.max_pool2d(x, 2, return_indices=True)[1],
        lambda x: F.interpolate(x, scale_factor=1.3, mode="bilinear"),
    ],
)
def test_forms_that_are_not_exact_are_refused(function: Callable[..., Any]):
    with pytest.raises(UnsupportedOperatorError):
        imported(function, (rand(1, 2, 6, 6),))


NORMS: dict[str, Callable[[], nn.Module]] = {
    "batch_norm": lambda: nn.BatchNorm2d(4),
    "batch_norm_without_affine": lambda: nn.BatchNorm2d(4, affine=False),
    "batch_norm_without_stats": lambda: nn.BatchNorm2d(4, track_running_stats=False),
    "layer_norm": lambda: nn.LayerNorm((5, 6)),
    "layer_norm_plain": lambda: nn.LayerNorm(6, elementwise_affine=False),
    "layer_norm_without_bias": lambda: nn.LayerNorm(6, bias=False),
    "group_norm": lambda: nn.GroupNorm(2, 4),
    "instance_norm": lambda: nn.InstanceNorm2d(4),
    "instance_norm_affine": lambda: nn.InstanceNorm2d(4, affine=True),
    "instance_norm_with_stats": lambda: nn.InstanceNorm2d(4, affine=True, track_running_stats=True),
    "rms_norm": lambda: nn.RMSNorm(6),
    "local_response_norm": lambda: nn.LocalResponseNorm(2),
}


@pytest.mark.parametrize("name", NORMS)
def test_normalisation(name: str):
    layer = NORMS[name]().eval()
    for parameter in layer.parameters():
        nn.init.uniform_(parameter, 0.5, 1.5)
    for buffer_name, buffer in layer.named_buffers():
        if "running" in buffer_name:
            buffer.copy_(rand(4).abs() + 0.1)
    x = rand(2, 4, 5, 6)
    model = imported(layer, (x,))
    with torch.no_grad():
        equal(model(x), layer(x), 2e-5)


@pytest.mark.parametrize("align_corners", [False, True])
def test_bilinear_interpolation_of_float64_is_of_that_precision(align_corners: bool):
    x = rand(1, 2, 5, 7, dtype=torch.float64)
    layer = nn.Upsample((6, 9), mode="bilinear", align_corners=align_corners)
    compiled = eutectic.compile(layer.eval(), (x,), target="llvm", threads=1)
    for results in (imported(layer, (x,))(x), compiled(x)):  # by the reference, and by the kernel
        torch.testing.assert_close(torch.as_tensor(results), layer(x), rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_batch_norm_of_nothing(dtype: torch.dtype):
    """An input without an axis of channels is right for torch if it has no elements."""
    nothing = torch.empty(0, dtype=dtype)
    check(lambda x, stats: F.batch_norm(x, stats, stats), nothing, nothing)
    check(lambda x, stats: F.batch_norm(x, stats, stats).relu(), nothing, nothing)


def test_batch_norm_lowers_to_one_call_and_a_field():
    model = imported(nn.BatchNorm2d(3).eval(), (rand(1, 3, 2, 2),))
    assert model.operators == ["nn.batch_norm"]
    assert model.bindings[0].value.attrs.axis == 1
    assert not model.bindings[0].value.attrs.training
    assert model.bindings[1].value.index == 0


def test_float32_norms_of_16_bit_data():
    layer, x = nn.LayerNorm(6), rand(2, 6, dtype=torch.bfloat16)
    with torch.no_grad():
        check(lambda t: F.batch_norm(t, torch.zeros(6), torch.ones(6)), x)
        check(lambda t: F.layer_norm(t, (6,), layer.weight.bfloat16(), layer.bias.bfloat16()), x)


PRODUCTS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "matmul": (torch.matmul, (rand(2, 1, 3, 4), rand(5, 4, 2))),
    "matmul_vectors": (torch.matmul, (rand(4), rand(4, seed=1))),
    "matvec": (torch.matmul, (rand(3, 4), rand(4))),
    "vecmat": (torch.matmul, (rand(4), rand(4, 3))),
    "mm": (torch.mm, (rand(3, 4), rand(4, 2))),
    "bmm": (torch.bmm, (rand(2, 3, 4), rand(2, 4, 2))),
    "mm_of_integers": (torch.mm, (rand(3, 4, dtype=torch.int64), rand(4, 2, dtype=torch.int64))),
    "addmm": (lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2.0), (rand(2), rand(3, 4), rand(4, 2))),
    "addmm_beta_zero": (lambda c, a, b: torch.addmm(c, a, b, beta=0), (rand(2) * torch.nan, rand(3, 4), rand(4, 2))),
    "baddbmm": (torch.baddbmm, (rand(2, 3, 2), rand(2, 3, 4), rand(2, 4, 2))),
    "linear": (F.linear, (rand(2, 3, 4), rand(5, 4), rand(5))),
    "linear_without_bias": (F.linear, (rand(3, 4), rand(5, 4))),
    "linear_of_a_vector": (F.linear, (rand(4), rand(5, 4), rand(5))),
    "bilinear": (F.bilinear, (rand(3, 4), rand(3, 5), rand(6, 4, 5), rand(6))),
    "trilinear": (
        lambda a, b, c: torch._trilinear(a, b, c, [1, 3], [0], [1, -2], [-1, 2]),
        (rand(3, 4), rand(6, 4, 5), rand(3, 5)),
    ),
    "einsum": (lambda a, b: torch.einsum("bij,bkj->bik", a, b), (rand(2, 3, 4), rand(2, 5, 4))),
    **{
        f"einsum {equation}": (lambda a, b, equation=equation: torch.einsum(equation, a, b), (rand(*one), rand(*other)))
        for equation, one, other in (
            ("...ij,...kj->...ik", (2, 1, 3, 4), (5, 2, 4)),
            ("... i j, j k", (2, 3, 4), (4, 5)),
            ("i...j,j...->i...", (3, 2, 2, 4), (4, 2)),
            ("...a,...b->ab", (2, 3, 4), (3, 5)),
            ("Zb...,...a", (2, 4, 3), (1, 5)),
            ("...i,i...", (4,), (4,)),
        )
    },
    "dot": (torch.dot, (rand(4), rand(4, seed=2))),
    "mv": (torch.mv, (rand(3, 4), rand(4))),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_product(name: str):
    function, args = PRODUCTS[name]
    check(function, *args)


def test_linear_is_permute_matmul_add():
    assert imported(nn.Linear(4, 3), (rand(2, 4),)).operators == ["permute_dims", "matmul", "add"]


def _attention(**options: Any) -> Callable[..., Any]:
    return lambda *args: F.scaled_dot_product_attention(*args, **options)


QKV = (rand(2, 4, 5, 8), rand(2, 4, 6, 8, seed=1), rand(2, 4, 6, 8, seed=2))


def test_attention():
    check(_attention(), *QKV)
    check(_attention(scale=0.3), *QKV)
    check(_attention(is_causal=True), *QKV)
    check(_attention(), *(x[0] for x in QKV))
    check(_attention(enable_gqa=True), QKV[0], QKV[1][:, :2].clone(), QKV[2][:, :2].clone())


def test_masked_attention_of_a_query_that_sees_nothing():
    mask = rand(5, 6, dtype=torch.bool)
    mask[2] = False
    check(_attention(), *QKV, mask)
    check(_attention(), *QKV, torch.where(mask, 0.0, float("-inf")))
    check(_attention(), *QKV, rand(2, 1, 5, 6))


def test_multi_head_attention_and_encoder_layer():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True).eval()
    for parameter in layer.parameters():
        parameter.requires_grad_(False)
    x = rand(2, 5, 16)
    model = imported(layer, (x,))
    with torch.no_grad():
        equal(model(x), layer(x), 2e-5)
