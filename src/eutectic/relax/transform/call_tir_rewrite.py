"""CallTIRRewrite: calls of tensor programs as memory for the results, and plain calls that fill it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eutectic.ir.module import IRModule
from eutectic.ir.op import Op
from eutectic.ir.transform import PassContext
from eutectic.relax.base import Expr, StructInfo
from eutectic.relax.expr import Call, Function, Tuple
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.op.builtin import alloc_tensor
from eutectic.relax.struct_info import TensorStructInfo, TupleStructInfo
from eutectic.relax.transform.infra import FunctionPass
from eutectic.support.errors import PassError

_WRITES_RESULTS = ("relax.call_tir", "relax.call_dps_packed")


@dataclass(frozen=True)
class CallTIRRewrite(FunctionPass):
    """Show the memory of results: `lv = call_tir(f, (x,), out)` is `alloc = alloc_tensor(...); f(x, alloc)`.

    What comes out is for reading and for scripts that walk over it: `relax.build` plans memory itself, and takes the
    program from before. Dataflow blocks must be gone (`ToNonDataflow`), as a plain call that fills memory is impure.

    Raises:
        PassError: a call of a tensor program is in a dataflow block, or the shape of its result is not known.
    """

    def run_function(self, function: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Rewrite one function."""
        fresh = _Rewriter(mod).visit_expr(function)
        assert isinstance(fresh, Function)
        return fresh


class _Rewriter(PyExprMutator):
    def visit_call_(self, call: Call) -> Any:
        """Give the results memory, and fill it."""
        visited = super().visit_call_(call)
        if not isinstance(visited, Call) or not isinstance(visited.op, Op) or visited.op.name not in _WRITES_RESULTS:
            return visited
        if self.builder_.current_block_is_dataflow():
            raise PassError("CallTIRRewrite inside a dataflow block", help="run ToNonDataflow first")
        assert isinstance(visited.args[1], Tuple)
        (info,) = visited.sinfo_args
        parts = info.fields if isinstance(info, TupleStructInfo) else (info,)
        results = [self.builder_.emit(_memory(part), "alloc") for part in parts]
        sizes = visited.args[2:]
        done = Call(
            visited.args[0], (*visited.args[1].fields, *results, *sizes), None, (TupleStructInfo(()),), call.span
        )
        self.builder_.emit(done, "_")
        return results[0] if not isinstance(info, TupleStructInfo) else Tuple(tuple(results))


def _memory(info: StructInfo) -> Expr:
    if not isinstance(info, TensorStructInfo) or info.shape is None or info.dims is None:
        raise PassError("the memory of a result of unknown shape cannot be asked for", help="match_cast it first")
    return alloc_tensor(info.shape, info.dtype)
