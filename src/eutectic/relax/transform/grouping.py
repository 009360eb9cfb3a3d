"""Outlining: turns groups of bindings of dataflow blocks into functions of their own.

Shared by all fusion passes. A group is a set of variables bound in one dataflow
block; the caller has made sure that it does not depend on itself.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from eutectic.ir.module import GlobalVar
from eutectic.ir.op import Op
from eutectic.relax.analysis.uses import used_vars
from eutectic.relax.base import Expr, ShapeExpr
from eutectic.relax.block_builder import BlockBuilder
from eutectic.relax.expr import (
    Binding,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    Function,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from eutectic.relax.op.registry import has_trait
from eutectic.relax.struct_info import TupleStructInfo
from eutectic.relax.struct_info_relations import defined_symbolic_vars, free_symbolic_vars
from eutectic.support.deep import deep


@dataclass
class Group:
    """Bindings that become one function.

    Attributes:
        members: Variables of the group.
        attrs: Attributes of the function.
        note: Called with the name of the function when it exists.
    """

    members: set[Var]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    note: Callable[[str], None] | None = None


@dataclass(frozen=True)
class Outlined:
    """A function made of a group, the arguments of its call, and the variables it gives back."""

    function: Function
    name: str
    args: tuple[Expr, ...]
    outputs: tuple[Var, ...]


def order_units(block: DataflowBlock, groups: Sequence[Group]) -> list[Binding | Group]:
    """Bindings and groups in an order in which each comes after what it reads.

    Among those that are ready the one whose last binding comes first in the block is taken.

    Raises:
        ValueError: the groups depend on each other in a cycle.
    """
    unit_of: dict[Var, int] = {}
    units: list[Binding | Group] = list(groups)
    for i, group in enumerate(groups):
        unit_of.update(dict.fromkeys(group.members, i))
    last: dict[int, int] = {}
    for position, binding in enumerate(block.bindings):
        if binding.var not in unit_of:
            unit_of[binding.var] = len(units)
            units.append(binding)
        last[unit_of[binding.var]] = position
    needs: dict[int, set[int]] = {i: set() for i in range(len(units))}
    for binding in block.bindings:
        own = unit_of[binding.var]
        needs[own] |= {unit_of[v] for v in used_vars(binding.value) if v in unit_of and unit_of[v] != own}
    readers: dict[int, list[int]] = {i: [] for i in needs}
    for own, sources in needs.items():
        for source in sources:
            readers[source].append(own)
    waiting = {i: len(sources) for i, sources in needs.items()}
    ready = [(last[i], i) for i, count in waiting.items() if count == 0]
    heapq.heapify(ready)
    out: list[Binding | Group] = []
    while ready:
        _, unit = heapq.heappop(ready)
        out.append(units[unit])
        for reader in readers[unit]:
            waiting[reader] -= 1
            if waiting[reader] == 0:
                heapq.heappush(ready, (last[reader], reader))
    if len(out) != len(units):
        raise ValueError("the groups depend on each other in a cycle")
    return out


def reads_of(bindings: Iterable[Binding]) -> dict[Var, frozenset[Var]]:
    """What the value of each binding reads, in program order."""
    return {binding.var: frozenset(used_vars(binding.value)) for binding in bindings}


def depends_on_itself(own: set[Var], reads: Mapping[Var, AbstractSet[Var]], group_of: Mapping[Var, set[Var]]) -> bool:
    """Whether a path of reads leaves a set of bindings and comes back.

    Args:
        own: Variables of the set.
        reads: What each binding of the block reads, in program order (`reads_of`).
        group_of: Variables that count as one step because they belong to one group already.
    """
    inside = [var for var in reads if var in own]
    if len(inside) < 2:
        return False
    tainted: set[Var] = set()
    size = -1
    while size != len(tainted):  # groups may reach backwards in program order, so repeat until nothing is added
        size = len(tainted)
        for var, read in reads.items():
            if var in own or var in tainted or (read.isdisjoint(own) and read.isdisjoint(tainted)):
                continue
            tainted |= group_of.get(var) or {var}
        if not group_of:
            break
    return any(not reads[var].isdisjoint(tainted) for var in inside)


def outline(
    bindings: Sequence[VarBinding],
    outputs: Sequence[Var],
    attrs: Mapping[str, Any],
    *,
    bind_constants: bool,
    name: str | None = None,
) -> Outlined:
    """Make a function of bindings.

    Args:
        bindings: Members in program order.
        outputs: Variables read outside, in the order in which a tuple result gives them.
        attrs: Attributes of the function.
        bind_constants: Keep constants inside; otherwise they become parameters.
        name: Name hint; None makes one of the operators' names.
    """
    maker = _Outliner({b.var for b in bindings}, bind_constants)
    inner = [maker.binding(b, is_output=b.var in outputs) for b in bindings]
    results = [maker.remap[var] for var in outputs]
    result: Expr = results[0] if len(results) == 1 else Tuple(tuple(results))
    maker.pass_symbols([*inner, *maker.params])
    body = SeqExpr((DataflowBlock(tuple(inner)),), result)
    function = Function(tuple(maker.params), body, result.struct_info, True, dict(attrs))
    return Outlined(function, name or fused_name(bindings), tuple(maker.args), tuple(outputs))


class _Outliner:
    """Collects parameters in order of first use and rewrites values in terms of them."""

    def __init__(self, own: set[Var], bind_constants: bool) -> None:
        self.own, self.bind_constants = own, bind_constants
        self.params: list[Var] = []
        self.args: list[Expr] = []
        self.remap: dict[Var, Var] = {}
        self.fields: dict[tuple[Var, int], Var] = {}
        self.constants: dict[int, Var] = {}

    def binding(self, binding: VarBinding, *, is_output: bool) -> VarBinding:
        value = self.value(binding.value)
        kind = Var if is_output else DataflowVar
        self.remap[binding.var] = fresh = kind(binding.var.name_hint, value.struct_info, binding.var.span)
        return VarBinding(fresh, value)

    @deep
    def value(self, expr: Any) -> Any:
        match expr:
            case Var():
                return self.remap.get(expr) or self.param(expr)
            case Constant() if not self.bind_constants:
                if id(expr) not in self.constants:
                    fresh = Var(f"param_{len(self.constants)}", expr.struct_info, expr.span)
                    self.constants[id(expr)] = fresh
                    self.params.append(fresh)
                    self.args.append(expr)
                return self.constants[id(expr)]
            case Call():
                args = tuple(self.value(arg) for arg in expr.args)
                op = self.value(expr.op) if isinstance(expr.op, Var) else expr.op
                return Call(op, args, expr.attrs, expr.sinfo_args, expr.span, struct_info=expr.struct_info)
            case Tuple():
                return Tuple(tuple(self.value(item) for item in expr.fields), span=expr.span)
            case TupleGetItem():
                return self.field(expr)
            case _:
                return expr

    def param(self, var: Var) -> Var:
        self.remap[var] = fresh = Var(var.name_hint, var.struct_info, var.span)
        self.params.append(fresh)
        self.args.append(var)
        return fresh

    def field(self, expr: TupleGetItem) -> Expr:
        """A field of an outside tuple is a parameter of its own; of an inside one, an access."""
        source = expr.tuple_value
        if not isinstance(source, Var) or source in self.own or source in self.remap:
            return TupleGetItem(self.value(source), expr.index, span=expr.span)
        key = (source, expr.index)
        if key not in self.fields:
            info = source.struct_info
            part = info.fields[expr.index] if isinstance(info, TupleStructInfo) else expr.struct_info
            self.fields[key] = fresh = Var(f"{source.name_hint}_{expr.index}", part, expr.span)
            self.params.append(fresh)
            self.args.append(TupleGetItem(source, expr.index))
        return self.fields[key]

    def pass_symbols(self, parts: Sequence[Any]) -> None:
        """Symbolic sizes that no parameter's shape defines come in a last shape parameter."""
        used = free_symbolic_vars([part.value if isinstance(part, VarBinding) else part for part in parts])
        known = {id(var) for var in defined_symbolic_vars(p.struct_info for p in self.params)}
        loose = [var for var in used if id(var) not in known]
        if loose:
            shape = ShapeExpr(tuple(loose))
            self.params.append(Var("tir_vars", shape.struct_info))
            self.args.append(shape)


def fused_name(bindings: Sequence[VarBinding]) -> str:
    """`fused_` and the operators' names, dots as underscores."""
    parts = ["fused"]
    for binding in bindings:
        value = binding.value
        if not isinstance(value, Call):
            continue
        if isinstance(value.op, Op):
            if has_trait(value, "calls") and isinstance(value.args[0], GlobalVar):
                parts.append(value.args[0].name_hint)
            else:
                parts.append(value.op.name.replace(".", "_"))
        elif isinstance(value.op, GlobalVar):
            parts.append(value.op.name_hint.removeprefix("fused_"))
    return "_".join(parts)


def ordered_outputs(
    members: Sequence[VarBinding], users: Mapping[Var, Sequence[Var | None]], program_order: Mapping[Var, int]
) -> list[Var]:
    """Variables of a group that are read outside: plain variables as met, then by first use outside."""
    own = {binding.var for binding in members}
    plain = [b.var for b in members if not isinstance(b.var, DataflowVar)]
    rest: list[tuple[int, int, Var]] = []
    for position, binding in enumerate(members):
        if binding.var in plain:
            continue
        outside = [user for user in users.get(binding.var, ()) if user is None or user not in own]
        if outside:
            first = min(program_order.get(user, 1 << 60) if user is not None else 1 << 60 for user in outside)
            rest.append((first, position, binding.var))
    return [*plain, *(var for _, _, var in sorted(rest, key=lambda item: item[:2]))]


def emit_call(builder: BlockBuilder, gv: GlobalVar, outlined: Outlined, span: Any) -> None:
    """Bind the outputs of an outlined function: one variable, or the fields of a tuple."""
    args = tuple(
        builder.emit(arg, f"{arg.tuple_value.name_hint}_field") if isinstance(arg, TupleGetItem) else arg  # type: ignore[attr-defined]  # outline makes them of variables
        for arg in outlined.args
    )
    ret = outlined.function.ret_struct_info
    call = Call(gv, args, None, (), span)
    value = builder.normalize(call)
    if value.struct_info is None:
        value = Call(gv, args, None, (), span, struct_info=ret)
    if len(outlined.outputs) == 1:
        builder.emit_normalized(VarBinding(outlined.outputs[0], value))
        return
    whole = builder.emit(value)
    for i, var in enumerate(outlined.outputs):
        builder.emit_normalized(VarBinding(var, TupleGetItem(whole, i)))
