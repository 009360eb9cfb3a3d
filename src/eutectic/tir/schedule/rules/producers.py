"""Fewer stages: values are computed where they are read."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from eutectic.ir.node import Node, children
from eutectic.ir.prim_expr import IntImm, Max, Min, PrimExpr, Var
from eutectic.ir.structural import StructuralKey
from eutectic.ir.visit import post_order, rewrite
from eutectic.tir.analysis.index_facts import looks_at_indices, reads_memory
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.expr import Let
from eutectic.tir.schedule.rules.guards import is_guarded
from eutectic.tir.schedule.rules.stage import Stage, loads
from eutectic.tir.schedule.rules.work import operations, points
from eutectic.tir.statement_mutator import with_values
from eutectic.tir.substitute import fresh_lets

_MOST_CHEAP: Final = 6  # operations that are rather done twice than stored
_MOST_WRITTEN: Final = 400  # nodes of a value in all of its places: in a chain of those it doubles with each


@dataclass(frozen=True)
class Inlining:
    """What is computed where it is read.

    Attributes:
        names: Of such stages, in the order in which to inline them.
        left: The other stages, with the values of these.
    """

    names: tuple[str, ...]
    left: tuple[Stage, ...]


def inlining_of(stages: Sequence[Stage], intermediates: Sequence[Buffer]) -> Inlining:
    """The stages that are better computed where they are read.

    Args:
        stages: In order.
        intermediates: Buffers that nobody outside reads.
    """
    work = _Inlining(stages, intermediates)
    work.run()
    return Inlining(tuple(work.inlined), tuple(work.stages.values()))


class _Inlining:
    """The stages that are left, by the buffer each writes, and who reads whom.

    A stage is looked at again when one of its readers has changed, so that work grows with the number of changes.
    """

    def __init__(self, stages: Sequence[Stage], intermediates: Sequence[Buffer]) -> None:
        self.stages = {id(stage.output): stage for stage in stages}
        self.place = {key: place for place, key in enumerate(self.stages)}
        self.key = list(self.stages)
        places = _read_for_places(stages)  # what is computed there is computed once, not wherever it says a place
        self.local = {id(buffer) for buffer in intermediates if buffer not in places}
        self.loads = {key: _by_buffer(stage) for key, stage in self.stages.items()}
        self.readers: dict[int, set[int]] = {}
        for key in self.stages:
            for source in self.sources(key):
                self.readers.setdefault(source, set()).add(key)
        self.todo = list(range(len(self.key)))  # places, the first of them on top
        self.waiting = set(self.todo)
        self.inlined: list[str] = []

    def sources(self, key: int) -> set[int]:
        """The stages that a stage reads."""
        return self.loads[key].keys() & self.place.keys()

    def run(self) -> None:
        """Inline until nothing is left to inline, always the first stage that can be.

        Stages in a row that go into one reader, as the parts of a long concatenation do, are put there at once.
        """
        row: list[int] = []
        while self.todo or row:
            place = heapq.heappop(self.todo) if self.todo else None
            key = -1 if place is None else self.key[place]
            if row and (place is None or self.readers.get(key) != self.readers[row[0]]):
                self.inline(row)
                row = []
            if place is None:
                continue
            self.waiting.discard(place)
            if key in self.stages and self.may_inline(key):
                row.append(key)
                if len(self.readers[key]) > 1:
                    self.inline(row)
                    row = []

    def may_inline(self, key: int) -> bool:
        """Whether a stage goes into all of its readers."""
        stage, readers = self.stages[key], self.readers.get(key, set())
        if key not in self.local or stage.init is not None or not readers or looks_at_indices(stage.value):
            return False
        work, guarded = operations(stage.value), is_guarded(stage.value)
        copies = sum(self._copies(key, reader, guarded) for reader in readers)
        if copies > 1 and copies * _written(stage.value) > _MOST_WRITTEN:
            return False
        for reader in readers:
            places = {_key(load) for load in self.loads[reader][key]}
            if not _may_inline(stage, self.stages[reader], len(readers), len(places), (work, guarded)):
                return False
        return True

    def _copies(self, key: int, reader: int, guarded: bool) -> int:
        """How often a reader has the value of a stage written out; where nothing guards it, it gets a name."""
        named = not guarded and not is_guarded(self.stages[reader].value)
        return 1 if named else len(self.loads[reader][key])

    def inline(self, keys: Sequence[int]) -> None:
        """Put stages into their readers, which are the same, and have the stages looked at again that these read."""
        stages = [self.stages.pop(key) for key in keys]
        self.inlined += [stage.name for stage in stages]
        for key in keys:
            for source in self.sources(key):
                self.readers[source].discard(key)
        readers = self.readers[keys[0]]
        for key in keys:
            del self.readers[key]
        for reader in sorted(readers, key=self.place.__getitem__):
            self.stages[reader] = _inlined(stages, self.stages[reader])
            self.loads[reader] = _by_buffer(self.stages[reader])
            for source in self.sources(reader):
                self.readers.setdefault(source, set()).add(reader)
                if self.place[source] not in self.waiting:
                    self.waiting.add(self.place[source])
                    heapq.heappush(self.todo, self.place[source])


def _read_for_places(stages: Sequence[Stage]) -> set[Buffer]:
    """Buffers of which elements are indices of others."""
    indices = [index for stage in stages for load in stage.reads() for index in load.indices]
    parts = (part for index in indices for part in post_order(index))
    return {part.buffer for part in parts if isinstance(part, BufferLoad)}


def _by_buffer(stage: Stage) -> dict[int, list[BufferLoad]]:
    """What a stage reads, by the buffers."""
    reads: dict[int, list[BufferLoad]] = {}
    for load in stage.reads():
        reads.setdefault(id(load.buffer), []).append(load)
    return reads


def _may_inline(stage: Stage, reader: Stage, readers: int, places: int, value: tuple[int, bool]) -> bool:
    """Whether a stage goes into one of its readers, which reads it at so many places; `value`: its work and guards."""
    work, guarded = value
    if reader.init is not None:
        # A value that a reduction reads again and again is computed again and again; and a guard would be in its loop.
        again = len(reader.spatial) + len(reader.reduce) > len(stage.spatial)
        simple = work == 0 and not guarded and _plain_indices(stage.value)
        return simple if again else not guarded and readers == 1
    if _gathers(stage.value) and _is_larger(reader, stage):
        return False  # such as what heads add to scores, by pairs of places, in every window
    if work > _MOST_CHEAP or (work and places > 1 and _clipped_places(stage.value)):
        return readers == 1 and places == 1 and len(stage.spatial) >= len(reader.spatial)
    return readers <= 2 or work <= 1


def _gathers(expr: PrimExpr) -> bool:
    """Whether it loads from places that are loaded."""
    return any(reads_memory(index) for load in loads(expr) for index in load.indices)


def _is_larger(reader: Stage, stage: Stage) -> bool:
    """Whether a stage is known to have more points than another one."""
    mine, theirs = points(reader.spatial), points(stage.spatial)
    return mine is not None and theirs is not None and mine > theirs


def _written(expr: PrimExpr) -> int:
    """Nodes of an expression when it is written out: one that is in it twice counts twice."""
    sizes: dict[int, int] = {}
    for part in post_order(expr):
        sizes[id(part)] = 1 + sum(sizes[id(child)] for child in children(part))
    return sizes[id(expr)]


def _key(load: BufferLoad) -> StructuralKey:
    return StructuralKey(load.indices)


def _plain_indices(expr: PrimExpr) -> bool:
    """Whether all loads are at variables and constants."""
    return all(isinstance(index, (Var, IntImm)) for load in loads(expr) for index in load.indices)


def _clipped_places(expr: PrimExpr) -> bool:
    """Whether elements are loaded from places that are clipped, so that vectors of them are put together one by one."""
    parts = (part for load in loads(expr) for index in load.indices for part in post_order(index))
    return any(isinstance(part, (Min, Max)) for part in parts)


def _inlined(stages: Sequence[Stage], reader: Stage) -> Stage:
    """The reader with loads of the stages' outputs replaced by their values; the stages do not read each other."""
    init = None if reader.init is None else _replace(stages, reader.init)
    return replace(reader, value=_replace(stages, reader.value), init=init)


def _replace(stages: Sequence[Stage], expr: PrimExpr) -> PrimExpr:
    by_output = {id(stage.output): stage for stage in stages}
    mine: dict[int, list[BufferLoad]] = {}
    for load in loads(expr):
        if id(load.buffer) in by_output:
            mine.setdefault(id(load.buffer), []).append(load)
    table: dict[int, PrimExpr] = {}  # by the loads
    named: list[tuple[Var, PrimExpr]] = []
    guarded = is_guarded(expr) if mine else False
    for buffer, stage in by_output.items():
        if buffer not in mine:
            continue
        shared = len(mine[buffer]) > 1 and operations(stage.value) > 0 and not guarded
        guarded = guarded or is_guarded(stage.value)
        values: dict[StructuralKey, PrimExpr] = {}
        for load in mine[buffer]:
            key = _key(load)
            if key not in values:
                value = _value_at(stage, load)
                values[key] = Var(f"{stage.name}_value", stage.output.dtype) if shared else value
                if shared:
                    named.append((values[key], value))  # type: ignore[arg-type]  # the variable made above
            table[id(load)] = values[key]
    if not table:
        return expr

    def change(node: Node) -> Node | None:
        if not isinstance(node, BufferLoad) or id(node.buffer) not in by_output:
            return None
        replacement = table.get(id(node))  # none for a load at a place that was loaded from another one
        return _value_at(by_output[id(node.buffer)], node) if replacement is None else replacement

    rewritten = rewrite(expr, change)
    assert isinstance(rewritten, PrimExpr)
    for var, value in named:
        rewritten = Let(var, value, rewritten)
    return rewritten


def _value_at(stage: Stage, load: BufferLoad) -> PrimExpr:
    table: dict[Var, PrimExpr] = {}
    for mine, theirs in zip(stage.indices, load.indices, strict=True):
        if isinstance(mine, Var):
            table[mine] = theirs
    return fresh_lets(with_values(stage.value, table))
