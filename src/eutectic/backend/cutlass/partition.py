"""partition_for_cutlass: cut out what CUTLASS takes over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from eutectic.backend.workspace import AnnotateWorkspace
from eutectic.ir.module import IRModule
from eutectic.ir.transform import Pass, PassContext, Sequential
from eutectic.relax.dpl.attention_rewrite import make_attention_rewrite_pattern
from eutectic.relax.dpl.pattern import DFPattern
from eutectic.relax.dpl.rewrite import rewrite_call
from eutectic.relax.dpl.table import get_patterns_with_prefix
from eutectic.relax.expr import Function
from eutectic.relax.transform import AllocateWorkspace, FuseOpsByPattern


@dataclass(frozen=True)
class RewriteAttention(Pass):
    """Replace attention that is spelt out as products and a softmax by one operator.

    Attributes:
        use_flash_mqa: Also where heads of keys and values are repeated, by one that shares them.
    """

    use_flash_mqa: bool = True

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Rewrite in every graph function."""
        return rewrite_attention(mod, self.use_flash_mqa)


def passes(annotate_codegen: bool = True, use_flash_mqa: bool = True) -> tuple[Pass, ...]:
    """What cuts out all that CUTLASS takes; patterns that others registered for it count, too."""
    fuse = FuseOpsByPattern(
        get_patterns_with_prefix("cutlass."), bind_constants=False, annotate_codegen=annotate_codegen
    )
    annotate = AnnotateWorkspace("cutlass", ("cutlass.attention", "cutlass.stacked_attention"))
    return (RewriteAttention(use_flash_mqa), fuse, annotate, AllocateWorkspace())


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
    return Sequential(list(passes(annotate_codegen, use_flash_mqa)))(mod)


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
