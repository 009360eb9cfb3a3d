"""Programs run before and after a step in the reference interpreter, on inputs that show differences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from eutectic.ir.dtype import is_float, to_numpy
from eutectic.ir.prim_expr import PrimExpr, Var, evaluate
from eutectic.ir.visit import post_order
from eutectic.support.errors import InternalError, ScheduleError
from eutectic.tir.buffer import Buffer
from eutectic.tir.function import PrimFunc
from eutectic.tir.interpret import run

SIZES: Final = (3, 1, 4)  # of sizes that are variables, one after another
KINDS: Final = ("numbers", "small integers", "special values")


def compare_programs(before: PrimFunc, after: PrimFunc, step: str) -> None:
    """Run two versions of a program on the same inputs; results must agree bit for bit.

    Inputs are random numbers, small integers (whose sums are exact), and ones with NaN, infinities
    and negative zero in single places. The second version also runs with parallel iterations reversed.

    Args:
        before: The program.
        after: The same after a step.
        step: What the step is called in the message.

    Raises:
        ScheduleError: an element differs, or the second version does something undefined which the first does not.
    """
    for kind in KINDS:
        given = inputs(before, kind)
        want = [np.copy(x) for x in given]
        try:
            run(before, *want)
        except InternalError:
            continue  # undefined for this input already
        for order in ("forward", "reverse"):
            got = [np.copy(x) for x in given]
            try:
                run(after, *got, order=order)
            except InternalError as error:
                raise ScheduleError(
                    f"{step} makes the program do what is not defined", notes=[error.message]
                ) from error
            for buffer, a, b in zip(after.buffers, want, got, strict=True):
                _compare(step, buffer.name, kind, np.asarray(a), np.asarray(b))


def _compare(step: str, name: str, kind: str, want: Any, got: Any) -> None:
    different = want.reshape(-1).view(np.uint8) != got.reshape(-1).view(np.uint8)
    if not different.any():
        return
    flat = int(np.flatnonzero(different)[0]) // want.itemsize
    at = tuple(int(k) for k in np.unravel_index(flat, want.shape))
    raise ScheduleError(
        f"{step} changes what the program computes: {name}[{', '.join(map(str, at))}] "
        f"was {want[at].item()!r} and is {got[at].item()!r}",
        notes=[f"the inputs were {kind}"],
        help="this is a bug of the primitive: please report it with the program and the trace",
    )


def inputs(func: PrimFunc, kind: str, seed: int = 0) -> list[Any]:
    """Arguments for a function.

    Args:
        func: The function; sizes that are variables become small numbers.
        kind: `numbers`, `small integers` or `special values`.
        seed: Where the numbers begin.
    """
    dice = np.random.default_rng(seed)
    sizes = dict(_sizes(func))
    return [
        telling_array(item.dtype, [evaluate(size, sizes) for size in item.shape], kind, dice)
        if isinstance(item, Buffer)
        else sizes.get(item, 1)
        for item in func.buffers
    ]


def _sizes(func: PrimFunc) -> Iterator[tuple[Var, int]]:
    scalars: list[PrimExpr] = []
    for item in func.buffers:
        scalars += [*item.shape, *item.strides] if isinstance(item, Buffer) else [item]
    found = dict.fromkeys(part for scalar in scalars for part in post_order(scalar) if isinstance(part, Var))
    for number, var in enumerate(found):
        yield var, SIZES[number % len(SIZES)]


def telling_array(
    dtype: str, shape: Sequence[int], kind: str, dice: np.random.Generator, scale: float = 3.0
) -> np.ndarray[Any, Any]:
    """Values that show differences.

    Args:
        dtype: Of the values.
        shape: Of the array.
        kind: One of `KINDS`; integers and bools are the same for all.
        dice: Where the values come from.
        scale: Standard deviation of random floats.
    """
    if dtype == "bool":
        return np.asarray(dice.integers(0, 2, shape)).astype(bool)
    if not is_float(dtype):
        return np.asarray(dice.integers(0, 4, shape)).astype(to_numpy(dtype))
    if kind == "small integers":
        return np.asarray(dice.integers(-4, 5, shape)).astype(to_numpy(dtype))
    values = np.asarray(dice.standard_normal(shape) * scale)
    if kind == "special values" and values.size:
        flat = values.reshape(-1)
        for place, special in enumerate((np.nan, np.inf, -np.inf, -0.0)):
            flat[(place * 7 + 3) % flat.size] = special
    return values.astype(to_numpy(dtype))
