"""From a graph function to a region as data: what oneDNN is asked."""

from __future__ import annotations

from typing import Final

from eutectic.backend.dnnl.codegen import lower_function
from eutectic.backend.dnnl.native_text import native_text
from eutectic.backend.dnnl.special_values import loses_specials
from eutectic.relax.expr import Function
from eutectic.runtime.constants import Constants
from eutectic.runtime.library import LibraryKernel

BACKEND: Final = "dnnl"


def describe(function: Function) -> LibraryKernel:
    """A region as data. Sizes that vary have names in it, and get values when the region is called.

    Args:
        function: A function with a `Codegen` attribute.

    Raises:
        CodegenError: a composite holds something oneDNN cannot do.
    """
    lowered = lower_function(function)
    description = {
        "spec": lowered.spec.to_json(),
        "sources": list(lowered.sources),
        "sizes": list(lowered.names),
        "guarded": loses_specials(lowered.spec),
    }
    return LibraryKernel(
        BACKEND, lowered.spec.symbol, description, Constants(lowered.constants), lowered.sizes, native_text()
    )
