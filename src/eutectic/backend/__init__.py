"""Backends: one folder per library or target; they never import each other."""

from eutectic.support.lazy import lazy

lazy(globals())
