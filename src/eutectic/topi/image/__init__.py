"""Operators of images; names as in `tvm.topi.image`."""

from eutectic.support.door import open_doors
from eutectic.support.lazy import lazy
from eutectic.topi.image.resize import resize2d

__all__ = ["resize2d"]

open_doors(globals())
lazy(globals())
