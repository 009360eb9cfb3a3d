"""Runs what was compiled; importable without the compiler."""

from eutectic.support.lazy import lazy

lazy(globals())
