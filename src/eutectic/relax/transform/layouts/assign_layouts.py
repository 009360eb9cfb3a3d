"""AssignLayouts: steps are computed in the layouts that cost least, and copies stand where layouts meet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eutectic.ir.module import BaseFunc, GlobalVar, IRModule
from eutectic.ir.node import replace
from eutectic.ir.services import Services
from eutectic.ir.transform import Pass, PassContext, with_functions
from eutectic.relax.analysis.uses import used_vars, walk_bindings
from eutectic.relax.base import Expr
from eutectic.relax.expr import BindingBlock, Call, DataflowVar, Function, Tuple, TupleGetItem, Var, VarBinding
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.op.layout import row_major
from eutectic.relax.op.layout_transform import layout_transform
from eutectic.relax.op.registry import infer_call, op_def, said_in_layout
from eutectic.relax.struct_info import TensorStructInfo, TupleStructInfo
from eutectic.relax.transform.layouts.borders import has_borders, region_with_borders
from eutectic.relax.transform.layouts.choice import chosen_offers
from eutectic.relax.transform.layouts.offers import ROW_MAJOR, LayoutOffer, offers_of
from eutectic.target import Target, target_or_current


@dataclass(frozen=True)
class AssignLayouts(Pass):
    """Choose a layout for every value, of those that the steps offer.

    A step is a call of an operator, or of a region that a library computes. What makes code for the target, or the
    library, offers it in several layouts: each offer says what is read, what is written, and an estimate of the
    nanoseconds. A copy costs the bytes that it moves. The sum is least for chains, trees and residual networks, and
    small for others (`selection.py`). Parameters and results of functions stay row-major. What the graph then says is
    all there is: options of the calls name layouts, `layout_transform` is where they change, and regions begin and end
    with those of their own (`borders.py`); of constants `FoldConstant` does that at compile time.

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

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Choose for every function; regions of libraries get layouts as the calls of them do."""
        regions: dict[GlobalVar, Function] = {}
        changed: dict[GlobalVar, Any] = {}
        callees = _called_once(mod)
        for gv, function in mod.functions_items():
            if isinstance(function, Function) and not any(map(function.attr, ("Codegen", "Composite", "Primitive"))):
                ask = _Asker(callees, function, ctx.services, target_or_current(self.target or None))
                if chosen := chosen_offers(function, ask):
                    changed[gv] = _Assigner(chosen, ask.regions, regions).visit_expr(function)
        return with_functions(mod, {**changed, **regions})


def _called_once(mod: IRModule) -> dict[GlobalVar, BaseFunc]:
    """The functions of a module that are called at one place only."""
    graphs = [function for _, function in mod.functions_items() if isinstance(function, Function)]
    values = [binding.value for function in graphs for binding in walk_bindings(function)]
    counts = Counter(value.op for value in values if isinstance(value, Call) and isinstance(value.op, GlobalVar))
    return {gv: mod[gv] for gv, count in counts.items() if count == 1 and gv in mod}


class _Asker:
    """In which layouts the steps of a function can be computed: operators by ours, regions by their libraries.

    Args:
        callees: The functions that are called at one place only.
        function: Calls them.
        services: Knows the libraries.
        target: What code is made for.

    Attributes:
        regions: Those that have been asked for, by what they are called.
    """

    def __init__(
        self, callees: Mapping[GlobalVar, BaseFunc], function: Function, services: Services, target: Target
    ) -> None:
        self._callees, self._services = callees, services
        self._operators = offers_of(target, services.measured.speeds)
        bindings = list(walk_bindings(function))
        self._variables = {id(binding.value): binding.var for binding in bindings}
        self._inner = {binding.var for binding in bindings}
        self._read = {var for binding in bindings for var in used_vars(binding.value)}
        self.regions: dict[GlobalVar, Function] = {}

    def __call__(self, call: Call) -> Sequence[LayoutOffer]:
        """The offers of a call."""
        if not isinstance(call.op, GlobalVar):
            return self._operators(call)
        region = self._callees.get(call.op)
        if not isinstance(region, Function) or not region.attr("Codegen") or has_borders(region):
            return (ROW_MAJOR,)  # or in the layouts in which it is called already
        if self._variables[id(call)] not in self._read and not any(arg in self._inner for arg in call.args):
            return (ROW_MAJOR,)  # the whole network, or nearly: asking the library would take time
        self.regions[call.op] = region
        return self._services.region_layouts(str(region.attr("Codegen")), region)


class _Assigner(PyExprMutator):
    """Writes a function in the chosen layouts.

    Args:
        chosen: Offers by variable.
        regions: The regions that are called.
        rewritten: Gets those that are called in other layouts.
    """

    def __init__(
        self,
        chosen: Mapping[Var, LayoutOffer],
        regions: Mapping[GlobalVar, Function],
        rewritten: dict[GlobalVar, Function],
    ) -> None:
        super().__init__()
        self._chosen, self._regions, self._rewritten = chosen, regions, rewritten
        self._fields: dict[Var, tuple[Var, LayoutOffer]] = {}  # calls of regions with several results
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
        value, offer = binding.value, self._chosen.get(binding.var)
        if isinstance(value, TupleGetItem) and value.tuple_value in self._fields:
            fields, offer = self._fields[value.tuple_value]
            self._bind(binding.var, TupleGetItem(fields, value.index), offer.layout_of_result(value.index))
        elif offer is None:
            super().visit_var_binding_(binding)
        elif isinstance(value.struct_info, TupleStructInfo):
            self._fields[binding.var] = (self.builder_.emit(self._step(value, offer), binding.var.name_hint), offer)
        else:
            self._bind(binding.var, self._step(value, offer), offer.result)

    def _bind(self, var: Var, value: Expr, there: str) -> None:
        """Bind a variable of the graph to what is computed in a layout."""
        if not there:
            super().visit_var_binding_(VarBinding(var, value))
        elif isinstance(var, DataflowVar):
            self._computed[var] = (self.builder_.emit(value, var.name_hint), there)
        else:  # visible outside of its block, so row-major
            copy = _transform(self.builder_.emit(value), there, "")
            self.builder_.emit_normalized(VarBinding(var, self.builder_.normalize(copy)))

    def _step(self, call: Any, offer: LayoutOffer) -> Call:
        """A call on arguments in the layouts of an offer."""
        operands: list[str] = []
        if offer.result:
            call = said_in_layout(call, row_major(offer.result), offer.result) or call

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
        if isinstance(call.op, GlobalVar):
            region = self._rewritten[call.op] = region_with_borders(self._regions[call.op], offer)
            return Call(call.op, args, call.attrs, call.sinfo_args, call.span, struct_info=region.ret_struct_info)
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
