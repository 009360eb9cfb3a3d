"""What the blocks of an operator of several stages do, as their annotations say."""

from __future__ import annotations

from collections.abc import Sequence

from eutectic.ir.prim_expr import Cast, PrimExpr, Var
from eutectic.tir.block import Block
from eutectic.tir.iter_var import IterVar, Range
from eutectic.tir.schedule.rules.nest import blocks_in_root
from eutectic.tir.schedule.rules.stage import Stage
from eutectic.tir.schedule.schedule import Schedule


def roles_of(sch: Schedule, stages: Sequence[Stage], key: str) -> dict[str, Stage]:
    """The stages of an operator by what they do; empty when there are several such operators.

    Args:
        sch: The schedule.
        stages: All stages.
        key: Annotation of the blocks of the operator.
    """
    roles: dict[str, Stage] = {}
    for stage in stages:
        block = sch.get(sch.get_block(stage.name))
        assert isinstance(block, Block)
        role = block.annotations.get(key)
        if role is not None and str(role) in roles:
            return {}
        if role is not None:
            roles[str(role)] = stage
    return roles


def blocks_of(sch: Schedule, key: str) -> dict[str, Block]:
    """The blocks of an operator by what they do, also where they are no stages; empty when there are others.

    Args:
        sch: The schedule.
        key: Annotation of the blocks of the operator.
    """
    blocks = [block for rv in blocks_in_root(sch) if isinstance(block := sch.get(rv), Block)]
    roles = {str(block.annotations[key]): block for block in blocks if key in block.annotations}
    return roles if len(roles) == len(blocks) else {}


def extent_of(axis: IterVar) -> PrimExpr:
    """How many points an axis of a block has."""
    assert isinstance(axis.dom, Range)
    return axis.dom.extent


def index_variable(index: PrimExpr) -> Var:
    """The variable that an index is; another one when it is none."""
    bare = index.value if isinstance(index, Cast) else index
    return bare if isinstance(bare, Var) else Var("none", "int64")
