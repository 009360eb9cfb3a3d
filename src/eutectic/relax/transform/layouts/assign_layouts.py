"""AssignLayouts: steps are computed in the layouts that cost least, and copies stand where layouts meet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from eutectic.ir.module import IRModule
from eutectic.ir.node import replace
from eutectic.ir.transform import PassContext
from eutectic.relax.base import Expr
from eutectic.relax.expr import BindingBlock, Call, DataflowVar, Function, Tuple, Var, VarBinding
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.op.layout_transform import layout_transform
from eutectic.relax.op.registry import infer_call, op_def
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.relax.transform.infra import FunctionPass
from eutectic.relax.transform.layouts.choice import chosen_offers, row_major
from eutectic.relax.transform.layouts.offers import LayoutOffer, offers_of
from eutectic.target import Target, target_or_current


@dataclass(frozen=True)
class AssignLayouts(FunctionPass):
    """Choose a layout for every value, of those that the steps offer.

    A step, here a call of an operator, is offered in several layouts by what makes code for the target: each offer
    says what is read, what is written, and an estimate of the nanoseconds. A copy costs the bytes that it moves. The
    sum is least for chains, trees and residual networks, and small for others (`selection.py`). Parameters and results
    of functions stay row-major. What the graph then says is all there is: options of the calls name layouts, and
    `layout_transform` is where they change; of constants `FoldConstant` does that at compile time.

    Before, and after::

        lv = nn.conv2d(x, w)            wp = layout_transform(w, "OIHW", "OIHW16o")
        gv = nn.relu(lv)                lv = nn.conv2d(x, wp, kernel_layout="OIHW16o", out_layout="NCHW16c")
                                        lv1 = nn.relu(lv)
                                        gv = layout_transform(lv1, "NCHW16c", "NCHW")

    Accuracy: sums of products may run in another order.
    Cost: linear in the number of steps, times the square of the number of their offers.

    Attributes:
        target: What for, as the text of a target; when empty, the current target, else this machine.

    Reference: R. Liu et al., "Optimizing CNN model inference on CPUs" (NeoCPU), USENIX ATC 2019; the method is that of
    `selection.py`.
    """

    target: str = ""

    def run_function(self, function: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Choose for one function; regions of libraries and the insides of groups are left alone."""
        if any(function.attr(name) for name in ("Codegen", "Composite", "Primitive")):
            return function
        target: Target = target_or_current(self.target or None)
        chosen = chosen_offers(function, offers_of(target))
        if not chosen:
            return function
        fresh = _Assigner(chosen).visit_expr(function)
        assert isinstance(fresh, Function)
        return fresh


class _Assigner(PyExprMutator):
    """Writes a function in the chosen layouts.

    Args:
        chosen: Offers by variable.
    """

    def __init__(self, chosen: Mapping[Var, LayoutOffer]) -> None:
        super().__init__()
        self._chosen = chosen
        self._computed: dict[Var, tuple[Var, str]] = {}  # a value in another layout than the graph says
        self._copies: dict[tuple[Var, str], Expr] = {}

    def visit_binding_block(self, block: BindingBlock) -> BindingBlock:
        """Copies are visible in the block that they are made in."""
        outside, self._copies = self._copies, {}
        rewritten = super().visit_binding_block(block)
        self._copies = outside
        return rewritten

    def visit_var_(self, var: Var) -> Expr:
        """The value as the graph says it: row-major."""
        return self._in_layout(var, "") if var in self._computed else super().visit_var_(var)

    visit_dataflow_var_ = visit_var_

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """Compute a step as it was chosen."""
        offer = self._chosen.get(binding.var)
        if offer is None:
            super().visit_var_binding_(binding)
            return
        assert isinstance(binding.value, Call)
        step = self._step(binding.value, offer)
        if not offer.result:
            super().visit_var_binding_(VarBinding(binding.var, step))
            return
        if isinstance(binding.var, DataflowVar):
            self._computed[binding.var] = (self.builder_.emit(step, binding.var.name_hint), offer.result)
            return
        copy = _transform(self.builder_.emit(step), offer.result, "")  # visible outside of its block, so row-major
        self.builder_.emit_normalized(VarBinding(binding.var, self.builder_.normalize(copy)))

    def _step(self, call: Call, offer: LayoutOffer) -> Call:
        """A call on arguments in the layouts of an offer."""
        operands: list[str] = []

        def put(arg: Expr) -> Expr:
            if not isinstance(arg.struct_info, TensorStructInfo):
                return arg
            operands.append(offer.operand(len(operands)))
            return self._in_layout(arg, operands[-1])

        args = [
            self.builder_.normalize(replace(arg, fields=tuple(map(put, arg.fields)), struct_info=None))
            if isinstance(arg, Tuple)
            else put(arg)
            for arg in call.args
        ]
        definition = op_def(call.op)
        if definition is not None and definition.in_layouts_fn is not None:
            return definition.in_layouts_fn(call, args, operands, offer.result)
        return infer_call(replace(call, args=tuple(args), struct_info=None))

    def _in_layout(self, value: Expr, wanted: str) -> Expr:
        """A value in a layout; each copy is made once."""
        if not isinstance(value, Var):
            return self.builder_.emit(_transform(value, "", wanted)) if wanted else value
        fresh, there = self._computed.get(value, (None, ""))
        source = fresh if fresh is not None else super().visit_var_(value)
        if there == wanted:
            return source
        if (value, wanted) not in self._copies:
            self._copies[value, wanted] = self.builder_.emit(_transform(source, there, wanted))
        return self._copies[value, wanted]


def _transform(value: Expr, there: str, wanted: str) -> Call:
    """A value in another layout."""
    plain = row_major(there or wanted)
    return layout_transform(value, there or plain, wanted or plain, span=value.span)
