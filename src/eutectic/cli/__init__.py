"""The command line: one module for each verb, collected in `main`."""

from eutectic.support.lazy import lazy

lazy(globals())
