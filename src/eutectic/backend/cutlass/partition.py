"""partition_for_cutlass: cut out what CUTLASS takes over."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from eutectic.backend.cutlass import codegen as _codegen  # noqa: F401  # registers relax.ext.cutlass
from eutectic.backend.cutlass import patterns as _patterns  # noqa: F401  # registers the table
from eutectic.backend.workspace import annotate_workspace, attention_bytes
from eutectic.ir.module import IRModule
from eutectic.relax.dpl.attention_rewrite import make_attention_rewrite_pattern
from eutectic.relax.dpl.pattern import DFPattern
from eutectic.relax.dpl.rewrite import rewrite_call
from eutectic.relax.dpl.table import get_patterns_with_prefix
from eutectic.relax.expr import Function
from eutectic.relax.transform import AllocateWorkspace, FuseOpsByPattern


def partition_for_cutlass(mod: IRModule, annotate_codegen: bool = True, use_flash_mqa: bool = True) -> IRModule:
    """Outline products, convolutions, attention and normalisations for CUTLASS.

    Attention that is spelt out as products and a softmax becomes one operator first.
    Attention gets a workspace, which its caller allocates.

    Args:
        mod: Graph functions whose bindings are in dataflow blocks.
        annotate_codegen: Wrap each composite in a function with `Codegen: "cutlass"`; otherwise
            the composites are left for `MergeCompositeFunctions`, without workspaces.
        use_flash_mqa: Also rewrite attention whose heads of keys and values are repeated, to
            one that shares them.

    Returns:
        The partitioned module; `mod` itself when there is nothing to take.

    Reference: TVM's `tvm.relax.backend.cuda.cutlass.partition_for_cutlass`.
    """
    mod = rewrite_attention(mod, use_flash_mqa)
    table = get_patterns_with_prefix("cutlass.")
    fused = FuseOpsByPattern(table, bind_constants=False, annotate_codegen=annotate_codegen)(mod)
    for prefix in ("cutlass.attention", "cutlass.stacked_attention"):
        fused = annotate_workspace(fused, "cutlass", prefix, attention_bytes)
    return AllocateWorkspace()(fused)


def rewrite_attention(mod: IRModule, use_flash_mqa: bool = True) -> IRModule:
    """Replace spelt-out attention by `nn.attention` in every graph function."""
    out = mod
    for gv, function in mod.functions_items():
        if not isinstance(function, Function):
            continue
        fresh = function
        for pattern, rewriter in _rewrites(use_flash_mqa):
            fresh = rewrite_call(pattern, rewriter, fresh)  # type: ignore[arg-type]  # rewriters of calls, by construction
        if fresh is not function:
            out = mod.clone() if out is mod else out
            out.update_func(gv, fresh)
    return out


def _rewrites(use_flash_mqa: bool) -> Iterator[tuple[DFPattern, object]]:
    """Patterns and rewriters; shared heads first, since the plain pattern would match around the repetition."""
    for repeat in (True, False) if use_flash_mqa else (False,):
        for layout, bias, cast in product(("BSNH",) if repeat else ("BSNH", "BSH"), (True, False), (True, False)):
            yield make_attention_rewrite_pattern(layout, layout, bias, cast, repeat)
