"""A run: bindings that are rewritten together, and what has been put in the place of some of them."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Container, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from eutectic.ir.op import Op
from eutectic.ir.structural import structural_equal
from eutectic.ir.visit import post_order
from eutectic.relax.analysis.uses import used_vars
from eutectic.relax.base import Expr
from eutectic.relax.block_builder import BlockBuilder
from eutectic.relax.expr import (
    Binding,
    Call,
    MatchCast,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    describe_info,
)
from eutectic.relax.struct_info_relations import (
    BaseCheckResult,
    defined_symbolic_vars,
    free_symbolic_vars,
    struct_info_base_check,
)
from eutectic.support.errors import EutecticError, PatternError

_COMPOSITE: Final = (Call, Tuple, TupleGetItem)


class _Reads:
    """Which of some bindings each of them needs: those it reads, and casts that define its sizes."""

    def __init__(self, bindings: Sequence[Binding]) -> None:
        self.position = {binding.var: i for i, binding in enumerate(bindings)}
        self._caster: dict[int, Var] = {}
        for binding in bindings:
            if isinstance(binding, MatchCast):
                for size in defined_symbolic_vars([binding.struct_info]):
                    self._caster.setdefault(id(size), binding.var)

    def of_value(self, value: Expr) -> list[Var]:
        """Variables that a value needs."""
        needed = dict.fromkeys(var for var in used_vars(value) if var in self.position)
        if self._caster:
            sizes = free_symbolic_vars(value)
            needed.update(dict.fromkeys(self._caster[id(s)] for s in sizes if id(s) in self._caster))
        return list(needed)

    def of(self, binding: Binding) -> list[Var]:
        """Variables that a binding needs."""
        needed = dict.fromkeys(self.of_value(binding.value))
        if isinstance(binding, MatchCast) and self._caster:
            sizes = free_symbolic_vars(binding.struct_info)
            needed.update(dict.fromkeys(self._caster[id(s)] for s in sizes if id(s) in self._caster))
        return [var for var in needed if var is not binding.var]


def _in_order(bindings: Sequence[Binding]) -> Sequence[Binding]:
    """Bindings after what they need; of those that may come next the first."""
    reads = _Reads(bindings)
    needs = [[reads.position[var] for var in reads.of(binding)] for binding in bindings]
    if all(source < i for i, sources in enumerate(needs) for source in sources):
        return bindings
    readers: dict[int, list[int]] = {}
    for i, sources in enumerate(needs):
        for source in sources:
            readers.setdefault(source, []).append(i)
    waiting = [len(sources) for sources in needs]
    ready = [i for i, count in enumerate(waiting) if count == 0]
    out: list[Binding] = []
    while ready:
        i = heapq.heappop(ready)
        out.append(bindings[i])
        for reader in readers.get(i, ()):
            waiting[reader] -= 1
            if waiting[reader] == 0:
                heapq.heappush(ready, reader)
    assert len(out) == len(bindings)  # cycles were refused before
    return out


class Run:
    """Bindings that are searched together, and what has been put in the place of some of them.

    Attributes:
        bindings: In program order.
        replaced: New values by variable, this round.
    """

    def __init__(self, bindings: Sequence[Binding], read_outside: Callable[[Var], bool]) -> None:
        self.bindings = tuple(bindings)
        self.replaced: dict[Var, Expr] = {}
        self._read_outside = read_outside
        self._needs: dict[Var, list[Var]] = {}
        self._read_by_new: set[Var] = set()
        self._has_forward = False  # whether a new value reads a later variable
        self._by_var = {binding.var: binding for binding in self.bindings}

    @cached_property
    def _reads(self) -> _Reads:
        return _Reads(self.bindings)

    @cached_property
    def _known(self) -> dict[int, Var]:
        """Variables of the values that were there before."""
        known: dict[int, Var] = {}
        for binding in self.bindings:
            if isinstance(binding, VarBinding) and isinstance(binding.value, _COMPOSITE):
                known.setdefault(id(binding.value), binding.var)
        return known

    @cached_property
    def op_names(self) -> frozenset[str]:
        """Operators called."""
        ops = (b.value.op for b in self.bindings if isinstance(b.value, Call))
        return frozenset(op.name for op in ops if isinstance(op, Op))

    def open(self) -> list[Binding]:
        """Bindings that were not replaced."""
        return [binding for binding in self.bindings if binding.var not in self.replaced]

    def values(self) -> dict[Var, Expr]:
        """Values of the bindings that were not replaced; casts are none."""
        return {binding.var: binding.value for binding in self.open() if isinstance(binding, VarBinding)}

    def read_outside(self, var: Var) -> bool:
        """Whether something reads a variable that is not among the open bindings."""
        return var in self._read_by_new or self._read_outside(var)

    def reaches(self, var: Var, targets: set[Var], through: Container[Var] | None = None) -> bool:
        """Whether the value of a variable depends on one of `targets`, by way of `through` alone when given."""
        seen: set[Var] = set()
        todo = list(self._needs_of(var))
        while todo:
            item = todo.pop()
            if item in targets:
                return True
            if item not in seen and (through is None or item in through):
                seen.add(item)
                todo.extend(self._needs_of(item))
        return False

    def _needs_of(self, var: Var) -> list[Var]:
        if var not in self._needs:
            self._needs[var] = self._reads.of(self._by_var[var])
        return self._needs[var]

    def accept(self, proposed: Mapping[Var, Expr], *, may_refuse: bool = False) -> bool:
        """Take new values for some variables, all or none.

        Args:
            proposed: New values; those equal to what is there are left out.
            may_refuse: Whether new values that need each other are no error.

        Returns:
            Whether something changes. It does not when a binding that stays, or one replaced
            before in this round, needs what is replaced and is needed by it.

        Raises:
            PatternError: a variable cannot be replaced, a value is not an expression, or the
                new values need each other in a circle.
        """
        fresh = self._dressed(proposed)
        if not fresh:
            return False
        before = {var: self._needs_of(var) for var in fresh}
        self._needs.update({var: self._reads.of_value(value) for var, value in fresh.items()})
        forward = any(self._reads.position[s] >= self._reads.position[v] for v in fresh for s in self._needs[v])
        if (forward or self._has_forward) and any(self.reaches(var, {var}) for var in fresh):
            looped = [var for var in fresh if self.reaches(var, {var}, fresh)]
            self._needs.update(before)
            if may_refuse or not looped:
                return False
            names = ", ".join(var.name_hint for var in looped)
            raise PatternError(
                f"the replacement of {names} depends on {'itself' if len(looped) == 1 else 'themselves'}",
                help="build it from values that do not read what is replaced",
            )
        self._has_forward |= forward
        self.replaced.update(fresh)
        self._read_by_new.update(var for value in fresh.values() for var in used_vars(value))
        return True

    def _dressed(self, proposed: Mapping[Var, Expr]) -> dict[Var, Expr]:
        """Checked values in terms of variables, with spans."""
        out: dict[Var, Expr] = {}
        done: dict[int, Expr] = {}
        for var, value in proposed.items():
            old = self._by_var.get(var)
            if old is None or var in self.replaced or not isinstance(old, VarBinding):
                name = getattr(var, "name_hint", repr(var))
                raise PatternError(f"the rewriter replaced {name}, which is not one of the bindings it was given")
            if not isinstance(value, Expr):
                raise PatternError(
                    f"the rewriter returned {'None' if value is None else type(value).__name__} for {var.name_hint}, "
                    "not an expression",
                    help="return the matched value itself to leave it alone",
                )
            if value is old.value or value is var:
                continue
            fresh = _dress(value, lambda item: self._bound_to(item, proposed), done, old.value.span or var.span)
            if not structural_equal(fresh, old.value):
                out[var] = fresh
        return out

    def _bound_to(self, item: Any, proposed: Mapping[Var, Expr]) -> Var | None:
        """The variable of a value that was there before, unless it gets another value."""
        var = self._known.get(id(item))
        return None if var in proposed else var

    def rebuilt(self, builder: BlockBuilder, is_dataflow: bool) -> Sequence[Binding]:
        """The bindings with the new values in normal form, each after what it reads."""
        builder.begin_block(is_dataflow)
        for binding in self.bindings:
            if binding.var not in self.replaced:
                builder.emit_normalized(binding)
                continue
            try:
                value = builder.normalize(self.replaced[binding.var])
            except EutecticError as error:
                error.with_note(f"in the replacement of {binding.var.name_hint}")
                raise
            _check_type(binding, value)
            builder.emit_normalized(VarBinding(binding.var, value))
        return _in_order(builder.end_block().bindings)


def _dress(value: Expr, bound_to: Callable[[Any], Var | None], done: dict[int, Expr], span: Any) -> Expr:
    """`value` with `span` where it has none, and variables in place of values that are bound already."""

    def is_new(item: Any) -> bool:
        return isinstance(item, _COMPOSITE) and id(item) not in done and bound_to(item) is None

    for item in post_order(value, enter=is_new):
        if is_new(item):
            done[id(item)] = _with_parts(item, done, span)
        elif (var := bound_to(item)) is not None:
            done[id(item)] = var
    return done.get(id(value), value)


def _with_parts(item: Any, done: Mapping[int, Expr], span: Any) -> Expr:
    def part(child: Any) -> Any:
        return done.get(id(child), child)

    info, own = item.struct_info, item.span or span
    match item:
        case Call():
            args = tuple(map(part, item.args))
            return Call(part(item.op), args, item.attrs, item.sinfo_args, own, struct_info=info)
        case Tuple():
            return Tuple(tuple(map(part, item.fields)), struct_info=info, span=own)
        case _:
            return TupleGetItem(part(item.tuple_value), item.index, struct_info=info, span=own)


def _check_type(binding: Binding, value: Expr) -> None:
    """Refuse a value that is not one of its variable's type."""
    wanted, actual = binding.var.struct_info, value.struct_info
    if wanted is None or actual is None or struct_info_base_check(wanted, actual) is BaseCheckResult.PASS:
        return
    span = binding.value.span or binding.var.span
    raise PatternError(
        f"the replacement of {binding.var.name_hint} has type {describe_info(actual)}, "
        f"which cannot stand for {describe_info(wanted)}",
        at=span.excerpt() if span else None,
        help="return a value of the same shape and dtype, or leave this match alone",
    )
