"""Inverted residuals as one operator: which are worth it, and the pass that makes them."""

from eutectic.relax.transform.inverted_residual.fuse import FuseInvertedResidual

__all__ = ["FuseInvertedResidual"]
