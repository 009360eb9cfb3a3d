"""Matching of a `PatternContext`: one variable of a block for each pattern, related as the context says.

The search assigns variables pattern by pattern along the context's edges and takes
each choice back when a later pattern cannot be placed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from eutectic.arith import prove_equal
from eutectic.relax.analysis.uses import used_vars
from eutectic.relax.base import Expr
from eutectic.relax.dpl.match import Matcher, Solutions
from eutectic.relax.dpl.pattern import (
    AndPattern,
    AttrPattern,
    CallPattern,
    DataTypePattern,
    DFPattern,
    FunctionPattern,
    NotPattern,
    OrPattern,
    PatternContext,
    ShapePattern,
    StructInfoPattern,
    TupleGetItemPattern,
    TuplePattern,
    UnorderedTuplePattern,
    WherePattern,
)
from eutectic.relax.expr import Binding, Call, DataflowBlock, DataflowVar, Tuple, TupleGetItem, Var, VarBinding
from eutectic.relax.op.registry import has_trait
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.support.deep import deep
from eutectic.support.errors import PatternError

Matches: TypeAlias = dict[DFPattern, Any]
Edge: TypeAlias = tuple[DFPattern, DFPattern, int, bool]

_WRAPPERS: Final = (StructInfoPattern, DataTypePattern, ShapePattern, AttrPattern, WherePattern)
_NOT_IN_THE_BLOCK: Final = (OrPattern, NotPattern, FunctionPattern)
_OPERATIONS: Final = (CallPattern, TuplePattern, UnorderedTuplePattern, TupleGetItemPattern)


def match_dataflow_block(
    context: PatternContext, block: Any, start_hint: Var | None = None, must_include_hint: bool = False
) -> Matches | None:
    """What `PatternContext.match_dfb` gives; outputs of the block count as read outside of it.

    Raises:
        TypeError: `block` is not a dataflow block, or the hint is not a variable.
        PatternError: the hint must be included, but there is none.
    """
    if not isinstance(block, DataflowBlock):
        raise TypeError(f"match_dfb takes a DataflowBlock, got {type(block).__name__}")
    if start_hint is not None and not isinstance(start_hint, Var):
        raise TypeError(f"start_hint must be a variable, got {type(start_hint).__name__}")
    if must_include_hint and start_hint is None:
        raise PatternError("must_include_hint needs a start_hint", help="say which variable must take part")
    bound = {binding.var for binding in block.bindings}

    def read_outside(var: Var) -> bool:
        return var in bound and not isinstance(var, DataflowVar)

    if start_hint is not None:
        for matches in match_bindings(context, block.bindings, read_outside):
            if start_hint in matches.values():
                return matches
        if must_include_hint:
            return None
    return next(match_bindings(context, block.bindings, read_outside), None)


def match_bindings(
    context: PatternContext, bindings: Sequence[Binding], read_outside: Callable[[Var], bool]
) -> Iterator[Matches]:
    """All matches of a context, those of earlier variables first.

    Args:
        context: Patterns and how they are related.
        bindings: What to search, in program order; earlier variables are opaque.
        read_outside: Whether a variable is read by something that is not in `bindings`.

    Yields:
        For each pattern its variable, or the operand itself where that is not a variable.
        No two patterns have the same variable. An outermost pattern and the conditions
        put on it (`has_dtype`, `where`, ...) count as one.
    """
    yield from Search(context, bindings, read_outside).solutions()


# ---- the patterns


@dataclass(frozen=True)
class _Step:
    """One group of patterns to place, and the edge along which its candidates are found.

    Attributes:
        group: Number of the group.
        tops: Its outermost patterns; the others are parts of them.
        link: An edge to a group that was placed before, or None.
    """

    group: int
    tops: tuple[DFPattern, ...]
    link: Edge | None


class _Plan:
    """The groups of a context in the order in which they are placed.

    Attributes:
        group_of: Group of each pattern that gets a variable.
        edges: Edges between them.
        constraints: Patterns whose shapes must agree.
        steps: Groups in order.
        linked: Groups with an edge.
    """

    def __init__(self, context: PatternContext) -> None:
        self.constraints = [constraint.patterns for constraint in context.constraints]
        self.edges = _required_edges(context.edges)
        nodes = dict.fromkeys(p for producer, consumer, _, _ in self.edges for p in (producer, consumer))
        inside = {part for node in nodes for part in _parts(node)}
        for patterns in self.constraints:
            nodes.update(dict.fromkeys(p for p in patterns if p not in inside))
        self.group_of = _same_value_groups(list(nodes))
        self.linked = {self.group_of[p] for producer, consumer, _, _ in self.edges for p in (producer, consumer)}
        self.steps = self._ordered()

    def _ordered(self) -> list[_Step]:
        members: dict[int, list[DFPattern]] = {}
        for pattern, group in self.group_of.items():
            members.setdefault(group, []).append(pattern)
        placed: set[int] = set()
        steps: list[_Step] = []
        while len(placed) < len(members):
            group, link = self._next(placed, members)
            placed.add(group)
            inner = {part for pattern in members[group] for part in _same_value(pattern) if part is not pattern}
            tops = tuple(pattern for pattern in members[group] if pattern not in inner)
            steps.append(_Step(group, tops, link))
        return steps

    def _next(self, placed: set[int], members: dict[int, list[DFPattern]]) -> tuple[int, Edge | None]:
        """A neighbour of what is placed; else a group that names an operation, or reads something, or any."""
        for edge in self.edges:
            ends = [self.group_of[edge[0]], self.group_of[edge[1]]]
            fresh = [end for end in ends if end not in placed]
            if len(fresh) == 1 and ends[0] != ends[1]:
                return fresh[0], edge
        left = [group for group in members if group not in placed]
        readers = {self.group_of[consumer] for _, consumer, _, _ in self.edges}
        operations = [group for group in left if any(map(_names_operation, members[group]))]
        return (operations or [group for group in left if group in readers] or left)[0], None


def _required_edges(edges: Sequence[Edge]) -> list[Edge]:
    """Edges that every match has: not those that a call inside of an alternative noted for its arguments."""
    maybe = {
        part
        for edge in edges
        for end in edge[:2]
        for outer in _parts(end)
        if isinstance(outer, _NOT_IN_THE_BLOCK)
        for part in _parts(outer)
        if part is not outer
    }
    return [edge for edge in edges if not (edge[1] in maybe and _is_argument(edge))]


def _is_argument(edge: Edge) -> bool:
    producer, consumer, index, _ = edge
    return isinstance(consumer, CallPattern) and 0 <= index < len(consumer.args) and consumer.args[index] is producer


def _parts(pattern: DFPattern) -> list[DFPattern]:
    """A pattern and everything below it, each once."""
    parts: dict[DFPattern, None] = {}
    todo = [pattern]
    while todo:
        item = todo.pop()
        if item in parts:
            continue
        parts[item] = None
        for value in vars(item).values():
            todo.extend(p for p in (value if isinstance(value, tuple) else (value,)) if isinstance(p, DFPattern))
    return list(parts)


@deep
def _same_value(pattern: DFPattern) -> list[DFPattern]:
    """A pattern and those parts that are compared with the same value."""
    match pattern:
        case AndPattern():
            return [pattern, *_same_value(pattern.left), *_same_value(pattern.right)]
        case _ if isinstance(pattern, _WRAPPERS):
            return [pattern, *_same_value(pattern.pattern)]
        case _:
            return [pattern]


def _same_value_groups(nodes: Sequence[DFPattern]) -> dict[DFPattern, int]:
    """Number of each pattern's group: patterns that share a part with the same value get one variable."""
    owner: dict[DFPattern, int] = {}
    alias: dict[int, int] = {}

    def find(group: int) -> int:
        while group in alias:
            group = alias[group]
        return group

    for number, node in enumerate(nodes):
        for part in _same_value(node):
            known = find(owner.setdefault(part, number))
            if known != find(number):
                alias[max(known, find(number))] = min(known, find(number))
    return {node: find(owner[node]) for node in nodes}


@deep
def _names_operation(pattern: DFPattern) -> bool:
    return any(isinstance(part, _OPERATIONS) for part in _same_value(pattern)) or (
        isinstance(pattern, OrPattern) and _names_operation(pattern.left) and _names_operation(pattern.right)
    )


# ---- the program


class _Uses:
    """Who reads what among some bindings; other names of a variable count as the variable.

    Attributes:
        values: Value of each variable, without casts.
        order: Variables in order of appearance.
        readers: Variables whose values read an operand, by the operand's id.
    """

    def __init__(self, bindings: Sequence[Binding], read_outside: Callable[[Var], bool]) -> None:
        self.values: dict[Var, Expr] = {b.var: b.value for b in bindings if isinstance(b, VarBinding)}
        self._alias: dict[Var, Var] = {}
        self._names: dict[Var, list[Var]] = {}
        self._slots: dict[Var, tuple[list[Any], list[Any]]] = {}
        self._read_outside = read_outside
        self.readers: dict[int, dict[Var, None]] = {}
        appeared: dict[Var, None] = {}
        for binding in bindings:
            if isinstance(binding, VarBinding) and isinstance(binding.value, Var):
                root = self._root(binding.value)
                self._alias[binding.var] = root
                self._names.setdefault(root, []).append(binding.var)
                appeared[root] = None
                continue
            self._slots[binding.var] = self._operands(binding)
            for operand in self.operands(binding.var):
                self.readers.setdefault(id(operand), {})[binding.var] = None
                if isinstance(operand, Var):
                    appeared[operand] = None
            appeared[binding.var] = None
        self.order = list(appeared)

    def remove(self, var: Var) -> None:
        """Take a binding away."""
        for operand in self.operands(var):
            self.readers[id(operand)].pop(var, None)
        self.values.pop(var, None)
        self._slots.pop(var, None)

    def _root(self, item: Any) -> Any:
        return self._alias.get(item, item) if isinstance(item, Var) else item

    def _operands(self, binding: Binding) -> tuple[list[Any], list[Any]]:
        """Operands by position, as they stand and with tuples replaced by their fields."""
        value = binding.value
        match value:
            case Call():
                direct = list(value.args)
                skip = has_trait(value, "calls")
                flat = list(_fields(direct[1:] if skip else direct))
            case Tuple():
                direct, flat = list(value.fields), list(_fields(value.fields))
            case TupleGetItem():
                direct = [value.tuple_value]
                flat = list(_fields(direct))
            case Var():
                direct = flat = [value]
            case _:
                direct, flat = [], list(used_vars(value))
        return [self._root(item) for item in direct], [self._root(item) for item in flat]

    def operands(self, var: Any) -> list[Any]:
        """Everything that the value of a variable reads, each once; the callee too when it is a variable."""
        direct, flat = self._slots.get(var, ([], []))
        value = self.values.get(var)
        callee = [self._root(value.op)] if isinstance(value, Call) and isinstance(value.op, Var) else []
        return list({id(item): item for item in (*direct, *flat, *callee)}.values())

    def at(self, var: Any, index: int) -> list[Any]:
        """Operands that may be called the one at `index`."""
        candidates = [side[index] for side in self._slots.get(var, ([], [])) if 0 <= index < len(side)]
        return list({id(item): item for item in candidates}.values())

    def is_read_by(self, producer: Any, consumer: Any, index: int, only_use: bool) -> bool:
        """Whether an edge holds between two values."""
        operands = self.operands(consumer) if index == -1 else self.at(consumer, index)
        if not any(item is producer for item in operands):
            return False
        return not only_use or (len(self.readers[id(producer)]) == 1 and not self._escapes(producer))

    def _escapes(self, item: Any) -> bool:
        return isinstance(item, Var) and any(map(self._read_outside, (item, *self._names.get(item, ()))))


def _fields(items: Sequence[Any]) -> Iterator[Any]:
    todo = list(reversed(items))
    while todo:
        item = todo.pop()
        if isinstance(item, Tuple):
            todo.extend(reversed(item.fields))
        else:
            yield item


# ---- the search


class Search:
    """Backtracking over the steps of a plan; takes the arguments of `match_bindings`.

    Bindings may be taken away between two solutions: the search goes on where it is, without them.
    """

    def __init__(
        self, context: PatternContext, bindings: Sequence[Binding], read_outside: Callable[[Var], bool]
    ) -> None:
        self.plan, self.uses = _Plan(context), _Uses(bindings, read_outside)
        self.state = Matcher(self.uses.values)
        self.placed: dict[int, Any] = {}
        self._removals = 0

    def remove(self, variables: Iterable[Var]) -> None:
        """Take bindings away; their variables are opaque from now on."""
        for var in variables:
            self.uses.remove(var)
        self._removals += 1

    def solutions(self) -> Iterator[Matches]:
        """Every way to place all groups."""
        for candidate in self._candidates(self.plan.steps[0]) if self.plan.steps else ():
            seen = -1
            while seen != self._removals:  # what is left after a removal may match at the same place
                seen = self._removals
                for _ in self._place(0, [candidate]):
                    yield {pattern: self.placed[group] for pattern, group in self.plan.group_of.items()}

    def _place(self, number: int, first: Sequence[Any] | None = None) -> Solutions:
        if number == len(self.plan.steps):
            if self._shapes_agree():
                yield
            return
        step, seen = self.plan.steps[number], self._removals
        for candidate in self._candidates(step) if first is None else first:
            if self._removals != seen:
                return
            if isinstance(candidate, Var) and any(candidate is other for other in self.placed.values()):
                continue
            self.placed[step.group] = candidate
            if self._edges_hold(step.group) and self._shapes_agree():
                for _ in self.state.solve_all(step.tops, [candidate] * len(step.tops)):
                    if self._removals == seen:
                        yield from self._place(number + 1)
            del self.placed[step.group]

    def _candidates(self, step: _Step) -> list[Any]:
        if step.link is None:
            if step.group in self.plan.linked:
                return self.uses.order
            return [var for var in self.uses.order if self.uses.readers.get(id(var))]
        producer, consumer, index, _ = step.link
        if self.plan.group_of[producer] == step.group:
            reader = self.placed[self.plan.group_of[consumer]]
            return self.uses.operands(reader) if index == -1 else self.uses.at(reader, index)
        return list(self.uses.readers.get(id(self.placed[self.plan.group_of[producer]]), ()))

    def _edges_hold(self, group: int) -> bool:
        for producer, consumer, index, only_use in self.plan.edges:
            ends = self.plan.group_of[producer], self.plan.group_of[consumer]
            if group in ends and all(end in self.placed for end in ends):
                source, reader = self.placed[ends[0]], self.placed[ends[1]]
                if not self.uses.is_read_by(source, reader, index, only_use):
                    return False
        return True

    def _shapes_agree(self) -> bool:
        """Whether the shapes known so far are equal where a constraint says so."""
        for patterns in self.plan.constraints:
            infos = [value.struct_info for value in map(self._value, patterns) if value is not None]
            if not all(_same_shape(infos[0], info) for info in infos[1:]):
                return False
        return True

    def _value(self, pattern: DFPattern) -> Any:
        group = self.plan.group_of.get(pattern)
        return self.state.matches.get(pattern) if group is None else self.placed.get(group)


def _same_shape(a: Any, b: Any) -> bool:
    if not (isinstance(a, TensorStructInfo) and isinstance(b, TensorStructInfo)):
        return False
    if a.dims is None or b.dims is None:
        return a.shape is not None and a.shape is b.shape
    return a.ndim == b.ndim and all(prove_equal(x, y) for x, y in zip(a.dims, b.dims, strict=True))
