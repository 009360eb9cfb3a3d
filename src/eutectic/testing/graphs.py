"""Small graph modules for tests: one function `main` with one dataflow block."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from eutectic.ir.module import IRModule
from eutectic.relax.base import Expr
from eutectic.relax.block_builder import BlockBuilder
from eutectic.relax.expr import Constant, Function, Tuple, Var, const
from eutectic.relax.interpret import Interpreter
from eutectic.relax.struct_info import TensorStructInfo, tensor

Array: TypeAlias = np.ndarray[Any, Any]
Spec: TypeAlias = Sequence[Any] | tuple[Sequence[Any], str]


def graph(params: Mapping[str, Spec], body: Callable[..., Expr | Sequence[Expr]]) -> IRModule:
    """A module with `main`.

    Args:
        params: Shape, or (shape, dtype), by parameter name; dtype is float32 when not given.
        body: Called with the builder and the parameters; what it returns is the result,
            a sequence becoming a tuple. All bindings go to one dataflow block.
    """
    bb = BlockBuilder()
    variables = [Var(name, _info(spec)) for name, spec in params.items()]
    with bb.function("main", variables):
        with bb.dataflow():
            result = body(bb, *variables)
            listed = [result] if isinstance(result, Expr) else list(result)
            outputs = [bb.emit_output(item) for item in listed]
        bb.emit_func_output(outputs[0] if isinstance(result, Expr) else Tuple(tuple(outputs)))
    return bb.get()


def _info(spec: Spec) -> TensorStructInfo:
    if len(spec) == 2 and isinstance(spec[1], str):
        return tensor(spec[0], spec[1])
    return tensor(spec, "float32")


def weights(*shape: int, seed: int = 0, scale: float = 0.3) -> Constant:
    """A float32 constant of normal values."""
    return const((np.random.default_rng([seed, *shape]).standard_normal(shape) * scale).astype(np.float32))


def arrays(function: Function, seed: int = 0) -> list[Array]:
    """Normal values for the parameters of a function with static shapes."""
    rng = np.random.default_rng(seed)
    out = []
    for param in function.params:
        info = param.struct_info
        assert isinstance(info, TensorStructInfo) and info.static_shape is not None
        out.append((rng.standard_normal(info.static_shape) * 3).astype(info.dtype))
    return out


def evaluate(mod: IRModule, *args: Array) -> Any:
    """Result of `main` in the reference interpreter."""
    return Interpreter(mod).run("main", *args)


def assert_same_results(before: IRModule, after: IRModule, *, exact: bool = True, seed: int = 0) -> None:
    """Two modules compute the same on random inputs.

    Args:
        before: The oracle.
        after: What is compared with it.
        exact: Compare bits; otherwise within 1e-5 of the scale.
        seed: Of the inputs.
    """
    args = arrays(before["main"], seed)
    for want, got in zip(_flat(evaluate(before, *args)), _flat(evaluate(after, *args)), strict=True):
        if exact:
            np.testing.assert_array_equal(got, want)
        else:
            assert_close(got, want)


def assert_close(got: Array, want: Array, tolerance: float = 1e-5) -> None:
    """`got` has the dtype and shape of `want`, and differs by at most `tolerance` of its scale."""
    assert got.shape == want.shape, f"shape {got.shape}, expected {want.shape}"
    assert got.dtype == want.dtype, f"dtype {got.dtype}, expected {want.dtype}"
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    finite = np.isfinite(want)
    np.testing.assert_array_equal(got[~finite], want[~finite])
    if not finite.any():
        return
    scale = max(1.0, float(np.abs(want[finite]).max()))
    error = float(np.abs(got[finite].astype(np.float64) - want[finite].astype(np.float64)).max())
    assert error <= tolerance * scale, f"largest error {error} at scale {scale}"


def _flat(value: Any) -> list[Array]:
    if isinstance(value, tuple):
        return [item for part in value for item in _flat(part)]
    return [value]
