"""CombinePermuteDims: one permutation of axes instead of several that follow each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eutectic.ir.module import IRModule
from eutectic.ir.op import Op
from eutectic.ir.transform import PassContext
from eutectic.relax.expr import Call, Function
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.op.manipulate import PermuteDimsAttrs, permute_dims
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.relax.transform.infra import FunctionPass, mutated


@dataclass(frozen=True)
class CombinePermuteDims(FunctionPass):
    """Permute what the first of several permutations takes; none is left of those that bring the axes back.

    before:                                         after:
        lv = permute_dims(x, [0, 2, 1, 3])              lv1 = nn.relu(x)
        lv0 = permute_dims(lv, [0, 2, 1, 3])
        lv1 = nn.relu(lv0)
    """

    def run_function(self, function: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Rewrite one function."""
        return mutated(function, _Combiner())


class _Combiner(PyExprMutator):
    def visit_call_(self, call: Call) -> Any:
        """Permute the operand of a permutation that is one itself."""
        visited: Any = super().visit_call_(call)
        outer = _order(visited)
        before: Any = None if outer is None else self.lookup_binding(visited.args[0])
        inner = _order(before)
        if outer is None or inner is None:
            return visited
        order = [inner[axis] for axis in outer]
        source = before.args[0]
        return source if order == sorted(order) else permute_dims(source, order, span=call.span)


def _order(value: Any) -> tuple[int, ...] | None:
    """The axes of a permutation, counted from the front; None of anything else."""
    if not isinstance(value, Call) or not isinstance(value.op, Op) or value.op.name != "relax.permute_dims":
        return None
    info, attrs = value.args[0].struct_info, value.attrs
    assert isinstance(attrs, PermuteDimsAttrs)
    if not isinstance(info, TensorStructInfo) or info.ndim < 0:
        return None
    axes = range(info.ndim)[::-1] if attrs.axes is None else attrs.axes
    return tuple(axis % info.ndim for axis in axes)
