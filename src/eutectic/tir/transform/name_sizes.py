"""NameSizes: sizes that are computed are variables of the tensor programs that need nothing else of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Final

from eutectic.arith import simplify
from eutectic.ir.module import IRModule
from eutectic.ir.node import Node
from eutectic.ir.prim_expr import IntImm, PrimExpr, Var, floordiv
from eutectic.ir.structural import structural_equal
from eutectic.ir.transform import Pass, PassContext, with_functions
from eutectic.ir.visit import post_order, rewrite
from eutectic.tir.analysis.conditions import variables
from eutectic.tir.analysis.example_sizes import with_size_in_example
from eutectic.tir.function import PrimFunc
from eutectic.tir.scheduled import was_scheduled
from eutectic.tir.trusted import is_trusted, trust

_STEPS: Final = (2, 3, 4)  # of windows and pools
_BORDERS: Final = (1, 0, -1, 2, -2, 3, -3)  # points around an image, without those of a window


@dataclass(frozen=True)
class NameSizes(Pass):
    """Give a tensor program a variable for each size of its parameters that is computed, where it needs that only.

    Late layers of a model for images of any size have sizes such as `(h + 15) // 16`. What schedules and proofs meet is
    simpler with a variable. What is computed of such a size, as by a step over every other point, is written so; where
    that is not found, the size keeps its form, as what it has in common with others would be lost.

    before:                                                   after:
        h = T.int64()                                             size = T.int64()
        x = T.match_buffer(var_x, ((h + 15) // 16, 8))            x = T.match_buffer(var_x, (size, 8))

    Cost: looks at the sizes of all parameters; linear in the size of programs where some are computed.
    """

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """See the class."""
        changed = {}
        for gv, func in mod.functions_items():
            if isinstance(func, PrimFunc) and not func.attr("global_symbol") and not was_scheduled(func):
                fresh = with_named_sizes(func)
                if fresh is not func:
                    changed[gv] = fresh
        return with_functions(mod, changed)


def with_named_sizes(func: PrimFunc) -> PrimFunc:
    """`NameSizes` of one function."""
    named = func
    for size in _computed(func):
        named = _with_name(named, size)
    return trust(named) if named is not func and is_trusted(func) else named


def _computed(func: PrimFunc) -> list[PrimExpr]:
    """Sizes of parameters that are neither numbers nor variables, each once; those in others last."""
    found: list[PrimExpr] = []
    for buffer in func.buffer_map.values():
        for size in buffer.shape:
            if not isinstance(size, (IntImm, Var)) and not any(structural_equal(size, known) for known in found):
                found.append(size)
    return sorted(found, key=lambda size: -len(list(post_order(size))))


def _with_name(func: PrimFunc, size: PrimExpr) -> PrimFunc:
    """A function with a variable for a size, if what that is computed from is in nothing else then."""
    var = Var(_free_name(func), size.dtype)
    needed = [other for other in _computed(func) if variables(other) & variables(size)]
    steps = [(size, var), *((other, found) for other in needed if (found := _step(other, size, var)) is not None)]

    def change(item: Node) -> Node | None:
        return next((new for old, new in steps if type(item) is type(old) and structural_equal(item, old)), None)

    fresh = rewrite(func, change)
    assert isinstance(fresh, PrimFunc)
    return func if variables(size) & set(_variables(fresh)) else with_size_in_example(fresh, var, size)


def _step(other: PrimExpr, size: PrimExpr, var: Var) -> PrimExpr | None:
    """A size as steps over the points of another one, which has a variable; None where it is not found to be that."""
    for every, more in product(_STEPS, _BORDERS):
        if structural_equal(simplify(floordiv(size + more, every)), other):
            return floordiv(var + more, every)
    return None


def _variables(func: PrimFunc) -> Iterator[Var]:
    """The variables in the body and the buffers of a function."""
    roots: list[Node] = [func.body, *func.buffer_map.values()]
    return (item for root in roots for item in post_order(root) if isinstance(item, Var))


def _free_name(func: PrimFunc) -> str:
    taken = {var.name for var in _variables(func)}
    return next(
        name for name in ("size", *(f"size_{number}" for number in range(1, len(taken) + 2))) if name not in taken
    )
