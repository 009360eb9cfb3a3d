"""Layouts as facts of the graph: what steps offer, which offers are taken, and the graph that says so."""

from eutectic.support.lazy import lazy

lazy(globals())
