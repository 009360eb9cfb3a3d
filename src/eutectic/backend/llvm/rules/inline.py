"""Fewer stages: values are computed where they are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from eutectic.backend.llvm.rules.stage import Stage, loads, put
from eutectic.ir.node import Node
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
    found = list(stages)
    local = {id(buffer) for buffer in intermediates}
    changed = True
    while changed:
        changed = False
        for i, stage in enumerate(found):
            if id(stage.output) not in local or stage.init is not None or looks_at_indices(stage.value):
                continue
            readers = [k for k, other in enumerate(found) if any(r.buffer is stage.output for r in other.reads())]
            if readers and all(_may_inline(stage, found[k], len(readers)) for k in readers):
                for k in readers:
                    found[k] = _inlined(stage, found[k])
                del found[i]
                changed = True
                break
    return found


def operations(expr: Node) -> int:
    """Arithmetic on data in an expression; functions such as exp count as many."""
    count = 0
    for part in post_order(expr):
        if isinstance(part, Call):
            name = str(getattr(part.op, "name", ""))
            count += 0 if name in _FREE else 20
        elif isinstance(part, (BinaryExpr, Select)) and any(True for _ in loads(part)):
            count += 1
    return count


def _may_inline(stage: Stage, reader: Stage, readers: int) -> bool:
    places = {_key(load) for load in reader.reads() if load.buffer is stage.output}
    work, guarded = operations(stage.value), _has_guard(stage.value)
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
