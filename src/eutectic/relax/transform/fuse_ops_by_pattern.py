"""FuseOpsByPattern: outline what the patterns of a table match into composite functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.span import merged_span
from eutectic.ir.structural import StructuralKey
from eutectic.ir.transform import Pass, PassContext
from eutectic.relax.analysis.uses import users_of
from eutectic.relax.block_builder import BlockBuilder
from eutectic.relax.dpl.table import FusionPattern, as_fusion_pattern, codegen_of
from eutectic.relax.expr import Binding, BindingBlock, DataflowBlock, Function, Var, VarBinding
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.transform.composite import wrap_for_codegen
from eutectic.relax.transform.entry import entry_functions_of
from eutectic.relax.transform.fusion_log import FusionLog
from eutectic.relax.transform.grouping import Group, Outlined, emit_call, order_units, ordered_outputs, outline
from eutectic.relax.transform.pattern_order import OrderAdvice
from eutectic.relax.transform.pattern_search import Candidate, FunctionFacts, Search
from eutectic.support.errors import PassError
from eutectic.support.spelling import did_you_mean

PRIORITIES: Final = ("first", "largest")


@dataclass(frozen=True)
class FuseOpsByPattern(Pass):
    """Outline matches into functions with `Composite` and `Primitive` attributes.

    With priority `first`, patterns are applied one after another over the whole
    module, so an earlier one has priority: what it took is a call of a function
    afterwards. Where a later pattern of the list would have matched the same and
    more, an `EutecticAdvice` says so, once per pass object and pair of patterns.
    With priority `largest`, the match with the most operators is taken at each
    place, whatever the order of the list; the order decides between equal ones.

    A match is taken only if all its operators are bound in one dataflow block,
    nobody outside reads an intermediate value (unless `multiple_outputs`), and the
    group would not depend on itself; otherwise it is left alone, with a remark.

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
        priority: `first` or `largest`.
        annotate_roles: Leave the parts that a pattern named in the attribute `Roles` of the composite, where
            `dpl.roles_of` finds them.

    Raises:
        PatternError: a malformed entry, or a name without a backend prefix where one is needed.
        PassError: an unknown priority.

    Reference: TVM's `relax.transform.FuseOpsByPattern`; differs in that a match that would
    make a cycle is skipped, that several outputs are opt-in, and in `priority`.
    """

    patterns: Sequence[Any] = ()
    bind_constants: bool = True
    annotate_codegen: bool = False
    entry_functions: Sequence[str] | None = None
    multiple_outputs: bool = False
    priority: str = "first"
    annotate_roles: bool = False
    _advised: set[tuple[int, int]] = field(default_factory=set, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        entries = tuple(as_fusion_pattern(entry) for entry in self.patterns)
        object.__setattr__(self, "patterns", entries)
        if self.priority not in PRIORITIES:
            raise PassError(
                f"unknown priority {self.priority!r} of FuseOpsByPattern",
                help=did_you_mean(self.priority, PRIORITIES) or f"one of {', '.join(PRIORITIES)}",
            )
        if self.annotate_codegen:
            for entry in entries:
                _ = entry.codegen

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Apply the patterns."""
        run = _Run(self, mod, FusionLog(ctx) if ctx.collect_remarks else None)
        if self.priority == "largest":
            run.take_largest()
        else:
            run.take_in_order()
        if run.log is not None:
            run.log.finish()
        return run.mod


class _Run:
    """One run of the pass over a module.

    Attributes:
        mod: The module as far as it is fused.
        log: Where remarks go, or None.
    """

    def __init__(self, options: FuseOpsByPattern, mod: IRModule, log: FusionLog | None) -> None:
        self.mod, self.log, self._options = mod, log, options
        self._known: dict[Function, FunctionFacts] = {}

    def take_largest(self) -> None:
        """All patterns at once."""
        builder: BlockBuilder | None = None
        wrappers: dict[StructuralKey, GlobalVar] = {}
        for gv, function in entry_functions_of(self.mod, self._options.entry_functions):
            by_block = self._search(function).largest(self._options.patterns)
            builder = self._outline(gv, function, by_block, builder, wrappers)
        self.mod = self.mod if builder is None else builder.get()

    def take_in_order(self) -> None:
        """One pattern after another; then advice about their order."""
        start = entry_functions_of(self.mod, self._options.entry_functions)
        taken: dict[str, list[Candidate]] = {}
        for index, entry in enumerate(self._options.patterns):
            for gv, matches in self._apply(index, entry).items():
                taken.setdefault(gv.name_hint, []).extend(matches)
        for gv, function in start:
            if matches := taken.get(gv.name_hint, []):
                search = Search(self._facts(function), self._options.multiple_outputs, None)
                OrderAdvice(self._options.patterns, search, self._options._advised).warn(matches)

    def _apply(self, index: int, entry: FusionPattern) -> dict[GlobalVar, list[Candidate]]:
        builder: BlockBuilder | None = None
        wrappers: dict[StructuralKey, GlobalVar] = {}
        taken: dict[GlobalVar, list[Candidate]] = {}
        for gv, function in entry_functions_of(self.mod, self._options.entry_functions):
            facts = self._facts(function)
            if not facts.can_hold(entry) and not (self.log is not None and facts.can_miss(entry)):
                continue
            by_block = self._search(function).first(index, entry)
            taken[gv] = [match for matches in by_block.values() for match in matches]
            builder = self._outline(gv, function, by_block, builder, wrappers)
        self.mod = self.mod if builder is None else builder.get()
        return taken

    def _facts(self, function: Function) -> FunctionFacts:
        if function not in self._known:
            self._known[function] = FunctionFacts(function)
        return self._known[function]

    def _search(self, function: Function) -> Search:
        return Search(self._facts(function), self._options.multiple_outputs, self.log)

    def _outline(
        self,
        gv: GlobalVar,
        function: Function,
        by_block: Mapping[int, Sequence[Candidate]],
        builder: BlockBuilder | None,
        wrappers: dict[StructuralKey, GlobalVar],
    ) -> BlockBuilder | None:
        """Replace the matches of a function; the builder is made when there is the first one."""
        if not by_block:
            return builder
        builder = builder or BlockBuilder(self.mod)
        groups = {block: [self._group(match) for match in matches] for block, matches in by_block.items()}
        builder.update_func(gv, _Rebuild(builder, function, groups, self._options, wrappers).visit_expr(function))
        return builder

    def _group(self, match: Candidate) -> Group:
        note = None
        if self.log is not None:
            note = partial(self.log.fused, match.entry, match.binding, match.members)
        return Group(match.own, match.attrs(self._options.annotate_roles), note)


class _Rebuild(PyExprMutator):
    """Replaces the groups of a function by calls."""

    def __init__(
        self,
        builder: BlockBuilder,
        function: Function,
        groups: Mapping[int, Sequence[Group]],
        options: FuseOpsByPattern,
        wrappers: dict[StructuralKey, GlobalVar],
    ) -> None:
        super().__init__()
        self.builder_ = builder
        self._groups, self._options, self._wrappers = groups, options, wrappers
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
        outlined = outline(members, outputs, group.attrs, bind_constants=self._options.bind_constants)
        gv = (
            self._add_wrapped(outlined)
            if self._options.annotate_codegen
            else self.builder_.add_func(outlined.function, outlined.name)
        )
        if group.note is not None:
            group.note(gv.name_hint)
        emit_call(self.builder_, gv, outlined, merged_span(m.value.span for m in members))

    def _add_wrapped(self, outlined: Outlined) -> GlobalVar:
        """The wrapper of a composite; equal composites share one."""
        key = StructuralKey(outlined.function)
        if key not in self._wrappers:
            codegen = codegen_of(str(outlined.function.attr("Composite")))
            function, name = wrap_for_codegen(outlined.function, outlined.name, codegen, self.builder_)
            self._wrappers[key] = self.builder_.add_func(function, name)
        return self._wrappers[key]
