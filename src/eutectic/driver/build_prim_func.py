"""Tensor programs as native functions that Python calls: `build(func)(a, b, out)`; `eutectic.build` comes here."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from eutectic.arith import simplify
from eutectic.backend.kernel import Built
from eutectic.backend.plan import KernelStep, Plan, Tensor, place, sizes_text
from eutectic.backend.registry import code_generator
from eutectic.ir.dtype import is_float, item_bytes, to_numpy
from eutectic.ir.module import IRModule
from eutectic.ir.prim_expr import IntImm, PrimExpr, Var, mul
from eutectic.ir.structural import structural_equal
from eutectic.ir.visit import post_order
from eutectic.relax.struct_info_relations import substitute
from eutectic.runtime.native_code import LoadedCode
from eutectic.runtime.team import available_threads
from eutectic.runtime.tensor import Tensor as RuntimeTensor
from eutectic.support.errors import CallError, CodegenError
from eutectic.support.plain_memory import is_torch, plain, torch_array
from eutectic.support.registry import register_global_func
from eutectic.support.spelling import did_you_mean
from eutectic.target import Target, target_or_current
from eutectic.tir.block import Block
from eutectic.tir.buffer import Buffer
from eutectic.tir.function import PrimFunc
from eutectic.tir.function_attributes import SCHEDULED
from eutectic.tir.op import reinterpret
from eutectic.tir.scheduled import was_scheduled
from eutectic.tir.stmt import BufferStore
from eutectic.tir.transform.check_bounds import bounds_of, check_bounds
from eutectic.tir.trusted import trusted_copy

__all__ = ["NativeFunctions", "NativePrimFunc", "build"]

Prepared: TypeAlias = "tuple[Any, Callable[[], None] | None]"


class NativePrimFunc:
    """A tensor program as native code; called with one argument per parameter, results are in what it writes.

    Arguments are arrays, tensors, whatever speaks DLPack, and numbers for scalar parameters. Arrays with gaps
    are copied on the way in, and on the way out when they are written. May be called from several threads.
    Where the program says `tir.noalias`, what is written must not overlap another argument in part; the same array
    given twice is for programs that read each element before they write it.

    Attributes:
        name: Its name.
        func: The tensor program.
        loaded: The native code.
    """

    def __init__(
        self,
        func: PrimFunc,
        target: Target,
        threads: int | None = None,
        name: str = "main",
        *,
        bounds: str = "checked",
    ) -> None:
        """Compile a function.

        Args:
            func: The tensor program.
            target: The machine of this process.
            threads: Threads of a call; None takes what is available.
            name: Its name, for messages.
            bounds: `checked`: every access is proved to be inside of its buffer, or looked at when it happens;
                `trusted`: it is believed.

        Raises:
            CodegenError: it cannot be compiled, or not for this machine.
            OutOfBoundsError: an access leaves its buffer whenever it is executed.
        """
        generator = code_generator(target)
        self.name, self.func = name, func
        used = available_threads(threads)
        safe = trusted_copy(func) if bounds_of(bounds) == "trusted" else check_bounds(func, name)
        if was_scheduled(func):
            safe = safe.with_attr(SCHEDULED, True)
        plan = _plan(func, generator.kernel(safe, target), re.sub(r"\W", "_", name, flags=re.ASCII), used)
        self.loaded = LoadedCode(generator.program(plan, [], target, threads=used))
        written = _written_data(func)
        self._buffers = [(buffer, buffer.data in written) for buffer in func.buffer_map.values()]
        self._apart = bool(func.attr("tir.noalias"))

    def __call__(self, *args: Any) -> None:
        """Run it.

        Raises:
            CallError: an argument does not fit, overlaps one that is written, or a check inside fails.
        """
        params = self.func.params
        if len(args) != len(params):
            raise CallError(f"{self.name} takes {len(params)} arguments, got {len(args)}")
        tensors, numbers, finish = [], [], []
        buffers = iter(self._buffers)
        for param, arg in zip(params, args, strict=True):
            if param not in self.func.buffer_map:
                numbers.append(_integer(param, arg))
                continue
            tensor, back = _tensor(*next(buffers), arg)
            tensors.append(tensor)
            if back is not None:
                finish.append(back)
        if self._apart:
            _require_apart(self.name, self._buffers, tensors)
        self.loaded.function(*tensors, *numbers)
        for back in finish:
            back()


class NativeFunctions:
    """The tensor programs of a module as native code.

    Attributes:
        functions: They, by name.
    """

    def __init__(self, functions: Mapping[str, NativePrimFunc]) -> None:
        self.functions = dict(functions)

    def __getitem__(self, name: str) -> NativePrimFunc:
        """A function by name.

        Raises:
            CallError: there is none of that name.
        """
        if name not in self.functions:
            names = sorted(self.functions)
            help = did_you_mean(name, names) or f"have {', '.join(names)}"
            raise CallError(f"there is no function {name!r}", help=help)
        return self.functions[name]

    @property
    def main(self) -> NativePrimFunc:
        """The only function, or the one called `main`."""
        return next(iter(self.functions.values())) if len(self.functions) == 1 else self["main"]

    def __call__(self, *args: Any) -> None:
        """Call the only function, or the one called `main`."""
        self.main(*args)


class Programs:
    """Tensor programs that are compiled when they are asked for.

    Args:
        funcs: They, by name.
        target: The machine of this process.
        threads: Threads of a call.
        bounds: As for `NativePrimFunc`.
    """

    def __init__(
        self, funcs: Mapping[str, PrimFunc], target: Target, threads: int | None, bounds: str = "checked"
    ) -> None:
        self.funcs, self._target, self._threads, self._bounds = dict(funcs), target, threads, bounds
        self._built: dict[str, NativePrimFunc] = {}

    def __getitem__(self, name: str) -> NativePrimFunc:
        """A program as native code; two threads that ask at once may both compile it, and either serves."""
        if name not in self._built:
            func = self.funcs[name]
            self._built[name] = NativePrimFunc(func, self._target, self._threads, name, bounds=self._bounds)
        return self._built[name]


def build(
    mod: PrimFunc | IRModule,
    target: str | Target | None = None,
    *,
    threads: int | None = None,
    bounds: str = "checked",
) -> NativeFunctions:
    """Compile tensor programs to native code.

    Args:
        mod: One, or a module of them.
        target: What for; None takes the current target, else this machine.
        threads: Threads of a call; None takes `EUTECTIC_THREADS`, else what is available.
        bounds: `checked`: every access is proved to be inside of its buffer, or looked at when it happens.
            `trusted`: the programs are believed; one that leaves its buffers then corrupts memory.

    Returns:
        Functions by name; called itself, it calls the only one or `main`.

    Raises:
        CodegenError: there is nothing to compile, or something cannot be compiled.
        OutOfBoundsError: an access leaves its buffer whenever it is executed.

    Reference: TVM tir.build.
    """
    chosen = target_or_current(target)
    if isinstance(mod, PrimFunc):
        programs = {str(mod.attr("global_symbol") or "main"): mod}
    else:
        programs = {gv.name_hint: func for gv, func in mod.functions_items() if isinstance(func, PrimFunc)}
    if not programs:
        raise CodegenError("the module has no tensor programs", help="build graph functions with relax.build")
    return NativeFunctions(
        {name: NativePrimFunc(func, chosen, threads, name, bounds=bounds) for name, func in programs.items()}
    )


# ---- the plan of one kernel


def _plan(func: PrimFunc, built: Built, name: str, threads: int) -> Plan:
    """A plan with one step, whose arguments are the buffers in the order of the parameters.

    All of them are inputs for the plan, as sizes may be those of any.
    """
    values = _compact_layout(func)
    tensors = [
        Tensor(buffer.name, buffer.dtype, tuple(_substitute(size, values) for size in buffer.shape), "input", number)
        for number, buffer in enumerate(func.buffer_map.values())
    ]
    scalars = [param for param in func.params if param not in func.buffer_map]
    symbols = [param if param.dtype in ("int32", "int64") else Var(param.name, "int64") for param in scalars]
    numbers = [_from_bits(param.dtype, symbol) for param, symbol in zip(scalars, symbols, strict=True)]
    known = {id(size) for tensor in tensors for size in tensor.dims} | {id(param) for param in symbols}
    shapes = [values.get(var, var) for var in built.shape_vars]
    for var, shape in zip(built.shape_vars, shapes, strict=True):
        if any(isinstance(part, Var) and id(part) not in known for part in post_order(shape)):
            raise CodegenError(f"{name}: {var.name} is not the size of an argument", help="make it a parameter")
    spaces = [
        Tensor(
            "workspace", "uint8", (mul(_substitute(item.bytes, values), threads if item.per_thread else 1),), "arena"
        )
        for item in built.workspaces
    ]
    step = KernelStep(name, built, tuple(tensors), len(tensors), tuple(numbers), tuple(shapes), tuple(spaces))
    plan = Plan(name, inputs=tensors, symbols=symbols, steps=[step])
    place(plan)
    return plan


def _compact_layout(func: PrimFunc) -> dict[Var, PrimExpr]:
    """Values of the variables for strides and offsets of arrays without gaps.

    Raises:
        CodegenError: a buffer has another layout.
    """
    values: dict[Var, PrimExpr] = {}
    for buffer in func.buffer_map.values():
        if isinstance(buffer.elem_offset, Var):
            values[buffer.elem_offset] = IntImm("int64", 0)
        expected: PrimExpr = IntImm("int64", 1)
        for axis in reversed(range(len(buffer.strides))):
            stride, size = buffer.strides[axis], buffer.shape[axis]
            if isinstance(stride, Var):
                values.setdefault(stride, expected)
            elif not structural_equal(simplify(stride.astype("int64")), expected):
                raise CodegenError(
                    f"parameter {buffer.name} has strides ({sizes_text(buffer.strides)}); "
                    "arguments are arrays without gaps",
                    help="leave the strides out, or make them variables",
                )
            expected = simplify(mul(expected, size.astype("int64")))
    return values


def _substitute(value: PrimExpr, values: Mapping[Var, PrimExpr]) -> PrimExpr:
    substituted = substitute(value, dict(values)) if values else value
    assert isinstance(substituted, PrimExpr)
    return substituted


def _from_bits(dtype: str, symbol: Var) -> PrimExpr:
    """A scalar from the integer that holds its bits; native functions are given no other numbers."""
    if dtype == symbol.dtype or dtype in ("int32", "int64"):
        return symbol
    if not is_float(dtype):
        return symbol.astype(dtype)
    bits = f"int{8 * item_bytes(dtype)}"
    return reinterpret(dtype, symbol if bits == "int64" else symbol.astype(bits))


# ---- arguments


def _written_data(func: PrimFunc) -> set[Var]:
    """The data of the buffers that a function stores to, under any name."""
    parts = list(post_order(func.body))
    written = {part.buffer.data for part in parts if isinstance(part, BufferStore)}
    matches = [match for part in parts if isinstance(part, Block) for match in part.match_buffers]
    for match in reversed(matches):
        if match.buffer.data in written:
            written.add(match.source.buffer.data)
    return written


def _tensor(buffer: Buffer, is_written: bool, arg: Any) -> Prepared:
    """What is handed over for an array, and what is to be done after the call.

    Raises:
        CallError: it is no array, or is written and read-only.
    """
    received = arg.view() if isinstance(arg, RuntimeTensor) else arg
    arg = plain(received, buffer.name)
    if is_written and arg is not received:
        raise CallError(
            f"{buffer.name} is written, so it must be plain memory: what was given has to be copied first",
            help="pass a contiguous copy, and read the result from that",
        )
    if is_torch(arg) and not arg.is_contiguous():
        arg = torch_array(arg)
    if not isinstance(arg, np.ndarray):
        if hasattr(arg, "__dlpack__"):
            return arg, None
        raise CallError(f"{buffer.name} must be an array, got {type(arg).__name__}")
    if is_written and not arg.flags.writeable:
        raise CallError(f"{buffer.name} is written, so it must be a writeable array, got a read-only one")
    if arg.dtype.newbyteorder("=") != to_numpy(buffer.dtype):
        raise CallError(f"{buffer.name} must be {buffer.dtype}, got {arg.dtype}", help=f"convert it to {buffer.dtype}")
    if arg.flags.c_contiguous and arg.flags.aligned and arg.dtype.isnative:
        return arg, None
    whole = np.array(arg, to_numpy(buffer.dtype), order="C")
    if not is_written:
        return whole, None

    def back() -> None:
        arg[...] = whole

    return whole, back


def _require_apart(name: str, buffers: Sequence[tuple[Buffer, bool]], tensors: Sequence[Any]) -> None:
    """Refuse arguments that overlap in part, one of them being written.

    Raises:
        CallError: two do.
    """
    for number, (buffer, is_written) in enumerate(buffers):
        for earlier, (other, other_written) in enumerate(buffers[:number]):
            if (is_written or other_written) and _overlap(tensors[number], tensors[earlier]):
                raise CallError(
                    f"{name}: {other.name} and {buffer.name} overlap in memory, and one of them is written",
                    help="pass a copy, or compile the function without the attribute tir.noalias",
                )


def _overlap(a: Any, b: Any) -> bool:
    """Whether two arrays without gaps have some addresses in common, but not all; unknown of other kinds of arrays."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and not np.may_share_memory(a, b):
        return False
    first, second = _ends(a), _ends(b)
    if first is None or second is None or first == second:
        return False
    return first[0] < second[1] and second[0] < first[1]


def _ends(array: Any) -> tuple[int, int] | None:
    """The addresses that an array without gaps has; None when it has none, or is of another kind."""
    if isinstance(array, np.ndarray):
        first, size = array.ctypes.data, array.nbytes
    elif is_torch(array):
        first, size = array.data_ptr(), array.numel() * array.element_size()
    else:
        return None
    return (first, first + size) if size else None


def _integer(param: Var, arg: Any) -> int:
    """A number as the integer that stands for it.

    Raises:
        CallError: it does not fit.
    """
    dtype = param.dtype
    if isinstance(arg, np.ndarray) and arg.ndim == 0:
        arg = arg[()]
    try:
        if is_float(dtype) and not hasattr(arg, "__float__"):  # `float` reads text, too
            raise TypeError
        number = float(arg) if is_float(dtype) else int(arg) if isinstance(arg, np.bool_) else operator.index(arg)
        with np.errstate(over="ignore"):
            return int(np.array([number], to_numpy(dtype)).view(f"i{item_bytes(dtype)}")[0])
    except OverflowError:
        raise CallError(f"{param.name} must be {dtype}, {arg} is outside of its range") from None
    except (TypeError, ValueError):
        raise CallError(f"{param.name} must be {dtype}, got {type(arg).__name__}") from None


def _run(func: PrimFunc, *arrays: Any) -> None:
    """Compile a tensor program and run it once; constant folding calls it."""
    NativePrimFunc(func, Target())(*arrays)


register_global_func("eutectic.run_prim_func", _run)


def _run_unscheduled(func: PrimFunc, *arrays: Any) -> None:
    """Compile a tensor program with the loops it has and run it once; translation validation calls it."""
    NativePrimFunc(func.with_attr("tir.is_scheduled", True), Target(), 1)(*arrays)


register_global_func("eutectic.run_unscheduled", _run_unscheduled)
