"""A region description survives JSON and refuses what means nothing, in one sentence."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from eutectic.backend.dnnl.spec import (
    Binary,
    Convolution,
    Eltwise,
    Matmul,
    Pool,
    PostBinary,
    PostEltwise,
    RegionSpec,
    Step,
    TensorSpec,
)
from eutectic.support.errors import CodegenError

X = TensorSpec("x", (2, 8, 6, 6))
W = TensorSpec("w", (4, 8, 3, 3))
ONE, ZERO = (1, 1), (0, 0)


def conv(dst: tuple[int, ...] = (2, 4, 4, 4), **changes: Any) -> Convolution:
    values: dict[str, Any] = {
        "src": "x",
        "weight": "w",
        "bias": None,
        "dst": TensorSpec("y", dst),
        "strides": ONE,
        "padding_begin": ZERO,
        "padding_end": ZERO,
        "dilation": ONE,
    }
    return Convolution(**(values | changes))


def region(*steps: Step, constants: tuple[TensorSpec, ...] = (W,), outputs: tuple[str, ...] = ("y",)) -> RegionSpec:
    return RegionSpec("f", (X,), constants, steps, outputs, "composite")


def test_json_round_trip():
    steps = (
        conv(post_ops=(PostEltwise("clip", -math.inf, 6.0), PostBinary("add", "r"))),
        Pool("max", "y", TensorSpec("p", (2, 4, 2, 2)), (2, 2), (2, 2), ZERO, ZERO, ONE),
        Binary("mul", "p", "s", TensorSpec("q", (2, 4, 2, 2)), (PostEltwise("relu"),)),
        Eltwise("q", TensorSpec("e", (2, 4, 2, 2)), PostEltwise("linear", 2, 0.5)),
        Matmul("e", "e", None, TensorSpec("m", (2, 4, 2, 2)), True),
    )
    constants = (W, TensorSpec("r", (4, 1, 1)), TensorSpec("s", ()))
    spec = RegionSpec("f", (X,), constants, steps, ("m", "p"), "composite")
    text = json.dumps(spec.to_json(), allow_nan=False)
    assert RegionSpec.from_json(json.loads(text)) == spec


BROKEN: dict[str, tuple[Any, str]] = {
    "not an object": ([], "described by an object"),
    "unknown field": ({"more": 1}, "described by an object"),
    "symbol": ({"symbol": 3}, "should be of type str"),
    "outputs": ({"outputs": "y"}, "should be of type list"),
    "step": ({"steps": [3]}, "a step has kind None"),
    "kind": ({"steps": [{"kind": "softmax"}]}, "a step has kind 'softmax'"),
    "boolean extent": ({"inputs": [{"name": "x", "shape": [True]}]}, "TensorSpec.shape is [True]"),
    "float extent": ({"inputs": [{"name": "x", "shape": [2.0]}]}, "TensorSpec.shape is [2.0]"),
    "no shape": ({"inputs": [{"name": "x"}]}, "TensorSpec has no field 'shape'"),
    "negative extent": ({"inputs": [{"name": "x", "shape": [-1]}]}, "outside of the limits"),
    "huge": ({"inputs": [{"name": "x", "shape": [2**20, 2**20, 2**20]}]}, "outside of the limits"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_json_is_refused(name: str):
    change, message = BROKEN[name]
    data = region(conv()).to_json() | change if isinstance(change, dict) else change
    with pytest.raises(CodegenError) as error:
        RegionSpec.from_json(data)
    assert message in error.value.message


@pytest.mark.parametrize("value", [True, "1", None, [], "nan", float("nan")])
def test_broken_post_operation_is_refused(value: object):
    data = region(conv(post_ops=(PostEltwise("relu"),))).to_json()
    data["steps"][0]["post_ops"][0]["alpha"] = value
    with pytest.raises(CodegenError):
        RegionSpec.from_json(data)


def pool(kind: str = "max", dst: tuple[int, ...] = (2, 8, 3, 3), **changes: Any) -> Pool:
    values: dict[str, Any] = {
        "kernel": (2, 2),
        "strides": (2, 2),
        "padding_begin": ZERO,
        "padding_end": ZERO,
        "dilation": ONE,
    }
    return Pool(kind, "x", TensorSpec("y", dst), **(values | changes))


def post(p: PostEltwise | PostBinary) -> Convolution:
    return conv(post_ops=(p,))


REFUSED: dict[str, tuple[Step, str]] = {
    "unknown operand": (conv(src="z"), "reads 'z', which is neither given nor computed before"),
    "own result": (Binary("add", "x", "y", TensorSpec("y", X.shape)), "reads 'y', which is neither"),
    "name twice": (Eltwise("x", TensorSpec("x", X.shape), PostEltwise("abs")), "tensor name 'x' is used twice"),
    "dtype": (Eltwise("x", TensorSpec("y", X.shape, "float64"), PostEltwise("abs")), "dtype 'float64'"),
    "result": (conv(dst=(2, 4, 4, 5)), "axis 3 has extent 5, expected 4"),
    "groups": (conv(groups=3), "3 groups"),
    "negative padding": (conv(padding_begin=(-1, 0)), "padding_begin is (-1, 0)"),
    "stride": (conv(strides=(0, 1)), "strides is (0, 1)"),
    "rank of parameters": (conv(dilation=(1,)), "dilation is (1,)"),
    "bias": (conv(bias="x"), "bias has shape"),
    "kernel too large": (conv(dilation=(3, 3), dst=(2, 4, 0, 0)), "axis 2 has extent 0"),
    "matmul": (Matmul("x", "w", None, TensorSpec("y", (2, 8, 6, 3))), "contracts 6 with 3"),
    "pool kind": (pool("min"), "min pool"),
    "negative pool padding": (pool(padding_end=(0, -1)), "padding_end is (0, -1)"),
    "pool in the padding": (pool(padding_begin=(2, 0), dst=(2, 8, 4, 3)), "lies in the padding alone"),
    "pool behind the end": (pool(padding_end=(2, 0), dst=(2, 8, 4, 3)), "lies in the padding alone"),
    "dilated mean": (pool("avg_include_pad", dilation=(2, 2), dst=(2, 8, 2, 2)), "cannot be dilated"),
    "shapes": (Binary("add", "x", "w", TensorSpec("y", X.shape)), "do not broadcast"),
    "binary kind": (Binary("pow", "x", "x", TensorSpec("y", X.shape)), "unknown kind 'pow'"),
    "algorithm": (post(PostEltwise("erf")), "unknown algorithm 'erf'"),
    "parameter": (post(PostEltwise("tanh", 2.0)), "tanh with alpha=2.0"),
    "empty clip": (post(PostEltwise("clip", 2, 1)), "is empty"),
    "post-operand": (post(PostBinary("add", "x")), "does not broadcast"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_meaningless_steps_are_refused(name: str):
    step, message = REFUSED[name]
    with pytest.raises(CodegenError) as error:
        region(step)
    assert message in error.value.message
    assert error.value.code == "G0200"


def test_outputs_must_exist():
    with pytest.raises(CodegenError, match="no outputs"):
        region(conv(), outputs=())
    with pytest.raises(CodegenError, match="output 'z' is neither given nor computed"):
        region(conv(), outputs=("z",))


def test_a_reduction_over_nothing_is_refused():
    a, b = TensorSpec("a", (2, 0)), TensorSpec("b", (0, 3))
    with pytest.raises(CodegenError, match="reduces over an axis of extent 0"):
        RegionSpec("f", (a, b), (), (Matmul("a", "b", None, TensorSpec("y", (2, 3))),), ("y",))


def test_output_padding_beyond_a_stride_is_refused():
    w = TensorSpec("w", (8, 4, 3, 3))
    step = conv(dst=(2, 4, 11, 11), transposed=True, dilation=(2, 2), strides=ONE)
    with pytest.raises(CodegenError, match="output padding 1 on axis 2 passes 0"):
        region(step, constants=(w,))
