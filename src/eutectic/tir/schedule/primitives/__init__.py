"""The primitives of schedules, a file for one or for a few of a kind; the model file is `split.py`."""

from eutectic.support.lazy import lazy

lazy(globals())
