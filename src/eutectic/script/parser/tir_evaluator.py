"""Expressions of tensor programs: what calls and attributes mean there beyond Python."""

from __future__ import annotations

from typing import Any

from eutectic.ir.module import GlobalVar
from eutectic.ir.prim_expr import Call, PrimExpr
from eutectic.script.parser.evaluate import Evaluator
from eutectic.script.tir_statements import Loop, Loops
from eutectic.tir.buffer import Buffer
from eutectic.tir.iter_var import Range
from eutectic.tir.stmt import BufferStore


class TirEvaluator(Evaluator):
    """Knows calls of the module's functions, stores with a predicate, and ranges with symbolic ends."""

    def apply(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Calls of functions of the module are calls of tensor programs."""
        if isinstance(function, GlobalVar):
            return Call("void", function, tuple(args))
        if function is range and any(isinstance(arg, PrimExpr) for arg in args):
            return Loops((Loop(Range(*args)),))
        return super().apply(function, args, kwargs)

    def member(self, base: Any, name: str) -> Any:
        """`A.vstore(indices, value, predicate)` is a statement."""
        if not isinstance(base, Buffer) or name != "vstore":
            return None
        return lambda indices, value, predicate=None: BufferStore(base, value, indices, predicate)
