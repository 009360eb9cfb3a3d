"""RoundAfterBias: a bias of 16 bits is added to a sum of float32 before that is rounded, as torch does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from eutectic.ir.module import IRModule
from eutectic.ir.transform import PassContext
from eutectic.relax.analysis.uses import is_call_of, read_once, walk_calls
from eutectic.relax.base import Expr
from eutectic.relax.dpl.bias import check_channel_bias
from eutectic.relax.expr import Call, Constant, Function, VarBinding
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.op.binary import add
from eutectic.relax.op.datatype import astype
from eutectic.relax.op.registry import Trait, has_trait
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.relax.transform.infra import FunctionPass, mutated
from eutectic.relax.transform.widening import WIDE

_SUMS: Final[tuple[Trait, ...]] = ("contraction", "convolution")
_ROUNDED: Final = ((WIDE, "bfloat16"), (WIDE, "float16"))


@dataclass(frozen=True)
class RoundAfterBias(FunctionPass):
    """Add a constant of each channel to convolutions and products of float32 before they are rounded to 16 bits.

    A layer of torch has its bias in the sum, which is rounded once; a graph has two operators, of which each rounds.
    Only sums that nobody else reads, and whose rounded values only the addition does. Functions for a library, and
    composites, keep theirs.

    before:                                   after:
        lv = nn.conv2d(x, w)                      lv = nn.conv2d(x, w)
        lv1 = astype(lv, "bfloat16")              lv1 = add(lv, b_float32)
        gv = add(lv1, b)                          gv = astype(lv1, "bfloat16")

    Accuracy: one rounding less.
    Cost: linear in the size of the function.
    """

    def run_function(self, function: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Rewrite one function."""
        if any(map(function.attr, ("Codegen", "Composite", "Primitive"))):
            return function
        return mutated(function, _Rounder(function))


@dataclass(frozen=True)
class _Biased:
    """A sum of products that is rounded before a bias is added.

    Attributes:
        total: The sum.
        rounded: The variable of what it is rounded to.
        bias: One value per channel.
    """

    total: Expr
    rounded: Expr
    bias: Constant


class _Rounder(PyExprMutator):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self._read_once = read_once(function)
        found = {call: biased for call in walk_calls(function) if (biased := self._biased(call)) is not None}
        self._found, self._left_out = found, {biased.rounded for biased in found.values()}

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """Leave out what is rounded too early."""
        if binding.var not in self._left_out:
            super().visit_var_binding_(binding)

    def visit_call_(self, call: Call) -> Expr:
        """Rewrite one addition."""
        biased = self._found.get(call)
        if biased is None:
            return super().visit_call_(call)
        bias = Constant(biased.bias.data.astype(WIDE), span=biased.bias.span)
        wide = self.builder_.emit(add(self.visit_expr(biased.total), bias, span=call.span))
        return astype(wide, _dtype(call), span=call.span)

    def _biased(self, call: Call) -> _Biased | None:
        """What an addition adds to a sum of products of float32; None for other calls, and for what others read."""
        for rounded, bias in (call.args, call.args[::-1]) if is_call_of(call, "relax.add") else ():
            cast = self._read_once(rounded)
            if cast is None or not is_call_of(cast, "relax.astype") or not isinstance(bias, Constant):
                continue
            total = self._read_once(cast.args[0])
            if any(has_trait(total, trait) for trait in _SUMS) and (_dtype(total), _dtype(cast)) in _ROUNDED:
                return None if check_channel_bias(total, bias) is not None else _Biased(cast.args[0], rounded, bias)
        return None


def _dtype(value: Expr | None) -> str:
    info = None if value is None else value.struct_info
    return info.dtype if isinstance(info, TensorStructInfo) else ""
