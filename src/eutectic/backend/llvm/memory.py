"""Loads and stores of flat buffers: contiguous vectors, strided ones, gathers, and accesses under a predicate.

An index that is computed from loaded data (a gather) is checked at run time: one
outside of its buffer reads zero and stores nothing, and the failure is reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from eutectic.backend.llvm.arithmetic import overload
from eutectic.backend.llvm.expr import ExprEmitter, loads_with
from eutectic.backend.llvm.function_text import is_on_stack
from eutectic.backend.llvm.lane_parts import cut, joined
from eutectic.backend.llvm.lane_places import Run, flags_of, places_of, runs_of
from eutectic.backend.llvm.types import memory_bytes, memory_type, register_type, splat, vector
from eutectic.ir.prim_expr import Broadcast, IntImm, PrimExpr, Ramp, element_dtype, lanes_of
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
    """A pointer to one element; the index counts from the buffer's data."""
    pointer = _pointer(emitter, buffer)
    if index == "0":
        return pointer
    return emitter.text.assign(f"getelementptr inbounds {memory_type(buffer.dtype)}, ptr {pointer}, i64 {index}")


def element_within(emitter: ExprEmitter, buffer: Buffer, index: PrimExpr, added: PrimExpr, most: int) -> str:
    """A pointer to the element at the sum of two indices, of which the second is at most a number.

    Where that could be behind the last element, it is one before that: of memory behind a buffer there may be nothing,
    and to ask for it then costs a processor a walk through its tables of pages, each time anew (120 cycles, Zen 1).
    """
    at = _index(emitter, buffer, emitter.index(index))
    size = emitter.extents.get(buffer.data)
    if size is not None and emitter.items.get(buffer.data) == memory_bytes(buffer.dtype):
        last = emitter.at_least_zero(emitter.fold("sub", size, str(most + 1)))
        at = emitter.text.call("i64", "llvm.smin.i64", [("i64", at), ("i64", last)])
    at = emitter.fold("add", at, emitter.index(added))
    return emitter.text.assign(f"getelementptr {memory_type(buffer.dtype)}, ptr {_pointer(emitter, buffer)}, i64 {at}")


def _index(emitter: ExprEmitter, buffer: Buffer, index: str) -> str:
    """An index of the buffer as one that counts from its data."""
    return index if buffer.elem_offset is None else emitter.fold("add", index, emitter.index(buffer.elem_offset))


def _inside(emitter: ExprEmitter, buffer: Buffer, index: PrimExpr, at: str, lanes: int = 1) -> str | None:
    """Whether `lanes` elements from `at` on are in the buffer; None when that need not be asked."""
    size = emitter.extents.get(buffer.data)
    if size is None or not emitter.is_from_data(index):
        return None
    text = emitter.text
    have, item = emitter.items.get(buffer.data, 0), memory_bytes(buffer.dtype)
    if have and have != item:  # the memory is seen as elements of another size
        size = text.assign(f"sdiv i64 {emitter.fold('mul', size, str(have))}, {item}")
    if lanes == 1:
        return text.assign(f"icmp ult i64 {at}, {size}")
    last = emitter.fold("sub", size, str(lanes))
    above, below = text.assign(f"icmp sge i64 {at}, 0"), text.assign(f"icmp sle i64 {at}, {last}")
    return text.assign(f"and i1 {above}, {below}")


def _read(emitter: ExprEmitter, buffer: Buffer, index: PrimExpr, at: str, lanes: int = 1) -> str:
    """`lanes` elements from `at` on, as they are in memory; zero, and a report, where they are outside."""
    kind, at = vector(memory_type(buffer.dtype), lanes), _index(emitter, buffer, at)

    def inside() -> str:
        return _read_now(emitter, buffer, at, lanes)

    def outside() -> str:
        emitter.report_unless("false")
        return "zeroinitializer" if lanes > 1 else _zero(kind)

    condition = _inside(emitter, buffer, index, at, lanes)
    return inside() if condition is None else emitter.choose(condition, kind, inside, outside)


def _register_sizes(emitter: ExprEmitter, buffer: Buffer, lanes: int) -> list[int]:
    """Lanes of each part in which a vector goes to or from memory: those of registers, if they are on the stack.

    LLVM keeps memory of the stack in registers where a type has its very size. Twelve floats have not, they are aligned
    as sixteen, and in registers of eight lanes sums of them were put together bit by bit in each step.
    """
    most = 4 * emitter.machine_lanes // memory_bytes(buffer.dtype)
    if lanes <= most or not lanes & (lanes - 1) or not is_on_stack(_pointer(emitter, buffer)):
        return [lanes]
    return [*[most] * (lanes // most), *([lanes % most] if lanes % most else [])]


def _parts_at(emitter: ExprEmitter, buffer: Buffer, at: str, sizes: Sequence[int]) -> list[tuple[str, str]]:
    """LLVM type of each part of a vector, and a pointer to it."""
    kind, starts = memory_type(buffer.dtype), accumulate(sizes[:-1], initial=0)
    places = [address(emitter, buffer, emitter.fold("add", at, str(start))) for start in starts]
    return [(vector(kind, size), place) for size, place in zip(sizes, places, strict=True)]


def _read_now(emitter: ExprEmitter, buffer: Buffer, at: str, lanes: int) -> str:
    """Elements that are in the buffer."""
    sizes, item = _register_sizes(emitter, buffer, lanes), memory_bytes(buffer.dtype)
    parts = [
        emitter.text.assign(f"load {kind}, ptr {place}, align {item}")
        for kind, place in _parts_at(emitter, buffer, at, sizes)
    ]
    return joined(emitter.text, memory_type(buffer.dtype), parts, sizes)


def _write_now(emitter: ExprEmitter, buffer: Buffer, at: str, value: str, lanes: int) -> None:
    """Elements into places that are in the buffer."""
    sizes, item = _register_sizes(emitter, buffer, lanes), memory_bytes(buffer.dtype)
    values = cut(emitter.text, memory_type(buffer.dtype), value, sizes)
    for part, (kind, place) in zip(values, _parts_at(emitter, buffer, at, sizes), strict=True):
        emitter.text.do(f"store {kind} {part}, ptr {place}, align {item}")


def _zero(kind: str) -> str:
    return "0" if kind.startswith("i") else "0.0"


@loads_with
def load(emitter: ExprEmitter, expr: BufferLoad) -> str:
    """The value of a load, of type `register_type(expr.dtype)`."""
    index = _index_of(expr.buffer, expr.indices)
    lanes = lanes_of(index.dtype)
    if lanes == 1:
        return _scalar_load(emitter, expr, index)
    match index:
        case Ramp(stride=IntImm(value=1)) if lanes_of(index.base.dtype) == 1:
            return _contiguous(emitter, expr, index)
        case Ramp(stride=IntImm(value=2)) if lanes_of(index.base.dtype) == 1:
            return _every_other(emitter, expr, index)
        case Broadcast():
            return _one_for_all(emitter, expr, index)
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

    def read() -> str:
        return _read(emitter, buffer, index, emitter.index(index))

    if expr.predicate is None:
        return _to_register(emitter, buffer.dtype, read())
    kind = memory_type(buffer.dtype)
    loaded = emitter.choose(emitter.value(expr.predicate), kind, read, lambda: _zero(kind))
    return _to_register(emitter, buffer.dtype, loaded)


def _contiguous(emitter: ExprEmitter, expr: BufferLoad, index: Ramp) -> str:
    if expr.predicate is None:
        return _to_register(
            emitter, expr.dtype, _read(emitter, expr.buffer, index.base, emitter.index(index.base), index.lanes)
        )
    if emitter.is_from_data(index.base):
        return _gather(emitter, expr, index)
    at = address(emitter, expr.buffer, _index(emitter, expr.buffer, emitter.index(index.base)))
    return _to_register(emitter, expr.dtype, _masked_load(emitter, expr, at, emitter.value(expr.predicate)))


def _masked_load(emitter: ExprEmitter, expr: BufferLoad, at: str, flags: str) -> str:
    """As many elements as a load has, from a place on, as they are in memory; zero where a flag is not set."""
    kind, mask = memory_type(expr.dtype), vector("i1", lanes_of(expr.dtype))
    name = f"llvm.masked.load.{overload(kind)}.p0"
    args = [(f"ptr align {memory_bytes(expr.dtype)}", at), (mask, flags), (kind, "zeroinitializer")]
    emitter.text.declare(kind, name, ["ptr", mask, kind])
    return emitter.text.call(kind, name, args)


def _one_for_all(emitter: ExprEmitter, expr: BufferLoad, index: Broadcast) -> str:
    """One element in all lanes, which is read if any of them wants it; zero in the others."""
    text, lanes, kind = emitter.text, index.lanes, register_type(expr.dtype)
    one = BufferLoad(expr.buffer, (index.value,))
    if expr.predicate is None:
        return emitter.broadcast(kind, lanes, _scalar_load(emitter, one, index.value))
    wanted, mask, element = emitter.value(expr.predicate), vector("i1", lanes), register_type(expr.buffer.dtype)
    anybody = text.call("i1", f"llvm.vector.reduce.or.v{lanes}i1", [(mask, wanted)])
    read = emitter.choose(anybody, element, lambda: _scalar_load(emitter, one, index.value), lambda: _zero(element))
    return text.assign(f"select {mask} {wanted}, {kind} {emitter.broadcast(kind, lanes, read)}, {kind} zeroinitializer")


def _every_other(emitter: ExprEmitter, expr: BufferLoad, index: Ramp) -> str:
    """Elements at even distances, from two vectors, of which only these are read where lanes do not want them all."""
    lanes = index.lanes
    if lanes % 2 or emitter.is_from_data(index.base):
        return _gather(emitter, expr, index)
    if expr.predicate is not None:
        return _every_other_wanted(emitter, expr, index, expr.predicate)
    first, text = _index(emitter, expr.buffer, emitter.index(index.base)), emitter.text
    kind, size = memory_type(expr.dtype), memory_bytes(expr.dtype)
    second = emitter.fold("add", first, str(lanes - 1))
    low = text.assign(f"load {kind}, ptr {address(emitter, expr.buffer, first)}, align {size}")
    high = text.assign(f"load {kind}, ptr {address(emitter, expr.buffer, second)}, align {size}")
    places = [*range(0, lanes, 2), *range(lanes + 1, 2 * lanes, 2)]
    return _to_register(emitter, expr.dtype, _shuffled(emitter, kind, low, high, places))


def _every_other_wanted(emitter: ExprEmitter, expr: BufferLoad, index: Ramp, predicate: PrimExpr) -> str:
    """The same from two vectors one behind the other, of which odd elements, and those nobody wants, are not read."""
    lanes, kind, mask = index.lanes, memory_type(expr.dtype), vector("i1", index.lanes)
    wanted, first = emitter.value(predicate), _index(emitter, expr.buffer, emitter.index(index.base))
    halves: list[str] = []
    for start in (0, lanes // 2):
        lane = [start + place // 2 if place % 2 == 0 else lanes for place in range(lanes)]  # the last one is false
        flags = _shuffled(emitter, mask, wanted, "zeroinitializer", lane)
        at = address(emitter, expr.buffer, emitter.fold("add", first, str(2 * start)))
        halves.append(_masked_load(emitter, expr, at, flags))
    places = [*range(0, lanes, 2), *range(lanes, 2 * lanes, 2)]
    return _to_register(emitter, expr.dtype, _shuffled(emitter, kind, halves[0], halves[1], places))


def _shuffled(emitter: ExprEmitter, kind: str, first: str, second: str, places: Sequence[int]) -> str:
    """Some of the lanes of two vectors, which are counted through."""
    mask = ", ".join(f"i32 {place}" for place in places)
    return emitter.text.assign(f"shufflevector {kind} {first}, {kind} {second}, <{len(places)} x i32> <{mask}>")


def lane_indices(emitter: ExprEmitter, index: PrimExpr) -> list[str]:
    """The lanes of a vector index, in 64 bits."""
    lanes, text = lanes_of(index.dtype), emitter.text
    if isinstance(index, Ramp) and lanes_of(index.base.dtype) == 1:
        base, step = emitter.index(index.base), emitter.index(index.stride)
        return [emitter.fold("add", base, emitter.fold("mul", str(i), step)) for i in range(lanes)]
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
    """By a few contiguous loads where lanes are known to lie close together, else lane by lane.

    A lane whose predicate is false reads element 0 of nothing: zero.
    """
    buffer, element = expr.buffer, memory_type(expr.buffer.dtype)
    loaded = None if emitter.is_from_data(index) else _by_runs(emitter, expr, index)
    if loaded is not None:
        return _to_register(emitter, expr.dtype, loaded)
    places = lane_indices(emitter, index)
    flags = _lane_flags(emitter, expr.predicate, len(places))

    def each() -> str:
        lanes = []
        for i, at in enumerate(places):

            def read(at: str = at) -> str:
                return _read(emitter, buffer, index, at)

            lanes.append(read() if flags is None else emitter.choose(flags[i], element, read, lambda: _zero(element)))
        return emitter.gather_lanes(element, lanes)

    def together() -> str:
        lanes = [_read_now(emitter, buffer, _index(emitter, buffer, at), 1) for at in places]
        return emitter.gather_lanes(element, lanes)

    right = _all_inside(emitter, buffer, index, places, flags)
    kind = vector(element, len(places))
    return _to_register(emitter, expr.dtype, each() if right is None else emitter.choose(right, kind, together, each))


def _all_inside(
    emitter: ExprEmitter, buffer: Buffer, index: PrimExpr, places: Sequence[str], flags: Sequence[str] | None
) -> str | None:
    """Whether all lanes read inside of a buffer, which then need not be asked one by one; None if that is known."""
    inside = [_inside(emitter, buffer, index, at) for at in places]
    conditions = [condition for condition in (*inside, *(flags or ())) if condition is not None]
    if not any(inside):
        return None
    right = conditions[0]
    for condition in conditions[1:]:
        right = emitter.text.assign(f"and i1 {right}, {condition}")
    return right


def _by_runs(emitter: ExprEmitter, expr: BufferLoad, index: PrimExpr) -> str | None:
    """Lanes of contiguous loads, each from the first to the last element that is wanted; None where not known."""
    places = places_of(index)
    flags = None if expr.predicate is None else flags_of(expr.predicate)
    if places is None or (flags is None and expr.predicate is not None):
        return None
    runs = runs_of(places.offsets, flags)
    if not runs:
        return None
    base, total = _index(emitter, expr.buffer, emitter.index(places.base)), "zeroinitializer"
    for run in runs:
        part = _spread(emitter, expr.buffer, emitter.fold("add", base, str(run.first)), run, places.offsets)
        total = _joined(emitter, vector(memory_type(expr.buffer.dtype), len(places.offsets)), total, part, run)
    return total


def _spread(emitter: ExprEmitter, buffer: Buffer, at: str, run: Run, offsets: Sequence[int]) -> str:
    """The elements of a run in its lanes; the other lanes are undefined."""
    element, lanes = memory_type(buffer.dtype), len(offsets)
    kind = vector(element, run.count)
    part = emitter.text.assign(f"load {kind}, ptr {address(emitter, buffer, at)}, align {memory_bytes(buffer.dtype)}")
    if run.count == 1:
        return emitter.broadcast(vector(element, lanes), lanes, part)
    places = [f"i32 {offsets[lane] - run.first}" if lane in run.lanes else "i32 poison" for lane in range(lanes)]
    return emitter.text.assign(f"shufflevector {kind} {part}, {kind} poison, <{lanes} x i32> <{', '.join(places)}>")


def _joined(emitter: ExprEmitter, kind: str, others: str, part: str, run: Run) -> str:
    """The lanes of a run from one vector, the other ones from another."""
    lanes = int(kind[1 : kind.index(" ")])
    mask = ", ".join(f"i32 {lanes + lane if lane in run.lanes else lane}" for lane in range(lanes))
    return emitter.text.assign(f"shufflevector {kind} {others}, {kind} {part}, <{lanes} x i32> <{mask}>")


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
    condition = None if stmt.predicate is None else emitter.value(stmt.predicate)
    _write(emitter, buffer, index, emitter.index(index), value, condition)


def _write(
    emitter: ExprEmitter, buffer: Buffer, index: PrimExpr, at: str, value: str, condition: str | None, lanes: int = 1
) -> None:
    """Store elements from `at` on, if the condition holds; where they are outside, nothing is stored but reported."""
    text = emitter.text
    kind, after = vector(memory_type(buffer.dtype), lanes), None
    if condition is not None:
        yes, after = text.fresh("store"), text.fresh("stored")
        known = emitter.remembered()
        text.branch(condition, yes, after)
        text.start(yes)
    at = _index(emitter, buffer, at)
    inside = _inside(emitter, buffer, index, at, lanes)
    if inside is None:
        _write_now(emitter, buffer, at, value, lanes)
    else:
        emitter.report_unless(inside)
        _write_inside(emitter, buffer, at, f"{kind} {value}", inside)
    if after is not None:
        text.jump(after)
        text.start(after)
        emitter.restore(known)


def _write_inside(emitter: ExprEmitter, buffer: Buffer, at: str, value: str, inside: str) -> None:
    text = emitter.text
    yes, after = text.fresh("within"), text.fresh("written")
    text.branch(inside, yes, after)
    text.start(yes)
    text.do(f"store {value}, ptr {address(emitter, buffer, at)}, align {memory_bytes(buffer.dtype)}")
    text.jump(after)
    text.start(after)


def _contiguous_store(emitter: ExprEmitter, stmt: BufferStore, index: Ramp, dtype: str, value: str) -> None:
    kind, size = memory_type(dtype), memory_bytes(dtype)
    first = emitter.index(index.base)
    if stmt.predicate is None:
        _write(emitter, stmt.buffer, index.base, first, value, None, index.lanes)
        return
    if emitter.is_from_data(index.base):
        _scatter(emitter, stmt, index, dtype, value)
        return
    at = address(emitter, stmt.buffer, _index(emitter, stmt.buffer, first))
    mask = vector("i1", index.lanes)
    name = f"llvm.masked.store.{overload(kind)}.p0"
    emitter.text.declare("void", name, [kind, "ptr", mask])
    args = [(kind, value), (f"ptr align {size}", at), (mask, emitter.value(stmt.predicate))]
    emitter.text.call("void", name, args)


def _scatter(emitter: ExprEmitter, stmt: BufferStore, index: PrimExpr, dtype: str, value: str) -> None:
    lanes, kind = lanes_of(index.dtype), memory_type(dtype)
    flags = _lane_flags(emitter, stmt.predicate, lanes)
    for i, at in enumerate(lane_indices(emitter, index)):
        one = emitter.text.assign(f"extractelement {kind} {value}, i64 {i}")
        _write(emitter, stmt.buffer, index, at, one, None if flags is None else flags[i])
