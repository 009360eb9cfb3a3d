"""MergeCompositeFunctions: join neighbouring composites of one backend into regions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.span import merged_span
from eutectic.ir.transform import Pass, PassContext
from eutectic.relax.analysis.uses import used_vars, users_of, walk_blocks
from eutectic.relax.base import Expr
from eutectic.relax.block_builder import BlockBuilder
from eutectic.relax.dpl.remarks import FusionRemark, Refusal
from eutectic.relax.dpl.table import codegen_of
from eutectic.relax.expr import (
    Binding,
    BindingBlock,
    Call,
    DataflowBlock,
    Function,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.transform.composite import as_local, region_function, unique_symbol
from eutectic.relax.transform.dead_code_elimination import DeadCodeElimination
from eutectic.relax.transform.entry import entry_functions_of
from eutectic.relax.transform.group_rules import needs_its_result
from eutectic.relax.transform.grouping import (
    Group,
    emit_call,
    order_units,
    ordered_outputs,
    outline,
    reads_of,
)
from eutectic.support.deep import deep

_LONGEST_NAME = 160


@dataclass(frozen=True)
class MergeCompositeFunctions(Pass):
    """Join composites of one backend that feed each other into public functions with `Codegen`.

    A composite joins the regions of the composites it reads, directly or through a
    tuple, unless a path between them leaves the region: that would make a cycle, and
    is noted as a remark.

    before:                             after:
        lv = fused_conv(x)                  lv1 = fused_conv_conv_dnnl(x)
        lv1 = fused_conv1(lv)

    Every function that is not fused already is visited, not only `main`.

    Reference: TVM's `relax.transform.MergeCompositeFunctions`.
    """

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Merge, then drop the functions that nobody calls any more."""
        builder: BlockBuilder | None = None
        for gv, function in entry_functions_of(mod, None):
            plan = _plan(function, mod, ctx)
            if not plan:
                continue
            builder = builder or BlockBuilder(mod)
            builder.update_func(gv, _Merge(builder, function, plan).visit_expr(function))
        return mod if builder is None else DeadCodeElimination().run(builder.get(), ctx)


@dataclass
class _Region:
    codegen: str
    members: set[Var] = field(default_factory=set)


def composite_of(value: Expr, mod: IRModule) -> Function | None:
    """The composite that a value calls, or None."""
    if not (isinstance(value, Call) and isinstance(value.op, GlobalVar)):
        return None
    callee = mod.get(value.op)
    return callee if isinstance(callee, Function) and callee.attr("Composite") else None


def _plan(function: Function, mod: IRModule, ctx: PassContext) -> dict[int, list[Group]]:
    """Regions per block, by the identity of the block."""
    groups: dict[int, list[Group]] = {}
    for block in walk_blocks(function.body):
        regions = _regions_of(block.bindings, mod, ctx)
        if regions:
            groups[id(block)] = [Group(region.members, {"Codegen": region.codegen}) for region in regions]
    return groups


def _regions_of(bindings: Sequence[Binding], mod: IRModule, ctx: PassContext) -> list[_Region]:
    region_of: dict[Var, _Region] = {}
    by_var = {binding.var: binding for binding in bindings}
    reads = reads_of(bindings)
    for binding in bindings:
        composite = composite_of(binding.value, mod)
        if composite is None:
            continue
        codegen = codegen_of(str(composite.attr("Composite")))
        own = _Region(codegen, {binding.var})
        for source in _sources(binding.value, by_var):
            parent = region_of.get(source)
            if parent is None or parent.codegen != codegen or parent.members <= own.members:
                continue
            joined = own.members | parent.members | _links(binding.value, source, by_var)
            others = {v: r.members for v, r in region_of.items() if not r.members & joined}
            refusal = needs_its_result(joined, binding.value, reads, others)
            if refusal is None:
                own.members = joined
            elif ctx.collect_remarks:
                ctx.remarks.append(_not_joined(binding, composite, source, refusal))
        region_of.update(dict.fromkeys(own.members, own))
    return list({id(region): region for region in region_of.values()}.values())


def _not_joined(binding: Binding, composite: Function, source: Var, refusal: Refusal) -> FusionRemark:
    through = ", ".join(refusal.variables)
    return FusionRemark(
        "missed",
        str(composite.attr("Composite")),
        str(binding.value.op.name_hint) if isinstance(binding.value, Call) else "",
        binding.var.name_hint,
        f"it does not join the region of {source.name_hint}: the way there through {through} leaves the region",
        span=binding.value.span,
        operand=source.name_hint,
        constraint=refusal.constraint,
        expected=refusal.expected,
        actual=refusal.actual,
        variables=refusal.variables,
        readers=refusal.readers,
    )


def _sources(value: Expr, by_var: Mapping[Var, Binding]) -> list[Var]:
    """Variables that a call reads, fields of bound tuples looked through."""
    out = []
    for var in used_vars(value):
        inner = by_var[var].value if var in by_var else None
        if isinstance(inner, TupleGetItem) and isinstance(inner.tuple_value, Var):
            out.append(inner.tuple_value)
        out.append(var)
    return out


def _links(value: Expr, source: Var, by_var: Mapping[Var, Binding]) -> set[Var]:
    """Field accesses between `source` and a call; they move into the region with them."""
    return {
        var
        for var in used_vars(value)
        if var in by_var and isinstance(inner := by_var[var].value, TupleGetItem) and inner.tuple_value is source
    }


class _Merge(PyExprMutator):
    """Replaces the regions of a function by calls of new functions."""

    def __init__(self, builder: BlockBuilder, function: Function, plan: Mapping[int, Sequence[Group]]) -> None:
        super().__init__()
        self.builder_, self._plan = builder, plan
        self._users = users_of(function)

    def visit_binding_block(self, block: BindingBlock) -> BindingBlock:
        """Emit single bindings and calls of the regions in dependency order."""
        groups = self._plan.get(id(block))
        if not groups:
            return super().visit_binding_block(block)
        is_dataflow = isinstance(block, DataflowBlock)
        ordered = DataflowBlock(block.bindings)
        position = {binding.var: i for i, binding in enumerate(block.bindings)}
        self.builder_.begin_block(is_dataflow)
        for unit in order_units(ordered, groups):
            if isinstance(unit, Binding):
                self.visit_binding(unit)
            else:
                self._emit_region(unit, block, position)
        return self.builder_.end_block()

    def _emit_region(self, group: Group, block: BindingBlock, position: Mapping[Var, int]) -> None:
        members = [b for b in block.bindings if b.var in group.members and isinstance(b, VarBinding)]
        outputs = ordered_outputs(members, self._users, position) or [members[-1].var]
        outlined = outline(members, outputs, {}, bind_constants=False)
        codegen = str(group.attrs["Codegen"])
        symbol = unique_symbol(self.builder_, _region_name(members), codegen)
        function = self._with_locals(outlined.function, symbol, codegen)
        gv = self.builder_.add_func(function, symbol)
        emit_call(self.builder_, gv, outlined, merged_span(m.value.span for m in members))

    def _with_locals(self, function: Function, symbol: str, codegen: str) -> Function:
        """The region with each composite as an inner function bound before its call."""
        bindings: list[VarBinding] = []
        locals_: dict[str, Var] = {}
        remap: dict[Var, Var] = {}
        for block in function.body.blocks:
            for binding in block.bindings:
                value = _remapped(binding.value, remap)
                if isinstance(value, Call) and isinstance(value.op, GlobalVar):
                    name = value.op.name_hint
                    if name not in locals_:
                        local = as_local(self.builder_.get()[name])
                        suffix = str(len(locals_)) if locals_ else ""
                        locals_[name] = Var(f"local_func{suffix}", local.struct_info)
                        bindings.append(VarBinding(locals_[name], local))
                    value = Call(locals_[name], value.args, None, (), value.span, struct_info=value.struct_info)
                plain = Var(binding.var.name_hint, binding.var.struct_info, binding.var.span)
                remap[binding.var] = plain
                bindings.append(VarBinding(plain, value))
        body = _remapped(function.body.body, remap)
        outputs = body.fields if isinstance(body, Tuple) else (body,)
        return region_function(function.params, bindings, outputs, symbol, codegen)


@deep
def _remapped(expr: Expr, remap: Mapping[Var, Var]) -> Expr:
    match expr:
        case Var():
            return remap.get(expr, expr)
        case Call():
            args = tuple(_remapped(arg, remap) for arg in expr.args)
            return Call(expr.op, args, expr.attrs, expr.sinfo_args, expr.span, struct_info=expr.struct_info)
        case Tuple():
            return Tuple(tuple(_remapped(item, remap) for item in expr.fields), span=expr.span)
        case TupleGetItem():
            return TupleGetItem(_remapped(expr.tuple_value, remap), expr.index, span=expr.span)
        case _:
            return expr


def _region_name(members: Sequence[VarBinding]) -> str:
    """`fused_` and the composites' names; long ones end in a count."""
    names = [b.value.op.name_hint.removeprefix("fused_") for b in members if isinstance(b.value, Call)]
    whole = "_".join(["fused", *names])
    if len(whole) <= _LONGEST_NAME:
        return whole
    kept, length = [], 0
    for name in names:
        length += len(name) + 1
        if length > _LONGEST_NAME:
            break
        kept.append(name)
    return "_".join(["fused", *kept, f"and_{len(names) - len(kept)}_more"])
