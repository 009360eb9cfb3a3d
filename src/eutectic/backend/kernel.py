"""A compiled kernel: what a code generator makes of a tensor program, and what a plan calls."""

from __future__ import annotations

from dataclasses import dataclass

from eutectic.ir.prim_expr import PrimExpr, Var
from eutectic.tir.function import PrimFunc


@dataclass(frozen=True)
class Workspace:
    """Memory that a kernel is given for values of its own.

    Attributes:
        bytes: Size, in variables of the kernel's shapes and scalars; a multiple of 64.
        per_thread: Whether each thread of the team needs that much.
    """

    bytes: PrimExpr
    per_thread: bool


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
        trace: What the default schedule did, line by line; empty when it did nothing.
        chosen: What its rules chose, a line for each choice, with where that comes from.
    """

    symbol: str
    function: PrimFunc
    shape_vars: tuple[Var, ...]
    workspaces: tuple[Workspace, ...]
    parallel: bool
    code: bytes
    cached: bool
    trace: tuple[str, ...] = ()
    chosen: tuple[str, ...] = ()
