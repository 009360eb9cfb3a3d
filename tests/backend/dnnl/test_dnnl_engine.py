"""Whole regions: layouts, sharing, borders, memory and the calls."""

from __future__ import annotations

import ctypes
import gc
import resource
import weakref
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.backend.dnnl.dnnl_regions import Arrays, assert_close, call, compute, normal, region_of

from eutectic.backend.dnnl.engine import Region
from eutectic.backend.dnnl.library import availability
from eutectic.backend.dnnl.loading import loaded_code
from eutectic.backend.dnnl.native_text import native_text
from eutectic.backend.dnnl.spec import (
    Binary,
    Convolution,
    Eltwise,
    Matmul,
    Pool,
    PostBinary,
    PostEltwise,
    Step,
    TensorSpec,
)
from eutectic.backend.llvm.machine import machine_of
from eutectic.backend.llvm.pool_text import team_code
from eutectic.backend.llvm.program import library_code
from eutectic.runtime.library import SPECIAL_VALUES
from eutectic.support.aligned import aligned
from eutectic.support.errors import CallError, CodegenError
from eutectic.target import Target

pytestmark = pytest.mark.skipif(not availability().ok, reason=f"oneDNN: {availability().reason}")

ONE, ZERO = (1, 1), (0, 0)
RELU = PostEltwise("relu")


def conv(src: str, weight: str, dst: str, shape: tuple[int, ...], *post: PostEltwise | PostBinary) -> Convolution:
    return Convolution(src, weight, None, TensorSpec(dst, shape), ONE, ZERO, ZERO, ONE, 1, False, post)


def pointwise(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return np.einsum("nchw,oc->nohw", x.astype(np.float64), w[:, :, 0, 0])


def residual_network() -> tuple[Arrays, Arrays, list[Step], dict[str, np.ndarray]]:
    """Two blocks in which every intermediate has several readers, and their values."""
    shape = (2, 16, 7, 7)
    x, a, b, d = normal(*shape), *(normal(16, 16, 1, 1, seed=i) / 4 for i in (1, 2)), normal(16, 1, 3, 3, seed=3)
    depthwise = Convolution(
        "p", "d", None, TensorSpec("q", shape), ONE, ONE, ONE, ONE, 16, False, (PostBinary("add", "x"),)
    )
    steps: list[Step] = [
        conv("x", "a", "p", shape, RELU),
        depthwise,
        conv("q", "b", "r", shape, PostBinary("add", "p"), RELU),
        Binary("add", "r", "q", TensorSpec("s", shape)),
        Pool("avg_include_pad", "s", TensorSpec("t", (2, 16, 1, 1)), (7, 7), ONE, ZERO, ZERO, ONE),
        Binary("mul", "r", "t", TensorSpec("u", shape)),
    ]
    p = np.maximum(pointwise(x, a), 0)
    padded = np.pad(p, [(0, 0), (0, 0), (1, 1), (1, 1)])
    q = x + sum(padded[:, :, i : i + 7, j : j + 7] * d[:, 0, i, j][:, None, None] for i in range(3) for j in range(3))
    r = np.maximum(pointwise(q, b) + p, 0)
    s = r + q
    t = s.mean((2, 3), keepdims=True)
    return (
        {"x": x},
        {"a": a, "b": b, "d": d},
        steps,
        {"p": p, "q": q, "r": r, "s": s, "t": t, "u": r * t, "x": x, "a": a},
    )


@pytest.mark.parametrize("outputs", ["u", "r", "pqrstu", "up", "tt", "uxu", "xa", "au"], ids=lambda o: f"outputs {o}")
def test_any_choice_of_outputs(outputs: str):
    inputs, constants, steps, values = residual_network()
    region = region_of(inputs, constants, steps, tuple(outputs))
    for _ in range(2):
        for got, name in zip(call(region, inputs), outputs, strict=True):
            assert_close(got, values[name])


def test_inputs_and_constants_are_not_changed():
    inputs, constants, steps, _ = residual_network()
    before = {k: v.copy() for k, v in (inputs | constants).items()}
    for v in (inputs | constants).values():
        v.setflags(write=False)
    compute(inputs, constants, steps, ["u"])
    for k, v in (inputs | constants).items():
        np.testing.assert_array_equal(v, before[k])


def test_constants_are_copied_when_compiled():
    inputs, constants, steps, values = residual_network()
    region = region_of(inputs, constants, steps, ["u", "a"])
    for v in constants.values():
        v[...] = np.nan
    assert_close(call(region, inputs)[0], values["u"])


def test_a_shared_weight_is_packed_once():
    shape = (1, 16, 5, 5)
    x, w = normal(*shape), normal(16, 16, 1, 1, seed=1)
    steps = [conv("x", "w", "y", shape), conv("y", "v", "z", shape)]
    one = region_of({"x": x}, {"w": w}, [steps[0]], ["y"])
    two = region_of({"x": x}, {"w": w, "v": w.copy()}, steps, ["z"])
    assert two.weight_bytes == one.weight_bytes
    assert_close(call(two, {"x": x})[0], pointwise(pointwise(x, w), w))


def test_no_reorder_inside_a_chain_of_blocks():
    inputs, constants, steps, _ = residual_network()
    reports = region_of(inputs, constants, steps, ["u"]).describe()
    assert [r.source for r in reports if r.source.startswith(("reorder", "output"))] == ["reorder of x", "output u"]
    assert not [r for r in reports if r.impl.startswith("ref")]


def test_intermediates_share_the_arena():
    shape = (1, 16, 32, 32)
    nbytes = 4 * 16 * 32 * 32
    steps = [conv("x" if i == 0 else f"t{i - 1}", "w", f"t{i}", shape) for i in range(9)]
    region = region_of({"x": normal(*shape)}, {"w": normal(16, 16, 1, 1)}, steps, ["t8"])
    assert 2 * nbytes <= region.arena_bytes < 3 * nbytes


def test_zero_batch_returns_at_once():
    _, constants, steps, _ = residual_network()
    empty = (0, 16, 7, 7)
    steps = [conv("x", "a", "y", empty, RELU), Matmul("y", "y", None, TensorSpec("z", empty))]
    region = region_of({"x": normal(*empty)}, constants, steps, ["z", "y", "x"])
    assert [o.shape for o in call(region, {"x": normal(*empty)})] == [empty] * 3
    assert region.describe() == []
    assert region.profile([normal(*empty)], [normal(*empty) for _ in range(3)]) == []


def test_an_empty_side_branch_is_left_out():
    x, e = normal(3, 4), normal(0, 4)
    steps = [Eltwise("e", TensorSpec("f", (0, 4)), RELU), Eltwise("x", TensorSpec("y", (3, 4)), RELU)]
    y, f = compute({"x": x, "e": e}, {}, steps, ["y", "f"])
    assert_close(y, np.maximum(x, 0))
    assert f.shape == (0, 4)


def small() -> Region:
    steps = [Binary("add", "x", "x", TensorSpec("y", (3, 4)))]
    return region_of({"x": normal(3, 4)}, {}, steps, ["y"])


SHARED = normal(3, 4)
WRONG: dict[str, tuple[Callable[[], tuple[list[np.ndarray], list[np.ndarray]]], str]] = {
    "shape": (
        lambda: ([normal(4, 3)], [normal(3, 4)]),
        "input 'x' of 'region' is float32[4, 3], expected float32[3, 4]",
    ),
    "type": (lambda: ([[[0.0] * 4] * 3], [normal(3, 4)]), "is a list, expected an array"),
    "dtype": (lambda: ([np.zeros((3, 4))], [normal(3, 4)]), "is float64[3, 4], expected float32[3, 4]"),
    "strides": (lambda: ([normal(4, 3).T], [normal(3, 4)]), "not contiguous"),
    "count": (lambda: ([], [normal(3, 4)]), "(inputs, outputs) = (0, 1), expected (1, 1)"),
    "read-only": (lambda: ([normal(3, 4)], [np.broadcast_to(normal(3, 4), (3, 4))]), "is read-only"),
    "overlap": (lambda: ([SHARED], [SHARED]), "overlaps another argument"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_refused(name: str):
    arguments, message = WRONG[name]
    with pytest.raises(CallError) as error:
        small().run(*arguments())
    assert message in error.value.message


def test_a_closed_region_says_so():
    region = small()
    region.close()
    region.close()
    with pytest.raises(CallError, match="is closed"):
        region.run([normal(3, 4)], [normal(3, 4)])


def test_wrong_constants_are_refused():
    inputs, constants, steps, _ = residual_network()
    with pytest.raises(CodegenError, match="constant 'a' is float64"):
        region_of(inputs, constants | {"a": constants["a"].astype(np.float64)}, steps, ["u"])
    with pytest.raises(CodegenError, match="is to use 0 threads"):
        region_of(inputs, constants, steps, ["u"], threads=0)


def native_run(region, inputs):
    """Outputs by the call that native code makes, with a workspace of its own."""
    call = region.native_call(range(len(inputs)))
    run = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 3)(call.run)
    tensors = region.spec.tensors()
    outputs = [np.full(tensors[name].shape, np.nan, np.float32) for name in region.spec.outputs]
    arrays = [*inputs.values(), *outputs]
    pointers = (ctypes.c_void_p * len(arrays))(*[array.ctypes.data for array in arrays])
    space = aligned(call.workspace_bytes)
    return run(call.self, ctypes.addressof(pointers), space.ctypes.data), outputs


def test_native_calls_give_the_same_bits():
    inputs, constants, steps, _ = residual_network()
    code = loaded_code(library_code(native_text(), machine_of(Target("llvm"))), team_code())
    region = region_of(inputs, constants, steps, ["u", "p"], code=code)
    want = call(region, inputs)
    for _ in range(3):  # each with another workspace
        status, outputs = native_run(region, inputs)
        assert status == 0
        for a, b in zip(outputs, want, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("at", [0, 5, -1])
def test_native_calls_refuse_special_values_where_they_are_guarded(value: float, at: int):
    inputs, constants, steps, _ = residual_network()
    code = loaded_code(library_code(native_text(), machine_of(Target("llvm"))), team_code())
    guarded = region_of(inputs, constants, steps, ["u"], code=code, guarded=True)
    assert native_run(guarded, inputs)[0] == 0
    first, *others = inputs
    bad = inputs[first].copy()
    bad.reshape(-1)[at] = value
    assert native_run(guarded, {first: bad, **{name: inputs[name] for name in others}})[0] == SPECIAL_VALUES


def test_two_runs_and_two_regions_give_the_same_bits():
    inputs, constants, steps, _ = residual_network()
    region = region_of(inputs, constants, steps, ["u"])
    first, second = call(region, inputs), call(region, inputs)
    np.testing.assert_array_equal(first[0], second[0])
    np.testing.assert_array_equal(first[0], compute(inputs, constants, steps, ["u"])[0])


def test_profile_computes_and_names_the_steps():
    inputs, constants, steps, values = residual_network()
    region = region_of(inputs, constants, steps, ["u"])
    out = np.empty((2, 16, 7, 7), np.float32)
    profile = region.profile([inputs["x"]], [out])
    assert_close(out, values["u"])
    assert [source for source, _ in profile] == [r.source for r in region.describe()]
    assert all(seconds > 0 for _, seconds in profile)


def test_a_call_keeps_no_reference_to_its_arrays():
    region = small()
    x, y = normal(3, 4), normal(3, 4)
    gone = [weakref.ref(x), weakref.ref(y)]
    region.run([x], [y])
    del x, y
    gc.collect()
    assert [r() for r in gone] == [None, None]


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_compiling_again_and_again_does_not_leak():
    inputs, constants, steps, _ = residual_network()

    def rounds(count: int) -> None:
        for _ in range(count):
            call(region_of(inputs, constants, steps, ["u", "p"]), inputs)
        gc.collect()

    rounds(60)
    before = resident_bytes()
    rounds(200)
    assert resident_bytes() - before < 200 * 16 * 1024


def test_closing_a_region_leaves_others_alone():
    regions = [small() for _ in range(3)]
    regions[1].close()
    x = normal(3, 4)
    for region in (regions[0], regions[2]):
        assert_close(call(region, {"x": x})[0], 2.0 * x)
