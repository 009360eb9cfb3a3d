"""Reductions with epilogues: what `fuse_reduction_epilogue` must fuse or refuse, and whether the result is the same.

Every program has parameters A, B, C, X and D: a reduction over the products of A and B, whose result `temp` a block
`epilogue` reads; C is a bias, X has the shape of the result, D is the output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from eutectic.ir.dtype import is_float, is_integer, to_numpy
from eutectic.script import from_source
from eutectic.support.errors import InternalError, ScheduleError
from eutectic.tir import PrimFunc
from eutectic.tir.analysis.index_facts import loops_of
from eutectic.tir.buffer import Buffer
from eutectic.tir.interpret import run
from eutectic.tir.schedule import Schedule
from eutectic.tir.schedule.validate import inputs
from eutectic.tir.transform import lower

KINDS: Final = ("numbers", "small integers", "special values", "large integers")
_TEXT: Final = """
from tvm.script import tir as T

@T.prim_func
def main({head}A: T.Buffer((3, {terms}), "{dtype}"), B: T.Buffer(({terms}, 4), "{dtype}"), C: T.Buffer((4,), "{dtype}"),
         X: T.Buffer((3, 4), "{dtype}"), D: T.Buffer({shape}, "{out}"){tail}):
{declared}
{before}
    for i, j, k in T.grid(3, 4, {terms}):
        with T.block("sum"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                temp[vi, vj] = {init}
            temp[vi, vj] = {update}
{between}
{epilogue}
{after}
"""
_EPILOGUE: Final = """
    for i, j in T.grid({grid}):
        with T.block("epilogue"):
            vi, vj = T.axis.remap("SS", [i, j])
            {where}
            D[{store}] = {value}
"""


@dataclass(frozen=True)
class Case:
    """A program of a reduction `sum` and a block `epilogue`.

    Attributes:
        name: The reduction, the epilogue, and what else is particular.
        source: Its text; `T` is the only name in it.
        fuses: Whether the two can be one.
        prepare: What is done to the schedule before.
        reduction: Name of the reduction after that.
        has_terms: Whether anything is added; otherwise only lowered programs store initial values.
    """

    name: str
    source: str
    fuses: bool = True
    prepare: Callable[[Schedule], Any] = field(default=lambda sch: None)
    reduction: str = "sum"
    has_terms: bool = True

    @property
    def program(self) -> PrimFunc:
        """The program."""
        func = from_source(self.source)
        assert isinstance(func, PrimFunc)
        return func


@dataclass(frozen=True)
class Outcome:
    """What became of a case.

    Attributes:
        case: The case.
        result: `fused`, `refused` or `wrong`.
        said: How it was fused, why it was refused, or where the results differ.
    """

    case: Case
    result: str
    said: str


def program(
    value: str,
    *,
    dtype: str = "float32",
    out: str | None = None,
    init: str = "{zero}",
    update: str = "{s} + {p}",
    **slots: Any,
) -> str:
    """The text of a case.

    Args:
        value: What the epilogue computes; `{s}` is the sum, `{c}` the bias, `{x}` an element of X, `{zero}` zero.
        dtype: Dtype of everything but D.
        out: Dtype of D; None is `dtype`.
        init: What the reduction begins with.
        update: What it does with a term `{p}`.
        **slots: Other slots of the templates.
    """
    s = slots.pop("sum", "temp[vi, vj]")
    own = {"s": "temp[vi, vj]", "p": "A[vi, vk] * B[vk, vj]", "zero": f"T.{dtype}(0)", "c": "C[vj]"}
    fields = {"grid": "3, 4", "where": "T.where(T.bool(True))", "store": "vi, vj", "shape": "(3, 4)", "terms": "5"}
    fields |= {"head": "", "tail": "", "before": "", "between": "", "after": "", "dtype": dtype, "out": out or dtype}
    fields |= {"declared": f'    temp = T.alloc_buffer((3, 4), "{dtype}")'} | slots
    fields |= {"init": init.format(**own), "update": update.format(**own)}
    fields["value"] = value.format(**own | {"s": s, "x": "X[vi, vj]"})
    fields.setdefault("epilogue", _EPILOGUE.format(**fields))
    return _TEXT.format(**fields)


def check(case: Case) -> Outcome:
    """Fuse the two blocks of a case, and run the program before and after."""
    before = case.program
    sch = Schedule(before, error_render_level="none")
    case.prepare(sch)
    try:
        sch.fuse_reduction_epilogue(case.reduction, "epilogue")
    except ScheduleError as error:
        return Outcome(case, "refused", error.message.removeprefix("fuse_reduction_epilogue: "))
    after = sch.func
    for version in (after, lower(after)) if case.has_terms else (lower(after),):
        difference = next(differences(before if case.has_terms else lower(before), version), None)
        if difference is not None:
            return Outcome(case, "wrong", difference)
    return Outcome(case, "fused", _form(sch))


def _form(sch: Schedule) -> str:
    root, *blocks = [site.block for site in sch.state.index("main").blocks]
    if not any(block.name_hint == "epilogue" for block in blocks):
        return "the sum begins with the term"
    kept = any(buffer.name == "temp" for buffer in (*root.alloc_buffers, *sch.func.buffer_map.values()))
    return "after the loops, the sum in temp" if kept else "after the loops, the sum in D"


def differences(before: PrimFunc, after: PrimFunc) -> Iterator[str]:
    """Where two programs give other bits, on numbers of all kinds; parallel loops run in both directions."""
    serial = all(loop.kind == "serial" for loop in loops_of(after.body))
    for kind in KINDS:
        args = arguments(before, kind)
        want = [np.copy(x) for x in args]
        run(before, *want)
        for order in ("forward",) if serial else ("forward", "reverse"):
            got = [np.copy(x) for x in args]
            try:
                run(after, *got, order=order)
            except InternalError as error:
                yield f"undefined: {error.message}"
                continue
            for name, a, b in zip([item.name for item in before.buffers], want, got, strict=True):
                if np.asarray(a).tobytes() != np.asarray(b).tobytes():
                    count = np.count_nonzero(np.asarray(a) != np.asarray(b))
                    yield f"{name} differs in {count} of {np.asarray(a).size} elements for {kind}"


def arguments(func: PrimFunc, kind: str) -> list[Any]:
    """Arguments of a program; `large integers` are of the whole range of the dtype, so that sums wrap around."""
    arrays = inputs(func, "numbers" if kind == "large integers" else kind, seed=3)
    if kind != "large integers":
        return arrays
    rng = np.random.default_rng(4)

    def drawn(item: Any, array: Any) -> Any:
        if not isinstance(item, Buffer) or not is_integer(item.dtype):
            return array * np.float32(1e19) if isinstance(item, Buffer) and is_float(item.dtype) else array
        ends = np.iinfo(to_numpy(item.dtype))
        return rng.integers(ends.min, ends.max, array.shape, dtype=to_numpy(item.dtype), endpoint=True)

    with np.errstate(over="ignore"):
        return [
            np.asarray(drawn(item, array)).astype(np.asarray(array).dtype) if isinstance(item, Buffer) else array
            for item, array in zip(func.buffers, arrays, strict=True)
        ]
