"""Transcendental functions of float32 against double precision, over all magnitudes."""

from __future__ import annotations

import platform
from collections.abc import Callable

import numpy as np
import pytest
import torch

from eutectic import te, tir
from eutectic.backend.llvm.machine import machine_of
from eutectic.driver.build_prim_func import NativePrimFunc
from eutectic.target import Target

# name -> reference in double precision, and the largest error in units in the last place.
FUNCTIONS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], float]] = {
    "exp": (torch.exp, 1.2),
    "log": (torch.log, 0.9),
    "log1p": (torch.log1p, 1.5),
    "sigmoid": (torch.sigmoid, 2.3),
    "tanh": (torch.tanh, 1.4),
    "erf": (torch.erf, 4.0),
    "erfc": (torch.erfc, 5.5),
}
UNFUSED = {"erfc": 66.0}  # where the square of its argument is rounded
SPECIAL = np.array(
    [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 1e-45, -1e-45, 1.1754942e-38, 1.1754944e-38, 3.4028235e38,
     -3.4028235e38, 88.722839, 88.72284, 88.8, 89.0, -87.33654, -87.336556, -103.97, -103.972084, -104.0, 0.625, -0.625,
     0.62499994, 4.0, 3.92, 3.9199998, 3.9200003, 0.99999994, 1.0000001, 0.70710677, 0.7071068, 1.4142135, 1.4142137,
     2.0**-126, -86.64340, -86.99, -87.0, -87.33655, -100.0, 9.19, 9.2, 10.05, 10.059999, 10.06, 10.1, -10.1],
    np.float32,
)  # fmt: skip


def sweep() -> np.ndarray:
    """Every 4099th bit pattern of float32, denser where the functions are not trivial, and the special values."""
    bits = np.arange(0, 2**32, 4099, dtype=np.uint64).astype(np.uint32).view(np.float32)
    near = np.linspace(-110, 110, 500_001).astype(np.float32)
    close = np.linspace(-4.5, 4.5, 300_001).astype(np.float32)
    return np.concatenate([bits, near, close, np.exp(close), SPECIAL])


# Processors to compile for: this one, and one without fused multiply-add.
TARGETS = ["llvm", "llvm -mcpu=x86-64"] if platform.machine() == "x86_64" else ["llvm"]


@pytest.fixture(scope="module", params=TARGETS)
def target(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def values(target: str) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The arguments and what each function makes of them, from one kernel."""
    x = sweep()
    given = te.placeholder((len(x),), "float32", name="x")
    made = [te.compute((len(x),), lambda i, f=name: getattr(tir, f)(given[i]), name=name) for name in FUNCTIONS]
    results = {name: np.zeros(len(x), np.float32) for name in FUNCTIONS}
    NativePrimFunc(te.create_prim_func([given, *made]), Target(target), threads=2)(x, *results.values())
    return x, results


def ulps(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Distance in units in the last place of the float32 next to `want`; 0 where both are the same infinity."""
    with np.errstate(all="ignore"):
        near = want.astype(np.float32)
        finite = np.isfinite(near)
        apart = np.abs(got.astype(np.float64) - want) / np.spacing(np.abs(near)).astype(np.float64)
    return np.where(finite, apart, np.where(got == near, 0.0, np.inf))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_error(name: str, target: str, values: tuple[np.ndarray, dict[str, np.ndarray]]):
    x, results = values
    reference, most = FUNCTIONS[name]
    most = most if "fma" in machine_of(Target(target)).used_features else UNFUSED.get(name, most)
    with np.errstate(all="ignore"):  # some of the NaNs are signaling
        got, want = results[name], reference(torch.from_numpy(x.astype(np.float64))).numpy()
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    error = np.where(np.isnan(want), 0.0, ulps(got, want))
    worst = int(np.argmax(error))
    assert error[worst] <= most, f"{name}({x[worst]!r}) is {got[worst]!r}, off by {error[worst]} ulp"


@pytest.mark.parametrize("name", ["tanh", "erf", "log1p"])
def test_odd_functions_keep_the_sign(name: str, values: tuple[np.ndarray, dict[str, np.ndarray]]):
    x, results = values
    numbers = ~np.isnan(results[name])
    np.testing.assert_array_equal(np.signbit(results[name][numbers]), np.signbit(x[numbers]))


def test_limits(values: tuple[np.ndarray, dict[str, np.ndarray]]):
    x, results = values
    at = {float(v): len(x) - len(SPECIAL) + i for i, v in enumerate(SPECIAL)}
    for name, argument, want in [
        *(("exp", -np.inf, 0.0), ("exp", np.inf, np.inf), ("exp", 0.0, 1.0), ("log", 0.0, -np.inf), ("log", 1.0, 0.0)),
        *(("log", np.inf, np.inf), ("sigmoid", -np.inf, 0.0), ("sigmoid", np.inf, 1.0), ("sigmoid", 0.0, 0.5)),
        *(("tanh", np.inf, 1.0), ("tanh", -np.inf, -1.0), ("erf", np.inf, 1.0), ("erf", -np.inf, -1.0)),
        *(("log1p", np.inf, np.inf), ("log1p", -1.0, -np.inf), ("log1p", 0.0, 0.0)),
        *(("erfc", np.inf, 0.0), ("erfc", -np.inf, 2.0), ("erfc", 0.0, 1.0), ("erfc", -0.0, 1.0)),
    ]:
        assert results[name][at[argument]] == want, (name, argument)
    np.testing.assert_array_equal(results["erfc"][x == 0], 1.0)
    assert np.isnan(results["log"][at[-1.0]])
    assert np.isnan(results["log"][at[-np.inf]])
