"""Facts about tensor programs."""

from eutectic.support.lazy import lazy
from eutectic.tir.analysis.flops import count_flops

estimate_tir_flops = count_flops  # TVM's name

__all__ = ["count_flops", "estimate_tir_flops"]

lazy(globals())
