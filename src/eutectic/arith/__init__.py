"""Facts about integers: simplification, bounds and proofs."""

from eutectic.arith.analyzer import Analyzer
from eutectic.arith.bounds import bounds, exact_bounds, modular_set
from eutectic.arith.interval import INF, Interval, ModularSet
from eutectic.arith.proofs import lower_bound, prove_equal, prove_unequal, simplify
from eutectic.support.door import open_doors
from eutectic.support.lazy import lazy

__all__ = [
    "INF",
    "Analyzer",
    "Interval",
    "ModularSet",
    "bounds",
    "exact_bounds",
    "lower_bound",
    "modular_set",
    "prove_equal",
    "prove_unequal",
    "simplify",
]

open_doors(globals())
lazy(globals())
