"""WorkspaceSize: how much device memory a composite of a GPU library needs beside its operands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Final

from eutectic.ir.dtype import item_bytes
from eutectic.ir.module import IRModule
from eutectic.ir.transform import Pass, PassContext
from eutectic.relax.expr import Call, Function
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.op.registry import has_trait
from eutectic.relax.struct_info import TensorStructInfo

ALIGNMENT: Final = 256  # bytes; what cudaMalloc aligns to

Sizer = Callable[[Call], int]


def attention_bytes(call: Call) -> int:
    """Bytes for the result of an attention in float32, its accumulator; 0 when sizes are symbolic.

    The kernels write partial sums there when the result has fewer bits or is wider than a tile.
    """
    info = call.struct_info
    if not has_trait(call, "attention"):
        return 0
    if not isinstance(info, TensorStructInfo) or info.static_shape is None:
        return 0
    count = prod(info.static_shape) * item_bytes("float32")
    return -(-count // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True)
class AnnotateWorkspace(Pass):
    """Set `WorkspaceSize` on composites that are attention, and on the functions around them.

    Attributes:
        codegen: Only functions with this `Codegen`, or composites whose name starts with one of `prefixes`.
        prefixes: Only composites whose name starts with one of them, such as `cutlass.attention`.
        size_of: Bytes that a call inside of them needs; 0 for none.
    """

    codegen: str
    prefixes: tuple[str, ...]
    size_of: Sizer = attention_bytes

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Annotate a module after `FuseOpsByPattern`."""
        for prefix in self.prefixes:
            mod = _annotated(mod, self.codegen, prefix, self.size_of)
        return mod


def _annotated(mod: IRModule, codegen: str, prefix: str, size_of: Sizer) -> IRModule:
    out = mod
    for gv, function in mod.functions_items():
        if not isinstance(function, Function):
            continue
        if function.attr("Codegen") != codegen and not str(function.attr("Composite") or "").startswith(prefix):
            continue
        annotator = _Annotator(prefix, size_of)
        fresh = annotator.visit_expr(function)
        if annotator.largest:
            assert isinstance(fresh, Function)
            out = mod.clone() if out is mod else out
            out.update_func(gv, fresh.with_attr("WorkspaceSize", annotator.largest))
    return out


class _Annotator(PyExprMutator):
    """Sets the attribute on composites; remembers the largest size."""

    def __init__(self, prefix: str, size_of: Sizer) -> None:
        super().__init__()
        self._prefix, self._size_of, self.largest = prefix, size_of, 0

    def visit_function_(self, function: Function) -> Function:
        """Annotate a composite that needs memory."""
        fresh = super().visit_function_(function)
        assert isinstance(fresh, Function)
        if not str(function.attr("Composite") or "").startswith(self._prefix):
            return fresh
        calls = [b.value for block in function.body.blocks for b in block.bindings if isinstance(b.value, Call)]
        size = max((self._size_of(call) for call in calls), default=0)
        self.largest = max(self.largest, size)
        return fresh.with_attr("WorkspaceSize", size) if size else fresh
