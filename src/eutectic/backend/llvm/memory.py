"""Loads and stores of flat buffers: contiguous vectors, strided ones, gathers, and accesses under a predicate.

An index that is computed from loaded data (a gather) is checked at run time: one
outside of its buffer reads element 0 and stores nothing, and the failure is reported.
"""

from __future__ import annotations

from eutectic.backend.llvm.arithmetic import overload
from eutectic.backend.llvm.expr import ExprEmitter, loads_with
from eutectic.backend.llvm.types import memory_bytes, memory_type, register_type, splat, vector
from eutectic.ir.prim_expr import Broadcast, IntImm, PrimExpr, Ramp, element_dtype, lanes_of
from eutectic.ir.visit import post_order
from eutectic.support.errors import CodegenError
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.stmt import BufferStore


def _index_of(buffer: Buffer, indices: tuple[PrimExpr, ...]) -> PrimExpr:
    if buffer.strides or len(indices) > 1:
        raise CodegenError(f"buffer {buffer.name} is not flat", help="lower the function first")
    return indices[0] if indices else IntImm("int64", 0)


def _pointer(emitter: ExprEmitter, buffer: Buffer) -> str:
    pointer = emitter.pointers.get(buffer.data)
    if pointer is None:
        raise CodegenError(f"buffer {buffer.name} has no memory here")
    return pointer


def address(emitter: ExprEmitter, buffer: Buffer, index: str) -> str:
    """A pointer to one element."""
    pointer = _pointer(emitter, buffer)
    if buffer.elem_offset is not None:
        index = emitter._fold("add", index, emitter.index(buffer.elem_offset))
    if index == "0":
        return pointer
    return emitter.text.assign(f"getelementptr inbounds {memory_type(buffer.dtype)}, ptr {pointer}, i64 {index}")


def _reads_memory(expr: PrimExpr) -> bool:
    return any(isinstance(part, BufferLoad) for part in post_order(expr))


def _checked(emitter: ExprEmitter, buffer: Buffer, index: PrimExpr, at: str) -> tuple[str, str | None]:
    """The index, or 0 where it is outside; and whether it is inside, when that had to be asked."""
    size = emitter.extents.get(buffer.data)
    if size is None or not _reads_memory(index):
        return at, None
    inside = emitter.text.assign(f"icmp ult i64 {at}, {size}")
    emitter.report_unless(inside)
    return emitter.text.assign(f"select i1 {inside}, i64 {at}, i64 0"), inside


@loads_with
def load(emitter: ExprEmitter, expr: BufferLoad) -> str:
    """The value of a load, of type `register_type(expr.dtype)`."""
    buffer, index = expr.buffer, _index_of(expr.buffer, expr.indices)
    lanes = lanes_of(index.dtype)
    if lanes == 1:
        return _scalar_load(emitter, expr, index)
    match index:
        case Ramp(stride=IntImm(value=1)) if lanes_of(index.base.dtype) == 1:
            return _contiguous(emitter, expr, index)
        case Ramp(stride=IntImm(value=2)) if lanes_of(index.base.dtype) == 1 and expr.predicate is None:
            return _every_other(emitter, expr, index)
        case Broadcast() if expr.predicate is None:
            one = _scalar_load(emitter, BufferLoad(buffer, (index.value,)), index.value)
            return emitter.broadcast(register_type(expr.dtype), lanes, one)
    return _gather(emitter, expr, index)


def _to_register(emitter: ExprEmitter, dtype: str, value: str) -> str:
    if element_dtype(dtype) != "bool":
        return value
    kind = memory_type(dtype)
    return emitter.text.assign(f"icmp ne {kind} {value}, {splat('i8', '0', lanes_of(dtype))}")


def _to_memory(emitter: ExprEmitter, dtype: str, value: str) -> str:
    if element_dtype(dtype) != "bool":
        return value
    return emitter.text.assign(f"zext {register_type(dtype)} {value} to {memory_type(dtype)}")


def _scalar_load(emitter: ExprEmitter, expr: BufferLoad, index: PrimExpr) -> str:
    buffer = expr.buffer
    kind, size = memory_type(buffer.dtype), memory_bytes(buffer.dtype)

    def read() -> str:
        at, _ = _checked(emitter, buffer, index, emitter.index(index))
        return emitter.text.assign(f"load {kind}, ptr {address(emitter, buffer, at)}, align {size}")

    if expr.predicate is None:
        return _to_register(emitter, buffer.dtype, read())
    zero = "0" if kind.startswith("i") else "0.0"
    return _to_register(emitter, buffer.dtype, emitter.choose(emitter.value(expr.predicate), kind, read, lambda: zero))


def _contiguous(emitter: ExprEmitter, expr: BufferLoad, index: Ramp) -> str:
    kind, size = memory_type(expr.dtype), memory_bytes(expr.dtype)
    at = address(emitter, expr.buffer, emitter.index(index.base))
    if expr.predicate is None:
        return _to_register(emitter, expr.dtype, emitter.text.assign(f"load {kind}, ptr {at}, align {size}"))
    mask = vector("i1", index.lanes)
    name = f"llvm.masked.load.{overload(kind)}.p0"
    args = [(f"ptr align {size}", at), (mask, emitter.value(expr.predicate)), (kind, "zeroinitializer")]
    emitter.text.declare(kind, name, ["ptr", mask, kind])
    return _to_register(emitter, expr.dtype, emitter.text.call(kind, name, args))


def _every_other(emitter: ExprEmitter, expr: BufferLoad, index: Ramp) -> str:
    """Elements at even distances, from two overlapping vectors that stay within first and last element."""
    lanes, text = index.lanes, emitter.text
    kind, size = memory_type(expr.dtype), memory_bytes(expr.dtype)
    if lanes % 2:
        return _gather(emitter, expr, index)
    first = emitter.index(index.base)
    second = emitter._fold("add", first, str(lanes - 1))
    low = text.assign(f"load {kind}, ptr {address(emitter, expr.buffer, first)}, align {size}")
    high = text.assign(f"load {kind}, ptr {address(emitter, expr.buffer, second)}, align {size}")
    places = [*range(0, lanes, 2), *range(lanes + 1, 2 * lanes, 2)]
    mask = ", ".join(f"i32 {place}" for place in places)
    made = text.assign(f"shufflevector {kind} {low}, {kind} {high}, <{lanes} x i32> <{mask}>")
    return _to_register(emitter, expr.dtype, made)


def _lane_indices(emitter: ExprEmitter, index: PrimExpr) -> list[str]:
    """Index of each lane in 64 bits."""
    lanes, text = lanes_of(index.dtype), emitter.text
    if isinstance(index, Ramp) and lanes_of(index.base.dtype) == 1:
        base, step = emitter.index(index.base), emitter.index(index.stride)
        return [emitter._fold("add", base, emitter._fold("mul", str(i), step)) for i in range(lanes)]
    kind, value = register_type(index.dtype), emitter.value(index)
    if element_dtype(index.dtype) not in ("int64", "uint64"):
        word = "sext" if index.dtype.startswith("int") else "zext"
        value = text.assign(f"{word} {kind} {value} to {vector('i64', lanes)}")
    return [text.assign(f"extractelement {vector('i64', lanes)} {value}, i64 {i}") for i in range(lanes)]


def _lane_flags(emitter: ExprEmitter, predicate: PrimExpr | None, lanes: int) -> list[str] | None:
    if predicate is None:
        return None
    value, kind = emitter.value(predicate), vector("i1", lanes)
    return [emitter.text.assign(f"extractelement {kind} {value}, i64 {i}") for i in range(lanes)]


def _gather(emitter: ExprEmitter, expr: BufferLoad, index: PrimExpr) -> str:
    """Lane by lane; a lane whose predicate is false reads element 0 of nothing: zero."""
    text, buffer = emitter.text, expr.buffer
    element, size = memory_type(buffer.dtype), memory_bytes(buffer.dtype)
    zero = "0" if element.startswith("i") else "0.0"
    flags = _lane_flags(emitter, expr.predicate, lanes_of(index.dtype))
    lanes = []
    for i, at in enumerate(_lane_indices(emitter, index)):

        def read(at: str = at) -> str:
            place, _ = _checked(emitter, buffer, index, at)
            return text.assign(f"load {element}, ptr {address(emitter, buffer, place)}, align {size}")

        lanes.append(read() if flags is None else emitter.choose(flags[i], element, read, lambda: zero))
    return _to_register(emitter, expr.dtype, emitter.gather_lanes(element, lanes))


# ---- stores


def store(emitter: ExprEmitter, stmt: BufferStore) -> None:
    """Emit a store."""
    buffer, index = stmt.buffer, _index_of(stmt.buffer, stmt.indices)
    lanes = lanes_of(index.dtype)
    if lanes == 1:
        _scalar_store(emitter, stmt, index)
        return
    value = emitter.value(stmt.value)
    if lanes_of(stmt.value.dtype) == 1:
        value = emitter.broadcast(register_type(f"{buffer.dtype}x{lanes}"), lanes, value)
    dtype = f"{buffer.dtype}x{lanes}"
    value = _to_memory(emitter, dtype, value)
    match index:
        case Ramp(stride=IntImm(value=1)) if lanes_of(index.base.dtype) == 1:
            _contiguous_store(emitter, stmt, index, dtype, value)
        case _:
            _scatter(emitter, stmt, index, dtype, value)


def _scalar_store(emitter: ExprEmitter, stmt: BufferStore, index: PrimExpr) -> None:
    buffer = stmt.buffer
    value = _to_memory(emitter, buffer.dtype, emitter.value(stmt.value))
    at, inside = _checked(emitter, buffer, index, emitter.index(index))
    condition = inside if stmt.predicate is None else emitter.value(stmt.predicate)
    if inside is not None and stmt.predicate is not None:
        condition = emitter.text.assign(f"and i1 {inside}, {condition}")
    _write(emitter, buffer, at, value, condition)


def _write(emitter: ExprEmitter, buffer: Buffer, at: str, value: str, condition: str | None) -> None:
    text = emitter.text
    kind, size = memory_type(buffer.dtype), memory_bytes(buffer.dtype)
    if condition is None:
        text.do(f"store {kind} {value}, ptr {address(emitter, buffer, at)}, align {size}")
        return
    yes, after = text.fresh("store"), text.fresh("stored")
    known = emitter.remembered()
    text.branch(condition, yes, after)
    text.start(yes)
    text.do(f"store {kind} {value}, ptr {address(emitter, buffer, at)}, align {size}")
    text.jump(after)
    text.start(after)
    emitter.restore(known)


def _contiguous_store(emitter: ExprEmitter, stmt: BufferStore, index: Ramp, dtype: str, value: str) -> None:
    kind, size = memory_type(dtype), memory_bytes(dtype)
    at = address(emitter, stmt.buffer, emitter.index(index.base))
    if stmt.predicate is None:
        emitter.text.do(f"store {kind} {value}, ptr {at}, align {size}")
        return
    mask = vector("i1", index.lanes)
    name = f"llvm.masked.store.{overload(kind)}.p0"
    emitter.text.declare("void", name, [kind, "ptr", mask])
    args = [(kind, value), (f"ptr align {size}", at), (mask, emitter.value(stmt.predicate))]
    emitter.text.call("void", name, args)


def _scatter(emitter: ExprEmitter, stmt: BufferStore, index: PrimExpr, dtype: str, value: str) -> None:
    lanes, kind = lanes_of(index.dtype), memory_type(dtype)
    flags = _lane_flags(emitter, stmt.predicate, lanes)
    for i, at in enumerate(_lane_indices(emitter, index)):
        one = emitter.text.assign(f"extractelement {kind} {value}, i64 {i}")
        place, inside = _checked(emitter, stmt.buffer, index, at)
        condition = inside if flags is None else flags[i]
        if inside is not None and flags is not None:
            condition = emitter.text.assign(f"and i1 {inside}, {flags[i]}")
        _write(emitter, stmt.buffer, place, one, condition)
