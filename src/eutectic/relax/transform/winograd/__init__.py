"""Convolutions by Winograd's method: which are worth it, how exact they are, and the pass that makes them."""

from eutectic.relax.transform.winograd.convert import ConvertConv2DToWinograd

__all__ = ["ConvertConv2DToWinograd"]
