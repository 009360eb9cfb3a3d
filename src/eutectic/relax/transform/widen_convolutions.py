"""WidenConvolutions: convolutions of 16 bits as convolutions of float32, where nobody multiplies 16 bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eutectic.ir.module import IRModule
from eutectic.ir.node import replace
from eutectic.ir.transform import PassContext
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call, Function
from eutectic.relax.op.datatype import astype
from eutectic.relax.op.registry import has_trait, infer_call
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.relax.transform.infra import FunctionPass, mutated
from eutectic.relax.transform.widening import WIDE, WideningMutator


@dataclass(frozen=True)
class WidenConvolutions(FunctionPass):
    """Give convolutions of narrow floats operands of float32, and round their results.

    Sums are float32 in either case, so nothing else changes; but the ways to compute convolutions of float32 are open
    then, such as layouts in blocks and Winograd's method. What is between two convolutions is rounded as before, and
    stays float32 in memory. Constant weights are widened here. Functions for a library, and composites, keep theirs.

    before:                                   after:
        gv = nn.conv2d(x, w)                      lv = astype(x, "float32")
                                                  lv1 = nn.conv2d(lv, w_float32)
                                                  gv = astype(lv1, "bfloat16")

    Accuracy: sums of products may run in another order; each result is rounded once, as before.
    Cost: linear in the size of the function, and a copy of the weights.

    Attributes:
        dtypes: Those of convolutions that are widened, with commas between.
    """

    dtypes: str = "bfloat16,float16"

    def run_function(self, function: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Rewrite one function."""
        if any(map(function.attr, ("Codegen", "Composite", "Primitive"))):
            return function
        return mutated(function, _Widener(self.dtypes.split(",")))


class _Widener(WideningMutator):
    def __init__(self, dtypes: Sequence[str]) -> None:
        super().__init__()
        self._dtypes = dtypes

    def visit_call_(self, call: Call) -> Expr:
        """Widen one convolution."""
        info, attrs = call.struct_info, call.attrs
        if not has_trait(call, "convolution") or not self._is_narrow(call) or attrs is None:
            return super().visit_call_(call)
        assert isinstance(info, TensorStructInfo)
        args = tuple(map(self.widened, map(self.visit_expr, call.args)))
        wide = infer_call(Call(call.op, args, replace(attrs, out_dtype="void"), call.sinfo_args, call.span))
        return wide if info.dtype == WIDE else astype(self.builder_.emit(wide), info.dtype, span=call.span)

    def _is_narrow(self, call: Call) -> bool:
        """Whether all operands are of one of the dtypes, and the result is, or is float32."""
        infos = [value.struct_info for value in (*call.args, call)]
        dtypes = [info.dtype for info in infos if isinstance(info, TensorStructInfo)]
        narrow = {*dtypes[:-1]}
        return len(dtypes) == len(infos) and len(narrow) == 1 and narrow <= {*self._dtypes} >= {dtypes[-1]} - {WIDE}
