"""Fewer stages: values are computed where they are read."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from eutectic.backend.llvm.rules.stage import Stage, loads, put
from eutectic.ir.node import Node, children
from eutectic.ir.prim_expr import BinaryExpr, Call, IntImm, PrimExpr, Select, Var
from eutectic.ir.structural import StructuralKey
from eutectic.ir.visit import post_order, rewrite
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.expr import Let
from eutectic.tir.transform.index_facts import looks_at_indices
from eutectic.tir.transform.substitute import fresh_lets

_FREE: Final = (
    *("tir.if_then_else", "tir.likely", "tir.bitwise_and", "tir.bitwise_or"),
    *("tir.fabs", "tir.floor", "tir.ceil"),
)
_MOST_CHEAP: Final = 6  # operations that are rather done twice than stored


def inline(stages: Sequence[Stage], intermediates: Sequence[Buffer]) -> list[Stage]:
    """Inline stages into their readers where that costs little.

    Args:
        stages: In order.
        intermediates: Buffers that nobody outside reads.
    """
    return _Inlining(stages, intermediates).run()


class _Inlining:
    """The stages that are left, by the buffer each writes, and who reads whom.

    A stage is looked at again when one of its readers has changed, so that work grows with the number of changes.
    """

    def __init__(self, stages: Sequence[Stage], intermediates: Sequence[Buffer]) -> None:
        self.stages = {id(stage.output): stage for stage in stages}
        self.place = {key: place for place, key in enumerate(self.stages)}
        self.key = list(self.stages)
        self.local = {id(buffer) for buffer in intermediates}
        self.sources = {key: self.sources_of(stage) for key, stage in self.stages.items()}
        self.readers: dict[int, set[int]] = {}
        for key, sources in self.sources.items():
            for source in sources:
                self.readers.setdefault(source, set()).add(key)
        self.todo = list(range(len(self.key)))  # places, the first of them on top
        self.waiting = set(self.todo)

    def sources_of(self, stage: Stage) -> set[int]:
        """The stages that a stage reads."""
        return {id(load.buffer) for load in stage.reads()} & self.place.keys()

    def run(self) -> list[Stage]:
        """Inline until nothing is left to inline, always the first stage that can be."""
        while self.todo:
            place = heapq.heappop(self.todo)
            self.waiting.discard(place)
            key = self.key[place]
            if key in self.stages and self.may_inline(key):
                self.inline(key)
        return list(self.stages.values())

    def may_inline(self, key: int) -> bool:
        """Whether a stage goes into all of its readers."""
        stage, readers = self.stages[key], self.readers.get(key, set())
        if key not in self.local or stage.init is not None or not readers or looks_at_indices(stage.value):
            return False
        work, guarded = operations(stage.value), _has_guard(stage.value)
        return all(_may_inline(stage, self.stages[k], len(readers), work, guarded) for k in readers)

    def inline(self, key: int) -> None:
        """Put a stage into its readers, and have the stages looked at again that these read now."""
        stage = self.stages.pop(key)
        for source in self.sources.pop(key):
            self.readers[source].discard(key)
        for reader in sorted(self.readers.pop(key), key=self.place.__getitem__):
            self.stages[reader] = _inlined(stage, self.stages[reader])
            self.sources[reader] = self.sources_of(self.stages[reader])
            for source in self.sources[reader]:
                self.readers.setdefault(source, set()).add(reader)
                if self.place[source] not in self.waiting:
                    self.waiting.add(self.place[source])
                    heapq.heappush(self.todo, self.place[source])


def operations(expr: Node) -> int:
    """Arithmetic on data in an expression; functions such as exp count as many."""
    count = 0
    on_data: set[int] = set()
    for part in post_order(expr):
        if isinstance(part, BufferLoad) or any(id(child) in on_data for child in children(part)):
            on_data.add(id(part))
        if isinstance(part, Call):
            name = str(getattr(part.op, "name", ""))
            count += 0 if name in _FREE else 20
        elif isinstance(part, (BinaryExpr, Select)) and id(part) in on_data:
            count += 1
    return count


def _may_inline(stage: Stage, reader: Stage, readers: int, work: int, guarded: bool) -> bool:
    places = {_key(load) for load in reader.reads() if load.buffer is stage.output}
    if reader.init is not None:
        # A value that a reduction reads again and again is computed again and again; and a guard would be in its loop.
        again = len(reader.spatial) + len(reader.reduce) > len(stage.spatial)
        simple = work == 0 and not guarded and _plain_indices(stage.value)
        return simple if again else not guarded and readers == 1
    if work > _MOST_CHEAP:
        return readers == 1 and len(places) == 1 and len(stage.spatial) >= len(reader.spatial)
    return readers <= 2 or work <= 1


def _key(load: BufferLoad) -> StructuralKey:
    return StructuralKey(load.indices)


def _has_guard(expr: PrimExpr) -> bool:
    names = (str(getattr(part.op, "name", "")) for part in post_order(expr) if isinstance(part, Call))
    return "tir.if_then_else" in names


def _plain_indices(expr: PrimExpr) -> bool:
    """Whether all loads are at variables and constants."""
    return all(isinstance(index, (Var, IntImm)) for load in loads(expr) for index in load.indices)


def _inlined(stage: Stage, reader: Stage) -> Stage:
    """The reader with loads of the stage's output replaced by its value."""
    value = _replace(stage, reader.value)
    epilogue = reader.epilogue
    if epilogue is not None:
        epilogue = replace(epilogue, value=_replace(stage, epilogue.value))
    init = None if reader.init is None else _replace(stage, reader.init)
    return replace(reader, value=value, init=init, epilogue=epilogue)


def _replace(stage: Stage, expr: PrimExpr) -> PrimExpr:
    mine = [load for load in loads(expr) if load.buffer is stage.output]
    if not mine:
        return expr
    names: dict[StructuralKey, Var] = {}
    values: dict[StructuralKey, PrimExpr] = {}
    shared = _several(mine) and operations(stage.value) > 0 and not _has_guard(expr)
    for load in mine:
        key = _key(load)
        if key not in values:
            values[key] = _value_at(stage, load)
            names[key] = Var(f"{stage.name}_value", stage.output.dtype)

    def change(node: Node) -> Node | None:
        if isinstance(node, BufferLoad) and node.buffer is stage.output:
            return names[_key(node)] if shared else values[_key(node)]
        return None

    made = rewrite(expr, change)
    assert isinstance(made, PrimExpr)
    if shared:
        for key, var in names.items():
            made = Let(var, values[key], made)
    return made


def _several(found: Sequence[BufferLoad]) -> bool:
    return len(found) > 1


def _value_at(stage: Stage, load: BufferLoad) -> PrimExpr:
    table: dict[Var, PrimExpr] = {}
    for mine, theirs in zip(stage.indices, load.indices, strict=True):
        if isinstance(mine, Var):
            table[mine] = theirs
    return fresh_lets(put(stage.value, table))
