"""Programs run before and after a step in the reference interpreter, on inputs that show differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NoReturn, TypeAlias

import ml_dtypes
import numpy as np

from eutectic.ir.dtype import integer_limits, is_float, to_numpy
from eutectic.ir.node import Node, fields_of, replace
from eutectic.ir.prim_expr import Call, PrimExpr, Var, evaluate
from eutectic.ir.visit import post_order, rewrite
from eutectic.support.errors import CallError, InternalError, ScheduleError
from eutectic.tir.buffer import Buffer
from eutectic.tir.function import PrimFunc
from eutectic.tir.function_attributes import finite_params
from eutectic.tir.interpret import run
from eutectic.tir.schedule.reproducer import save_reproducer

Same: TypeAlias = "Callable[[Any, Any], Any]"  # where two arrays agree
SIZES: Final = (3, 1, 4)  # of sizes that are variables, one after another
KINDS: Final = ("numbers", "small integers", "special values")
_CASES: Final[tuple[tuple[str, tuple[int, ...]], ...]] = (
    ("numbers", SIZES),
    ("small integers", (5, 7, 2)),
    ("special values", (1, 3, 1)),
    ("extreme values", SIZES),
    ("numbers", (0, 2, 0)),  # only where sizes are variables
)
_BITS: Final = ("tir.reinterpret",)  # what depends on how floats are stored
_NINE_DIGITS: Final = 1e-9  # of the largest magnitude of a result, in float64


def compare_programs(before: PrimFunc, after: PrimFunc, step: str) -> None:
    """Run two versions of a program on the same inputs; results must agree bit for bit.

    Inputs are random numbers, small integers (whose sums are exact), ones with NaN, infinities and negative zero in
    single places, and ones with denormals and the largest numbers; sizes that are variables are 0, 1, and others. The
    second version also runs with parallel iterations reversed.

    Args:
        before: The program.
        after: The same after a step.
        step: What the step is called in the message.

    Raises:
        ScheduleError: an element differs, or the second version does something undefined which the first does not,
            or only one of the two refuses the inputs by a check of its own (an index out of bounds). The message
            names a folder with a script that shows it again.
    """
    _compare_on(before, after, step, _CASES if _has_sizes(before) else _CASES[:-1], _same_bits)


def compare_sums(before: PrimFunc, after: PrimFunc, step: str) -> None:
    """As `compare_programs`, for a step that changes the order of additions of floats: both run in float64.

    Results must agree to nine digits of the largest; a program that looks at the bits of floats is not compared.
    """
    wide = [in_float64(func) for func in (before, after)]
    if wide[0] is not None and wide[1] is not None:
        cases = [case for case in _CASES if case[0] in ("numbers", "small integers")]
        _compare_on(wide[0], wide[1], step, cases if _has_sizes(before) else cases[:-1], _near)


def _compare_on(
    before: PrimFunc, after: PrimFunc, step: str, cases: Sequence[tuple[str, tuple[int, ...]]], same: Same
) -> None:
    for kind, sizes in cases:
        arrays = inputs(before, kind, sizes=sizes)
        want = [np.copy(x) for x in arrays]
        try:
            refused = _refusal(before, want)
        except InternalError:
            continue  # undefined for this input already
        for order in ("forward", "reverse"):
            got = [np.copy(x) for x in arrays]
            try:
                refused_after = _refusal(after, got, order)
            except InternalError as error:
                message = f"{step} makes the program do what is not defined"
                _fail(before, after, arrays, kind, message, [error.message])
            if bool(refused) != bool(refused_after):
                message = f"{step} changes which inputs the program refuses"
                _fail(before, after, arrays, kind, message, [refused or refused_after])
            if refused:
                continue  # what it had written by then is nobody's result
            for buffer, a, b in zip(after.buffers, want, got, strict=True):
                difference = _difference(np.asarray(a), np.asarray(b), same)
                if difference is not None:
                    message = f"{step} changes what the program computes: {buffer.name}{difference}"
                    _fail(before, after, arrays, kind, message, [])


def _refusal(func: PrimFunc, arrays: Sequence[Any], order: str = "forward") -> str:
    """Run a function; the message of its own check that refuses the arrays, empty where none does."""
    try:
        run(func, *arrays, order=order)
    except CallError as error:
        return error.message
    return ""


def _fail(
    before: PrimFunc, after: PrimFunc, arrays: Sequence[Any], kind: str, message: str, notes: Sequence[str]
) -> NoReturn:
    folder = save_reproducer(before, after, arrays)
    raise ScheduleError(
        message,
        notes=[*notes, f"the inputs were {kind}", f"python {folder / 'reproduce.py'} shows it again"],
        help="this is a bug of the primitive: please report it with the files in that folder",
    )


def _same_bits(want: Any, got: Any) -> Any:
    """Where the bits of two arrays are the same, element by element."""
    bits = [array.reshape(-1).view(np.uint8).reshape(-1, array.itemsize) for array in (want, got)]
    return (bits[0] == bits[1]).all(axis=1)


def _near(want: Any, got: Any) -> Any:
    """Where two arrays agree up to rounding in float64."""
    a, b = want.reshape(-1), got.reshape(-1)
    if a.dtype != np.float64:
        return a == b
    scale = float(np.abs(a[np.isfinite(a)]).max(initial=0.0))
    with np.errstate(invalid="ignore"):
        return (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= _NINE_DIGITS * scale)


def _difference(want: Any, got: Any, same: Same) -> str | None:
    """The first element that differs, with both values."""
    wrong = np.flatnonzero(~same(want, got)) if want.size else np.zeros(0, int)
    if not wrong.size:
        return None
    at = tuple(int(k) for k in np.unravel_index(int(wrong[0]), want.shape))
    return f"[{', '.join(map(str, at))}] was {want[at].item()!r} and is {got[at].item()!r}"


def _has_sizes(func: PrimFunc) -> bool:
    return any(True for _ in _sizes(func, SIZES))


def in_float64(func: PrimFunc) -> PrimFunc | None:
    """The function with all floats in float64; None when it looks at the bits of floats."""
    for item in post_order(func):
        if isinstance(item, Call) and getattr(item.op, "name", "") in _BITS:
            return None

    def change(item: Node) -> Node | None:
        dtype = getattr(item, "dtype", None)
        if not isinstance(dtype, str) or all(name != "dtype" for name, _, _ in fields_of(item)):
            return None
        name, _, lanes = dtype.partition("x")
        wide = f"float64x{lanes}" if lanes else "float64"
        return replace(item, dtype=wide) if is_float(name) and dtype != wide else None

    widened = rewrite(func, change)
    assert isinstance(widened, PrimFunc)
    return widened


def inputs(func: PrimFunc, kind: str, seed: int = 0, sizes: Sequence[int] = SIZES) -> list[Any]:
    """Arguments for a function, finite ones for parameters that its attribute `tir.finite_params` names.

    Args:
        func: The function.
        kind: `numbers`, `small integers`, `special values` or `extreme values`.
        seed: Where the numbers begin.
        sizes: Of sizes that are variables, one after another.
    """
    rng = np.random.default_rng(seed)
    known = dict(_sizes(func, sizes))
    finite = finite_params(func)
    arguments: list[Any] = []
    for place, item in enumerate(func.buffers):
        if isinstance(item, Buffer):
            own = "numbers" if place in finite and kind == "special values" else kind
            arguments.append(edge_case_input(item.dtype, [evaluate(size, known) for size in item.shape], own, rng))
        else:
            arguments.append(known.get(item, 1))
    return arguments


def _sizes(func: PrimFunc, sizes: Sequence[int]) -> Iterator[tuple[Var, int]]:
    scalars: list[PrimExpr] = []
    for item in func.buffers:
        scalars += [*item.shape, *item.strides] if isinstance(item, Buffer) else [item]
    variables = dict.fromkeys(part for scalar in scalars for part in post_order(scalar) if isinstance(part, Var))
    for number, var in enumerate(variables):
        yield var, sizes[number % len(sizes)]


def edge_case_input(
    dtype: str, shape: Sequence[int], kind: str, rng: np.random.Generator, scale: float = 3.0
) -> np.ndarray[Any, Any]:
    """Values that show differences.

    Args:
        dtype: Of the values.
        shape: Of the array.
        kind: One of `KINDS`, or `extreme values`; integers are small ones that are not negative except for these.
        rng: Where the values come from.
        scale: Standard deviation of random floats.
    """
    if dtype == "bool":
        return np.asarray(rng.integers(0, 2, shape)).astype(bool)
    if kind == "extreme values":
        return _extremes(dtype, shape, rng)
    if not is_float(dtype):
        return np.asarray(rng.integers(0, 4, shape)).astype(to_numpy(dtype))
    if kind == "small integers":
        return np.asarray(rng.integers(-4, 5, shape)).astype(to_numpy(dtype))
    values = np.asarray(rng.standard_normal(shape) * scale)
    if kind == "special values" and values.size:
        flat = values.reshape(-1)
        for place, special in enumerate((np.nan, np.inf, -np.inf, -0.0)):
            flat[(place * 7 + 3) % flat.size] = special
    return values.astype(to_numpy(dtype))


def _extremes(dtype: str, shape: Sequence[int], rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Denormals and the largest floats, or the smallest and the largest integers, among small ones."""
    if is_float(dtype):
        info: Any = ml_dtypes.finfo(to_numpy(dtype))  # type: ignore[no-untyped-call]  # as ml_dtypes ships it
        tiny, largest = float(info.smallest_subnormal), float(info.max)
        some = [tiny, -3 * tiny, largest, -largest, 0.0, -0.0, 1.0, -2.5]
    else:
        low, high = integer_limits(dtype)
        some = [int(low), int(high), 0, 1, *((-1,) if low < 0 else ())]
    return np.asarray(rng.choice(np.array(some, dtype=to_numpy(dtype)), tuple(shape)))
