"""Calls in the reference interpreter: intrinsics, functions of the module, and functions from outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from eutectic.ir.dtype import KNOWN, is_float
from eutectic.ir.module import GlobalVar
from eutectic.ir.node import Node
from eutectic.ir.prim_expr import Call, Select, StringImm, element_dtype, lanes_of
from eutectic.support.errors import OTHERWISE, CallError, CodegenError, InternalError, SpecialValues
from eutectic.support.registry import get_global_func
from eutectic.tir.buffer import Buffer, BufferLoad, BufferRegion
from eutectic.tir.interpret.intrinsics import intrinsic_meaning, reinterpret
from eutectic.tir.interpret.machine import Code, Compiler, Env, ReturnSignal, as_lanes
from eutectic.tir.interpret.memory import Pointer
from eutectic.tir.interpret.scalar import poison, rounding, wrapping


def compile_call(compiler: Compiler, expr: Call) -> Code:
    """The function of a call.

    Raises:
        CodegenError: nothing is known of the intrinsic.
    """
    if isinstance(expr.op, GlobalVar):
        return _function_call(compiler, expr, expr.op.name_hint)
    name = expr.op.name.removeprefix("tir.")
    if name in _SPECIAL:
        return _SPECIAL[name](compiler, expr)
    dtypes = [element_dtype(arg.dtype) for arg in expr.args]
    meaning = intrinsic_meaning(name, element_dtype(expr.dtype), dtypes)
    if meaning is None:
        raise CodegenError(f"intrinsic {expr.op.name} cannot be interpreted")
    args = compiler.codes(expr.args)
    if lanes_of(expr.dtype) > 1:
        return lambda env: tuple(map(meaning, *(arg(env) for arg in args)))
    if len(args) == 1:
        (only,) = args
        return lambda env: meaning(only(env))
    return lambda env: meaning(*[arg(env) for arg in args])


def _function_call(compiler: Compiler, expr: Call, name: str) -> Code:
    args = compiler.codes(expr.args)
    return lambda env: compiler.machine.call(name, [arg(env) for arg in args])


def _if_then_else(compiler: Compiler, expr: Call) -> Code:
    condition, yes, no = expr.args
    if lanes_of(condition.dtype) > 1:
        return compiler.code(Select(condition, yes, no))
    decide, a, b = compiler.codes(expr.args)
    return lambda env: a(env) if decide(env) else b(env)


def _reinterpret(compiler: Compiler, expr: Call) -> Code:
    value, source, target = compiler.code(expr.args[0]), expr.args[0].dtype, expr.dtype

    def read_bits(env: Env) -> Any:
        lanes = reinterpret(as_lanes(value(env)), source, target)
        if len(lanes) != lanes_of(target):
            raise InternalError(f"reinterpret of {source} as {target}: the sizes differ")
        return lanes if len(lanes) > 1 else lanes[0]

    return read_bits


def _undef(compiler: Compiler, expr: Call) -> Code:
    value, lanes = poison(element_dtype(expr.dtype)), lanes_of(expr.dtype)
    return lambda env: value if lanes == 1 else (value,) * lanes


def _checked_index(compiler: Compiler, expr: Call) -> Code:
    message: Any = expr.args[2]
    index, extent = compiler.code(expr.args[0]), compiler.code(expr.args[1])
    active = compiler.code(expr.args[3]) if len(expr.args) > 3 else None

    def look(env: Env) -> Any:
        value, size = index(env), extent(env)
        lanes = as_lanes(value)
        counts = (True,) * len(lanes) if active is None else as_lanes(active(env))
        counts = counts if len(counts) == len(lanes) else (any(counts),) * len(lanes)
        if any(counted and not 0 <= lane < size for lane, counted in zip(lanes, counts, strict=True)):
            raise CallError(message.value)
        return value

    return look


def _checked(compiler: Compiler, expr: Call) -> Code:
    value, condition = compiler.codes(expr.args[:2])
    message = getattr(expr.args[2], "value", "")

    def check(env: Env) -> Any:
        if not all(as_lanes(condition(env))):
            raise SpecialValues(message) if message.startswith(OTHERWISE) else CallError(message)
        return value(env)

    return check


def _ret(compiler: Compiler, expr: Call) -> Code:
    value = compiler.code(expr.args[0])

    def leave(env: Env) -> Any:
        raise ReturnSignal(value(env))

    return leave


def _tvm_tuple(compiler: Compiler, expr: Call) -> Code:
    args = compiler.codes(expr.args)
    return lambda env: tuple(arg(env) for arg in args)


def _tvm_storage_sync(compiler: Compiler, expr: Call) -> Code:
    threads = compiler.machine.threads

    def barrier(env: Env) -> int:
        if any(extent > 1 and not tag.startswith("blockIdx") for tag, (_, extent) in threads.items()):
            raise CodegenError(
                "a barrier cannot be interpreted among several threads: they run one after another",
                help="interpret the program before barriers are put in",
            )
        return 0

    return barrier


def _address_of(compiler: Compiler, expr: Call) -> Code:
    load: Any = expr.args[0]
    indices = compiler.codes(load.indices)

    def point(env: Env) -> Pointer:
        view = compiler.view(env, load.buffer)
        at = [as_lanes(index(env))[0] for index in indices]
        where = view.base + view.lanes * sum(i * s for i, s in zip(at, view.strides, strict=True))
        return Pointer(view.memory, view.phase + where * view.item)

    return point


def _external(compiler: Compiler, expr: Call) -> Code:
    kind = str(getattr(expr.op, "name", "")).removeprefix("tir.")
    name, args = expr.args[0], expr.args[1:]
    if not isinstance(name, StringImm):
        raise CodegenError(f"{kind} needs the name of a function as its first argument")
    codes = compiler.codes(args)

    def call(env: Env) -> Any:
        try:
            function = get_global_func(name.value)
        except ValueError as error:
            help = "register a Python function of this name with eutectic.register_global_func"
            raise CodegenError(f"{kind}: {error}", help=help) from error
        assert function is not None  # what is missing was refused
        arguments = [_handed_out(code(env), arg, env) for code, arg in zip(codes, args, strict=True)]
        return _converted(function(*arguments), expr.dtype)

    return call


def _handed_out(value: Any, arg: Node, env: Env) -> Any:
    """An argument as Python code outside sees it: addresses are flat arrays."""
    if isinstance(arg, (Buffer, BufferRegion)):
        view = env.get(arg if isinstance(arg, Buffer) else arg.buffer)
        if view is not None:
            view.memory.mark_written()
    if not isinstance(value, Pointer):
        return value
    value.memory.mark_written()
    if isinstance(arg, Call) and arg.args and isinstance(arg.args[0], BufferLoad):
        return value.as_array(arg.args[0].buffer.dtype)
    pointed = getattr(getattr(arg, "type_annotation", None), "element_type", None)
    return value.as_array(getattr(pointed, "dtype", "uint8"))


def _converted(value: Any, dtype: str) -> Any:
    """What outside code returned, as a value of `dtype`; None is zero."""
    if dtype not in KNOWN:
        return value
    number = 0 if value is None else value
    if is_float(dtype):
        return rounding(dtype)(float(number))
    return bool(number) if dtype == "bool" else wrapping(dtype)(int(number))


_SPECIAL: Final[dict[str, Callable[[Compiler, Call], Code]]] = {
    "if_then_else": _if_then_else,
    "reinterpret": _reinterpret,
    "undef": _undef,
    "checked_index": _checked_index,
    "checked": _checked,
    "ret": _ret,
    "tvm_tuple": _tvm_tuple,
    "tvm_storage_sync": _tvm_storage_sync,
    "address_of": _address_of,
    "call_packed": _external,
    "call_extern": _external,
    "call_pure_extern": _external,
}
