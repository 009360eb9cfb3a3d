"""oneDNN regions of bfloat16: values, borders, special values, and machines without the instructions."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import torch
from tests.backend.dnnl.dnnl_regions import assert_close

import eutectic
from eutectic.backend.dnnl import abi
from eutectic.backend.dnnl.engine import compile_region
from eutectic.backend.dnnl.library import availability
from eutectic.backend.dnnl.narrow import computes_in
from eutectic.backend.dnnl.packed import PackedConstants
from eutectic.backend.dnnl.spec import (
    Binary,
    Cast,
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
from eutectic.relax import op
from eutectic.support.errors import CodegenError
from eutectic.target import Target
from eutectic.testing.graphs import graph, weights

BF16 = np.dtype(ml_dtypes.bfloat16)
DNNL = "llvm -libs=dnnl"
_state = computes_in("bfloat16")
needs_bf16 = pytest.mark.skipif(not _state.ok, reason=_state.reason)
# Of whole models: kernels may be made for another processor than this one (`EUTECTIC_CPU`).
_promised = computes_in("bfloat16", Target("llvm"))
needs_bf16_target = pytest.mark.skipif(not _promised.ok, reason=_promised.reason)
pytestmark = [
    pytest.mark.skipif(not availability().ok, reason=f"oneDNN: {availability().reason}"),
    pytest.mark.usefixtures("narrow_is_faster"),
]
RELU = PostEltwise("relu")


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(BF16)


def region_of(inputs, constants, steps: list[Step], outputs: list[str], **options):
    given, fixed = (
        tuple(TensorSpec(k, v.shape, v.dtype.name) for k, v in arrays.items()) for arrays in (inputs, constants)
    )
    spec = RegionSpec("region", given, fixed, tuple(steps), tuple(outputs))
    return compile_region(RegionSpec.from_json(spec.to_json()), constants, **options)


def compute(inputs, constants, steps: list[Step], outputs: list[str], **options) -> list[np.ndarray]:
    region = region_of(inputs, constants, steps, outputs, **options)
    tensors = region.spec.tensors()
    results = [np.zeros(tensors[name].shape, tensors[name].array_dtype) for name in outputs]
    region.run(list(inputs.values()), results)
    return results


def torch_of(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(array.astype(np.float64))


def convolution(out: str, groups: int = 1, post=()) -> Convolution:
    two, one = (2, 2), (1, 1)
    return Convolution("x", "w", "b", TensorSpec("y", (1, 16, 5, 5), out), two, one, one, one, groups, False, post)


@needs_bf16
@pytest.mark.parametrize("groups", [1, 2, 16])
@pytest.mark.parametrize("bias", [np.dtype(np.float32), BF16])
@pytest.mark.parametrize("out", ["bfloat16", "float32"])
def test_a_convolution_adds_up_in_float32(groups: int, bias: np.dtype, out: str):
    x, w = normal(1, 16, 9, 9), normal(16, 16 // groups, 3, 3, seed=1)
    b = np.linspace(-3, 3, 16).astype(bias)
    (y,) = compute({"x": x}, {"w": w, "b": b}, [convolution(out, groups, (RELU,))], ["y"])
    exact = torch.nn.functional.conv2d(*map(torch_of, (x, w, b)), stride=2, padding=1, groups=groups).relu()
    assert y.dtype.name == out
    assert_close(y.astype(np.float64), exact.numpy(), 2**-8 if out == "bfloat16" else 1e-5)


@needs_bf16
def test_a_float32_bias_is_not_rounded():
    x, w, b = np.zeros((1, 16, 9, 9), BF16), normal(16, 16, 3, 3), np.full(16, 1 + 2**-12, np.float32)
    (y,) = compute({"x": x}, {"w": w, "b": b}, [convolution("float32")], ["y"])
    np.testing.assert_array_equal(y, np.full(y.shape, 1 + 2**-12, np.float32))


@needs_bf16
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("constant", [False, True])
def test_a_product_of_matrices(transposed: bool, constant: bool):
    x, w, z = normal(6, 40), normal(40, 24, seed=1), normal(6, 24, seed=2)
    w = np.ascontiguousarray(w.T) if transposed else w
    step = Matmul("x", "w", None, TensorSpec("y", (6, 24), "bfloat16"), transposed, (PostBinary("add", "z"), RELU))
    inputs = {"x": x, "z": z} if constant else {"x": x, "z": z, "w": w}
    (y,) = compute(inputs, {"w": w} if constant else {}, [step], ["y"])
    x, w, z = (a.astype(np.float64) for a in (x, w, z))
    assert_close(y.astype(np.float64), np.maximum(x @ (w.T if transposed else w) + z, 0), 2**-8)


@needs_bf16
@pytest.mark.parametrize("kind", ["max", "avg_exclude_pad"])
def test_pools(kind: str):
    x = normal(1, 16, 8, 8)
    two, none = (2, 2), (0, 0)
    step = Pool(kind, "x", TensorSpec("y", (1, 16, 4, 4), "bfloat16"), two, two, none, none, (1, 1))
    (y,) = compute({"x": x}, {}, [step], ["y"])
    windows = x.astype(np.float64).reshape(1, 16, 4, 2, 4, 2)
    want = windows.max((3, 5)) if kind == "max" else windows.mean((3, 5))
    assert_close(y.astype(np.float64), want, 0 if kind == "max" else 2**-8)


@needs_bf16
def test_elementwise_steps():
    x, s = normal(1, 8, 5, 5), normal(8, 1, 1, seed=1)
    shape = x.shape
    steps = [
        Binary("mul", "x", "s", TensorSpec("a", shape, "bfloat16"), (PostEltwise("sigmoid"),)),
        Eltwise("a", TensorSpec("y", shape, "bfloat16"), PostEltwise("tanh")),
    ]
    (y,) = compute({"x": x}, {"s": s}, steps, ["y"])
    middle = 1 / (1 + np.exp(-(x.astype(np.float64) * s.astype(np.float64))))
    assert_close(y.astype(np.float64), np.tanh(middle), 2**-7)


@needs_bf16
def test_a_cast_is_done_by_the_reorder_of_its_reader():
    x, w = np.random.default_rng(0).standard_normal((1, 16, 9, 9)).astype(np.float32), normal(16, 16, 3, 3)
    cast = Cast("x", TensorSpec("n", x.shape, "bfloat16"))
    one = (1, 1)
    conv = Convolution("n", "w", None, TensorSpec("y", (1, 16, 9, 9), "bfloat16"), one, one, one, one)
    region = region_of({"x": x}, {"w": w}, [cast, conv], ["y"])
    assert [c.source for c in region.describe() if "n" in c.source.split()] == ["reorder of n"]
    y = np.zeros((1, 16, 9, 9), BF16)
    region.run([x], [y])
    exact = torch.nn.functional.conv2d(torch_of(x.astype(BF16)), torch_of(w), padding=1).numpy()
    assert_close(y.astype(np.float64), exact, 2**-8)


@needs_bf16
@pytest.mark.parametrize("dtypes", [("float32", "bfloat16"), ("bfloat16", "float32")])
def test_a_cast_as_a_result_rounds_to_even(dtypes: tuple[str, str]):
    x = np.array([1.0, 1 + 2**-8, 1 + 3 * 2**-8, -0.0, 3e38], np.float32)
    x = x if dtypes[0] == "float32" else x.astype(BF16)
    (y,) = compute({"x": x}, {}, [Cast("x", TensorSpec("y", x.shape, dtypes[1]))], ["y"])
    np.testing.assert_array_equal(y, x.astype(BF16 if dtypes[1] == "bfloat16" else np.float32))


@needs_bf16
def test_a_cast_may_be_read_by_a_pool_and_be_a_result():
    x = np.random.default_rng(0).standard_normal((1, 16, 8, 8)).astype(np.float32)
    two, none = (2, 2), (0, 0)
    steps = [
        Cast("x", TensorSpec("n", x.shape, "bfloat16")),
        Pool("max", "n", TensorSpec("y", (1, 16, 4, 4), "bfloat16"), two, two, none, none, (1, 1)),
    ]
    n, y = compute({"x": x}, {}, steps, ["n", "y"])
    np.testing.assert_array_equal(n, x.astype(BF16))
    np.testing.assert_array_equal(y, n.reshape(1, 16, 4, 2, 4, 2).astype(np.float32).max((3, 5)).astype(BF16))


@needs_bf16
def test_packed_constants_come_back():
    w = normal(24, 40)
    step = Matmul("x", "w", None, TensorSpec("y", (6, 24), "bfloat16"), True)
    region = region_of({"x": normal(6, 40)}, {"w": w}, [step], ["y"], packed=PackedConstants())
    back = region.constant("w")
    assert back is None or back.tobytes() == w.tobytes()
    square = region_of({"x": normal(6, 64)}, {"w": normal(64, 64)}, [_product(64)], ["y"]).constant("w")
    assert square is not None
    assert square.tobytes() == normal(64, 64).tobytes()


def _product(n: int) -> Matmul:
    return Matmul("x", "w", None, TensorSpec("y", (6, n), "bfloat16"))


# ---- models


def mlp() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, 96), torch.nn.ReLU(), torch.nn.Linear(96, 32)).eval()


@needs_bf16
def test_a_model_of_bfloat16_is_computed_by_onednn():
    model, x = mlp().bfloat16(), torch.randn(5, 64).bfloat16()
    compiled = eutectic.compile(model, (x,), target=DNNL, verify=True)
    got = compiled(x)
    assert [c.name for c in compiled.report.composites] == ["dnnl.matmul_bias_relu", "dnnl.matmul_bias"]
    assert got.dtype == torch.bfloat16
    assert_close(got.double().detach().numpy(), model.double()(x.double()).detach().numpy(), 2**-7)


@needs_bf16
@pytest.mark.parametrize("special", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("size", [1, 31, 64, 100])
def test_special_values_of_bfloat16_are_kept(special: float, size: int):
    model = torch.nn.Sequential(torch.nn.Linear(size, 8), torch.nn.ReLU()).eval().bfloat16()
    x = torch.ones(3, size).bfloat16()
    compiled = eutectic.compile(model, (x,), target=DNNL)
    compiled(x)
    x[1, size - 1] = special
    with pytest.warns(eutectic.EutecticAdvice, match="an input holds NaN, infinity"):
        got = compiled(x)
    torch.testing.assert_close(got, model(x), equal_nan=True, rtol=2**-6, atol=2**-6)


@needs_bf16
def test_sizes_may_vary():
    model, x = mlp(), torch.randn(5, 64)
    batch = torch.export.Dim("batch", min=2, max=64)
    compiled = eutectic.compile(model, (x,), target=DNNL, precision="bf16", dynamic_shapes=({0: batch},))
    for rows in (5, 17):
        x = torch.randn(rows, 64)
        assert_close(compiled(x).detach().numpy(), model.double()(x.double()).detach().numpy(), 2**-7)
        model.float()


@needs_bf16_target
def test_a_product_that_is_widened_afterwards_is_not_rounded_before():
    def body(b, x, z):
        product = b.emit(op.add(b.emit(op.matmul(x, weights(64, 64))), weights(64)))
        return b.emit(op.nn.relu(b.emit(op.add(product, z))))

    mod = graph({"x": (8, 64), "z": (8, 64)}, body)
    compiled = eutectic.compile(mod, target=DNNL, precision="bf16", verify=True)
    names = [c.name for c in compiled.report.composites]
    assert names == ["dnnl.cast", "dnnl.matmul_bias_astype_add_relu"]
    rng = np.random.default_rng(0)
    x, z = (rng.standard_normal((8, 64)).astype(np.float32) for _ in range(2))
    w, b = (weights(*s).data.astype(np.float64) for s in ((64, 64), (64,)))
    exact = np.maximum(x.astype(BF16).astype(np.float64) @ w.astype(BF16).astype(np.float64) + b + z, 0)
    assert_close(np.asarray(compiled(x, z)), exact, 1e-6)


# ---- where it is not used


def test_a_target_without_the_instructions_is_told_apart():
    assert not computes_in("bfloat16", Target("llvm -mcpu=x86-64-v3")).ok
    assert not computes_in("bfloat16", Target("llvm -mcpu=znver5 -mattr=-avx512bf16")).ok
    assert "x86-64-v3" in computes_in("bfloat16", Target("llvm -mcpu=x86-64-v3")).reason or not _state.ok
    assert not computes_in("float64").ok
    assert computes_in("float32").ok


@needs_bf16_target
@pytest.mark.parametrize("text", ["llvm", "llvm -mcpu=znver4", "llvm -mcpu=x86-64-v4 -mattr=+avx512bf16"])
def test_a_target_with_the_instructions_is_told_apart(text: str):
    assert computes_in("bfloat16", Target(text)).ok


@needs_bf16
def test_for_a_target_without_the_instructions_a_model_stays_float32():
    model, x = mlp(), torch.randn(5, 64)
    compiled = eutectic.compile(model, (x,), target=f"{DNNL} -mcpu=x86-64-v3", precision="bf16")
    assert any("no operator is narrowed" in note and "x86-64-v3" in note for note in compiled.report.notes)
    assert_close(compiled(x).detach().numpy(), model(x).detach().numpy(), 1e-6)


def test_float16_is_refused_where_nothing_is_faster_with_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(abi.INSTRUCTIONS, "float16", ("AVX512FP16", 1 << 30))
    with pytest.raises(CodegenError, match=r'precision="f16" cannot be used here: .*float16'):
        eutectic.compile(mlp(), (torch.randn(5, 64),), target=f"{DNNL} -mcpu=x86-64", precision="f16")


@needs_bf16_target
def test_a_file_is_read_where_the_instructions_are(tmp_path: Path):
    model, x = mlp(), torch.randn(5, 64)
    compiled, path = eutectic.compile(model, (x,), target=DNNL, precision="bf16"), tmp_path / "net.eut"
    compiled.save(path)
    assert torch.equal(eutectic.load(path)(x), compiled(x))
    done = without_instructions(f"import eutectic; eutectic.load({str(path)!r})")
    assert "computes bfloat16: oneDNN multiplies bfloat16 with AVX512BF16, and uses avx2" in done.stderr


@needs_bf16_target
def test_a_file_for_a_target_without_the_instructions_is_refused(tmp_path: Path):
    compiled = eutectic.compile(mlp(), (torch.randn(5, 64),), target=DNNL, precision="bf16")
    with pytest.raises(CodegenError, match='with precision="bf16" cannot be saved for llvm -mcpu=x86-64-v3'):
        compiled.save(tmp_path / "net.eut", targets=["x86-64-v3"])


def without_instructions(program: str) -> subprocess.CompletedProcess[str]:
    """Run a program with oneDNN's kernels for processors of 2013."""
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"}
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)]
    return subprocess.run(command, capture_output=True, text=True, timeout=180, env=environment, check=False)


WITHOUT = """
import torch, eutectic
from eutectic.backend.dnnl.narrow import computes_in
assert not computes_in("bfloat16").ok
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 96), torch.nn.ReLU()).eval()
x = torch.randn(5, 64)
compiled = eutectic.compile(model, (x,), target="llvm -libs=dnnl", precision="bf16")
(note,) = [note for note in compiled.report.notes if "no operator is narrowed" in note]
assert "avx2" in note, note
assert torch.allclose(compiled(x), model(x), atol=1e-5)
model, x = model.bfloat16(), x.bfloat16()
compiled = eutectic.compile(model, (x,), target="llvm -libs=dnnl")
assert not any(c.name.startswith("dnnl.") for c in compiled.report.composites)
assert any("is not used for" in u.reason and "avx2" in u.reason for u in compiled.report.unfused)
assert torch.allclose(compiled(x), model(x), atol=0.05)
print("done")
"""


def test_without_the_instructions_nothing_is_narrowed():
    done = without_instructions(WITHOUT)
    assert done.stdout.strip().endswith("done"), done.stderr


@needs_bf16_target
def test_a_conversion_stays_with_the_kernel_that_computes_its_operand():
    mod = graph({"x": (8, 64)}, lambda b, x: b.emit(op.matmul(b.emit(op.exp(x)), weights(64, 64))))
    report = eutectic.compile(mod, target=DNNL, precision="bf16", verify=True).report
    assert [c.ops for c in report.composites if "relax.exp" in c.ops] == [("relax.exp", "relax.astype")]
    assert [c.name for c in report.composites if c.name.startswith("dnnl.")] == ["dnnl.matmul_astype"]
