"""Products of few rows with constant weights: which are worth panels, and the pass that makes them."""

from eutectic.support.lazy import lazy

lazy(globals())
