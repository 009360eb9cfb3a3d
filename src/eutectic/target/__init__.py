"""What we compile for."""

from eutectic.target.target import KINDS, Target, TargetKind

__all__ = ["KINDS", "Target", "TargetKind"]
