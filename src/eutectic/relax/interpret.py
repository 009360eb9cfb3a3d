"""Reference execution of graph functions: each operator by its NumPy meaning, binding by binding.

It is the oracle of tests, what constant folding uses, and what runs an operator
that no backend took over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from eutectic.ir.dtype import from_numpy, to_numpy
from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.op import Op
from eutectic.ir.prim_expr import FloatImm, IntImm, PrimExpr, evaluate
from eutectic.ir.prim_expr import Var as ScalarVar
from eutectic.relax.base import ShapeExpr, ShapeStructInfo, StructInfo
from eutectic.relax.expr import (
    Call,
    Constant,
    DataTypeImm,
    ExternFunc,
    Function,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
)
from eutectic.relax.op.registry import op_def
from eutectic.relax.struct_info import PrimStructInfo, TensorStructInfo, TupleStructInfo, tensor
from eutectic.support.deep import deep
from eutectic.support.errors import CallError, CodegenError
from eutectic.support.registry import get_global_func
from eutectic.tir.function import PrimFunc
from eutectic.tir.interpret import run_module

External = Callable[[str, Sequence[Any], Sequence[StructInfo]], Any]


class Interpreter:
    """Runs functions of a module.

    Args:
        mod: The module.
        external: Called for external functions with (name, arguments, result struct infos), returns
            the result; None looks the name up among the global functions.
        program: Called for tensor programs with (module, name, arguments...), results last; None interprets them.
    """

    def __init__(
        self, mod: IRModule, external: External | None = None, program: Callable[..., None] | None = None
    ) -> None:
        self.mod = mod
        self.external = external
        self.program = program or run_module

    def run(self, name: str, *args: Any) -> Any:
        """Result of the function called `name`: an array, or nested tuples of arrays.

        Raises:
            CallError: an argument does not fit its parameter.
        """
        function = self.mod[name]
        if not isinstance(function, Function):
            raise CodegenError(f"{name} is a {type(function).__name__}; only graph functions are interpreted")
        return self.call(function, args, name)

    def call(self, function: Function, args: Sequence[Any], name: str = "function") -> Any:
        """Result of a function value.

        Raises:
            CallError: an argument does not fit its parameter.
        """
        return self._enter(function, args, name, {}, {})

    def _enter(
        self, function: Function, args: Sequence[Any], name: str, values: dict[Var, Any], sizes: dict[ScalarVar, int]
    ) -> Any:
        """Run a function in an environment, which it may change."""
        if len(args) != len(function.params):
            raise CallError(f"{name} takes {len(function.params)} arguments, got {len(args)}")
        for _ in range(2):  # the second time with the sizes that later arguments define
            for param, arg in zip(function.params, args, strict=True):
                check_value(arg, param.struct_info, sizes, param.name_hint)
        values.update(zip(function.params, args, strict=True))
        return self._seq(function.body, values, sizes)

    def _seq(self, body: SeqExpr, values: dict[Var, Any], sizes: dict[ScalarVar, int]) -> Any:
        for block in body.blocks:
            for binding in block.bindings:
                value = self.evaluate(binding.value, values, sizes)
                if isinstance(binding, MatchCast):
                    check_value(value, binding.struct_info, sizes, binding.var.name_hint)
                values[binding.var] = value
        return self.evaluate(body.body, values, sizes)

    @deep
    def evaluate(self, expr: Any, values: dict[Var, Any], sizes: dict[ScalarVar, int]) -> Any:
        """Value of an expression whose variables are known."""
        match expr:
            case Var():
                return values[expr]
            case Constant():
                return expr.data
            case Call():
                return self._call(expr, values, sizes)
            case Tuple():
                return tuple(self.evaluate(item, values, sizes) for item in expr.fields)
            case TupleGetItem():
                return self.evaluate(expr.tuple_value, values, sizes)[expr.index]
            case ShapeExpr():
                return tuple(evaluate(value, sizes) for value in expr.values)
            case PrimValue():
                return _scalar(expr.value, sizes)
            case StringImm() | DataTypeImm():
                return expr.value
            case SeqExpr():
                return self._seq(expr, values, sizes)
            case If():
                branch = expr.true_branch if bool(self.evaluate(expr.cond, values, sizes)) else expr.false_branch
                return self.evaluate(branch, values, sizes)
            case Function():
                return _Closure(self, expr, values, sizes)
            case GlobalVar():
                return _Closure(self, self.mod[expr], {}, {}) if expr in self.mod else expr
            case ExternFunc():
                return partial(self._packed, expr.global_symbol)
            case _:
                raise CodegenError(f"{type(expr).__name__} cannot be interpreted")

    def _call(self, call: Call, values: dict[Var, Any], sizes: dict[ScalarVar, int]) -> Any:
        op = call.op
        if isinstance(op, Op) and op.name == "relax.call_dps_packed":
            target = call.args[0]
            assert isinstance(target, ExternFunc)
            args = self.evaluate(call.args[1], values, sizes)
            infos = [concrete(info, sizes) for info in call.sinfo_args]
            return self._destination_passing(target.global_symbol, args if isinstance(args, tuple) else (args,), infos)
        if isinstance(op, Op) and op.name in ("relax.call_tir", "relax.call_tir_with_grad"):
            return self._tensor_program(call, values, sizes)
        args = [self.evaluate(arg, values, sizes) for arg in call.args]
        if isinstance(op, Op) and op.name in ("relax.call_pure_packed", "relax.call_inplace_packed"):
            return args[0](*args[1:])
        if isinstance(op, Op):
            return apply_op(call, args)
        if isinstance(op, GlobalVar):
            return self.run(op.name_hint, *args)
        callee = self.evaluate(op, values, sizes)
        return callee(*args)

    def _tensor_program(self, call: Call, values: dict[Var, Any], sizes: dict[ScalarVar, int]) -> Any:
        """Run a tensor program of the module in its own, slow interpreter."""
        target = call.args[0]
        if not (isinstance(target, GlobalVar) and isinstance(self.mod.get(target), PrimFunc)):
            name = getattr(target, "name_hint", type(target).__name__)
            raise CodegenError(f"call_tir needs a tensor program of the module, and {name} is none")
        args = self.evaluate(call.args[1], values, sizes)
        results = tuple(_allocate(concrete(info, sizes), target.name_hint) for info in call.sinfo_args)
        outputs = [part for item in results for part in (item if isinstance(item, tuple) else (item,))]
        extra = self.evaluate(call.args[2], values, sizes) if len(call.args) > 2 else ()
        self.program(self.mod, target.name_hint, *(args if isinstance(args, tuple) else (args,)), *outputs, *extra)
        return results[0] if len(results) == 1 else results

    def _packed(self, name: str, *args: Any) -> Any:
        """Call an external function that returns its result."""
        return self.external(name, args, ()) if self.external is not None else _global_func(name)(*args)

    def _destination_passing(self, name: str, args: Sequence[Any], infos: Sequence[StructInfo]) -> Any:
        """Call an external function that writes its results into arrays given after its arguments."""
        if self.external is not None:
            return self.external(name, args, infos)
        results = tuple(_allocate(info, name) for info in infos)
        function = _global_func(name)
        function(*args, *(part for item in results for part in (item if isinstance(item, tuple) else (item,))))
        return results[0] if len(results) == 1 else results


@deep
def _allocate(info: StructInfo, name: str) -> Any:
    """Memory for a result."""
    if isinstance(info, TupleStructInfo):
        return tuple(_allocate(part, name) for part in info.fields)
    if not isinstance(info, TensorStructInfo) or info.static_shape is None:
        raise CodegenError(f"external function {name} has a result of unknown shape")
    return np.empty(info.static_shape, to_numpy(info.dtype))


def _global_func(name: str) -> Callable[..., Any]:
    try:
        function = get_global_func(name)
    except ValueError as error:
        raise CodegenError(str(error), help="register it with eutectic.register_global_func") from error
    assert function is not None  # what is missing was refused
    return function


class _Closure:
    """A function value with the variables and symbolic sizes it captured."""

    def __init__(
        self, owner: Interpreter, function: Function, captured: Mapping[Var, Any], sizes: Mapping[ScalarVar, int]
    ) -> None:
        self.owner, self.function, self.captured, self.sizes = owner, function, dict(captured), dict(sizes)

    def __call__(self, *args: Any) -> Any:
        return self.owner._enter(self.function, args, "function", dict(self.captured), dict(self.sizes))


def apply_op(call: Call, args: Sequence[Any]) -> Any:
    """Result of one operator on evaluated arguments.

    Raises:
        CodegenError: the operator has no reference implementation.
    """
    definition = op_def(call.op)
    if definition is None or definition.reference_fn is None:
        raise CodegenError(
            f"operator {call.op.name} has no reference implementation",
            at=call.span.excerpt() if call.span else None,
            help="add one with `reference` in its definition",
        )
    return definition.reference_fn(call.attrs, *args)


def _scalar(value: PrimExpr, sizes: Mapping[ScalarVar, int]) -> Any:
    if isinstance(value, FloatImm):
        return value.value
    if isinstance(value, IntImm):
        return bool(value.value) if value.dtype == "bool" else value.value
    return evaluate(value, dict(sizes))


@deep
def check_value(value: Any, info: StructInfo | None, sizes: dict[ScalarVar, int], name: str) -> None:
    """Check a value against a struct info and bind the symbolic sizes it defines.

    Raises:
        CallError: it does not fit; names the value, what was expected and what was given.
    """
    match info:
        case TensorStructInfo():
            if not isinstance(value, np.ndarray):
                raise CallError(f"{name} must be a tensor, got {type(value).__name__}")
            dtype = from_numpy(value.dtype)
            if info.dtype and dtype != info.dtype:
                raise CallError(f"{name} must be {info.dtype}, got {dtype}", help=f"convert it to {info.dtype} first")
            if info.ndim >= 0 and value.ndim != info.ndim:
                raise CallError(f"{name} must have {info.ndim} axes, got {value.ndim}: shape {value.shape}")
            _bind(info.dims, value.shape, sizes, name)
        case ShapeStructInfo():
            if not isinstance(value, (tuple, list)):
                raise CallError(f"{name} must be a shape, got {type(value).__name__}")
            if info.ndim >= 0 and len(value) != info.ndim:
                raise CallError(f"{name} must have {info.ndim} sizes, got {len(value)}")
            _bind(info.values, tuple(value), sizes, name)
        case PrimStructInfo() if info.value is not None:
            _bind_scalar(info.value, value, sizes, name)
        case TupleStructInfo():
            if not isinstance(value, (tuple, list)) or len(value) != len(info.fields):
                raise CallError(f"{name} must be a tuple of {len(info.fields)}")
            for i, (part, field) in enumerate(zip(value, info.fields, strict=True)):
                check_value(part, field, sizes, f"{name}[{i}]")
        case _:
            pass


def _bind(dims: Sequence[PrimExpr] | None, shape: Sequence[int], sizes: dict[ScalarVar, int], name: str) -> None:
    if dims is None:
        return
    for dim, size in zip(dims, shape, strict=True):
        if isinstance(dim, ScalarVar) and dim not in sizes:
            sizes[dim] = int(size)
    for axis, (dim, size) in enumerate(zip(dims, shape, strict=True)):
        try:
            wanted = evaluate(dim, sizes)
        except KeyError:
            continue  # a size computed from symbols that a later argument defines
        if wanted != size:
            raise CallError(f"{name} must have size {wanted} on axis {axis}, got {size}: shape {tuple(shape)}")


def _bind_scalar(wanted: PrimExpr, value: Any, sizes: dict[ScalarVar, int], name: str) -> None:
    if isinstance(wanted, ScalarVar):
        sizes.setdefault(wanted, value)
    try:
        expected = _scalar(wanted, sizes)
    except KeyError:
        return  # computed from symbols that a later argument defines
    if expected != value:
        raise CallError(f"{name} must be {expected}, got {value}")


@deep
def concrete(info: StructInfo, sizes: Mapping[ScalarVar, int]) -> StructInfo:
    """`info` with its symbolic sizes evaluated."""
    match info:
        case TensorStructInfo() if info.dims is not None:
            return tensor([evaluate(d, dict(sizes)) for d in info.dims], info.dtype)
        case TupleStructInfo():
            return TupleStructInfo(tuple(concrete(part, sizes) for part in info.fields))
        case _:
            return info
