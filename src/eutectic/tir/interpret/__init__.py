"""The reference interpreter of tensor programs: slow and exact, the oracle of everything that follows."""

from eutectic.support.lazy import lazy
from eutectic.tir.interpret.program import run, run_module

__all__ = ["run", "run_module"]

lazy(globals())
