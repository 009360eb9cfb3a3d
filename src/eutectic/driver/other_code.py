"""What makes the calls that fast code would compute wrongly: with NaN, infinities, numbers near the largest."""

from __future__ import annotations

from eutectic.driver.inlined import without_regions
from eutectic.driver.pipeline import kernels
from eutectic.driver.plain_layouts import with_plain_layouts
from eutectic.ir.module import IRModule
from eutectic.ir.transform import PassContext
from eutectic.relax.transform import AssignLayouts
from eutectic.relax.transform.winograd.direct import ConvertWinogradToConv2D, has_winograd
from eutectic.target import Target


def needs_other_code(partitioned: IRModule) -> bool:
    """Whether kernels of our own leave some values to other code; of libraries, `link` knows that."""
    return has_winograd(partitioned)


def other_code(partitioned: IRModule, target: Target) -> IRModule:
    """Kernels of our own for a whole model, which compute all values as they are defined.

    Args:
        partitioned: The module that the fast code was made of, before its regions are lowered.
        target: What the fast code is for.
    """
    with PassContext():
        mod = ConvertWinogradToConv2D()(with_plain_layouts(without_regions(partitioned)))
        return kernels()(AssignLayouts(str(target.with_options(libs="")))(mod))
