"""What is known of the variables around a place of a program."""

from __future__ import annotations

from eutectic.arith.analyzer import Analyzer
from eutectic.ir.prim_expr import IntImm
from eutectic.tir.block import BlockRealize
from eutectic.tir.iter_var import Range
from eutectic.tir.schedule.state import Site
from eutectic.tir.stmt import For


def analyzer_for(site: Site, *more: For, keep_units: bool = False) -> Analyzer:
    """An analyzer that knows the ranges of the loops and axes around a place, and of more loops.

    Args:
        site: The place.
        more: Loops inside of it.
        keep_units: Whether the variable of a loop of one iteration is not taken for a constant.
    """
    analyzer = Analyzer()
    for stmt in (*site.above, *more):
        if isinstance(stmt, For):
            extent = IntImm(stmt.loop_var.dtype, 2) if keep_units and stmt.static_extent == 1 else stmt.extent
            analyzer.bind(stmt.loop_var, Range(min=stmt.min, extent=extent))
        elif isinstance(stmt, BlockRealize):
            for axis in stmt.block.iter_vars:
                if axis.dom is not None:
                    analyzer.bind(axis.var, axis.dom)
    return analyzer
