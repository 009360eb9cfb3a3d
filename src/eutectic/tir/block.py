"""Blocks: computations with stated axes, reads and writes, which schedules move as a whole."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from eutectic.ir.attrs import DictAttrs, make_attrs
from eutectic.ir.node import field, init_field, node
from eutectic.ir.prim_expr import IntImm, PrimExpr, as_prim
from eutectic.support.errors import WellFormedError
from eutectic.tir.buffer import Buffer, BufferRegion, MatchBufferRegion, as_region
from eutectic.tir.iter_var import IterVar, as_index
from eutectic.tir.stmt import Stmt

DETECT_ACCESS: Final = "tir.script_parsing_detect_access"
"""Annotation of a block whose reads (1), writes (2) or both (3) `complete` has to infer."""
WINOGRAD: Final = "winograd"
"""Annotation of the blocks of a convolution by Winograd's method, with what each of them does."""
INVERTED_RESIDUAL: Final = "inverted_residual"
"""The same of the blocks of an inverted residual."""
DENSE_PACK: Final = "dense_pack"
"""The same of the blocks of a product with weights in panels."""
RECURRENT: Final = "recurrent"
"""The same of the blocks of a recurrent layer."""
SCAN: Final = "scan"
"""The same of the block of running sums."""
SCATTER: Final = "scatter"
"""The same of the blocks of a program that writes where data says."""
TERMS_OF_SUM: Final = "terms_of_sum"
"""Annotation of a block that sums: how many terms at a time, where rounding errors are made larger afterwards."""


@node("tir.Block")
class Block(Stmt):
    """A computation for one point of its axes.

    Attributes:
        iter_vars: The axes, each with its range and type.
        reads: Regions that the body may read.
        writes: Regions that the body may write.
        name_hint: Name by which schedules find the block; not part of the program.
        body: What is done at one point.
        init: What is done before `body` at the first point along all reduction axes, also where the parts of the
            predicate that are about terms do not hold there (`tir.analysis.first_points` is the definition).
        alloc_buffers: Buffers that live inside the block.
        match_buffers: Names for regions of other buffers.
        annotations: Hints by key.
    """

    iter_vars: tuple[IterVar, ...]
    reads: tuple[BufferRegion, ...]
    writes: tuple[BufferRegion, ...]
    name_hint: str = field(role="ignore")
    body: Stmt
    init: Stmt | None = None
    alloc_buffers: tuple[Buffer, ...] = field(role="def", default=())
    match_buffers: tuple[MatchBufferRegion, ...] = ()
    annotations: DictAttrs = DictAttrs()
    compare_order: ClassVar[tuple[str, ...]] = (
        "iter_vars",
        "alloc_buffers",
        "match_buffers",
        "reads",
        "writes",
        "init",
        "body",
        "annotations",
    )

    def __post_init__(self) -> None:
        init_field(self, "iter_vars", tuple(self.iter_vars))
        init_field(self, "reads", tuple(map(as_region, self.reads)))
        init_field(self, "writes", tuple(map(as_region, self.writes)))
        init_field(self, "alloc_buffers", tuple(self.alloc_buffers or ()))
        init_field(self, "match_buffers", tuple(self.match_buffers or ()))
        init_field(self, "annotations", make_attrs(self.annotations))


@node("tir.BlockRealize")
class BlockRealize(Stmt):
    """A block with values for its axes.

    Attributes:
        iter_values: Value of each axis; constants take the axis' dtype.
        predicate: The block runs only where it holds.
        block: The block.

    Raises:
        WellFormedError: there is not one value per axis.
    """

    iter_values: tuple[PrimExpr, ...]
    predicate: PrimExpr
    block: Block

    def __post_init__(self) -> None:
        values: tuple[Any, ...] = tuple(self.iter_values)
        axes = self.block.iter_vars
        if len(values) != len(axes):
            raise WellFormedError(f"block {self.block.name_hint} has {len(axes)} axes, but {len(values)} values")
        init_field(
            self, "iter_values", tuple(as_index(v, axis.var.dtype) for v, axis in zip(values, axes, strict=True))
        )
        init_field(self, "predicate", as_prim(self.predicate, "bool"))

    @property
    def always_runs(self) -> bool:
        """Whether the predicate is the constant true."""
        return isinstance(self.predicate, IntImm) and self.predicate.value == 1
