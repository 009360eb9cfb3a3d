"""From tensor programs to object code, through the cache on disk."""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any, Final

import eutectic.support.cache as store
from eutectic.backend.kernel import Built, Workspace
from eutectic.backend.llvm.machine import Machine
from eutectic.backend.llvm.optimize import object_code
from eutectic.backend.llvm.team import Kernel, kernel_of, shape_variables
from eutectic.backend.size_data import size_data, size_expr
from eutectic.ir.prim_expr import PrimExpr, Var
from eutectic.ir.structural import structural_digest
from eutectic.runtime.sizes import size_from_json, size_to_json
from eutectic.support.code_version import code_version
from eutectic.support.errors import CodegenError, EutecticError
from eutectic.tir.function import PrimFunc
from eutectic.tir.function_attributes import CHOSEN, TRACE
from eutectic.tir.schedule.rules.cpu import schedule_for_cpu
from eutectic.tir.transform.lower_tir import lowered

# Where the code is that decides what a kernel looks like, and what the cache says about it.
_PARTS: Final = (*(f"{part}/**/*.py" for part in ("arith", "ir", "tir", "backend/llvm")), "*/size*.py")


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


def compiled_kernel(func: PrimFunc, lowered_func: PrimFunc, machine: Machine, name: str = "") -> Built:
    """A tensor program as object code, which the cache then has.

    Args:
        func: The program; it is what the cache knows the code by, so that a hit spares scheduling and lowering.
        lowered_func: What the default schedule and lowering made of it, or of which they made a part of their work.
        machine: What the code is for.
        name: What lists of the cache call it; the function's own name when empty.

    Raises:
        CodegenError: something in it cannot be compiled.
    """
    key = kernel_key(func, machine)
    kernel = lowered_kernel(lowered_func, machine, _symbol(key))
    code = object_code(kernel.text, machine)
    sizes = _size_rows(func, kernel)
    trace, chosen = ([str(line) for line in lowered_func.attr(name) or ()] for name in (TRACE, CHOSEN))
    if sizes is not None:
        meta = {
            "name": name or str(func.attr("global_symbol") or func.attr("name") or ""),
            "cpu": machine.cpu,
            "parallel": kernel.parallel,
            "workspaces": sizes,
            "trace": trace,
            "chosen": chosen,
        }
        store.write(key, store.Entry(meta, code))
    spaces, said = kernel.workspaces, (tuple(trace), tuple(chosen))
    return Built(_symbol(key), func, shape_variables(func), spaces, kernel.parallel, code, False, *said)


def kernel_key(func: PrimFunc, machine: Machine) -> str:
    """What the cache knows the kernel of a tensor program by."""
    return hashlib.sha256(b"\0".join([structural_digest(func), repr(machine).encode(), compiler_version()])).hexdigest()


def _symbol(key: str) -> str:
    return f"k_{key[:24]}"


def _names(func: PrimFunc) -> dict[Var, str]:
    """Names of the variables of a program for sizes in the cache, which do not depend on those of the source."""
    return {var: f"v{i}" for i, var in enumerate(dict.fromkeys([*func.params, *shape_variables(func)]))}


def _wide(var: Var) -> PrimExpr:
    return var if var.dtype == "int64" else var.astype("int64")


def _size_rows(func: PrimFunc, kernel: Kernel) -> list[list[Any]] | None:
    """The workspaces of a kernel as JSON data; None when a size has parts that are not kept."""
    names = _names(func)
    try:
        return [[size_to_json(size_data(item.bytes, names)), item.per_thread] for item in kernel.workspaces]
    except (KeyError, CodegenError):
        return None


def _from_entry(func: PrimFunc, symbol: str, entry: store.Entry) -> Built | None:
    """The kernel of a cache entry; None when the entry is not one of ours."""
    try:
        known = {name: _wide(var) for var, name in _names(func).items()}
        rows = [(size_from_json(size), each) for size, each in entry.meta["workspaces"]]
        spaces = [Workspace(size_expr(size, known), bool(each)) for size, each in rows]
        parallel = bool(entry.meta["parallel"])
        said = [tuple(map(str, entry.meta[name])) for name in ("trace", "chosen")]
    except (KeyError, TypeError, ValueError, EutecticError):
        return None
    return Built(symbol, func, shape_variables(func), tuple(spaces), parallel, entry.blob, True, *said)


@cache
def compiler_version() -> bytes:
    """Changes when the code that makes kernels changes, or LLVM does."""
    return code_version(("eutectic", "llvmlite"), _PARTS)
