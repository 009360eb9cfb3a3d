"""The form that descriptions and implementations of tensor intrinsics must have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from eutectic.arith.sets import covers
from eutectic.ir.op import Op
from eutectic.ir.prim_expr import (
    BinaryExpr,
    Call,
    Cast,
    Comparison,
    FloatImm,
    IntImm,
    Not,
    PrimExpr,
    Select,
    Var,
)
from eutectic.support.errors import ScheduleError
from eutectic.tir.analysis.accesses import Accesses, accesses_of, is_affine, is_opaque
from eutectic.tir.analysis.dependence import region_of, whole
from eutectic.tir.analysis.index_facts import expressions, statements
from eutectic.tir.block import Block, BlockRealize
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.function import PrimFunc
from eutectic.tir.op import is_if_then_else
from eutectic.tir.stmt import BufferStore, For, SeqStmt, Stmt
from eutectic.tir.well_formed import verify_well_formed

_PLAIN = (IntImm, FloatImm, Var, BufferLoad, BinaryExpr, Comparison, Select, Not, Cast, Call)


def root_of(func: PrimFunc) -> Block | None:
    """The block without axes that is the whole of a function."""
    body = func.body
    return body.block if isinstance(body, BlockRealize) and not body.block.iter_vars else None


def body_of(func: PrimFunc) -> Stmt:
    """What is in the root block, or the whole body when there is no such block."""
    root = root_of(func)
    return func.body if root is None else root.body


def buffers_of(func: PrimFunc) -> tuple[Buffer, ...]:
    """The buffers of the parameters."""
    return tuple(item for item in func.buffers if isinstance(item, Buffer))


# ---- descriptions


def require_description(desc: PrimFunc) -> None:
    """Check the form of a description.

    Raises:
        ScheduleError: something is not as it must be.
    """
    what = "the description of a tensor intrinsic"
    _require_signature(desc, what)
    root = root_of(desc)
    if root is None or root.init is not None or root.alloc_buffers or root.match_buffers:
        _fail(what, "must have one root block, without buffers of its own", "write loops around one block")
    _require_nest(desc, what)
    for item in expressions(root.body):
        _require_plain(item, what)
    accesses = accesses_of(desc.body)
    _require_all_elements(desc, accesses, what)


def _require_nest(desc: PrimFunc, what: str) -> None:
    stmt = body_of(desc)
    while isinstance(stmt, For):
        zero = isinstance(stmt.min, IntImm) and stmt.min.value == 0
        if not zero or not stmt.static_extent or stmt.kind != "serial" or len(stmt.annotations):
            _fail(what, f"has loop {stmt.loop_var.name}, which is not serial from zero on with a constant extent")
        stmt = stmt.body
    if not isinstance(stmt, BlockRealize):
        _fail(what, "must be loops around one block", "put nothing else between the loops and the block")
    block = stmt.block
    if not stmt.always_runs or block.alloc_buffers or block.match_buffers:
        _fail(what, f"has block {block.name_hint} with a condition, or buffers of its own")
    for part in (block.body, *(() if block.init is None else (block.init,))):
        for inner in statements(part):
            if not isinstance(inner, BufferStore | SeqStmt) or (
                isinstance(inner, BufferStore) and inner.predicate is not None
            ):
                _fail(what, f"has block {block.name_hint}, which is more than stores without predicates")
            if isinstance(inner, BufferStore) and not all(map(is_affine, inner.indices)):
                _fail(what, f"stores into {inner.buffer.name} at indices that are not affine")


def _require_plain(item: PrimExpr, what: str) -> None:
    if not isinstance(item, _PLAIN) or is_opaque(item):
        _fail(what, f"computes {item.script()}, which is no plain operation")
    if is_if_then_else(item):
        _fail(what, "has a value that is computed only where a condition holds", "use tir.Select")
    if isinstance(item, BufferLoad) and (item.predicate is not None or not all(map(is_affine, item.indices))):
        _fail(what, f"reads {item.buffer.name} with a predicate, or at indices that are not affine")


def _require_all_elements(desc: PrimFunc, accesses: Accesses, what: str) -> None:
    for buffer in buffers_of(desc):
        used = [item for item in accesses.of(buffer.data) if item.exact and None not in item.indices]
        if any(item.buffer is not buffer for item in used):
            _fail(what, f"accesses the memory of {buffer.name} under another name")
        if not any(covers(region_of(item), whole(buffer)) for item in used):
            message = f"does not access all elements of {buffer.name}, of shape {_sizes(buffer)}"
            _fail(what, message, "give it a smaller shape")


# ---- implementations


def require_implementation(impl: PrimFunc, desc: PrimFunc) -> None:
    """Check the form of an implementation, and that its buffers are those of the description.

    Raises:
        ScheduleError: something is not as it must be.
    """
    what = "the implementation of a tensor intrinsic"
    _require_signature(impl, what)
    mine, wanted = buffers_of(impl), buffers_of(desc)
    if len(mine) != len(wanted):
        _fail(what, f"takes {len(mine)} buffers, and {len(wanted)} are described")
    for one, other in zip(mine, wanted, strict=True):
        for name, a, b in (
            ("dtype", one.dtype, other.dtype),
            ("shape", _sizes(one), _sizes(other)),
            ("scope", one.scope(), other.scope()),
        ):
            if a != b:
                _fail(what, f"takes {one.name} of {name} {a}, and {name} {b} is described for {other.name}")
    root = root_of(impl)
    if isinstance(impl.body, BlockRealize) and (root is None or root.init is not None or not impl.body.always_runs):
        _fail(what, "must have one root block, without axes, initial values or a condition")
    described = accesses_of(desc.body).written
    for one, other in zip(mine, wanted, strict=True):
        if one.data in written_data(impl) and other.data not in described:
            _fail(what, f"writes {one.name}, which the description only reads")


def written_data(impl: PrimFunc) -> set[Var]:
    """Memory that an implementation writes; where that is not known, what its root block states.

    Raises:
        ScheduleError: nothing is known or stated.
    """
    accesses = accesses_of(impl.body)
    root = root_of(impl)
    stated = {region.buffer.data for region in root.writes} if root is not None else set()
    if accesses.opaque and not stated:
        what = "the implementation of a tensor intrinsic"
        _fail(what, "has effects that are not known, and does not state what it writes", "add T.writes(...)")
    return set(accesses.written) | stated


def pointers_used(impl: PrimFunc) -> set[Var]:
    """Data of buffers that an implementation uses through its pointer."""
    return {item for item in expressions(impl.body) if isinstance(item, Var) and item.dtype == "handle"} | {
        arg.buffer.data
        for item in expressions(impl.body)
        if isinstance(item, Call) and isinstance(item.op, Op) and item.op.name == "tir.address_of"
        for arg in item.args
        if isinstance(arg, BufferLoad)
    }


# ---- both


def _require_signature(func: PrimFunc, what: str) -> None:
    if not isinstance(func, PrimFunc):
        _fail(what, f"must be a tensor function, not {type(func).__name__}")
    verify_well_formed(func)
    scalars = [item.name for item in func.buffers if not isinstance(item, Buffer)]
    if scalars or not func.params:
        _fail(what, f"must take buffers only, not {', '.join(scalars) or 'nothing'}")
    for buffer in buffers_of(func):
        if not all(isinstance(size, IntImm) and size.value > 0 for size in buffer.shape):
            _fail(what, f"takes {buffer.name}, whose shape is not constant")


def _sizes(buffer: Buffer) -> tuple[int, ...]:
    return tuple(size.value for size in buffer.shape if isinstance(size, IntImm))


def _fail(what: str, why: str, help: str | None = None, notes: Sequence[str] = ()) -> NoReturn:
    raise ScheduleError(f"{what} {why}", help=help, notes=notes)
