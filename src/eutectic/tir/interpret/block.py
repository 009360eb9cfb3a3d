"""Blocks in the reference interpreter: values of their axes, their memory, and their names for regions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eutectic.ir.node import Node
from eutectic.ir.prim_expr import PrimExpr, Var
from eutectic.support.errors import InternalError
from eutectic.tir.block import Block, BlockRealize
from eutectic.tir.buffer import Buffer, MatchBufferRegion
from eutectic.tir.interpret.machine import Code, Compiler, Env, Step
from eutectic.tir.interpret.memory import Memory, Pointer, View


def axes_of(compiler: Compiler, stmt: BlockRealize, *, reduced_may_be_empty: bool = False) -> Step:
    """The function that binds the axes of a block.

    Args:
        compiler: Makes functions of expressions.
        stmt: The block.
        reduced_may_be_empty: Whether reduced axes have a value even where they have no range, as first values need.
    """
    axes: list[tuple[Var, Code, Code, Code]] = []
    for axis, value in zip(stmt.block.iter_vars, stmt.iter_values, strict=True):
        if axis.dom is None:
            raise InternalError(f"axis {axis.var.name} of block {stmt.block.name_hint} has no range")
        low, count = compiler.codes((axis.dom.min, axis.dom.extent))
        axes.append((axis.var, compiler.code(value), low, count))
    name = stmt.block.name_hint
    reduced = [axis.var for axis in stmt.block.iter_vars if axis.iter_type == "comm_reduce"]
    least = dict.fromkeys(reduced, 1) if reduced_may_be_empty else {}

    def bind(env: Env) -> None:
        values = [value(env) for _, value, _, _ in axes]
        for (var, _, low, count), value in zip(axes, values, strict=True):
            first, extent = low(env), count(env)
            if not first <= value < first + max(extent, least.get(var, 0)):
                raise InternalError(
                    f"axis {var.name} of block {name} is bound to {value}, outside of range({first}, {first + extent})"
                )
            env[var] = value

    return bind


def buffers_of(compiler: Compiler, block: Block) -> Callable[[Env], list[Node]]:
    """The function that makes the memory of a block and its names for regions; gives what those names bind."""
    steps = [_allocated(compiler, buffer) for buffer in block.alloc_buffers]
    matches = [_matched(compiler, match) for match in block.match_buffers]

    def enter(env: Env) -> list[Node]:
        for step in steps:
            step(env)
        return [name for match in matches for name in match(env)]

    return enter


def _allocated(compiler: Compiler, buffer: Buffer) -> Step:
    lay, check = compiler.declare(buffer), compiler.machine.check

    sizes, steps = compiler.codes(buffer.shape), compiler.codes(buffer.strides)
    offset = buffer.elem_offset
    start = None if offset is None else compiler.code(offset)

    def allocate(env: Env) -> None:
        if isinstance(offset, Var):
            env.setdefault(offset, 0)  # nothing else says where the buffer begins in its own memory
        count = _span([size(env) for size in sizes], [step(env) for step in steps])
        count += 0 if start is None else start(env)
        env[buffer.data] = Pointer(Memory.fresh(buffer.name, buffer.dtype, count, check))
        env[buffer] = lay(env)

    return allocate


def _matched(compiler: Compiler, match: MatchBufferRegion) -> Callable[[Env], list[Node]]:
    """The function that names a region; gives what it binds: the buffer, and variables of its declaration."""
    buffer, source = match.buffer, match.source
    begins = compiler.codes([r.min for r in source.region])
    extents = compiler.codes([r.extent for r in source.region])

    scalars = (*buffer.shape, *buffer.strides, *(() if buffer.elem_offset is None else (buffer.elem_offset,)))

    def name(env: Env) -> list[Node]:
        new: list[Node] = [expr for expr in scalars if isinstance(expr, Var) and expr not in env]
        outer = compiler.view(env, source.buffer)
        box = [extent(env) for extent in extents]
        inner = outer.sub_view(buffer, [begin(env) for begin in begins], box)
        dropped = box[: len(box) - len(inner.shape)]
        if any(size != 1 for size in dropped):
            raise InternalError(f"buffer {buffer.name} drops axes of extents {dropped} of {source.buffer.name}")
        for what, wanted, actual in (
            ("shape", buffer.shape, inner.shape),
            ("strides", buffer.strides, inner.strides),
        ):
            for expr, number in zip(wanted, actual, strict=False):
                _agree(compiler, env, expr, number, f"{what} of buffer {buffer.name}")
        env[buffer] = inner
        env[buffer.data] = _data_of(compiler, env, buffer, inner)
        return [*new, buffer, buffer.data]

    return name


def _data_of(compiler: Compiler, env: Env, buffer: Buffer, view: View) -> Pointer:
    """The address that `buffer.elem_offset` is counted from."""
    offset = buffer.elem_offset
    if isinstance(offset, Var) and offset not in env:
        env[offset] = view.offset
    elif offset is not None and compiler.code(offset)(env) != view.offset:
        raise InternalError(
            f"buffer {buffer.name} begins at element {view.offset}, not at {compiler.code(offset)(env)}"
        )
    if buffer.offset_factor > 1 and view.offset % buffer.offset_factor:
        raise InternalError(
            f"buffer {buffer.name} begins at element {view.offset}, not at a multiple of {buffer.offset_factor}"
        )
    return view.pointer if offset is not None else Pointer(view.memory, view.phase + view.base * view.item)


def _agree(compiler: Compiler, env: Env, expr: PrimExpr, number: int, what: str) -> None:
    """Bind a variable that is new, or check what is known."""
    if isinstance(expr, Var) and expr not in env:
        env[expr] = number
        return
    wanted = compiler.code(expr)(env)
    if wanted != number:
        raise InternalError(f"the {what} is {wanted} in its declaration, and {number} in the region it stands for")


def _span(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from the first to the last of a buffer."""
    if 0 in shape:
        return 0
    if strides:
        return 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
    count = 1
    for size in shape:
        count *= size
    return count
