"""Convolutions by Winograd's method: which are worth it, how exact they are, and the pass that makes them."""

from eutectic.support.lazy import lazy

lazy(globals())
