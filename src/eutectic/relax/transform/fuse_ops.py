"""FuseOps: group calls of tensor programs that one kernel can compute."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.op import Op
from eutectic.ir.prim_expr import PrimExpr
from eutectic.ir.span import merged_span
from eutectic.ir.transform import Pass, PassContext, register_config_key
from eutectic.relax.analysis.op_pattern import OpPatternKind, copies_only
from eutectic.relax.analysis.uses import used_vars, walk_blocks
from eutectic.relax.block_builder import BlockBuilder
from eutectic.relax.expr import (
    Binding,
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.relax.transform.entry import entry_functions_of
from eutectic.relax.transform.fusion_groups import FusionNode, partition
from eutectic.relax.transform.fusion_reasons import EdgeReasons, fused_remark
from eutectic.relax.transform.grouping import Group, emit_call, order_units, outline
from eutectic.tir.function import PrimFunc

MAX_DEPTH: Final = "relax.FuseOps.max_depth"
register_config_key(MAX_DEPTH, 128)


@dataclass(frozen=True)
class FuseOps(Pass):
    """Outline groups of `call_tir`s into private functions with the attribute `Primitive`.

    Groups are made in dataflow blocks, by the attribute `op_pattern` of the tensor programs
    (`AnnotateTIROpPattern`); a program without one is never fused. A group has one result. `FuseTIR`
    makes one kernel of each. A context that collects remarks is told each group, and why a value and its reader are in
    two. The option `relax.FuseOps.max_depth` of the context bounds the size of a group,
    by default to 128 calls.

    before:                                 after:
        lv = call_tir(conv2d, (x, w))           gv = fused_conv2d_reshape_add_relu(x, w, b)
        lv1 = call_tir(reshape, (b,))
        lv2 = call_tir(add, (lv, lv1))
        gv = call_tir(relu, (lv2,))

    Attributes:
        fuse_opt_level: 0 fuses nothing; -1 takes the level of the context.

    Reference: TVM `relax.transform.FuseOps`; differs in that a move of elements, such as the reshape of
    a bias, joins a matmul, conv or reduction that is its only reader, that `call_tir_inplace` and single
    calls are left alone, and that a call stays behind the `match_cast` that defines its sizes.
    """

    fuse_opt_level: int = -1

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Fuse in every function that is not a result of fusion."""
        level = ctx.opt_level if self.fuse_opt_level == -1 else self.fuse_opt_level
        builder: BlockBuilder | None = None
        kinds = _Kinds(mod)
        for gv, function in entry_functions_of(mod, None) if level > 0 else ():
            groups = {
                id(block): block_groups
                for block in walk_blocks(function.body)
                if isinstance(block, DataflowBlock) and (block_groups := _groups_of(block, kinds, ctx))
            }
            if groups:
                builder = builder or BlockBuilder(mod)
                builder.update_func(gv, _Rebuild(builder, groups).visit_expr(function))
        return mod if builder is None else builder.get()


class _Kinds:
    """Fusion kinds of values, as far as the tensor programs of a module tell."""

    def __init__(self, mod: IRModule) -> None:
        self._mod = mod
        self._moves: dict[str, bool] = {}

    def node(self, binding: Binding) -> FusionNode:
        """A binding without its readers."""
        leaves = not isinstance(binding.var, DataflowVar)
        if isinstance(binding, VarBinding) and isinstance(binding.value, TupleGetItem):
            return FusionNode(OpPatternKind.INJECTIVE, _shape(binding.var), leaves, moves_only=True)
        program = self.program(binding)
        if program is None:
            gathers = leaves and isinstance(binding.value, (Tuple, Var))
            return FusionNode(OpPatternKind.OPAQUE, leaves=leaves, gathers=gathers)
        stated = self._mod[program].attr("op_pattern")
        kind = OpPatternKind(stated) if stated in set(OpPatternKind) else OpPatternKind.OPAQUE
        if program.name_hint not in self._moves:
            self._moves[program.name_hint] = copies_only(self._mod[program])
        return FusionNode(kind, _shape(binding.var), leaves, self._moves[program.name_hint])

    def program(self, binding: Binding) -> GlobalVar | None:
        """The tensor program that a binding calls."""
        value = binding.value
        if not isinstance(binding, VarBinding) or not is_call_tir(value) or not isinstance(value, Call):
            return None
        target = value.args[0]
        return target if isinstance(target, GlobalVar) and isinstance(self._mod.get(target), PrimFunc) else None


def is_call_tir(value: object) -> bool:
    """Whether a value is a `call_tir`."""
    return isinstance(value, Call) and isinstance(value.op, Op) and value.op.name == "relax.call_tir"


def _shape(var: Var) -> tuple[PrimExpr, ...] | None:
    info = var.struct_info
    return info.dims if isinstance(info, TensorStructInfo) else None


def _groups_of(block: DataflowBlock, kinds: _Kinds, ctx: PassContext) -> list[Group]:
    """The groups of a block that have two calls at least."""
    max_depth = int(ctx.option(MAX_DEPTH))
    nodes = [kinds.node(binding) for binding in block.bindings]
    number = {binding.var: i for i, binding in enumerate(block.bindings)}
    for reader, binding in enumerate(block.bindings):
        for var in used_vars(binding.value):
            if var in number:
                nodes[number[var]].readers.append(reader)
    out = []
    parts = partition(nodes, max_depth)
    for indices in parts.groups:
        members = {block.bindings[i].var for i in indices}
        calls = 0
        for i in indices:
            value = block.bindings[i].value
            if isinstance(value, TupleGetItem) and value.tuple_value not in members:
                members.discard(block.bindings[i].var)  # a field of a tuple from outside is passed as a parameter
            calls += is_call_tir(value)
        if calls > 1:
            note = _note(block, members, ctx) if ctx.collect_remarks else None
            out.append(Group(members, {"Primitive": True}, note))
    if ctx.collect_remarks:
        ctx.remarks.extend(EdgeReasons(block, nodes, parts, max_depth).remarks())
    return out


def _note(block: DataflowBlock, members: Container[Var], ctx: PassContext) -> Callable[[str], None]:
    """What writes a remark about a group when its function has a name."""
    bindings = [binding for binding in block.bindings if binding.var in members]
    return lambda name: ctx.remarks.append(fused_remark(bindings, name))


class _Rebuild(PyExprMutator):
    """Replaces the groups of a function by calls."""

    def __init__(self, builder: BlockBuilder, groups: Mapping[int, Sequence[Group]]) -> None:
        super().__init__()
        self.builder_ = builder
        self._groups = groups

    def visit_dataflow_block_(self, block: DataflowBlock) -> BindingBlock:
        """Emit what is left, and the calls of the new functions where their last binding was."""
        groups = self._groups.get(id(block))
        if not groups:
            return super().visit_dataflow_block_(block)
        group_of = {var: i for i, group in enumerate(groups) for var in group.members}
        bindings: list[list[VarBinding]] = [[] for _ in groups]
        for binding in block.bindings:
            if binding.var in group_of and isinstance(binding, VarBinding):
                bindings[group_of[binding.var]].append(binding)
        self.builder_.begin_block(is_dataflow=True)
        for unit in order_units(block, groups):
            if isinstance(unit, Binding):
                self.visit_binding(unit)
                continue
            members = bindings[group_of[next(iter(unit.members))]]
            outlined = outline(members, [members[-1].var], unit.attrs, bind_constants=False)
            gv = self.builder_.add_func(outlined.function, outlined.name)
            if unit.note is not None:
                unit.note(gv.name_hint)
            emit_call(self.builder_, gv, outlined, merged_span(m.value.span for m in members))
        return self.builder_.end_block()
