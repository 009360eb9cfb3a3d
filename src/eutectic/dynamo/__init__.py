"""Eutectic as a backend of torch.compile: `torch.compile(model, backend="eutectic")`."""

from eutectic.dynamo.backend import backend
from eutectic.support.lazy import lazy

__all__ = ["backend"]

lazy(globals())
