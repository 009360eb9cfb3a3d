"""Operator definitions on arrays: build the program, verify it, print and parse it, and run it in the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eutectic import te
from eutectic.ir.dtype import from_numpy, is_float, to_numpy
from eutectic.ir.prim_expr import IntImm
from eutectic.relax.op.registry import op_def
from eutectic.testing.round_trip import check_round_trip
from eutectic.tir import PrimFunc, verify_well_formed
from eutectic.tir.interpret import run

TOLERANCES = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-5, "float64": 1e-10}


def given(*arrays: np.ndarray, index: str = "int32") -> list[te.Tensor]:
    """A placeholder for each array, with sizes of a dtype."""
    return [
        te.placeholder([IntImm(index, n) for n in x.shape], from_numpy(x.dtype), name=f"x{i}")
        for i, x in enumerate(arrays)
    ]


def program(definition: Callable[..., Any], *arrays: np.ndarray, index: str = "int32") -> tuple[PrimFunc, list[Any]]:
    """The checked program of a definition, and the tensors it computes."""
    inputs = given(*arrays, index=index)
    made = definition(*inputs)
    outputs = list(made) if isinstance(made, (tuple, list)) else [made]
    func = te.create_prim_func([*inputs, *outputs])
    verify_well_formed(func)
    return func, outputs


def evaluate(definition: Callable[..., Any], *arrays: np.ndarray, index: str = "int32", text: bool = False) -> Any:
    """What the definition makes of arrays: one, or a list where it has several results."""
    func, outputs = program(definition, *arrays, index=index)
    if text:
        check_round_trip(func)
    results = [np.zeros([int(n) for n in out.shape], to_numpy(out.dtype)) for out in outputs]
    with np.errstate(all="ignore"):
        run(func, *arrays, *results)
    return results[0] if len(results) == 1 else results


def reference(name: str, attrs: Any, *args: Any) -> Any:
    """What the operator of the graph dialect makes of arrays."""
    found = op_def(f"relax.{name}")
    assert found is not None
    assert found.reference_fn is not None
    return found.reference_fn(attrs, *args)


def close(got: np.ndarray, want: Any, slack: float = 1.0) -> None:
    """Same dtype and shape, and values within the tolerance of the dtype; integers exactly."""
    want = np.asarray(want)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if not is_float(from_numpy(got.dtype)):
        np.testing.assert_array_equal(got, want)
        return
    tolerance = TOLERANCES[from_numpy(got.dtype)] * slack
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(got.astype("f8"), want.astype("f8"), rtol=tolerance, atol=tolerance)
