"""compile(): picks the pipeline, runs it, links the executable, reports."""

from eutectic.support.lazy import lazy

lazy(globals())
