"""Arrays from one layout to another, now: how constants are packed, and how they come back."""

from __future__ import annotations

import numpy as np

from eutectic.backend.dnnl import abi
from eutectic.backend.dnnl.layout import Layout
from eutectic.backend.dnnl.library import Library, Owner
from eutectic.backend.dnnl.primitives import PrimitiveFactory
from eutectic.support.aligned import address, aligned


def reorder(
    library: Library, factory: PrimitiveFactory, source: np.ndarray, view: Layout, target: np.ndarray, layout: Layout
) -> None:
    """Copy an array into another layout.

    Args:
        library: oneDNN.
        factory: Makes the primitive.
        source: What is read.
        view: Its layout.
        target: What is written.
        layout: The layout there.

    Raises:
        CodegenError: oneDNN has no such copy.
    """
    primitive = factory.reorder(view, layout)
    scope = Owner(library)
    try:
        pairs = [(abi.ARG_SRC, view, address(source)), (abi.ARG_DST, layout, address(target))]
        if primitive.scratchpad is not None:
            scratch = aligned(primitive.scratchpad.nbytes)
            pairs.append((abi.ARG_SCRATCHPAD, primitive.scratchpad, address(scratch)))
        exec_args = [abi.ExecArg(arg, scope.create("memory", md.handle, library.engine, at)) for arg, md, at in pairs]
        args = (abi.ExecArg * len(pairs))(*exec_args)
        what = "packing a constant"
        library.call("dnnl_primitive_execute", primitive.handle, library.stream, len(pairs), args, what=what)
    finally:
        scope.close()
