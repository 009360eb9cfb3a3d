"""Differential testing of operators: a case is a call, values for its variables, and what torch makes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import torch
from hypothesis import strategies as st

from eutectic.ir.dtype import from_numpy, is_float, to_numpy
from eutectic.ir.prim_expr import PrimExpr
from eutectic.relax.base import ShapeExpr, ShapeStructInfo, StructInfo
from eutectic.relax.expr import Call, Constant, DataTypeImm, PrimValue, StringImm, Tuple, Var
from eutectic.relax.op.registry import op_def
from eutectic.relax.struct_info import TensorStructInfo, TupleStructInfo

# dtype -> (relative, absolute) tolerance against torch in the same dtype.
TOLERANCES: dict[str, tuple[float, float]] = {
    "float16": (2e-3, 2e-3),
    "bfloat16": (1.6e-2, 1.6e-2),
    "float32": (2e-5, 2e-5),
    "float64": (1e-9, 1e-9),
}

FLOATS = ["float32", "float64", "float16", "bfloat16"]
INTEGERS = ["int32", "int64", "int8", "uint8"]
NUMBERS = [*FLOATS, *INTEGERS]
ANY = [*NUMBERS, "bool"]

Draw = Callable[[st.SearchStrategy[Any]], Any]


@dataclass
class Case:
    """One call with values; `want` are torch tensors (or arrays), one per result.

    Attributes:
        slack: Factor on the tolerances.
        exact: Compare bits of values instead, the sign of zero included.
    """

    call: Call
    want: Any
    slack: float = 1.0
    exact: bool = False
    feeds: dict[Var, np.ndarray] = field(default_factory=dict)


class Feeds:
    """Makes variables with values, and remembers them."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.rng = np.random.default_rng(draw(st.integers(0, 2**31)))
        self.values: dict[Var, np.ndarray] = {}

    def var(self, array: np.ndarray) -> Var:
        made = Var(f"x{len(self.values)}", TensorStructInfo(ShapeExpr(array.shape), from_numpy(array.dtype)))
        self.values[made] = array
        return made

    def tensor(self, shape: tuple[int, ...], dtype: str, **options: Any) -> tuple[Var, torch.Tensor]:
        array = values(self.rng, shape, dtype, **options)
        return self.var(array), as_torch(array)

    def pick(self, *options: Any) -> Any:
        return self.draw(st.sampled_from(options))

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def flag(self) -> bool:
        return self.draw(st.booleans())

    def shape(self, least: int = 0, most: int = 4, low: int = 1, high: int = 5) -> tuple[int, ...]:
        return tuple(self.draw(st.lists(st.integers(low, high), min_size=least, max_size=most)))


def values(
    rng: np.random.Generator,
    shape: tuple[int, ...],
    dtype: str,
    *,
    special: bool = False,
    low: float = -4,
    high: float = 4,
) -> np.ndarray:
    """Random values between `low` and `high`; `special` puts NaN, infinities and zeros of both signs among floats."""
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if not is_float(dtype):
        floor = max(low, 0) if dtype.startswith("u") else low
        return np.asarray(rng.integers(int(floor), int(high) + 1, shape)).astype(to_numpy(dtype))
    out = np.asarray(rng.uniform(low, high, shape)).astype(to_numpy(dtype))
    if special:
        odd = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, 2.5]).astype(out.dtype)
        out = np.where(rng.random(shape) < 0.4, rng.choice(odd, shape), out)
    return np.asarray(out)


def as_torch(array: np.ndarray) -> torch.Tensor:
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(np.array(array, copy=True))


def as_numpy(tensor: Any) -> np.ndarray:
    if not isinstance(tensor, torch.Tensor):
        return np.asarray(tensor)
    if tensor.dtype == torch.bfloat16:
        return tensor.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def evaluate(expr: Any, feeds: dict[Var, np.ndarray]) -> Any:
    """The value of an expression by the references of its operators."""
    match expr:
        case Var():
            return feeds[expr]
        case Constant():
            return expr.data
        case Tuple():
            return tuple(evaluate(item, feeds) for item in expr.fields)
        case ShapeExpr():
            return expr.static
        case PrimValue():
            return expr.value.value
        case DataTypeImm() | StringImm():
            return expr.value
        case Call():
            definition = op_def(expr.op)
            assert definition is not None, expr.op.name
            assert definition.reference_fn is not None, expr.op.name
            return definition.reference_fn(expr.attrs, *(evaluate(arg, feeds) for arg in expr.args))
        case _:
            raise TypeError(type(expr).__name__)


def run(case: Case) -> None:
    """Evaluate, and compare with what was inferred and with what torch computed."""
    before = {var: array.copy() for var, array in case.feeds.items()}
    got = evaluate(case.call, case.feeds)
    for var, array in case.feeds.items():
        assert array.tobytes() == before[var].tobytes(), "an argument was changed"
    fits(case.call.struct_info, got, tuple(case.feeds.values()))
    if isinstance(case.call.struct_info, ShapeStructInfo):
        assert tuple(got) == tuple(case.want)
        return
    wanted = case.want if isinstance(case.want, (tuple, list)) else (case.want,)
    results = got if isinstance(got, tuple) else (got,)
    assert len(results) == len(wanted)
    for result, want in zip(results, wanted, strict=True):
        close(result, as_numpy(want), case.slack, case.exact)


def fits(info: StructInfo | None, value: Any, feeds: tuple[np.ndarray, ...]) -> None:
    """The value is exactly what was inferred, contiguous, and nobody else's memory."""
    match info:
        case TensorStructInfo():
            assert isinstance(value, np.ndarray), type(value)
            assert value.flags.c_contiguous
            assert not any(np.may_share_memory(value, array) for array in feeds)
            assert (info.static_shape, info.dtype) == (value.shape, from_numpy(value.dtype))
        case TupleStructInfo():
            assert isinstance(value, tuple)
            assert len(value) == len(info.fields)
            for part, item in zip(info.fields, value, strict=True):
                fits(part, item, feeds)
        case ShapeStructInfo():
            assert isinstance(value, tuple)
            assert all(type(size) is int for size in value)
        case _:
            raise AssertionError(f"inferred {type(info).__name__}")


def close(got: np.ndarray, want: np.ndarray, slack: float = 1.0, exact: bool = False) -> None:
    assert got.shape == want.shape, (got.shape, want.shape)
    assert got.dtype == want.dtype, (got.dtype, want.dtype)
    dtype = from_numpy(got.dtype)
    if not is_float(dtype):
        np.testing.assert_array_equal(got, want)
        return
    a, b = got.astype(np.float64), want.astype(np.float64)
    if exact:
        np.testing.assert_array_equal(a, b)
        zero = (a == 0) & (b == 0)
        np.testing.assert_array_equal(np.signbit(a[zero]), np.signbit(b[zero]), err_msg="sign of zero")
        return
    relative, absolute = TOLERANCES[dtype]
    np.testing.assert_allclose(a, b, rtol=relative * slack, atol=absolute * slack)


def symbolic(*sizes: PrimExpr | int, dtype: str = "float32", name: str = "x") -> Var:
    """A tensor variable, with symbolic sizes if wanted."""
    return Var(name, TensorStructInfo(ShapeExpr(sizes), dtype))


def unknown(ndim: int = -1, dtype: str = "float32") -> Var:
    """A tensor variable whose shape is not known."""
    return Var("u", TensorStructInfo(None, dtype, ndim=ndim))


Maker = Callable[[Feeds], Case]
CASES: dict[str, Maker] = {}


def covers(name: str) -> Callable[[Maker], Maker]:
    """Register a maker of cases for an operator."""

    def decorate(maker: Maker) -> Maker:
        assert name not in CASES, name
        CASES[name] = maker
        return maker

    return decorate


def table(rows: dict[str, Any], make: Callable[[Feeds, str, Any], Case]) -> None:
    """Register one case per row, with the row's value handed to `make`."""
    for name, row in rows.items():
        assert name not in CASES, name
        CASES[name] = lambda f, name=name, row=row: make(f, name, row)
