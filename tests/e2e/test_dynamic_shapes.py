"""One executable serves every size of its range, without interpreting anything; other sizes are refused by name."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

import eutectic
from eutectic import relax
from eutectic.ir.module import IRModule
from eutectic.relax.interpret import Interpreter
from eutectic.runtime.instructions import RunNative
from eutectic.script import relax as R
from eutectic.script import tir as T
from eutectic.support.errors import CallError
from eutectic.testing.models import MODELS

SIZES = ((1, 1), (2, 5), (3, 17), (8, 33), (5, 64))


def values(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


@R.function
def linear_gelu(
    x: R.Tensor(("b", "s", 16), "float32"), w: R.Tensor((16, 24), "float32"), c: R.Tensor((24,), "float32")
):
    with R.dataflow():
        gv = R.nn.gelu(R.add(R.matmul(x, w), c))
        R.output(gv)
    return gv


@R.function
def attention(
    q: R.Tensor(("b", "s", 16), "float32"),
    k: R.Tensor(("b", "t", 16), "float32"),
    v: R.Tensor(("b", "t", 8), "float32"),
):
    with R.dataflow():
        scores = R.matmul(q, R.permute_dims(k, axes=[0, 2, 1]))
        gv = R.matmul(R.nn.softmax(scores, axis=-1), v)
        R.output(gv)
    return gv


@R.function
def rows(x: R.Tensor(("b", "s"), "float32")):
    with R.dataflow():
        gv = R.nn.softmax(x, axis=-1)
        gv1 = R.nn.log_softmax(x, axis=0)
        R.output(gv, gv1)
    return (gv, gv1)


@R.function
def convolution(
    x: R.Tensor(("b", 4, 9, 9), "float32"), w: R.Tensor((8, 4, 3, 3), "float32"), c: R.Tensor((1, 8, 1, 1), "float32")
):
    with R.dataflow():
        lv = R.nn.relu(R.add(R.nn.conv2d(x, w, padding=1, strides=2), c))
        gv = R.nn.max_pool2d(lv, pool_size=(2, 2))
        R.output(gv)
    return gv


@R.function
def image_of_any_size(x: R.Tensor(("b", 4, "s", "s"), "float32"), w: R.Tensor((4, 1, 3, 3), "float32")):
    with R.dataflow():
        lv = R.clip(R.nn.conv2d(x, w, padding=1, groups=4), 0, 6)
        gv = R.mean(lv, axis=[2, 3])
        R.output(gv)
    return gv


@R.function
def heads(x: R.Tensor(("b", "s", 16), "float32")):
    b = T.int64()
    s = T.int64()
    with R.dataflow():
        lv = R.permute_dims(R.reshape(x, R.shape([b, s, 4, 4])), axes=[0, 2, 1, 3])
        lv1 = R.reshape(lv, R.shape([b * 4, s * 4]))
        gv = R.add(lv1, lv1)
        R.output(gv)
    return gv


@R.function
def joined(x: R.Tensor(("b", "s"), "float32"), y: R.Tensor(("b", "t"), "float32")):
    with R.dataflow():
        lv = R.concat((x, R.nn.relu(y), x), axis=1)
        gv = R.sum(lv, axis=[1])
        gv1 = R.multiply(lv, lv)
        R.output(gv, gv1)
    return (gv, gv1)


@R.function
def parts(x: R.Tensor(("b", "s", 12), "float32"), i: R.Tensor(("b",), "int64")):
    with R.dataflow():
        a = R.split(x, 3, axis=2)
        lv = R.add(a[0], R.multiply(a[1], a[2]))
        lv1 = R.strided_slice(lv, axes=[2], begin=[1], end=[3])
        gv = R.max(R.take(lv1, i, axis=0), axis=[1])
        R.output(gv)
    return gv


PROGRAMS = {
    "matmul": (linear_gelu, lambda b, s: (values(b, s, 16), values(16, 24), values(24))),
    "attention": (attention, lambda b, s: (values(b, s, 16), values(b, s + 2, 16, seed=1), values(b, s + 2, 8))),
    "softmax": (rows, lambda b, s: (values(b, s),)),
    "conv": (convolution, lambda b, s: (values(b, 4, 9, 9), values(8, 4, 3, 3), values(1, 8, 1, 1))),
    "image": (image_of_any_size, lambda b, s: (values(b, 4, s, s), values(4, 1, 3, 3))),
    "reshape": (heads, lambda b, s: (values(b, s, 16),)),
    "concat": (joined, lambda b, s: (values(b, s), values(b, s + 3, seed=1))),
    "split": (parts, lambda b, s: (values(b, s, 12), np.arange(b)[::-1].copy())),
}


def tensors(result) -> list[np.ndarray]:
    return [t if isinstance(t, np.ndarray) else t.numpy() for t in (result if isinstance(result, tuple) else (result,))]


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_executable_serves_all_sizes(name: str):
    function, make = PROGRAMS[name]
    mod = IRModule({"main": function.with_attr("global_symbol", "main")})
    executable = relax.build(mod, target="llvm")
    assert [type(step) for step in executable.functions["main"].instructions] == [RunNative]
    for b, s in SIZES:
        args = make(b, s)
        want = tensors(Interpreter(mod).run("main", *args))
        for got, expected in zip(tensors(executable["main"](*args)), want, strict=True):
            np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-5)


def test_a_range_given_in_the_module():
    mod = IRModule({"main": rows.with_attr("global_symbol", "main").with_attr("tir_var_upper_bound", {"b": 4})})
    mod["main"] = mod["main"].with_attr("tir_var_lower_bound", {"b": 2})
    main = relax.build(mod)["main"]
    main(values(4, 3))
    for wrong in (1, 5):
        with pytest.raises(
            CallError, match=f"argument x has size {wrong} on axis 0; the model was exported for b from 2 to 4"
        ):
            main(values(wrong, 3))


class Encoder(nn.Module):
    """Attention with two heads, and a pooled result."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.norm, self.wide, self.narrow = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        q, k, v = (part.unflatten(-1, (2, 8)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        weights = torch.softmax(q @ k.transpose(-2, -1) / 8**0.5, dim=-1)
        x = self.norm(x + self.out((weights @ v).transpose(1, 2).flatten(-2)))
        x = x + self.narrow(torch.nn.functional.gelu(self.wide(x)))
        return x, torch.cat((x.mean(1), x.amax(1)), dim=-1)


@pytest.mark.slow
def test_batch_and_sequence_of_a_torch_model():
    torch.manual_seed(0)
    model = Encoder().eval()
    batch, length = torch.export.Dim("batch", min=1, max=6), torch.export.Dim("length", min=2, max=40)
    compiled = eutectic.compile(model, (torch.randn(2, 9, 16),), dynamic_shapes=({0: batch, 1: length},), target="llvm")
    for size in product((1, 3, 6), (2, 17, 40)):
        x = torch.randn(*size, 16)
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-5, atol=1e-5)
    for size, axis, limits in (((7, 9), 0, "from 1 to 6"), ((2, 41), 1, "from 2 to 40"), ((2, 1), 1, "from 2 to 40")):
        with pytest.raises(CallError, match=f"argument x must have a size {limits} on axis {axis}, got {size[axis]}"):
            compiled(torch.randn(*size, 16))


# What a size may become part of; each is asked for two sizes of one model.
OF_A_SIZE = {
    "arange": lambda x, n: torch.arange(n),
    "arange with a step": lambda x, n: torch.arange(1, 2 * n, 2),
    "full": lambda x, n: torch.full((n, 2), 3.5),
    "zeros of a sum": lambda x, n: torch.zeros(n + 1),
    "expand": lambda x, n: x[0, 0].expand(n),
    "reshape": lambda x, n: torch.ones(2 * n).reshape(n, 2).cumsum(0),
    "scalar": lambda x, n: x * n,
    "quotient": lambda x, n: torch.ones(3) * (n // 2) + n % 3,
    "mask": lambda x, n: torch.ones(n, n).tril(),
    "slice": lambda x, n: torch.arange(100)[:n],
    "mean": lambda x, n: x.sum() / n,
    "repeat_interleave": lambda x, n: torch.arange(3).repeat_interleave(2).expand(n, 6),
}


@pytest.mark.parametrize("target", ["default", "llvm"])
@pytest.mark.parametrize("part", [slice(0, 5), slice(5, 10), slice(10, None)])
def test_two_sizes_are_not_taken_for_one(target: str, part: slice):
    functions = list(OF_A_SIZE.values())[part]

    class Both(nn.Module):
        def forward(self, x):
            return [function(x, n) for function in functions for n in x.shape]

    dims = {0: torch.export.Dim("a", min=2, max=64), 1: torch.export.Dim("b", min=2, max=64)}
    options = {} if target == "default" else {"target": target}
    compiled = eutectic.compile(Both(), (torch.randn(3, 7),), dynamic_shapes={"x": dims}, **options)
    for sizes in ((3, 7), (5, 5), (9, 2), (2, 33)):
        x = torch.randn(sizes)
        for got, want in zip(compiled(x), Both()(x), strict=True):
            torch.testing.assert_close(got, want)


@pytest.mark.models
@pytest.mark.slow
def test_one_compiled_mobilenet_serves_batches_from_one_to_eight():
    if (reason := MODELS["mobilenet_v2"].missing()) is not None:
        pytest.skip(reason)
    model, inputs = MODELS["mobilenet_v2"].build()
    batch = torch.export.Dim("batch", min=1, max=8)
    compiled = eutectic.compile(
        model, (torch.cat([inputs[0], inputs[0].flip(-1)]),), dynamic_shapes=({0: batch},), target="llvm"
    )
    assert [type(step) for step in compiled.executable.instructions] == [RunNative]
    for size in (1, 3, 8):
        x = torch.randn(size, *inputs[0].shape[1:])
        with torch.no_grad():
            want = model(x)
        assert (compiled(x) - want).abs().max() / want.abs().max() < 1e-5
    with pytest.raises(CallError, match="argument x must have a size from 1 to 8 on axis 0, got 9"):
        compiled(torch.randn(9, *inputs[0].shape[1:]))


@pytest.mark.slow
@pytest.mark.parametrize("target", [None, "llvm"])
@pytest.mark.parametrize("stride", [1, 2])
def test_two_sizes_that_vary_and_become_one(target: str | None, stride: int):
    """Height and width of a picture become the length of a sequence, whose size is their product."""

    class Patches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.linear = nn.Conv2d(3, 8, 3, padding=1, stride=stride), nn.Linear(8, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(self.conv(x).flatten(2).mT).softmax(-1)

    model = Patches().eval()
    shapes = ({2: Dim("height", min=4, max=64), 3: Dim("width", min=4, max=64)},)
    compiled = eutectic.compile(model, (torch.randn(2, 3, 16, 16),), dynamic_shapes=shapes, target=target)
    for height, width in ((16, 16), (4, 9), (33, 64)):
        x = torch.randn(2, 3, height, width)
        torch.testing.assert_close(compiled(x), model(x).detach(), rtol=1e-4, atol=1e-5)
