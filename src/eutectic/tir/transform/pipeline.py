"""The way of a tensor program from blocks to what a code generator for CPUs takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from eutectic.ir.transform import Sequential
from eutectic.tir.function import PrimFunc
from eutectic.tir.transform.compact_buffer_allocation import CompactBufferAllocation, compact_buffer_allocation
from eutectic.tir.transform.convert_ssa import ConvertSSA, convert_ssa
from eutectic.tir.transform.flatten_buffer import FlattenBuffer, flatten_buffer
from eutectic.tir.transform.hoist_if_then_else import HoistIfThenElse, hoist_if_then_else
from eutectic.tir.transform.hoist_quotients import HoistQuotients, hoist_quotients
from eutectic.tir.transform.lower_blocks import LowerBlocks, lower_blocks
from eutectic.tir.transform.lower_init_block import LowerInitBlock, lower_init_block
from eutectic.tir.transform.narrow_float import LegalizeNarrowFloat, legalize_narrow_float
from eutectic.tir.transform.plan_allocations import PlanAndUpdateBufferAllocationLocation, plan_allocations
from eutectic.tir.transform.remove_no_op import RemoveNoOp, remove_no_op
from eutectic.tir.transform.simplify import Simplify, simplify_func
from eutectic.tir.transform.unroll_loop import UnrollLoop, unroll_loop
from eutectic.tir.transform.vectorize_loop import VectorizeLoop, vectorize_loop

_STEPS: Final[tuple[Callable[[PrimFunc], PrimFunc], ...]] = (
    convert_ssa,
    plan_allocations,
    lower_init_block,
    lower_blocks,
    compact_buffer_allocation,
    flatten_buffer,
    legalize_narrow_float,
    vectorize_loop,
    unroll_loop,
    simplify_func,
    remove_no_op,
    hoist_if_then_else,
    hoist_quotients,
)


def lower(func: PrimFunc) -> PrimFunc:
    """Lower one function for a CPU.

    Args:
        func: Any well-formed function.

    Returns:
        A function without blocks, whose accesses have one index; loops are serial
        or parallel (or bound to threads, where they were). Nothing is computed in
        float16 or bfloat16. Parameters keep their buffers in the signature.

    Raises:
        CodegenError: unrolling gives too many statements.
    """
    for step in _STEPS:
        func = step(func)
    return func


def default_cpu_lowering() -> Sequential:
    """The passes of `lower`, over all tensor functions of a module."""
    passes = (
        ConvertSSA(),
        PlanAndUpdateBufferAllocationLocation(),
        LowerInitBlock(),
        LowerBlocks(),
        CompactBufferAllocation(),
        FlattenBuffer(),
        LegalizeNarrowFloat(),
        VectorizeLoop(),
        UnrollLoop(),
        Simplify(),
        RemoveNoOp(),
        HoistIfThenElse(),
        HoistQuotients(),
    )
    return Sequential(list(passes), name="default_cpu_lowering")
