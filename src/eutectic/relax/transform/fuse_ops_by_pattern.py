"""FuseOpsByPattern: outline what the patterns of a table match into composite functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.op import Op
from eutectic.ir.structural import structural_digest
from eutectic.ir.transform import Pass, PassContext
from eutectic.relax.analysis.uses import get_var2val, users_of, walk_blocks
from eutectic.relax.base import Expr
from eutectic.relax.block_builder import BlockBuilder
from eutectic.relax.dpl.match import Matcher, required_ops
from eutectic.relax.dpl.pattern import CallPattern, TupleGetItemPattern
from eutectic.relax.dpl.remarks import FusionRemark, Member, Refusal
from eutectic.relax.dpl.table import FusionPattern, PatternCheckContext, as_fusion_pattern
from eutectic.relax.expr import Binding, BindingBlock, Call, DataflowBlock, DataflowVar, Function, Var, VarBinding
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.transform.composite import wrap_for_codegen
from eutectic.relax.transform.entry import entry_functions_of
from eutectic.relax.transform.grouping import (
    Group,
    Outlined,
    depends_on_itself,
    emit_call,
    order_units,
    ordered_outputs,
    outline,
)


@dataclass(frozen=True)
class FuseOpsByPattern(Pass):
    """Outline matches into functions with `Composite` and `Primitive` attributes.

    Patterns are applied one after another over the whole module, so an earlier one
    has priority: what it took is a call of a function afterwards. A match is taken
    only if all its operators are bound in one dataflow block, nobody outside reads
    an intermediate value (unless `multiple_outputs`), and the group would not
    depend on itself; otherwise it is left alone, with a remark.

    before:                                after:
        lv = nn.conv2d(x, w)                   lv1 = fused_relax_nn_conv2d_relax_nn_relu(x, w)
        lv1 = nn.relu(lv)

    Attributes:
        patterns: `FusionPattern`s or tuples for them.
        bind_constants: Keep constants inside the functions instead of passing them.
        annotate_codegen: Wrap each composite in a public function with a `Codegen` attribute.
        entry_functions: Functions to visit; None means all that are not fused already.
        multiple_outputs: Also take matches whose intermediate values are read elsewhere;
            the composite then returns a tuple.

    Raises:
        PatternError: a malformed entry, or a name without a backend prefix where one is needed.

    Reference: TVM's `relax.transform.FuseOpsByPattern`; differs in that a match that would
    make a cycle is skipped, and that several outputs are opt-in.
    """

    patterns: Sequence[Any] = ()
    bind_constants: bool = True
    annotate_codegen: bool = False
    entry_functions: Sequence[str] | None = None
    multiple_outputs: bool = False

    def __post_init__(self) -> None:
        entries = tuple(as_fusion_pattern(entry) for entry in self.patterns)
        object.__setattr__(self, "patterns", entries)
        if self.annotate_codegen:
            for entry in entries:
                _ = entry.codegen

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Apply the patterns in order."""
        known: dict[Function, _Facts] = {}
        for pattern in self.patterns:
            mod = self._apply(pattern, mod, ctx, known)
        return mod

    def _apply(
        self, pattern: FusionPattern, mod: IRModule, ctx: PassContext, known: dict[Function, _Facts]
    ) -> IRModule:
        builder: BlockBuilder | None = None
        wrappers: dict[bytes, GlobalVar] = {}
        for gv, function in entry_functions_of(mod, self.entry_functions):
            if function not in known:
                known[function] = _Facts(function)
            if not required_ops(pattern.pattern) <= known[function].ops:
                continue
            groups = _Search(pattern, known[function], self.multiple_outputs, ctx).groups()
            if not groups:
                continue
            if builder is None:
                builder = BlockBuilder(mod)
            rebuilt = _Rebuild(builder, function, groups, self, pattern, wrappers).visit_expr(function)
            builder.update_func(gv, rebuilt)
        return mod if builder is None else builder.get()


@dataclass
class _Candidate:
    """A match that was taken."""

    members: set[Var]
    root: Var
    attrs: dict[str, Any]
    remark: FusionRemark


class _Facts:
    """What a search needs to know of a function; made once per version of it."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.var2val = get_var2val(function)
        self.val2var = {value: var for var, value in self.var2val.items()}
        self.users = users_of(function)
        calls = (value.op for value in self.var2val.values() if isinstance(value, Call))
        self.ops = frozenset(op.name for op in calls if isinstance(op, Op))


@dataclass
class _Search:
    """Finds the groups of one pattern in one function."""

    pattern: FusionPattern
    facts: _Facts
    multiple_outputs: bool
    ctx: PassContext
    taken: list[_Candidate] = field(init=False, default_factory=list)

    def groups(self) -> dict[int, list[Group]]:
        """Groups per dataflow block, by the identity of the block."""
        found: dict[int, list[Group]] = {}
        for block in walk_blocks(self.facts.function.body):
            if not isinstance(block, DataflowBlock):
                continue
            self.taken = []
            order = {binding.var: i for i, binding in enumerate(block.bindings)}
            for binding in block.bindings:
                if isinstance(binding, VarBinding) and isinstance(binding.value, Call):
                    self._try(binding, order, block)
            if self.taken:
                found[id(block)] = [Group(c.members, c.attrs, self._noter(c.remark)) for c in self.taken]
        return found

    def _noter(self, remark: FusionRemark) -> Any:
        def note(name: str) -> None:
            if self.ctx.collect_remarks:
                fields = {
                    key: getattr(remark, key) for key in ("kind", "pattern", "root", "variable", "members", "span")
                }
                self.ctx.remarks.append(FusionRemark(**fields, function=name))

        return note

    def _try(self, binding: VarBinding, order: Mapping[Var, int], block: DataflowBlock) -> None:
        matcher = Matcher(self.facts.var2val)
        first: Refusal | None = None
        for _ in matcher.solve(self.pattern.pattern, binding.value):
            members = self._members(matcher)
            refusal = self._refusal(members, binding, order, block) or self._check(matcher, members, binding)
            if refusal is None:
                self._take(members, binding, matcher, order)
                return
            first = first or refusal
        first = first or (matcher.refusals[0] if matcher.refusals else None)
        if first is not None and self.ctx.collect_remarks:
            root = _op_name(binding.value)
            self.ctx.remarks.append(
                FusionRemark(
                    "missed", self.pattern.name, root, binding.var.name_hint, first.why, (), binding.value.span
                )
            )

    def _members(self, matcher: Matcher) -> dict[Var, Expr]:
        """Bindings matched by call and field patterns; wildcards never join."""
        out: dict[Var, Expr] = {}
        for pattern, value in matcher.found.items():
            if isinstance(pattern, (CallPattern, TupleGetItemPattern)) and value in self.facts.val2var:
                out[self.facts.val2var[value]] = value
        return out

    def _refusal(
        self, members: Mapping[Var, Expr], binding: VarBinding, order: Mapping[Var, int], block: DataflowBlock
    ) -> Refusal | None:
        for var, value in members.items():
            if var not in order:
                return Refusal(f"{var.name_hint} is bound outside the dataflow block of {binding.var.name_hint}", value)
        own = set(members)
        for earlier in self.taken:
            if earlier.members & own and not earlier.members <= own:
                shared = sorted(v.name_hint for v in earlier.members & own)
                return Refusal(f"{', '.join(shared)} belongs to another match of the pattern already", binding.value)
        if not self.multiple_outputs:
            for var in members:
                if var is not binding.var and self._leaks(var, own):
                    return Refusal(f"{var.name_hint} is read elsewhere too", members[var])
        if self._depends_on_itself(own, block):
            return Refusal("the group would depend on its own result", binding.value)
        return None

    def _leaks(self, var: Var, own: set[Var]) -> bool:
        if not isinstance(var, DataflowVar):
            return True
        return any(user is None or user not in own for user in self.facts.users.get(var, ()))

    def _depends_on_itself(self, own: set[Var], block: DataflowBlock) -> bool:
        """Whether a path leaves the group and comes back, other groups counting as one step."""
        group_of = {var: c.members for c in self.taken for var in c.members if not c.members <= own}
        return depends_on_itself(own, block.bindings, group_of)

    def _check(self, matcher: Matcher, members: Mapping[Var, Expr], binding: VarBinding) -> Refusal | None:
        if self.pattern.check is None:
            return None
        assert isinstance(binding.value, Call)
        context = PatternCheckContext(
            binding.value,
            self._annotated(matcher),
            members,
            {v: [u for u in found if u is not None] for v, found in self.facts.users.items()},
            self.facts.val2var,
        )
        verdict = self.pattern.check(context)
        if isinstance(verdict, Refusal):
            return verdict
        return (
            None if verdict in (True, None) else Refusal(f"the check of {self.pattern.name} refused it", binding.value)
        )

    def _annotated(self, matcher: Matcher) -> dict[str, Expr]:
        named = {p.name: value for p, value in matcher.found.items() if p.name is not None}
        listed = {name: matcher.found[p] for name, p in self.pattern.annotation_patterns.items() if p in matcher.found}
        return {**named, **listed}

    def _take(
        self, members: Mapping[Var, Expr], binding: VarBinding, matcher: Matcher, order: Mapping[Var, int]
    ) -> None:
        own = set(members)
        self.taken = [c for c in self.taken if not c.members <= own]
        attrs: dict[str, Any] = {"Composite": self.pattern.name, "Primitive": True}
        if self.pattern.attrs_getter is not None:
            attrs.update(self.pattern.attrs_getter(self._annotated(matcher)))
        inside = sorted(members, key=lambda var: order[var])
        listed = tuple(Member(_op_name(members[v]), members[v].span) for v in inside if isinstance(members[v], Call))
        remark = FusionRemark(
            "fused", self.pattern.name, _op_name(binding.value), binding.var.name_hint, "", listed, binding.value.span
        )
        self.taken.append(_Candidate(own, binding.var, attrs, remark))


def _op_name(value: Any) -> str:
    op = getattr(value, "op", None)
    return op.name if isinstance(op, Op) else str(getattr(op, "name_hint", type(value).__name__))


class _Rebuild(PyExprMutator):
    """Replaces the groups of a function by calls."""

    def __init__(
        self,
        builder: BlockBuilder,
        function: Function,
        groups: Mapping[int, Sequence[Group]],
        options: FuseOpsByPattern,
        pattern: FusionPattern,
        wrappers: dict[bytes, GlobalVar],
    ) -> None:
        super().__init__()
        self.builder_ = builder
        self._groups, self._options, self._pattern, self._wrappers = groups, options, pattern, wrappers
        self._users = users_of(function)

    def visit_dataflow_block_(self, block: DataflowBlock) -> BindingBlock:
        """Emit single bindings and calls of the new functions in dependency order."""
        groups = self._groups.get(id(block))
        if not groups:
            return super().visit_dataflow_block_(block)
        position = {binding.var: i for i, binding in enumerate(block.bindings)}
        self.builder_.begin_block(is_dataflow=True)
        for unit in order_units(block, groups):
            if isinstance(unit, Binding):
                self.visit_binding(unit)
            else:
                self._emit_group(unit, block, position)
        return self.builder_.end_block()

    def _emit_group(self, group: Group, block: DataflowBlock, position: Mapping[Var, int]) -> None:
        members = [b for b in block.bindings if b.var in group.members and isinstance(b, VarBinding)]
        outputs = ordered_outputs(members, self._users, position) or [members[-1].var]
        made = outline(members, outputs, group.attrs, bind_constants=self._options.bind_constants)
        gv = (
            self._add_wrapped(made)
            if self._options.annotate_codegen
            else self.builder_.add_func(made.function, made.name)
        )
        if group.note is not None:
            group.note(gv.name_hint)
        emit_call(self.builder_, gv, made, members[-1].value.span)

    def _add_wrapped(self, made: Outlined) -> GlobalVar:
        """The wrapper of a composite; equal composites share one."""
        digest = structural_digest(made.function)
        if digest not in self._wrappers:
            function, name = wrap_for_codegen(made.function, made.name, self._pattern.codegen, self.builder_)
            self._wrappers[digest] = self.builder_.add_func(function, name)
        return self._wrappers[digest]


def has_leaking_intermediate_variables(context: PatternCheckContext) -> bool:
    """Whether a matched value other than the root is read outside the match."""
    own = set(context.matched_bindings)
    root = context.value_to_bound_var.get(context.matched_expr)
    return any(
        var is not root
        and (not isinstance(var, DataflowVar) or any(u not in own for u in context.var_usages.get(var, ())))
        for var in own
    )
