"""Compiled models as files: written once, loaded where there is neither the compiler nor torch."""

from eutectic.support.lazy import lazy

lazy(globals())
