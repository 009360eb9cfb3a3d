"""From a graph function to a region as data: what oneDNN is asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from eutectic.backend.dnnl.codegen import Lowered, lower_function
from eutectic.backend.dnnl.native_text import native_text
from eutectic.ir.prim_expr import IntImm, PrimExpr
from eutectic.ir.prim_expr import Var as ScalarVar
from eutectic.relax.base import ShapeStructInfo
from eutectic.relax.expr import Function
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.relax.struct_info_relations import bind_sizes, free_symbolic_vars
from eutectic.relax.transform.bind_params import bind_symbolic_vars
from eutectic.runtime.library import LibraryKernel

BACKEND: Final = "dnnl"


def describe(function: Function) -> LibraryKernel:
    """A region as data. One with symbolic sizes keeps its graph, and is described when sizes are known.

    Args:
        function: A function with a `Codegen` attribute.

    Raises:
        CodegenError: a composite holds something oneDNN cannot do.
    """
    symbol = str(function.attr("global_symbol"))
    if free_symbolic_vars([param.struct_info for param in function.params if param.struct_info is not None]):
        return LibraryKernel(BACKEND, symbol, {}, {}, native_text(), graph=function)
    return _described(symbol, lower_function(function))


def _described(symbol: str, lowered: Lowered) -> LibraryKernel:
    description = {"spec": lowered.spec.to_json(), "sources": list(lowered.sources)}
    return LibraryKernel(BACKEND, symbol, description, lowered.constants, native_text())


def specialise(kernel: LibraryKernel, shapes: Sequence[tuple[int, ...]]) -> LibraryKernel:
    """A region with symbolic sizes, for concrete shapes of the arguments."""
    function: Function = kernel.graph
    sizes: dict[ScalarVar, PrimExpr] = {}
    for param, shape in zip(function.params, shapes, strict=True):
        info = param.struct_info
        if isinstance(info, TensorStructInfo):
            bind_sizes(info, TensorStructInfo(shape, info.dtype), sizes)  # type: ignore[arg-type]  # converted to a ShapeExpr
        elif isinstance(info, ShapeStructInfo):
            bind_sizes(info, ShapeStructInfo(tuple(IntImm("int64", n) for n in shape)), sizes)
    return _described(kernel.symbol, lower_function(bind_symbolic_vars(function, sizes)))
