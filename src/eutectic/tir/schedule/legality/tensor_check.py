"""Descriptions and implementations of tensor intrinsics run on the same inputs."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from eutectic.ir.dtype import integer_limits, is_float, to_numpy
from eutectic.ir.prim_expr import IntImm, Var
from eutectic.support.errors import CallError, CodegenError, InternalError, ScheduleError
from eutectic.tir.buffer import Buffer
from eutectic.tir.function import PrimFunc
from eutectic.tir.interpret import run
from eutectic.tir.schedule.legality.tensor_form import buffers_of
from eutectic.tir.schedule.validate import KINDS, edge_case_input

_SEEDS: Final = (0, 1)
_GAP: Final = 3  # elements between rows of arrays whose strides are not fixed


def agreement(name: str, desc: PrimFunc, impl: PrimFunc) -> bool:
    """Run both on random numbers, small integers and edge values.

    Args:
        name: The name of the intrinsic, for messages.
        desc: What is computed.
        impl: How.

    Returns:
        Whether all results were the same bits; False when floats that are no small integers were rounded differently.

    Raises:
        ScheduleError: results differ, the implementation cannot be run, or the description is not defined anywhere.
    """
    exact, ran = True, False
    for seed in _SEEDS:
        for kind in KINDS:
            arrays = _values(desc, kind, seed)
            want = _placed(desc, arrays)
            try:
                run(desc, *want)
            except InternalError:
                continue  # undefined for this input already
            ran = True
            for order in ("forward", "reverse"):
                got = _run(name, impl, arrays, order)
                for buffer, a, b in zip(buffers_of(desc), want, got, strict=True):
                    exact &= _same(name, buffer, kind, a, b)
    if not ran:
        message = f"the description of tensor intrinsic {name} is not defined for any input that was tried"
        raise ScheduleError(message, help="divisions by zero and the like must not be in it")
    return exact


def _run(name: str, impl: PrimFunc, arrays: list[Any], order: str) -> list[Any]:
    got = _placed(impl, arrays)
    try:
        run(impl, *got, order=order, check=True)
    except (CodegenError, CallError) as error:
        message = f"the implementation of tensor intrinsic {name} cannot be run by the interpreter: {error.message}"
        raise ScheduleError(message, help="check=False trusts it") from error
    except InternalError as error:
        message = f"the implementation of tensor intrinsic {name} does what is not defined: {error.message}"
        raise ScheduleError(message) from error
    return got


def _same(name: str, buffer: Buffer, kind: str, want: Any, got: Any) -> bool:
    one, other = (np.ascontiguousarray(x).reshape(-1) for x in (want, got))
    different = one.view(np.uint8) != other.view(np.uint8)
    if not different.any():
        return True
    if is_float(buffer.dtype) and kind != "small integers":
        return False
    flat = int(np.flatnonzero(different)[0]) // one.itemsize
    at = ", ".join(str(int(k)) for k in np.unravel_index(flat, want.shape))
    raise ScheduleError(
        f"the implementation of tensor intrinsic {name} computes something else than its description: "
        f"{buffer.name}[{at}] is {other[flat].item()!r} and not {one[flat].item()!r}",
        notes=[f"the inputs were {kind}"],
    )


def _values(func: PrimFunc, kind: str, seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [_array(buffer, kind, rng) for buffer in buffers_of(func)]


def _array(buffer: Buffer, kind: str, rng: np.random.Generator) -> Any:
    shape = tuple(size.value for size in buffer.shape if isinstance(size, IntImm))
    if is_float(buffer.dtype) or buffer.dtype == "bool":
        return edge_case_input(buffer.dtype, shape, kind, rng)
    if kind == "special values":
        return edge_case_input(buffer.dtype, shape, "extreme values", rng)
    low, high = integer_limits(buffer.dtype)
    if kind == "small integers":
        return rng.integers(max(low, -4), 5, shape).astype(to_numpy(buffer.dtype))
    return rng.integers(low, high, shape, dtype=to_numpy(buffer.dtype), endpoint=True)


def _placed(func: PrimFunc, arrays: list[Any]) -> list[Any]:
    """Copies of arrays, with the strides that the buffers of a function have, and gaps where they may have any."""
    known: dict[Var, int] = {}
    return [_laid_out(buffer, array, known) for buffer, array in zip(buffers_of(func), arrays, strict=True)]


def _laid_out(buffer: Buffer, array: Any, known: dict[Var, int]) -> Any:
    if not buffer.strides:
        return np.copy(array)
    strides: list[int] = []
    step = 1
    for size, stride in reversed(list(zip(array.shape, buffer.strides, strict=True))):
        if isinstance(stride, IntImm):
            step = stride.value
        elif isinstance(stride, Var):
            step = known.setdefault(stride, step if step == 1 else step + _GAP)
        strides.insert(0, step)
        step *= size
    span = 1 + sum((size - 1) * by for size, by in zip(array.shape, strides, strict=True))
    memory = np.zeros(span, array.dtype)
    view = np.lib.stride_tricks.as_strided(memory, array.shape, [by * array.itemsize for by in strides])
    view[...] = array
    return view
