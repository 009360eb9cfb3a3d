"""Backends of libraries for CUDA devices: they cut out and describe, and nothing here can run what they took."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eutectic.backend.contract import Availability, Backend
from eutectic.ir.op import Op
from eutectic.ir.transform import Pass
from eutectic.ir.visit import post_order
from eutectic.relax.dpl.table import FusionPattern
from eutectic.relax.expr import Call, Function
from eutectic.relax.transform.layouts.offers import LayoutOffer
from eutectic.runtime.constants import Constants
from eutectic.runtime.library import LibraryKernel
from eutectic.target import Target


class DeviceLibrary(Backend):
    """A library whose regions are kept as a description until there is a device.

    Args:
        name: As in the `Codegen` attribute.
        title: What people call the library.
        patterns: Its table in the order of registration: the last one has priority.
        outline: The passes that cut out what it takes.
    """

    def __init__(
        self,
        name: str,
        title: str,
        patterns: Callable[[], Sequence[FusionPattern]],
        outline: Callable[[], Sequence[Pass]],
    ) -> None:
        self.name, self.title, self._patterns, self._outline = name, title, patterns, outline

    def availability(self, target: Target) -> Availability:
        """Never: devices are not run yet."""
        return Availability(ok=False, reason=f"it needs a CUDA device and {self.title}, which this build cannot run")

    def patterns(self, precision: str) -> Sequence[FusionPattern]:
        """The table, first come first served; no entry depends on the precision."""
        return list(reversed(self._patterns()))

    def outline(self, precision: str) -> Sequence[Pass]:
        """The passes that cut out what it takes."""
        return self._outline()

    def lower(self, region: Function, layout: LayoutOffer) -> LibraryKernel:
        """What is in the region: operators, patterns, and the bytes that `AllocateWorkspace` passes last."""
        nodes = list(post_order(region))
        operators = (item.op.name for item in nodes if isinstance(item, Call) and isinstance(item.op, Op))
        names = (item.attr("Composite") for item in nodes if isinstance(item, Function))
        description = {
            "operators": list(dict.fromkeys(operators)),
            "composites": list(dict.fromkeys(str(name) for name in names if name)),
            "workspace_bytes": int(region.attr("WorkspaceSize") or 0),
        }
        return LibraryKernel(self.name, str(region.attr("global_symbol")), description, Constants({}))
