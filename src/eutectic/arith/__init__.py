"""Facts about integers: simplification and proofs."""

from eutectic.arith.proofs import lower_bound, prove_equal, prove_unequal, simplify

__all__ = ["lower_bound", "prove_equal", "prove_unequal", "simplify"]
