"""Attention that a program spells out: how it is recognised, and the operator that it becomes."""

from eutectic.support.lazy import lazy

lazy(globals())
