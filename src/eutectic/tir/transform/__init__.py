"""Passes over tensor programs: the way from blocks to flat loops; names as in `tvm.tir.transform`."""

from eutectic.support.door import open_doors
from eutectic.support.lazy import lazy
from eutectic.tir.transform.compact_buffer_allocation import CompactBufferAllocation, compact_buffer_allocation
from eutectic.tir.transform.convert_ssa import ConvertSSA, convert_ssa
from eutectic.tir.transform.flatten_buffer import FlattenBuffer, flatten_buffer
from eutectic.tir.transform.hoist_if_then_else import HoistIfThenElse, hoist_if_then_else
from eutectic.tir.transform.hoist_quotients import HoistQuotients, hoist_quotients
from eutectic.tir.transform.infra import PrimFuncPass, prim_func_pass
from eutectic.tir.transform.lower_blocks import ConvertBlocksToOpaque, LowerBlocks, LowerOpaqueBlock, lower_blocks
from eutectic.tir.transform.lower_init_block import LowerInitBlock, lower_init_block
from eutectic.tir.transform.lower_tir import LowerTIR
from eutectic.tir.transform.name_sizes import NameSizes
from eutectic.tir.transform.narrow_float import LegalizeNarrowFloat, legalize_narrow_float
from eutectic.tir.transform.pipeline import default_cpu_lowering, lower
from eutectic.tir.transform.plan_allocations import PlanAndUpdateBufferAllocationLocation, plan_allocations
from eutectic.tir.transform.remove_no_op import RemoveNoOp, remove_no_op
from eutectic.tir.transform.schedule_for_target import ScheduleForTarget
from eutectic.tir.transform.simplify import Simplify, simplify_func
from eutectic.tir.transform.take_decisions import TakeDecisions
from eutectic.tir.transform.take_example_sizes import TakeExampleSizes
from eutectic.tir.transform.unroll_loop import UnrollLoop, unroll_loop
from eutectic.tir.transform.vectorize_loop import VectorizeLoop, vectorize_loop

__all__ = [
    "CompactBufferAllocation",
    "ConvertBlocksToOpaque",
    "ConvertSSA",
    "FlattenBuffer",
    "HoistIfThenElse",
    "HoistQuotients",
    "LegalizeNarrowFloat",
    "LowerBlocks",
    "LowerInitBlock",
    "LowerOpaqueBlock",
    "LowerTIR",
    "NameSizes",
    "PlanAndUpdateBufferAllocationLocation",
    "PrimFuncPass",
    "RemoveNoOp",
    "ScheduleForTarget",
    "Simplify",
    "TakeDecisions",
    "TakeExampleSizes",
    "UnrollLoop",
    "VectorizeLoop",
    "compact_buffer_allocation",
    "convert_ssa",
    "default_cpu_lowering",
    "flatten_buffer",
    "hoist_if_then_else",
    "hoist_quotients",
    "legalize_narrow_float",
    "lower",
    "lower_blocks",
    "lower_init_block",
    "plan_allocations",
    "prim_func_pass",
    "remove_no_op",
    "simplify_func",
    "unroll_loop",
    "vectorize_loop",
]

open_doors(globals())
lazy(globals())
