"""MarkFiniteConstants: tensor programs are told which of their parameters are constants without infinities and NaN."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from eutectic.ir.module import IRModule
from eutectic.ir.transform import Pass, PassContext, with_functions
from eutectic.ir.visit import post_order
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call, Constant
from eutectic.relax.transform.tir_calls import only_tir_calls, passed_by
from eutectic.tir.function import PrimFunc
from eutectic.tir.function_attributes import FINITE_PARAMS
from eutectic.tir.op import is_if_then_else
from eutectic.tir.stmt import BufferStore


@dataclass(frozen=True)
class MarkFiniteConstants(Pass):
    """Tell tensor programs that pad which of their parameters are finite constants in all calls.

    Products of these with the zeros of a border are zeros, so that schedules may leave them out. Programs that are seen
    from outside, or called otherwise, are told nothing.

    before:                                         after:
        def conv2d(x, w, y):                            def conv2d(x, w, y):
            ...                                             T.func_attr({"tir.finite_params": [1]})
        y = call_tir(conv2d, (x, constant), ...)            ...
                                                        y = call_tir(conv2d, (x, constant), ...)

    Cost: reads the constants that such programs are called with.
    """

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """See the class."""
        programs = {gv: func for gv, func in mod.functions_items() if isinstance(func, PrimFunc) and _pads(func)}
        calls = only_tir_calls(mod) if programs else {}
        called = {gv: calls[gv] for gv, func in programs.items() if gv in calls and not func.attr("global_symbol")}
        marks = {gv: _finite(own) for gv, own in called.items()}
        return with_functions(
            mod, {gv: programs[gv].with_attr(FINITE_PARAMS, mark) for gv, mark in marks.items() if mark}
        )


def _pads(func: PrimFunc) -> bool:
    """Whether a program writes elements that are chosen by a condition."""
    return any(isinstance(item, BufferStore) and is_if_then_else(item.value) for item in post_order(func.body))


def _finite(calls: Iterable[Call]) -> tuple[int, ...]:
    """The places that have a finite constant in every call."""
    places = [{k for k, arg in enumerate(passed_by(call)) if _is_finite(arg)} for call in calls]
    return tuple(sorted(set.intersection(*places)))


def _is_finite(arg: Expr) -> bool:
    array = arg.data if isinstance(arg, Constant) else None
    if not isinstance(array, np.ndarray):
        return False
    return array.dtype.kind in "iub" or (array.dtype.kind == "f" and bool(np.isfinite(array).all()))
