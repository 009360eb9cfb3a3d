"""What every level of the IR shares: nodes, equality, modules, passes."""

from eutectic.ir import prim_call, prim_expr, prim_logic, prim_vector  # each gives Python's operators a part of theirs
from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.transform import PassContext
from eutectic.support.door import open_doors
from eutectic.support.lazy import lazy

__all__ = ["GlobalVar", "IRModule", "PassContext", "prim_call", "prim_expr", "prim_logic", "prim_vector"]

open_doors(globals(), package="eutectic")
lazy(globals())
