"""What we compile for."""

from eutectic.support.door import open_doors
from eutectic.support.lazy import lazy
from eutectic.target.target import KINDS, Target, TargetKind, target_or_current

__all__ = ["KINDS", "Target", "TargetKind", "target_or_current"]

open_doors(globals())
lazy(globals())
