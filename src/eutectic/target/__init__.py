"""What we compile for."""

from eutectic.support.door import open_doors
from eutectic.support.lazy import lazy
from eutectic.target.target import KINDS, Target, TargetKind

__all__ = ["KINDS", "Target", "TargetKind"]

open_doors(globals())
lazy(globals())
