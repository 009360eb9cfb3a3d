"""cuDNN: which parts of a graph it takes over, and how they are cut out."""

from eutectic.support.lazy import lazy

lazy(globals())
