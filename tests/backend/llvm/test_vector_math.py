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
    "exp2": (torch.exp2, 1.1),
    "exp10": (lambda x: torch.pow(10.0, x), 0.51),
    "log2": (torch.log2, 0.51),
    "log10": (torch.log10, 0.51),
    "sinh": (torch.sinh, 1.7),
    "cosh": (torch.cosh, 1.6),
    "asinh": (torch.asinh, 1.9),
    "acosh": (torch.acosh, 2.3),
    "atanh": (torch.atanh, 2.3),
    "sin": (torch.sin, 1.6),
    "cos": (torch.cos, 1.6),
    "tan": (torch.tan, 3.6),
    "asin": (torch.asin, 2.4),
    "acos": (torch.acos, 1.3),
    "atan": (torch.atan, 2.0),
}
UNFUSED = {"erfc": 66.0}  # where the square of its argument is rounded
OF_TWO: dict[str, tuple[Callable[[torch.Tensor, torch.Tensor], torch.Tensor], float]] = {
    "pow": (torch.pow, 0.51),
    "atan2": (torch.atan2, 2.0),
    "hypot": (torch.hypot, 0.51),
    "fmod": (torch.fmod, 0.0),
}
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
    quarters = (np.arange(-200_000, 200_000, 7) * (np.pi / 4)).astype(np.float32)  # where sines and cosines are small
    turned = np.linspace(-(2.0**20), 2.0**20, 100_003).astype(np.float32)
    return np.concatenate([bits, near, close, np.exp(close), quarters, turned, SPECIAL])


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


@pytest.mark.parametrize("name", ["exp", "exp2", "sigmoid", "tanh", "sinh"])
def test_bits_do_not_depend_on_the_place(name: str, target: str):
    """Whole registers may have instructions that what remains of a row has not."""
    x = np.concatenate([SPECIAL, np.linspace(-110, 110, 2 * 2 * 16 * 4 + 7 - len(SPECIAL))]).astype(np.float32)
    given = te.placeholder((len(x),), "float32", name="x")
    made = te.compute((len(x),), lambda i: getattr(tir, name)(given[i]), name=name)
    kernel = NativePrimFunc(te.create_prim_func([given, made]), Target(target), threads=1)
    whole, turned = np.zeros_like(x), np.zeros_like(x)
    kernel(x, whole)
    kernel(np.roll(x, 16), turned)  # by what is no multiple of lanes from the end on
    np.testing.assert_array_equal(np.roll(whole, 16), turned)


@pytest.mark.parametrize("name", ["tanh", "erf", "log1p", "asin", "atan", "sinh", "asinh", "atanh"])
def test_odd_functions_keep_the_sign(name: str, values: tuple[np.ndarray, dict[str, np.ndarray]]):
    x, results = values
    numbers = ~np.isnan(results[name])
    np.testing.assert_array_equal(np.signbit(results[name][numbers]), np.signbit(x[numbers]))


@pytest.mark.parametrize("name", ["sin", "tan"])
def test_zeros_of_angles_keep_the_sign(name: str, values: tuple[np.ndarray, dict[str, np.ndarray]]):
    x, results = values
    np.testing.assert_array_equal(np.signbit(results[name][x == 0]), np.signbit(x[x == 0]))


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


def pairs(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of numbers: random bits, such as have powers that are finite, small whole ones, and all special ones."""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, (2, 200_000), dtype=np.uint32).view(np.float32)
    bases = rng.choice(x, 200_000)
    with np.errstate(all="ignore"):
        fitting = (rng.uniform(-150, 130, 200_000) / np.log2(np.abs(bases.astype(np.float64)))).astype(np.float32)
    whole = np.stack(np.meshgrid(np.arange(-40, 41), np.arange(-40, 41))).reshape(2, -1).astype(np.float32)
    special = np.stack(np.meshgrid(SPECIAL, SPECIAL)).reshape(2, -1)
    near = bits * rng.uniform(0.9, 1.1, bits.shape[1]).astype(np.float32)
    both = np.concatenate([bits, np.stack([bases, fitting]), whole, special, np.stack([bits[0], near[0]])], axis=1)
    return np.ascontiguousarray(both[0]), np.ascontiguousarray(both[1])


@pytest.mark.parametrize("name", OF_TWO)
def test_functions_of_two(name: str, target: str):
    with np.errstate(all="ignore"):
        x, y = pairs(sweep())
    a, b = te.placeholder((len(x),), "float32", name="a"), te.placeholder((len(x),), "float32", name="b")
    made = te.compute((len(x),), lambda i: getattr(tir, name)(a[i], b[i]), name=name)
    got = np.zeros(len(x), np.float32)
    NativePrimFunc(te.create_prim_func([a, b, made]), Target(target), threads=2)(x, y, got)
    reference, most = OF_TWO[name]
    with np.errstate(all="ignore"):
        want = reference(*(torch.from_numpy(each.astype(np.float64)) for each in (x, y))).numpy()
        error = np.where(np.isnan(want), 0.0, ulps(got, want))
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    worst = int(np.argmax(error))
    assert error[worst] <= most, f"{name}({x[worst]!r}, {y[worst]!r}) is {got[worst]!r}, off by {error[worst]} ulp"
    zeros = (got == 0) & (want == 0)
    np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(want[zeros]))


@pytest.mark.parametrize(("name", "base"), [("exp2", 2.0), ("exp10", 10.0)])
def test_powers_of_a_number(name: str, base: float):
    """What is a function of its own is that."""
    x = np.linspace(-40, 40, 1001).astype(np.float32)
    given = te.placeholder((len(x),), "float32", name="x")
    made = [
        te.compute((len(x),), lambda i: tir.pow(tir.const(base, "float32"), given[i]), name="power"),
        te.compute((len(x),), lambda i: getattr(tir, name)(given[i]), name="function"),
    ]
    results = [np.zeros(len(x), np.float32) for _ in made]
    NativePrimFunc(te.create_prim_func([given, *made]), Target("llvm"), threads=1)(x, *results)
    np.testing.assert_array_equal(*results)


def test_whole_powers_are_exact():
    x = np.arange(1, 65, dtype=np.float32)
    given = te.placeholder((64,), "float32", name="x")
    made = [
        te.compute((64,), lambda i, n=n: tir.pow(given[i], tir.const(n, "float32")), name=f"p{n}") for n in range(5)
    ]
    results = [np.zeros(64, np.float32) for _ in made]
    NativePrimFunc(te.create_prim_func([given, *made]), Target("llvm"), threads=1)(x, *results)
    for n, result in enumerate(results):
        np.testing.assert_array_equal(result, x**n)
