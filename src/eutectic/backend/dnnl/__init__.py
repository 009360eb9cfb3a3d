"""The oneDNN backend: `engine.py` compiles and runs regions, `spec.py` describes them."""

from eutectic.support.lazy import lazy

lazy(globals())
