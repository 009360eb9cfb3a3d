"""oneDNN as a backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from eutectic.backend.contract import Availability, Backend, Machine, Verdict
from eutectic.backend.dnnl import library
from eutectic.backend.dnnl.borders import offers
from eutectic.backend.dnnl.describe import describe
from eutectic.backend.dnnl.loading import load
from eutectic.backend.dnnl.narrow import computes_in
from eutectic.backend.dnnl.patterns import patterns
from eutectic.backend.dnnl.speed import faster_in
from eutectic.backend.dnnl.worthwhile import worthwhile
from eutectic.ir.module import IRModule
from eutectic.relax.dpl.table import FusionPattern
from eutectic.relax.expr import Function
from eutectic.relax.transform.layouts.offers import LayoutOffer
from eutectic.runtime.library import LibraryKernel, Loader
from eutectic.target import Target


class OneDnn(Backend):
    """The kernels of oneDNN for CPUs."""

    name = "dnnl"
    title = "oneDNN"

    def availability(self, target: Target) -> Availability:
        """Whether the shared library can be loaded."""
        state = library.availability()
        return Availability(state.ok, state.reason)

    def version(self) -> str:
        """Its release, and the instruction set that it uses."""
        state = library.availability()
        return f"{state.version} {state.isa}"

    def patterns(self, precision: str) -> Sequence[FusionPattern]:
        """The table of `patterns.py`."""
        return patterns(precision)

    def worthwhile(self, mod: IRModule, machine: Machine) -> Verdict:
        """Not for small models, and not where our own kernels do most of the work faster."""
        return worthwhile(mod, machine)

    def computes_in(self, dtype: str, target: Target) -> Verdict:
        """Where the processor multiplies the dtype, and faster than float32."""
        return faster_in(dtype, target)

    def multiplies(self, dtype: str, target: Target) -> bool:
        """Where the processor does."""
        return computes_in(dtype, target).ok

    def layouts(self, region: Function) -> Sequence[LayoutOffer]:
        """Row-major, and what its kernels want on this processor."""
        return offers(region)

    def lower(self, region: Function, layout: LayoutOffer) -> LibraryKernel:
        """What oneDNN is asked to compute."""
        return describe(region, layout)

    def loader(self) -> Loader:
        """Compiles a region with oneDNN."""
        return load


BACKEND: Final = OneDnn()
