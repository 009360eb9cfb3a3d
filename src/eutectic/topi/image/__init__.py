"""Operators of images; names as in `tvm.topi.image`."""

from eutectic.support.door import open_doors
from eutectic.support.lazy import lazy
from eutectic.topi.image.grid_sample import grid_sample
from eutectic.topi.image.resize import resize2d

__all__ = ["grid_sample", "resize2d"]

open_doors(globals())
lazy(globals())
