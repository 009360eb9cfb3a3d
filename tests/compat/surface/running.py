"""Tensor expressions and programs run by the reference interpreter, for examples."""

from __future__ import annotations

from typing import Any

import numpy as np

from eutectic.te import create_prim_func
from eutectic.tir.interpret import run

GENERATOR = np.random.default_rng(0)


def floats(*shape: int, low: float = 0.1, high: float = 0.9) -> Any:
    """Random floats."""
    return GENERATOR.uniform(low, high, shape).astype("float32")


def whole(*shape: int, high: int = 9) -> Any:
    """Random integers from one on."""
    return GENERATOR.integers(1, high, shape).astype("int32")


def evaluated(result: Any, inputs: dict[Any, Any]) -> Any:
    """The value of a tensor, given those of the tensors that it is computed from."""
    shape = [int(size) for size in result.shape]
    value = np.zeros(shape, result.dtype)
    run(create_prim_func([*inputs, result]), *inputs.values(), value)
    return value


def close(result: Any, inputs: dict[Any, Any], wanted: Any) -> None:
    """See that a tensor has a value and a shape."""
    value = evaluated(result, inputs)
    assert value.shape == np.shape(wanted), (value.shape, np.shape(wanted))
    np.testing.assert_allclose(value.astype("float64"), np.asarray(wanted, "float64"), rtol=2e-5, atol=2e-6)
