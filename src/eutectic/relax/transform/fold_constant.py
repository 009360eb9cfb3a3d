"""FoldConstant: evaluate what depends on constants only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from eutectic.ir.dtype import item_bytes, to_numpy
from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.node import replace
from eutectic.ir.op import Op
from eutectic.ir.services import Services
from eutectic.ir.transform import PassContext, register_config_key
from eutectic.relax.analysis.unused import remove_all_unused
from eutectic.relax.base import Expr, ShapeExpr
from eutectic.relax.expr import (
    Call,
    Constant,
    DataTypeImm,
    Function,
    PrimValue,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
)
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.interpret import Interpreter
from eutectic.relax.op.create import full
from eutectic.relax.op.registry import op_def
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.relax.transform.infra import FunctionPass
from eutectic.support.deep import deep
from eutectic.tir.function import PrimFunc
from eutectic.tir.interpret import run

register_config_key("relax.FoldConstant.max_bytes", 1 << 22)


@dataclass(frozen=True)
class FoldConstant(FunctionPass):
    """Replace pure calls whose arguments are all constants by their value.

    before:                                     after:
        lv = reshape(const, (1, 64, 1, 1))          lv1 = add(x, const)
        lv1 = add(x, lv)

    Operators are evaluated by their references; calls of tensor programs by compiled code. What `zeros`, `full` and
    `arange` make counts as constant for those that read it; a value of theirs that is the same everywhere stays `full`.

    A result larger than both its inputs and the option
    `relax.FoldConstant.max_bytes` is not folded, so that `zeros` and `broadcast_to`
    do not blow up the program.
    """

    def run_function(self, function: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Fold inside one function and drop the bindings that became unused."""
        fresh = _Folder(mod, int(ctx.option("relax.FoldConstant.max_bytes")), ctx.services).visit_expr(function)
        assert isinstance(fresh, Function)
        return remove_all_unused(fresh) if fresh is not function else function


class _Folder(PyExprMutator):
    def __init__(self, mod: IRModule, max_bytes: int, services: Services) -> None:
        super().__init__(mod)
        self._interpreter, self._mod = Interpreter(mod), mod
        self._max_bytes, self._services = max_bytes, services
        self._values: dict[Call, Expr] = {}  # of calls that make values of sizes and numbers

    def visit_var_(self, var: Var) -> Expr:
        """A variable bound to a constant is that constant."""
        fresh = super().visit_var_(var)
        value = self.lookup_binding(fresh)
        return value if isinstance(value, (Constant, ShapeExpr, PrimValue)) else fresh

    visit_dataflow_var_ = visit_var_

    def visit_tuple_getitem_(self, expr: TupleGetItem) -> Expr:
        """A field of a tuple that is known."""
        fresh = super().visit_tuple_getitem_(expr)
        if isinstance(fresh, TupleGetItem):
            value = fresh.tuple_value
            bound = self.lookup_binding(value) if isinstance(value, Var) else value
            if isinstance(bound, Tuple) and isinstance(bound.fields[fresh.index], Constant):
                return bound.fields[fresh.index]
        return fresh

    def visit_call_(self, call: Call) -> Any:
        """Evaluate the call when everything it reads is known."""
        call = self.visit_expr_post_order(call)
        if self._is_program(call):
            return self._run_program(call)
        made = replace(call, args=tuple(map(self._made, call.args)))
        if not self._foldable(made):
            return call
        value = self._interpreter.evaluate(made, {}, {})
        return _as_constants(value, call) if any(map(_has_data, call.args)) else _as_full(value, call)

    @deep
    def _made(self, arg: Expr) -> Expr:
        """The value of what is made of sizes and numbers alone; everything else as it is."""
        if isinstance(arg, Tuple):
            return replace(arg, fields=tuple(map(self._made, arg.fields)))
        value: Any = arg
        while isinstance(value, Var):
            value = self.lookup_binding(value)
        if not isinstance(value, Call) or not self._foldable(value, made=True):
            return arg
        if value not in self._values:
            self._values[value] = _as_constants(self._interpreter.evaluate(value, {}, {}), value)
        return self._values[value]

    def _is_program(self, call: Call) -> bool:
        """Whether it calls a tensor program on constants, all sizes known."""
        if not isinstance(call.op, Op) or call.op.name != "relax.call_tir" or len(call.args) != 2:
            return False
        callee, argument = call.args
        fields = argument.fields if isinstance(argument, Tuple) else (argument,)
        known = fields and all(isinstance(field, Constant) for field in fields)
        is_tensor = isinstance(call.struct_info, TensorStructInfo)
        calls_program = isinstance(callee, GlobalVar) and isinstance(self._mod.get(callee), PrimFunc)
        return bool(known and is_tensor and calls_program and self._small_enough(call))

    def _run_program(self, call: Call) -> Expr:
        """The value of a tensor program: by compiled code where a compiler is loaded, else by the interpreter."""
        callee, argument = call.args
        assert isinstance(callee, GlobalVar)
        info = call.struct_info
        assert isinstance(info, TensorStructInfo)
        assert info.static_shape is not None
        program = self._mod[callee]
        fields = argument.fields if isinstance(argument, Tuple) else (argument,)
        arrays = [field.data for field in fields if isinstance(field, Constant)]
        out = np.empty(info.static_shape, to_numpy(info.dtype))
        (self._services.program_runner() or run)(program, *arrays, out)
        return _as_constants(out, call)

    def _foldable(self, call: Call, made: bool = False) -> bool:
        """Whether a call can be evaluated: of constants, or if it is what makes values of sizes and numbers alone."""
        if not isinstance(call.op, Op) or not call.args:
            return False
        definition = op_def(call.op)
        if definition is None or not definition.pure or definition.reference_fn is None or "calls" in definition.traits:
            return False
        if not all(_known(arg) for arg in call.args) or not (made or any(_has_data(arg) for arg in call.args)):
            return False
        return self._small_enough(call)

    def _small_enough(self, call: Call) -> bool:
        info = call.struct_info
        if not isinstance(info, TensorStructInfo):
            return True
        if info.static_shape is None or not info.dtype:
            return False
        size = int(np.prod(info.static_shape, dtype=object)) * item_bytes(info.dtype)
        return size <= max(self._max_bytes, sum(_bytes(arg) for arg in call.args))


@deep
def _known(arg: Expr) -> bool:
    match arg:
        case Constant() | StringImm() | DataTypeImm():
            return True
        case ShapeExpr():
            return arg.static is not None
        case PrimValue():
            return not _is_symbolic(arg)
        case Tuple():
            return all(_known(item) for item in arg.fields)
        case _:
            return False


def _is_symbolic(value: PrimValue) -> bool:
    return not hasattr(value.value, "value")


@deep
def _has_data(arg: Expr) -> bool:
    return isinstance(arg, Constant) or (isinstance(arg, Tuple) and any(map(_has_data, arg.fields)))


@deep
def _bytes(arg: Expr) -> int:
    if isinstance(arg, Constant):
        return int(arg.data.nbytes)
    return sum(map(_bytes, arg.fields)) if isinstance(arg, Tuple) else 0


def _as_full(value: Any, call: Call) -> Expr:
    """A constant, or where all elements are the same, what makes it without memory."""
    info = call.struct_info
    same = isinstance(value, np.ndarray) and value.size > 1 and isinstance(info, TensorStructInfo) and info.dtype
    if not same or value.tobytes() != value.flat[:1].tobytes() * value.size:
        return _as_constants(value, call)
    assert isinstance(info, TensorStructInfo)
    return full(value.shape, Constant(value.flat[0].astype(to_numpy(info.dtype))), info.dtype, span=call.span)


def _as_constants(value: Any, call: Call) -> Expr:
    if isinstance(value, tuple):
        return Tuple(tuple(Constant(np.asarray(item)) for item in value), span=call.span)
    info = call.struct_info
    array = np.asarray(value)
    if isinstance(info, TensorStructInfo) and info.dtype and array.dtype != to_numpy(info.dtype):
        array = array.astype(to_numpy(info.dtype))
    return Constant(np.ascontiguousarray(array).reshape(array.shape), span=call.span)
