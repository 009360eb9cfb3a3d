"""Constructors of image operators, under the names of `tvm.relax.op.image`."""

from eutectic.relax.op.image.resize import resize2d

__all__ = ["resize2d"]
