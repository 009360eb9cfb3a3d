"""Default schedules for CPUs: what a tensor program computes stays, its loops become fast ones.

A rule takes a stage (`stage.py`) and gives statements. To add one, write a module
with a function of a `Flat` stage, and choose it in `_stage_body`.
"""

from eutectic.backend.llvm.rules.apply import schedule_for_cpu
from eutectic.support.lazy import lazy

__all__ = ["schedule_for_cpu"]

lazy(globals())
