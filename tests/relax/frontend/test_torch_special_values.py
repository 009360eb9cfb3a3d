"""Special values of operators against their documented definitions in float64, which torch's kernels do not decide."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import eutectic
from eutectic.testing.eager import module

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def values(dtype: torch.dtype) -> torch.Tensor:
    """Zeros, denormals, the smallest and largest numbers, halves, infinities and NaN."""
    info = torch.finfo(dtype)
    sizes = [0.0, info.tiny * info.eps, info.tiny, info.eps, 0.25, 0.5, 1.0, 1.5, 2.5, 11.625, 90.0, info.max / 2]
    sizes += [info.max, np.inf]
    return torch.tensor([*sizes, *(-x for x in sizes), np.nan], dtype=torch.float64).to(dtype)


def celu(alpha: float) -> Callable[[Any], Any]:
    return lambda x: np.where(x > 0, x, alpha * np.expm1(x / alpha))


# name -> the operator, its definition in float64, units in the last place that it may be off.
UNARY: dict[str, tuple[Any, Callable[[Any], Any], float]] = {
    "round": (torch.round, np.rint, 0),
    "relu": (F.relu, lambda x: np.where(x > 0, x, np.where(np.isnan(x), x, 0.0)), 0),
    "softshrink": (
        F.softshrink, lambda x: np.where(x > 0.5, x - 0.5, np.where(x < -0.5, x + 0.5, np.where(np.isnan(x), x, 0))), 1
    ),
    "logsigmoid": (F.logsigmoid, lambda x: np.where(x > 0, 0.0, x) - np.log1p(np.exp(-np.abs(x))), 4),
    "elu": (F.elu, celu(1.0), 8),
    "celu, small alpha": (lambda x: F.celu(x, 0.5), celu(0.5), 8),
    "celu, large alpha": (lambda x: F.celu(x, 3.0), celu(3.0), 8),
    "selu": (F.selu, lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)), 8),
    "smallest positive or zero": (lambda x: x.float().clamp(max=0), lambda x: np.where(x > 0, 0.0, x), 0),
}  # fmt: skip
BINARY: dict[str, tuple[Any, Callable[[Any, Any], Any]]] = {
    "fmod": (torch.fmod, np.fmod),
    "remainder": (torch.remainder, lambda a, b: np.where(
        (np.fmod(a, b) != 0) & ((b < 0) != (np.fmod(a, b) < 0)), np.fmod(a, b) + b, np.fmod(a, b)
    )),
}  # fmt: skip


def same(got: torch.Tensor, want: np.ndarray, ulps: float, signs: bool = True) -> None:
    """NaN, infinities and zeros with their signs in the same places, all else within units in the last place."""
    info = torch.finfo(got.dtype)
    rounded, ours = torch.from_numpy(want).to(got.dtype).double().numpy(), got.double().numpy()
    np.testing.assert_array_equal(np.isnan(ours), np.isnan(rounded))
    np.testing.assert_array_equal(np.isinf(ours), np.isinf(rounded))
    finite = np.isfinite(rounded)
    unit = np.maximum(np.abs(rounded[finite]), info.tiny) * info.eps
    assert np.all(np.abs(ours[finite] - rounded[finite]) <= ulps * unit)
    if signs:
        zero = (rounded == 0) & (ours == 0)
        np.testing.assert_array_equal(np.signbit(ours[zero]), np.signbit(rounded[zero]))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_element(name: str, dtype: torch.dtype):
    function, definition, ulps = UNARY[name]
    x = values(dtype)
    got = eutectic.compile(module(function), (x,), target="llvm")(x)
    with np.errstate(all="ignore"):
        same(got, definition(x.double().numpy()), ulps, signs=name != "relu")


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_remainders_of_all_pairs(name: str, dtype: torch.dtype):
    """By denormals and the largest numbers too: the remainder is exact, its sum with the divisor rounded once."""
    function, definition = BINARY[name]
    a, b = (x.reshape(-1) for x in torch.meshgrid(values(dtype), values(dtype), indexing="ij"))
    got = eutectic.compile(module(function), (a, b), target="llvm")(a, b)
    with np.errstate(all="ignore"):
        same(got, definition(a.double().numpy(), b.double().numpy()), 0, signs=False)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_tails_of_the_normal_distribution(dtype: torch.dtype):
    """By `1 + erf(x)` nothing is left of them at -5."""
    x = torch.cat([torch.linspace(-12, 12, 997), torch.tensor([-0.0, -1e4, 1e4])]).to(dtype)
    functions = {"ndtr": torch.special.ndtr, "gelu": F.gelu, "erfc": lambda x: torch.erfc(-x * 0.75)}
    net = module(lambda x: {name: function(x) for name, function in functions.items()})
    got = eutectic.compile(net, (x,), target="llvm", fallback="error")(x)
    exact = np.array([math.erfc(-v * math.sqrt(0.5)) / 2 for v in x.tolist()])
    ulps = 100 if dtype in (torch.float32, torch.float64) else 1  # the rounding of x^2 / 2 at -12
    same(got["ndtr"], exact, ulps)
    same(got["gelu"], exact * x.double().numpy(), ulps)
    arguments = (-x * 0.75).double().tolist()
    same(got["erfc"], np.array([math.erfc(v) for v in arguments]), 100 if dtype is torch.float32 else 2)


@pytest.mark.parametrize("exponent", [2**24 + 1, -(2**40 + 1), 2.0**31 + 1, 2**24])
def test_powers_by_odd_numbers_that_float32_does_not_hold(exponent: float):
    """Beyond 2^24 it has even numbers alone, by which -1 would be 1."""
    x = torch.tensor([-1.0, -1.0000001, 1.0000001, 0.0, -0.0, math.inf, -math.inf, math.nan, 0.5])
    got = eutectic.compile(module(lambda x: x**exponent), (x,), target="llvm")(x)
    with np.errstate(all="ignore"):
        same(got, np.power(x.double().numpy(), float(exponent)), 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("base", [1024, 0.125, 4])
def test_powers_of_powers_of_two(base: float, dtype: torch.dtype):
    """LLVM takes `exp2(10 * x)` for a power of 1024, and the product is rounded."""
    x = torch.linspace(-11.9, 11.9, 97, dtype=torch.float64).to(dtype)
    got = eutectic.compile(module(lambda x: base**x), (x,), target="llvm")(x)
    same(got, np.power(float(base), x.double().numpy()), 2)


def test_a_threshold_is_not_rounded_to_sixteen_bits():
    x = torch.tensor([0.1, 0.05, 0.2], dtype=torch.bfloat16)  # the first is larger than 0.1
    got = eutectic.compile(module(lambda x: F.threshold(x, 0.1, 5.0)), (x,), target="llvm")(x)
    assert torch.equal(got, torch.where(x.double() > 0.1, x, 5.0))


@pytest.mark.parametrize("reduction", ["none", "sum"])
def test_huber_loss_has_the_dtype_of_its_first_operand(reduction: str):
    x, target = torch.tensor([math.inf, 2.5, 3.0], dtype=torch.float16), torch.tensor([1.0, 2.0, 70000.0])
    net = module(lambda x, y: [F.huber_loss(*both, reduction=reduction) for both in ((x, y), (y, x))])
    for got, want in zip(eutectic.compile(net, (x, target), target="llvm")(x, target), net(x, target), strict=True):
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize("mode", ["bicubic", "bilinear"])
@pytest.mark.parametrize("antialias", [False, True])
def test_interpolation_of_bytes_is_refused(mode: str, antialias: bool):
    """Torch has no definition of it: its weights are rounded in ways that differ between processors."""
    x = torch.zeros(1, 2, 5, 6, dtype=torch.uint8)
    net = module(lambda x: F.interpolate(x, (7, 9), mode=mode, align_corners=False, antialias=antialias))
    with pytest.raises(eutectic.EutecticError, match="cannot be imported: aten"):
        eutectic.compile(net, (x,), fallback="error")


@pytest.mark.parametrize("mode", ["floor", "trunc"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_rounded_quotients_of_narrow_floats(mode: str, dtype: torch.dtype):
    """The floor is that of the exact quotient; what is rounded towards zero is the quotient of the dtype."""
    a = torch.tensor([11.625, -11.625, 7.0, 1.0, 100.0]).repeat(9).to(dtype)
    b = torch.tensor([0.11767578125, 0.11767578125, -2.0, 3.0, 0.125]).repeat(9).to(dtype)
    got = eutectic.compile(module(lambda a, b: torch.div(a, b, rounding_mode=mode)), (a, b), target="llvm")(a, b)
    exact = a.double() / b.double()
    want = torch.floor(exact).to(dtype) if mode == "floor" else torch.trunc(exact.to(dtype))
    assert torch.equal(got, want)
    if mode == "trunc":  # eager's floor of -98.79 is -100
        assert torch.equal(got, torch.div(a, b, rounding_mode=mode))
    assert got[0] == (99 if mode == "trunc" and dtype is torch.bfloat16 else 98)


@pytest.mark.parametrize("divisor", [0.11767578125, torch.tensor(0.11767578125, dtype=torch.bfloat16)])
def test_by_a_number_the_quotient_is_not_rounded_first(divisor: object):
    a = torch.full((5,), 11.625, dtype=torch.bfloat16)
    net = module(lambda a: torch.div(a, divisor, rounding_mode="trunc"))
    assert torch.equal(eutectic.compile(net, (a,), target="llvm")(a), net(a))


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int32], ids=str)
def test_powers_of_two_that_the_dtype_has_no_room_for(dtype: torch.dtype):
    x = values(dtype) if dtype.is_floating_point else torch.tensor([0, 3, -(2**31), 2**31 - 1], dtype=dtype)
    powers = torch.tensor([-3000, -2097, -1074, -1023, -300, -149, -24, -3, 0, 1, 15, 130, 278, 1023, 1100, 2097, 3000])
    compiled = eutectic.compile(module(torch.ldexp), (x[:, None], powers), fallback="error")
    with np.errstate(over="ignore", under="ignore"):
        want = np.ldexp(x[:, None].double().numpy(), powers.numpy())
    same(compiled(x[:, None], powers), want, 0)
    halves, x = torch.tensor([-1.5, 0.5, float("inf"), -float("inf")]), x[:4]
    torch.testing.assert_close(
        eutectic.compile(module(torch.ldexp), (x, halves), fallback="error")(x, halves),
        torch.ldexp(x, halves),
        equal_nan=True,
    )


def test_celu_of_a_negative_alpha_is_left_to_torch():
    """Below zero the scaled input is above zero, where elu is straight."""
    x = values(torch.float32)
    with pytest.warns(eutectic.EutecticAdvice, match="alpha is negative"):
        compiled = eutectic.compile(module(lambda x: F.celu(x, -1.5)), (x,))
    torch.testing.assert_close(compiled(x), F.celu(x, -1.5), equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_narrow_floats_beside_a_wider_tensor_without_axes(dtype: torch.dtype):
    """Torch does not round it where it is the second factor or the divisor, as it does not round a number."""
    x = torch.cat([values(dtype), torch.arange(1000).to(dtype)])
    wide = [torch.tensor(70000), torch.tensor(0.1), torch.tensor(2.0**40, dtype=torch.float64)]

    def results(x: torch.Tensor, *wide: torch.Tensor) -> list[torch.Tensor]:
        return [y for w in wide for y in (x * w, w * x, x / w, w / x, x.clone().mul_(w))]

    compiled = eutectic.compile(module(results), (x, *wide), target="llvm")
    for got, want in zip(compiled(x, *wide), results(x, *wide), strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("exponent", [0.5, -0.5])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_roots_by_powers(dtype: torch.dtype, exponent: float):
    """The power of minus infinity is none of a root, nor that of minus zero; torch takes roots but of float16."""
    x = values(dtype).repeat(3)
    got, want = eutectic.compile(module(lambda x: x**exponent), (x,), target="llvm")(x), x**exponent
    same(got, want.double().numpy(), 2)
    is_power = dtype is torch.float16
    assert torch.equal(got[x == -torch.inf].isnan(), torch.full((3,), not is_power))


@pytest.mark.parametrize("function", [torch.xlogy, torch.special.xlog1py])
def test_products_with_logarithms_round_operands_first(function: Any):
    """Integers and numbers that the dtype of the result has no room for are infinite in it, as for torch."""
    x = values(torch.float16)
    large = torch.tensor([2**63 - 1, 70000, 2049, 3, 1, 0, -1]).repeat(5)[: len(x)]
    wide = values(torch.float32)

    def results(x: torch.Tensor, large: torch.Tensor, wide: torch.Tensor) -> list[torch.Tensor]:
        mixed = [(x, large), (large, x), (x, 70000.5), (70000.5, x), (wide, 1e300), (1e300, wide), (wide, float("nan"))]
        return [function(a, b) for a, b in mixed]

    compiled = eutectic.compile(module(results), (x, large, wide), fallback="error")
    for got, want in zip(compiled(x, large, wide), results(x, large, wide), strict=True):
        torch.testing.assert_close(got, want, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_operators_without_a_converter_round_operands_first(dtype: torch.dtype):
    """Their operands of other dtypes are what the dtype of the result holds of them."""
    x = values(dtype)
    weights = [torch.tensor(value, dtype=torch.float64) for value in (70000.0, 2049.0, 1e300, 0.1)]

    def results(x: torch.Tensor, *weights: torch.Tensor) -> list[torch.Tensor]:
        return [torch.lerp(x, x * 2, weight) for weight in weights]

    compiled = eutectic.compile(module(results), (x, *weights), fallback="error")
    for got, want in zip(compiled(x, *weights), results(x, *weights), strict=True):
        torch.testing.assert_close(got, want, equal_nan=True)
