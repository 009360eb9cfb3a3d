"""Reference execution of tensor programs: slow, exact, and strict; the oracle of schedules, passes and code generation.

Every operation is rounded or wrapped to its dtype (`scalar` says how),
every access is checked. Memory that a program allocates holds poison until it is
written: NaN, true, or the integer whose bytes are all 0x6D.

Threads of hardware axes and virtual threads run one after another, each to its end.
"""

from __future__ import annotations

import numbers
import random
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from eutectic.ir.dtype import KNOWN, from_numpy, integer_limits, is_float
from eutectic.ir.module import IRModule
from eutectic.ir.prim_expr import PrimExpr, Var, lanes_of
from eutectic.ir.visit import post_order
from eutectic.support.errors import CallError, CodegenError
from eutectic.tir.block import Block
from eutectic.tir.buffer import Buffer
from eutectic.tir.function import PrimFunc
from eutectic.tir.interpret.machine import AccessTrace, Env, Machine, ReturnSignal, Step
from eutectic.tir.interpret.memory import Memory, Pointer, View, compact_strides
from eutectic.tir.interpret.scalar import rounding
from eutectic.tir.interpret.stmt import StmtCompiler
from eutectic.tir.stmt import BufferStore

ORDERS: Final = ("forward", "reverse", "shuffle")


def run(
    func: PrimFunc,
    *args: Any,
    order: str = "forward",
    seed: int = 0,
    check: bool = False,
    access_trace: AccessTrace | None = None,
) -> None:
    """Run a function; results are in the arrays that it wrote.

    Args:
        func: The function.
        args: One per parameter: an array for a buffer, a number for a scalar.
        order: Order of the iterations of parallel and vectorized loops:
            `forward`, `reverse` or `shuffle`. Where results differ the loop has a race.
        seed: Seed of `shuffle`.
        check: Make it an error to read an element of allocated memory that was never
            written. Arrays given as arguments count as written.
        access_trace: Called with buffer, indices and whether it is a write after each access.

    Raises:
        CallError: an argument does not fit its parameter, or an assertion of the program fails.
        InternalError: the program does what is not defined: an access out of bounds,
            a division by zero, an axis bound outside of its range.
        CodegenError: the program needs what cannot be interpreted.
        ValueError: `order` is none of the three.
    """
    _Runner(None, order, seed, check, access_trace).enter(func, args, str(func.attr("global_symbol", "function")))


def run_module(
    mod: IRModule,
    name: str,
    *args: Any,
    order: str = "forward",
    seed: int = 0,
    check: bool = False,
    access_trace: AccessTrace | None = None,
) -> None:
    """Run the function called `name`, which may call others of the module; the rest is as for `run`.

    Raises:
        CallError: an argument does not fit, an assertion fails, or `name` is no tensor function.
        InternalError: the program does what is not defined.
        CodegenError: the program needs what cannot be interpreted.
        ValueError: there is no function of the name, or `order` is none of the three.
    """
    _Runner(mod, order, seed, check, access_trace).call(name, args)


class _Runner:
    """One run, with the functions that it has met."""

    def __init__(
        self, mod: IRModule | None, order: str, seed: int, check: bool, access_trace: AccessTrace | None
    ) -> None:
        if order not in ORDERS:
            raise ValueError(f"order {order!r} is unknown; known: {', '.join(ORDERS)}")
        generator = random.Random(seed)
        self.machine = Machine(order, check, access_trace, generator, mod, self.call)
        self.bodies: dict[PrimFunc, tuple[StmtCompiler, Step]] = {}

    def call(self, name: str, args: Sequence[Any]) -> Any:
        """Run a function of the module; gives what it returns, zero when that is nothing."""
        mod = self.machine.module
        if mod is None:
            raise CodegenError(f"function {name} is called, but there is no module", help="use run_module")
        func = mod[name]
        if not isinstance(func, PrimFunc):
            raise CallError(f"{name} is a {type(func).__name__}; only tensor functions are interpreted")
        return self.enter(func, args, name)

    def enter(self, func: PrimFunc, args: Sequence[Any], name: str) -> Any:
        """Run a function on arguments."""
        with np.errstate(all="ignore"):
            if func not in self.bodies:
                compiler = StmtCompiler(self.machine)
                self.bodies[func] = (compiler, compiler.step(func.body))
            compiler, body = self.bodies[func]
            env = _Arguments(func, compiler).bind(args, name)
            try:
                body(env)
            except ReturnSignal as signal:
                return signal.value
        return 0


class _Arguments:
    """The parameters of a function and what is given for them."""

    def __init__(self, func: PrimFunc, compiler: StmtCompiler) -> None:
        self.func, self.exprs = func, compiler.exprs
        self.env: Env = {}
        self.views: list[tuple[Buffer, Pointer, tuple[int, ...] | None, tuple[int, ...] | None]] = []

    def bind(self, args: Sequence[Any], name: str) -> Env:
        """The environment in which the body runs.

        Raises:
            CallError: an argument does not fit.
        """
        params = self.func.params
        if len(args) != len(params):
            raise CallError(f"{name} takes {len(params)} arguments, got {len(args)}")
        written = _written_data(self.func)
        for param, arg in zip(params, args, strict=True):
            buffer = self.func.buffer_map.get(param)
            if buffer is None:
                self.env[param] = _scalar(param, arg)
            else:
                self._array(buffer, arg, buffer.data in written)
        self._sizes()
        for buffer, pointer, shape, strides in self.views:
            self._lay(buffer, pointer, shape, strides)
        return self.env

    def _array(self, buffer: Buffer, arg: Any, is_written: bool) -> None:
        if isinstance(arg, Pointer):
            self.views.append((buffer, arg, None, None))
            return
        name, rank = buffer.name, len(buffer.shape)
        if not isinstance(arg, np.ndarray):
            raise CallError(f"{name} must be an array, got {type(arg).__name__}")
        wanted = buffer.dtype
        if lanes_of(wanted) > 1:
            raise CallError(f"{name} is a buffer of vectors ({wanted}), which no array holds")
        try:
            received = from_numpy(arg.dtype)
        except ValueError as error:
            raise CallError(f"{name} must be {wanted}, got {arg.dtype}") from error
        if received != wanted or not arg.dtype.isnative:
            raise CallError(f"{name} must be {wanted}, got {arg.dtype}", help=f"convert it to {wanted} first")
        if arg.ndim != rank:
            raise CallError(f"{name} must have {rank} axes, got {arg.ndim}: shape {arg.shape}")
        if is_written and not arg.flags.writeable:
            raise CallError(f"{name} is written, so it must be a writeable array, got a read-only one")
        if any(stride % arg.itemsize for stride in arg.strides):
            raise CallError(f"{name} must have strides of whole elements, got strides of {arg.strides} bytes")
        memory, first = Memory.of_array(name, arg)
        strides = tuple(stride // arg.itemsize for stride in arg.strides)
        self.views.append((buffer, Pointer(memory, first), arg.shape, strides))

    def _sizes(self) -> None:
        """Bind the variables that stand alone, then check everything."""
        facts: list[tuple[str, str, PrimExpr, int, tuple[int, ...]]] = []
        for buffer, _, shape, strides in self.views:
            if shape is None or strides is None:
                continue
            facts += [(buffer.name, f"size {{}} on axis {k}", e, shape[k], shape) for k, e in enumerate(buffer.shape)]
            facts += [
                (buffer.name, f"stride {{}} on axis {k}", e, strides[k], shape)
                for k, e in enumerate(buffer.strides)
                if shape[k] > 1 or (isinstance(e, Var) and e not in self.env)
            ]
        for _, _, expr, number, _ in facts:
            if isinstance(expr, Var):
                self.env.setdefault(expr, number)
        for buffer, *_ in self.views:
            if isinstance(buffer.elem_offset, Var):
                self.env.setdefault(buffer.elem_offset, 0)
        for name, what, expr, number, shape in facts:
            wanted = self._known(expr, name)
            if wanted != number:
                raise CallError(f"{name} must have {what.format(wanted)}, got {number}: shape {shape}")

    def _known(self, expr: PrimExpr, name: str) -> int:
        missing = [v.name for v in post_order(expr) if isinstance(v, Var) and v not in self.env]
        if missing:
            raise CallError(f"the shape of {name} depends on {missing[0]}, which no argument determines")
        return int(self.exprs.code(expr)(self.env))

    def _lay(
        self, buffer: Buffer, pointer: Pointer, shape: tuple[int, ...] | None, strides: tuple[int, ...] | None
    ) -> None:
        """Put a buffer into the environment; arrays begin at its first element, whatever its offset."""
        offset = 0 if buffer.elem_offset is None else self._known(buffer.elem_offset, buffer.name)
        if shape is None or strides is None:  # an address, given by another function
            shape = tuple(self._known(size, buffer.name) for size in buffer.shape)
            strides = tuple(self._known(step, buffer.name) for step in buffer.strides) or compact_strides(shape)
            view = View(buffer, pointer, offset, shape, strides)
        else:
            view = View(buffer, pointer, 0, shape, strides)
            pointer = Pointer(pointer.memory, pointer.byte - offset * view.item)
        self.env[buffer], self.env[buffer.data] = view, pointer


def _scalar(param: Var, arg: Any) -> Any:
    """A number as the value of a parameter.

    Raises:
        CallError: it does not fit.
    """
    dtype = param.dtype
    if dtype == "handle":
        if isinstance(arg, Pointer):
            return arg
        if isinstance(arg, np.ndarray) and arg.flags.c_contiguous:
            return Pointer(Memory.of_array(param.name, arg)[0])
        raise CallError(f"{param.name} must be an array without gaps, got {type(arg).__name__}")
    if isinstance(arg, np.ndarray) and arg.ndim == 0:
        arg = arg[()]
    if is_float(dtype):
        if not isinstance(arg, numbers.Real) and type(arg).__module__ != "ml_dtypes":
            raise CallError(f"{param.name} must be a number of {dtype}, got {type(arg).__name__}")
        return rounding(dtype)(float(arg))
    if dtype not in KNOWN or not (hasattr(arg, "__index__") or isinstance(arg, np.bool_)):
        raise CallError(f"{param.name} must be {dtype}, got {type(arg).__name__}: {arg!r}")
    number, (low, high) = int(arg), integer_limits(dtype)
    if not low <= number <= high:
        raise CallError(f"{param.name} must be {dtype}, from {low} to {high}, got {number}")
    return bool(number) if dtype == "bool" else number


def _written_data(func: PrimFunc) -> set[Var]:
    """The data of the buffers that a function stores to, under any name."""
    written: set[Var] = set()
    named: dict[Var, Var] = {}
    for item in post_order(func.body):
        if isinstance(item, BufferStore):
            written.add(item.buffer.data)
        elif isinstance(item, Block):
            named.update({match.buffer.data: match.source.buffer.data for match in item.match_buffers})
    for data in list(written):
        while data in named:
            data = named[data]
            written.add(data)
    return written
