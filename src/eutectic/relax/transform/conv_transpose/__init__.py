"""Transposed convolutions as convolutions: which taps meet which points, and the pass."""

from eutectic.support.lazy import lazy

lazy(globals())
