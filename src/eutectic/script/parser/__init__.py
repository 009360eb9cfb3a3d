"""From text to nodes."""

from eutectic.support.lazy import lazy

lazy(globals())
