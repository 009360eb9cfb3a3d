"""Constructors of image operators, under the names of `tvm.relax.op.image`."""

from eutectic.relax.op.image.grid_sample import grid_sample
from eutectic.relax.op.image.resize import resize2d
from eutectic.support.door import open_doors
from eutectic.support.lazy import lazy

__all__ = ["grid_sample", "resize2d"]

open_doors(globals())
lazy(globals())
