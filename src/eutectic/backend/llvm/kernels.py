"""From tensor programs to object code, through the cache on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

import eutectic.support.cache as store
from eutectic.backend.llvm.machine import Machine
from eutectic.backend.llvm.optimize import object_code
from eutectic.backend.llvm.team import Kernel, Workspace, kernel_of, shape_variables
from eutectic.ir.prim_expr import (
    Add,
    BinaryExpr,
    Cast,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    PrimExpr,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
)
from eutectic.ir.structural import structural_digest
from eutectic.support.deep import deep
from eutectic.tir.function import PrimFunc
from eutectic.tir.schedule.rules.cpu import schedule_for_cpu
from eutectic.tir.transform.lower_tir import lowered

_PARTS: Final = ("arith", "ir", "tir", "backend/llvm")  # packages whose code decides what a kernel looks like
_OPERATORS: Final[tuple[type[BinaryExpr], ...]] = (Add, Sub, Mul, FloorDiv, FloorMod, TruncDiv, TruncMod, Max, Min)
_SIZES: Final[dict[str, Callable[..., BinaryExpr]]] = {kind.__name__: kind for kind in _OPERATORS}


@dataclass(frozen=True)
class Built:
    """A kernel in object code.

    Attributes:
        symbol: Its C symbol; says what it is compiled from.
        function: The tensor program, not scheduled.
        shape_vars: Variables of buffers' shapes, whose values are passed.
        workspaces: Memory to be passed.
        parallel: Whether more than one thread has something to do.
        code: The object file.
        cached: Whether it came from the cache on disk.
    """

    symbol: str
    function: PrimFunc
    shape_vars: tuple[Var, ...]
    workspaces: tuple[Workspace, ...]
    parallel: bool
    code: bytes
    cached: bool


def lowered_kernel(func: PrimFunc, machine: Machine, symbol: str = "kernel") -> Kernel:
    """A tensor program as LLVM text; scheduled and lowered first, as far as it has not been.

    Raises:
        CodegenError: something in it cannot be compiled.
    """
    return kernel_of(lowered(schedule_for_cpu(func, machine)), symbol, machine)


def build_kernel(func: PrimFunc, machine: Machine, name: str = "") -> Built:
    """A tensor program as object code, from the cache when it is there.

    Args:
        func: The program.
        machine: What the code is for.
        name: What lists of the cache call it; the function's own name when empty.

    Raises:
        CodegenError: something in it cannot be compiled.
    """
    return cached_kernel(func, machine) or compiled_kernel(func, func, machine, name)


def cached_kernel(func: PrimFunc, machine: Machine) -> Built | None:
    """The kernel of a tensor program from the cache; None when it is not there."""
    key = kernel_key(func, machine)
    known = store.read(key)
    return None if known is None else _from_entry(func, _symbol(key), known)


def compiled_kernel(func: PrimFunc, made: PrimFunc, machine: Machine, name: str = "") -> Built:
    """A tensor program as object code, which the cache then has.

    Args:
        func: The program; it is what the cache knows the code by, so that a hit spares scheduling and lowering.
        made: What the default schedule and lowering made of it, or of which they made a part of their work.
        machine: What the code is for.
        name: What lists of the cache call it; the function's own name when empty.

    Raises:
        CodegenError: something in it cannot be compiled.
    """
    key = kernel_key(func, machine)
    kernel = lowered_kernel(made, machine, _symbol(key))
    code = object_code(kernel.text, machine)
    sizes = [_to_json(item.bytes, _symbols(func)) for item in kernel.workspaces]
    if None not in sizes:
        meta = {
            "name": name or str(func.attr("global_symbol") or func.attr("name") or ""),
            "cpu": machine.cpu,
            "parallel": kernel.parallel,
            "workspaces": [[size, item.per_thread] for size, item in zip(sizes, kernel.workspaces, strict=True)],
        }
        store.write(key, store.Entry(meta, code))
    return Built(_symbol(key), func, shape_variables(func), kernel.workspaces, kernel.parallel, code, False)


def kernel_key(func: PrimFunc, machine: Machine) -> str:
    """What the cache knows the kernel of a tensor program by."""
    return hashlib.sha256(b"\0".join([structural_digest(func), repr(machine).encode(), compiler_version()])).hexdigest()


def _symbol(key: str) -> str:
    return f"k_{key[:24]}"


def _symbols(func: PrimFunc) -> list[Var]:
    return [*func.params, *shape_variables(func)]


def _from_entry(func: PrimFunc, symbol: str, entry: store.Entry) -> Built | None:
    """The kernel of a cache entry; None when the entry is not one of ours."""
    try:
        symbols = _symbols(func)
        spaces = [Workspace(_from_json(size, symbols), bool(each)) for size, each in entry.meta["workspaces"]]
        parallel = bool(entry.meta["parallel"])
    except (KeyError, TypeError, ValueError, IndexError):
        return None
    return Built(symbol, func, shape_variables(func), tuple(spaces), parallel, entry.blob, True)


@deep
def _to_json(size: PrimExpr, symbols: list[Var]) -> Any:
    """A size as JSON data; None when it has parts that are not kept."""
    match size:
        case IntImm():
            return size.value
        case Var():
            return next((["var", i] for i, var in enumerate(symbols) if var is size), None)
        case Cast():
            return _to_json(size.value, symbols)
        case BinaryExpr() if type(size).__name__ in _SIZES:
            parts = [_to_json(part, symbols) for part in (size.a, size.b)]
            return None if None in parts else [type(size).__name__, *parts]
        case _:
            return None


@deep
def _from_json(data: Any, symbols: list[Var]) -> PrimExpr:
    if isinstance(data, int):
        return IntImm("int64", data)
    if data[0] == "var":
        var = symbols[data[1]]
        wide: PrimExpr = var if var.dtype == "int64" else var.astype("int64")
        return wide
    return _SIZES[data[0]](_from_json(data[1], symbols), _from_json(data[2], symbols))


@cache
def compiler_version() -> bytes:
    """Changes when the code that makes kernels changes, or LLVM does."""
    digest = hashlib.sha256()
    for package in ("eutectic", "llvmlite"):
        try:
            digest.update(version(package).encode())
        except PackageNotFoundError:  # run from a source tree that is not installed
            digest.update(b"?")
    root = Path(__file__).parents[2]
    for part in _PARTS:
        for path in sorted((root / part).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.digest()
