"""`tvm.testing`: comparisons, random data, and what tests need to know of this machine."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import ml_dtypes
import numpy as np

from eutectic.arith import Analyzer
from eutectic.compat.parametrize import (
    DEFAULT_TEST_TARGETS,
    device_enabled,
    enabled_targets,
    exclude_targets,
    fixture,
    known_failing_targets,
    parameter,
    parameters,
    parametrize_targets,
)
from eutectic.compat.requirements import REQUIREMENTS, Requirement, skip_if_32bit, slow
from eutectic.ir.dtype import is_float, to_numpy
from eutectic.ir.prim_expr import IntImm, PrimExpr, as_prim
from eutectic.ir.structural import structural_equal
from eutectic.tir.access import substitute

__all__ = [
    "DEFAULT_TEST_TARGETS",
    "IS_IN_CI",
    "SKIP_SLOW_TESTS",
    "assert_allclose",
    "assert_prim_expr_equal",
    "check_bool_expr_is_true",
    "check_numerical_grads",
    "device_enabled",
    "enabled_targets",
    "exclude_targets",
    "fixture",
    "generate_random_array",
    "get_dtype_range",
    "is_ampere_or_newer",
    "known_failing_targets",
    "main",
    "ml_dtypes_dict",
    "np_dtype_from_str",
    "parameter",
    "parameters",
    "parametrize_targets",
    "skip_if_32bit",
    "slow",
    "strtobool",
]

IS_IN_CI: Final = os.environ.get("CI", "") == "true"
SKIP_SLOW_TESTS: Final = os.environ.get("SKIP_SLOW_TESTS", "").lower() in ("1", "true", "yes")
ml_dtypes_dict: Final[Mapping[str, Any]] = {
    name: getattr(ml_dtypes, name) for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2")
}
_TRUE, _FALSE = ("y", "yes", "t", "true", "on", "1"), ("n", "no", "f", "false", "off", "0")


def __getattr__(name: str) -> Requirement:
    """`requires_llvm` and its like."""
    if name.startswith("requires_"):
        needed = name.removeprefix("requires_")
        if needed in REQUIREMENTS:
            return REQUIREMENTS[needed]
    raise AttributeError(f"module {__name__} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *(f"requires_{name}" for name in REQUIREMENTS)])


def assert_allclose(actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7, verbose: bool = True) -> None:
    """Compare element by element; shapes must agree.

    Raises:
        AssertionError: they differ.
    """
    left, right = np.asanyarray(_plain(actual)), np.asanyarray(_plain(desired))
    np.testing.assert_equal(left.shape, right.shape)
    np.testing.assert_allclose(left, right, rtol=rtol, atol=atol, verbose=verbose)


def _plain(value: Any) -> Any:
    return value.numpy() if hasattr(value, "numpy") else value


def assert_prim_expr_equal(lhs: Any, rhs: Any) -> None:
    """Compare two scalar expressions by what they compute.

    Raises:
        AssertionError: they are not equal, or that cannot be proved.
    """
    left, right = as_prim(lhs), as_prim(rhs)
    if structural_equal(left, right) or Analyzer().can_prove_equal(left, right):
        return
    raise AssertionError(f"{left} and {right} are not equal, or that cannot be proved")


def check_bool_expr_is_true(bool_expr: PrimExpr, vranges: Mapping[Any, Any], cond: PrimExpr | None = None) -> None:
    """Compute a condition for all values of its variables.

    Args:
        bool_expr: The condition.
        vranges: A `tvm.ir.Range` of integers for each variable.
        cond: Where this does not hold, the condition need not either.

    Raises:
        AssertionError: it is false somewhere.
    """
    names = list(vranges)
    ranges = [range(int(taken.min), int(taken.min) + int(taken.extent)) for taken in vranges.values()]
    for values in itertools.product(*ranges):
        at = {var: IntImm(var.dtype, value) for var, value in zip(names, values, strict=True)}
        if (cond is None or _holds(cond, at)) and not _holds(bool_expr, at):
            where = ", ".join(f"{var.name}={value}" for var, value in zip(names, values, strict=True))
            raise AssertionError(f"{bool_expr} is false for {where}")


def _holds(condition: PrimExpr, at: Mapping[Any, PrimExpr]) -> bool:
    value = Analyzer().simplify(substitute(condition, dict(at)))
    if not isinstance(value, IntImm):
        raise AssertionError(f"{condition} has no value: {value} remains")
    return bool(value.value)


def check_numerical_grads(
    function: Callable[..., Any],
    input_values: Sequence[Any] | Mapping[str, Any],
    grad_values: Sequence[Any] | Mapping[str, Any],
    function_value: Any = None,
    delta: float = 1e-3,
    atol: float = 1e-2,
    rtol: float = 0.1,
) -> None:
    """Compare gradients with central differences.

    Args:
        function: Takes arrays, gives a scalar.
        input_values: Where the gradients were computed, in order or by name.
        grad_values: The gradients, likewise.
        function_value: Its value there; None calls it. Only looked at for being finite.
        delta: Half of the distance between the two points.
        atol: Absolute error that is allowed.
        rtol: Error that is allowed, relative to the largest component.

    Raises:
        AssertionError: a gradient differs by more.
    """
    named = isinstance(input_values, Mapping)
    values: Any = input_values
    keys: list[Any] = list(values) if named else list(range(len(values)))
    inputs = {key: np.array(_plain(values[key]), dtype="float64") for key in keys}
    gradients: Any = grad_values

    def value() -> float:
        return float(_plain(function(**inputs) if named else function(*inputs.values())))

    assert np.isfinite(value() if function_value is None else float(_plain(function_value)))
    for key in keys:
        numeric = _central_differences(value, inputs[key], delta)
        error = np.abs(numeric - np.asarray(_plain(gradients[key])))
        allowed = atol + rtol * np.max(np.abs(numeric), initial=0.0)
        assert error.max(initial=0.0) <= allowed, f"the gradient of {key} differs by {error.max()} from {numeric}"


def _central_differences(value: Callable[[], float], array: Any, delta: float) -> Any:
    out = np.zeros(array.shape)
    for index in np.ndindex(array.shape):
        middle = array[index]
        array[index] = middle + delta
        above = value()
        array[index] = middle - delta
        out[index] = (above - value()) / (2 * delta)
        array[index] = middle
    return out


def generate_random_array(dtype: str, shape: Sequence[int]) -> Any:
    """Random elements over the range of a dtype: [-1, 1) for floats."""
    generator = np.random.default_rng()
    if is_float(dtype):
        return generator.uniform(-1, 1, tuple(shape)).astype(to_numpy(dtype))
    low, high = map(int, get_dtype_range(dtype))
    wide: Any = np.int64 if low < 0 else np.uint64
    return generator.integers(low, high, tuple(shape), wide, endpoint=True).astype(to_numpy(dtype))


def get_dtype_range(dtype: str) -> tuple[int, int] | tuple[float, float]:
    """The least and the largest value of a dtype."""
    if dtype == "bool":
        return 0, 1
    if is_float(dtype):
        limits: Any = ml_dtypes.finfo(to_numpy(dtype))  # type: ignore[no-untyped-call]
        return float(limits.min), float(limits.max)
    whole = np.iinfo(to_numpy(dtype))
    return int(whole.min), int(whole.max)


def np_dtype_from_str(dtype: str) -> Any:
    """The NumPy dtype of a name; bfloat16 and float8 come from ml_dtypes.

    Raises:
        ValueError: there is no such dtype.
    """
    return to_numpy(dtype)


def is_ampere_or_newer() -> bool:
    """Whether tensors can be placed on a CUDA device of compute capability 8; not yet."""
    return False


def strtobool(val: str) -> int:
    """1 for `yes`, `true`, `on` and their like, 0 for `no`, `false`, `off`.

    Raises:
        ValueError: it is none of them.
    """
    text = val.lower()
    if text not in (*_TRUE, *_FALSE):
        raise ValueError(f"invalid truth value {val!r}; known are {', '.join((*_TRUE, *_FALSE))}")
    return int(text in _TRUE)


def main() -> None:
    """Run the tests of the calling script with pytest, and end the process with its status."""
    import pytest  # only scripts with tests need it

    file = sys._getframe(1).f_globals["__file__"]
    raise SystemExit(pytest.main([file, *sys.argv[1:]]))
