"""MarkFiniteConstants: tensor programs are told which of their parameters are constants without infinities and NaN."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.transform import Pass, PassContext, with_functions
from eutectic.ir.visit import post_order
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call, Constant, Function, Tuple
from eutectic.relax.transform.fuse_ops import is_call_tir
from eutectic.tir.function import PrimFunc
from eutectic.tir.function_attributes import FINITE_PARAMS
from eutectic.tir.op import is_if_then_else
from eutectic.tir.stmt import BufferStore


@dataclass(frozen=True)
class MarkFiniteConstants(Pass):
    """Tell tensor programs that pad which of their parameters are finite constants in all calls.

    Products of these with the zeros of a border are zeros, so that schedules may leave them out. Programs that are seen
    from outside, or called otherwise, are told nothing.

    before:                                               after:
        @T.prim_func(private=True)                            @T.prim_func(private=True)
        def conv2d(x: ..., w: ..., y: ...):                   def conv2d(x: ..., w: ..., y: ...):
            ...                                                   T.func_attr({"tir.finite_params": [1]})
        y = call_tir(conv2d, (x, constant), ...)                  ...

    Cost: reads the constants that such programs are called with.
    """

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """See the class."""
        programs = {gv: func for gv, func in mod.functions_items() if isinstance(func, PrimFunc) and _pads(func)}
        own = {gv for gv, func in programs.items() if not func.attr("global_symbol")}
        calls = _calls(mod, own) if own else {}
        marks = {gv: _finite(calls[gv]) for gv in programs if calls.get(gv)}
        return with_functions(mod, {gv: programs[gv].with_attr(FINITE_PARAMS, marks[gv]) for gv in marks if marks[gv]})


def _pads(func: PrimFunc) -> bool:
    """Whether a program writes elements that are chosen by a condition."""
    return any(isinstance(item, BufferStore) and is_if_then_else(item.value) for item in post_order(func.body))


def _calls(mod: IRModule, programs: set[GlobalVar]) -> dict[GlobalVar, list[Call]]:
    """The calls of some programs from graphs; none of those that something else mentions."""
    calls: dict[GlobalVar, list[Call]] = {}
    otherwise: set[GlobalVar] = set()
    graphs = [func for _, func in mod.functions_items() if isinstance(func, Function)]
    for item in (item for graph in graphs for item in post_order(graph)):
        if isinstance(item, Call):
            mentioned = {arg for arg in item.args if isinstance(arg, GlobalVar) and arg in programs}
            if is_call_tir(item):
                for gv in mentioned:
                    calls.setdefault(gv, []).append(item)
            else:
                otherwise |= mentioned
    return {gv: found for gv, found in calls.items() if gv not in otherwise}


def _finite(calls: Iterable[Call]) -> tuple[int, ...]:
    """The places that have a finite constant in every call."""
    places = [{k for k, arg in enumerate(_arguments(call)) if _is_finite(arg)} for call in calls]
    return tuple(sorted(set.intersection(*places)))


def _arguments(call: Call) -> tuple[Expr, ...]:
    return call.args[1].fields if isinstance(call.args[1], Tuple) else (call.args[1],)


def _is_finite(arg: Expr) -> bool:
    array = arg.data if isinstance(arg, Constant) else None
    if not isinstance(array, np.ndarray):
        return False
    return array.dtype.kind in "iub" or (array.dtype.kind == "f" and bool(np.isfinite(array).all()))
