"""Where eager raises, so do we: when the model is compiled if dtypes and numbers decide, at the call if values do."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

import eutectic
from eutectic.support.errors import CallError, EutecticError, FrontendError, UnsupportedOperatorError
from eutectic.testing.eager import module

ONE, ZERO = torch.tensor([1, 2, 3]), torch.tensor([1, 0, 3])
YES, NO = torch.tensor([True]), torch.tensor([False])
IMAGE = torch.ones(1, 1, 4, 4, dtype=torch.int64)

# name -> a function that eager raises on for these arguments, whatever their values.
BY_DTYPE: dict[str, tuple[Any, ...]] = {
    "bool to the power of bool": (torch.pow, YES, NO),
    "a bool number to the power of bools": (lambda x: torch.pow(True, x), YES),
    "integers to a negative power": (lambda x: x**-1, ONE),
    "argmax of bools": (torch.argmax, YES),
    "argmin of bools": (torch.argmin, YES),
    "frac of integers": (torch.frac, ONE),
    "lerp of integers": (lambda x: torch.lerp(x, x, 0.5), ONE),
    "addcmul of bools": (lambda x: torch.addcmul(x, x, x), YES),
    "clamp by a number beyond the dtype": (lambda x: x.to(torch.int8).clamp(max=300), ONE),
    "threshold of bools": (lambda x: F.threshold(x, 0, 1), YES),
    "interpolated integers": (lambda x: F.interpolate(x, scale_factor=2), IMAGE),
    "quotient by a literal zero": (lambda x: x // 0, ONE),
    "remainder by a literal zero": (lambda x: x % 0, ONE),
    "fmod by a literal zero": (lambda x: torch.fmod(x, 0), ONE),
    "truncated quotient by a literal zero": (lambda x: torch.div(x, 0, rounding_mode="trunc"), ONE),
}
# name -> a function, arguments that it takes, arguments of the same dtypes that eager raises on, what we say.
BY_VALUE: dict[str, tuple[Any, tuple[torch.Tensor, ...], tuple[torch.Tensor, ...], str]] = {
    "floor_divide": (lambda a, b: a // b, (ONE, ONE), (ONE, ZERO), "integer division by zero"),
    "remainder": (lambda a, b: a % b, (ONE, ONE), (ONE, ZERO), "integer division by zero"),
    "remainder of a number": (lambda b: 5 % b, (ONE,), (ZERO,), "integer division by zero"),
    "fmod": (torch.fmod, (ONE, ONE), (ONE, ZERO), "integer division by zero"),
    "div trunc": (
        lambda a, b: torch.div(a, b, rounding_mode="trunc"), (ONE, ONE), (ONE, ZERO), "integer division by zero"
    ),
    "div floor of int8": (
        lambda a, b: torch.div(a.to(torch.int8), b.to(torch.int8), rounding_mode="floor"),
        (ONE, ONE),
        (ONE, ZERO),
        "integer division by zero",
    ),
    "chosen later": (
        lambda a, b: torch.where(b != 0, a // b, 0), (ONE, ONE), (ONE, ZERO), "integer division by zero"
    ),
    "one_hot, too large": (lambda x: F.one_hot(x, 4), (ONE,), (ONE + 1,), "smaller than num_classes"),
    "one_hot, negative": (lambda x: F.one_hot(x, 4), (ONE,), (-ONE,), "non-negative"),
    "gather": (lambda x: torch.gather(x, 0, x), (ONE - 1,), (ONE,), "outside of its buffer"),
}  # fmt: skip


@pytest.mark.parametrize("name", BY_DTYPE)
def test_what_torch_has_no_kernel_for_is_refused_by_name(name: str):
    function, *args = BY_DTYPE[name]
    with pytest.raises(Exception):  # noqa: B017, PT011 - whatever eager says
        function(*args)
    with pytest.raises(UnsupportedOperatorError) as error:
        eutectic.compile(module(function), tuple(args), target="llvm")
    assert "aten." in error.value.message
    assert "torch cannot compute it on a CPU: " in str(error.value)


@pytest.mark.parametrize("name", BY_VALUE)
def test_what_eager_raises_on_for_its_values_is_an_error_of_the_call(name: str):
    """Within vectors, and in their tail."""
    function, good, bad, words = BY_VALUE[name]
    copies = 1 if name == "gather" else 11
    good, bad = (tuple(x.repeat(copies) for x in args) for args in (good, bad))
    compiled = eutectic.compile(module(function), good, target="llvm")
    assert torch.equal(compiled(*good), function(*good))
    with pytest.raises(RuntimeError):
        function(*bad)
    with pytest.raises(CallError, match=words):
        compiled(*bad)
    assert torch.equal(compiled(*good), function(*good))  # a failed call leaves nothing behind


@pytest.mark.filterwarnings("ignore::eutectic.EutecticAdvice")
def test_negative_bounds_of_unsigned_integers_wrap_around():
    x = torch.tensor([1, 2, 255], dtype=torch.uint8)
    function = lambda x: (x.clamp(min=-3), x.clamp(max=-3), x.clamp(-3, 7), torch.clamp_min(x, -1), x.clamp(1, 3))  # noqa: E731
    compiled = eutectic.compile(module(function), (x,), target="llvm")
    assert all(map(torch.equal, compiled(x), function(x)))


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized:UserWarning")
def test_an_argument_of_another_shape_is_not_written_to():
    x, out = torch.ones(3, 6), torch.zeros(2, 6)
    function = lambda x, out: torch.index_select(x, 1, torch.tensor([0, 1]), out=out)  # noqa: E731
    with pytest.raises(FrontendError, match=r"writes float32\[3, 2\] to its input args_1, which is float32\[2, 6\]"):
        eutectic.compile(module(function), (x, out), target="llvm")


def test_an_argument_of_another_dtype_is_not_written_to():
    x, out = torch.ones(3, 6), (torch.zeros(6), torch.zeros(6, dtype=torch.float64))
    function = lambda x, *out: torch.aminmax(x, dim=0, out=out)  # noqa: E731
    with pytest.raises(UnsupportedOperatorError, match=r"aten\.aminmax\.out"):
        eutectic.compile(module(function), (x, *out), target="llvm")


def test_a_number_read_out_of_a_tensor_is_refused():
    for function in (lambda x: x.item(), lambda x: x + x.item(), lambda x: (x, x.float().item())):
        with pytest.raises(EutecticError, match=r"aten\.item"):
            eutectic.compile(module(function), (torch.tensor(3),), target="llvm", fallback="error")


def test_a_power_of_a_number_with_an_exponent_per_element():
    """The squares of the base are computed while compiling, and wrap around as they do at run time."""
    for base, dtype in ((2, torch.int64), (-7, torch.int32), (10, torch.int8)):
        x = torch.tensor([0, 1, 2, 5, 31, 63, 64, 100], dtype=dtype)
        function = lambda x, base=base: base**x  # noqa: E731
        assert torch.equal(eutectic.compile(module(function), (x,), target="llvm")(x), function(x))


def test_the_user_s_random_numbers_are_not_drawn():
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    x = torch.ones(4, dtype=torch.bfloat16)
    eutectic.compile(module(lambda x: F.dropout(x * 2, 0.5, False)), (x,), target="llvm")
    assert torch.equal(torch.random.get_rng_state(), before)
