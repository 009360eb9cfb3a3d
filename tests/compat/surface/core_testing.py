"""Examples of names of `tvm.testing`, `tvm.support` and `tvm.contrib`: see `eutectic.compat.surface.core`."""

from __future__ import annotations

import contextlib
import io
import os
import platform
import tempfile
from pathlib import Path

import numpy as np
import pytest
import tvm
from tests.compat.surface.examples import example

DATA = np.array([1, -2, 3, 0], "float32")


@example("tvm.testing.utils", "tvm.testing.assert_allclose", "tvm.testing.assert_prim_expr_equal")
def comparisons():
    tvm.testing.utils.assert_allclose(actual=DATA, desired=DATA + 1e-9, rtol=1e-7, atol=1e-7, verbose=False)
    n = tvm.tir.Var("n", "int32")
    tvm.testing.assert_prim_expr_equal(lhs=n + n, rhs=n * 2)
    with pytest.raises(AssertionError):
        tvm.testing.assert_prim_expr_equal(n + 1, n)
    with pytest.raises(AssertionError):
        tvm.testing.assert_allclose(DATA, DATA + 1)


@example("tvm.testing.check_bool_expr_is_true")
def conditions():
    n = tvm.tir.Var("n", "int32")
    ranges = {n: tvm.ir.Range(0, 5)}
    tvm.testing.check_bool_expr_is_true(bool_expr=n < 5, vranges=ranges)
    tvm.testing.check_bool_expr_is_true(n < 3, ranges, cond=n < 2)
    with pytest.raises(AssertionError, match="is false for n=3"):
        tvm.testing.check_bool_expr_is_true(n < 3, ranges)


@example("tvm.testing.check_numerical_grads")
def gradients():
    def cube(x):
        return (x**3).sum()

    at = np.array([1.0, 2.0])
    tvm.testing.check_numerical_grads(cube, [at], [3 * at**2], function_value=9.0, delta=1e-3, atol=1e-2, rtol=0.1)
    tvm.testing.check_numerical_grads(cube, {"x": at}, {"x": 3 * at**2})
    with pytest.raises(AssertionError, match="the gradient of 0"):
        tvm.testing.check_numerical_grads(cube, [at], [at])


@example("tvm.testing.device_enabled", "tvm.testing.enabled_targets", "tvm.testing.DEFAULT_TEST_TARGETS")
def test_targets():
    assert tvm.testing.DEFAULT_TEST_TARGETS == ("llvm",)
    assert tvm.testing.device_enabled(target="llvm")
    assert not tvm.testing.device_enabled("cuda")
    assert tvm.testing.enabled_targets() == [("llvm", tvm.cpu())]


@example("tvm.testing.IS_IN_CI", "tvm.testing.SKIP_SLOW_TESTS", "tvm.testing.is_ampere_or_newer")
def environment():
    assert isinstance(tvm.testing.IS_IN_CI, bool)
    assert isinstance(tvm.testing.SKIP_SLOW_TESTS, bool)
    assert tvm.testing.is_ampere_or_newer() is False


@example("tvm.testing.generate_random_array", "tvm.testing.get_dtype_range", "tvm.testing.np_dtype_from_str")
@example("tvm.testing.ml_dtypes_dict")
def random_data():
    for dtype in ("float32", "int8", "uint64", "bfloat16", "bool"):
        array = tvm.testing.generate_random_array(dtype=dtype, shape=(3, 4))
        assert (array.shape, array.dtype) == ((3, 4), tvm.testing.np_dtype_from_str(dtype))
    assert tvm.testing.get_dtype_range(dtype="int8") == (-128, 127)
    assert tvm.testing.get_dtype_range("float16") == (-65504.0, 65504.0)
    assert tvm.testing.ml_dtypes_dict["bfloat16"] is tvm.testing.np_dtype_from_str("bfloat16").type


@example("tvm.testing.strtobool")
def truth():
    assert [tvm.testing.strtobool(val=text) for text in ("Yes", "0", "on", "false")] == [1, 0, 1, 0]
    with pytest.raises(ValueError, match="invalid truth value"):
        tvm.testing.strtobool("maybe")


TESTS = """
import pytest
import tvm.testing

size = tvm.testing.parameter(1, 2, ids=["one", "two"])
kind = tvm.testing.parameter(by_dict={"a": "x", "b": "y"})
low, high = tvm.testing.parameters((0, 5), (1, 7))
computed = []

@tvm.testing.fixture(cache_return_value=True)
def values(size):
    computed.append(size)
    return [size]

def test_values(values, size, kind):
    values.append(kind)
    assert values[:-1] == [size]

def test_once():
    assert sorted(computed) == [1, 2]

def test_together(low, high):
    assert (low, high) in ((0, 5), (1, 7))

class TestInClass:
    here = tvm.testing.parameter(3, 4)
    a, b = tvm.testing.parameters((1, 2))

    def test_here(self, here, a, b):
        assert here in (3, 4) and (a, b) == (1, 2)

@tvm.testing.parametrize_targets("llvm", "cuda", "metal")
def test_named(target, dev):
    assert (target, dev) == ("llvm", tvm.cpu())

@tvm.testing.parametrize_targets
def test_all(target, dev):
    assert target == "llvm"

@tvm.testing.exclude_targets("llvm")
def test_none(target, dev):
    raise AssertionError

@tvm.testing.known_failing_targets("llvm")
def test_known(target, dev):
    raise AssertionError

@pytest.mark.parametrize("name", ["cuda", "gpu", "vulkan", "opencl", "metal", "rocm", "cublas", "cudnn", "cutlass"])
def test_requirements(name):
    assert not getattr(tvm.testing, f"requires_{name}").available

@tvm.testing.requires_cuda
def test_cuda():
    raise AssertionError

@tvm.testing.requires_llvm
def test_llvm():
    assert True

@tvm.testing.skip_if_32bit(reason="needs long addresses")
def test_bits():
    assert True

@tvm.testing.slow
def test_slow():
    assert True

if __name__ == "__main__":
    tvm.testing.main()
"""


@example("tvm.testing.parameter", "tvm.testing.parameters", "tvm.testing.fixture", "tvm.testing.main")
@example("tvm.testing.parametrize_targets", "tvm.testing.exclude_targets", "tvm.testing.known_failing_targets")
@example("tvm.testing.skip_if_32bit", "tvm.testing.slow")
def tests_of_a_script():
    import subprocess
    import sys

    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "test_script.py"
        script.write_text(TESTS)
        done = subprocess.run(
            [sys.executable, "-m", "eutectic.compat", str(script), "-q", "-p", "no:cacheprovider"],
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3] / "src")},
            check=False,
        )
    assert "23 passed, 2 skipped, 1 xfailed" in done.stdout, done.stdout + done.stderr


def requirement(name: str):
    @example(f"tvm.testing.requires_{name}")
    def check():
        needed = getattr(tvm.testing, f"requires_{name}")
        mark = needed.marks()[0]
        assert mark.args[0] is (not needed.available)
        assert needed.available == (name in available)


available = ["llvm", {"x86_64": "x86", "AMD64": "x86", "arm64": "aarch64"}.get(platform.machine(), platform.machine())]
for each in [
    "cuda",
    "gpu",
    "llvm",
    "cublas",
    "cudnn",
    "cutlass",
    "vulkan",
    "opencl",
    "metal",
    "rocm",
    "x86",
    "aarch64",
]:
    requirement(each)


@example("tvm.support.libinfo", "tvm.support.describe")
def facts():
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        tvm.support.describe()
    assert f"PYTHON_VERSION: {tvm.support.libinfo()['PYTHON_VERSION']}" in out.getvalue()


@example("tvm.contrib.utils", "tvm.contrib.utils.tempdir", "tvm.contrib.utils.TempDirectory")
def folders():
    folder = tvm.contrib.utils.tempdir()
    assert isinstance(folder, tvm.contrib.utils.TempDirectory)
    Path(folder.relpath("a.txt")).write_text("x")
    assert folder.listdir() == ["a.txt"]
    folder.remove()
    assert not Path(folder.path).exists()
