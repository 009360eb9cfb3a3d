"""From a graph function to a region as data: what oneDNN is asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from eutectic.backend.dnnl.border_layout import text_of
from eutectic.backend.dnnl.codegen import Lowered, lower_function
from eutectic.backend.dnnl.native_text import native_text
from eutectic.backend.dnnl.spec import RegionSpec
from eutectic.backend.dnnl.special_values import finite_constants, loses_specials
from eutectic.relax.expr import Function
from eutectic.relax.transform.layouts.offers import ROW_MAJOR, LayoutOffer
from eutectic.runtime.constants import Constants
from eutectic.runtime.library import LibraryKernel

BACKEND: Final = "dnnl"


def describe(function: Function, layouts: LayoutOffer = ROW_MAJOR) -> LibraryKernel:
    """A region as data. Sizes that vary have names in it, and get values when the region is called.

    Args:
        function: A function with a `Codegen` attribute.
        layouts: How its tensors lie in memory; those of `borders.py`.

    Raises:
        CodegenError: a composite holds something oneDNN cannot do.
    """
    lowered = lower_function(function)
    spec = _in_layouts(lowered, layouts)
    guarded = loses_specials(lowered.spec)
    description = {
        "spec": spec.to_json(),
        "sources": list(lowered.sources),
        "sizes": list(lowered.names),
        "guarded": guarded,
        "finite": not guarded or finite_constants(list(lowered.constants.values())),
    }
    return LibraryKernel(
        BACKEND, lowered.spec.symbol, description, Constants(lowered.constants), lowered.sizes, native_text()
    )


def _in_layouts(lowered: Lowered, layouts: LayoutOffer) -> RegionSpec:
    """The region with layouts of its inputs and outputs."""
    spec = lowered.spec
    inputs = tuple(
        replace(tensor, layout=text_of(layouts.operand(source)))
        for tensor, source in zip(spec.inputs, lowered.sources, strict=True)
    )
    written = {name: text_of(layouts.layout_of_result(number)) for number, name in enumerate(spec.outputs)}
    steps = tuple(replace(step, dst=replace(step.dst, layout=written.get(step.dst.name, ""))) for step in spec.steps)
    return replace(spec, inputs=inputs, steps=steps)
