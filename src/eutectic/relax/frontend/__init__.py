"""Importers of models of other frameworks; each is imported by itself, so that its framework stays optional."""

from eutectic.support.lazy import lazy

lazy(globals())
