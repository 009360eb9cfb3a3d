"""Inverted residuals as one operator: which are worth it, and the pass that makes them."""

from eutectic.relax.transform.inverted_residual.fuse import FuseInvertedResidual
from eutectic.support.door import open_doors
from eutectic.support.lazy import lazy

__all__ = ["FuseInvertedResidual"]

open_doors(globals())
lazy(globals())
