"""Calls of tensor programs in graphs: what they pass, and which programs are called in no other way."""

from __future__ import annotations

from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.visit import post_order
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call, Tuple
from eutectic.relax.transform.fuse_ops import is_call_tir


def passed_by(call: Call) -> tuple[Expr, ...]:
    """The tensors that a `call_tir`, or a call of a library in its form, passes."""
    return call.args[1].fields if isinstance(call.args[1], Tuple) else (call.args[1],)


def only_tir_calls(mod: IRModule) -> dict[GlobalVar, list[Call]]:
    """The calls of each function that `call_tir` calls, of those that no other operator of a graph mentions."""
    calls: dict[GlobalVar, list[Call]] = {}
    otherwise: set[GlobalVar] = set()
    for _, func in mod.functions_items():
        for item in post_order(func):
            if not isinstance(item, Call):
                continue
            mentioned = {arg for arg in item.args if isinstance(arg, GlobalVar)}
            if not is_call_tir(item):
                otherwise |= mentioned
                continue
            for gv in mentioned:
                calls.setdefault(gv, []).append(item)
    return {gv: found for gv, found in calls.items() if gv not in otherwise}
