"""The namespace `T` of scripts: types, statements and scalar functions of tensor programs."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from typing import Any

from eutectic import tir as _tir
from eutectic.ir.prim_expr import PrimExpr, StringImm, Var, as_prim
from eutectic.ir.prim_logic import EQ, GE, GT, LE, LT, NE, And, Not, Or, Select
from eutectic.ir.prim_logic import Cast as _expr_cast
from eutectic.script.dtypes import DTYPES, DType
from eutectic.script.parser.entry import prim_func
from eutectic.script.statements import FuncAttrs
from eutectic.script.tir_functions import as_written
from eutectic.script.tir_statements import (
    AllocateOf,
    AssertOf,
    AttrOf,
    Axis,
    BlockAttrs,
    BlockOf,
    BufferSpec,
    InitOf,
    LaunchOf,
    LetOf,
    Loop,
    Loops,
    MetaVar,
    Regions,
    Remap,
    Where,
)
from eutectic.support.spelling import did_you_mean
from eutectic.tir import expr as _expr
from eutectic.tir.iter_var import IterVar, Range
from eutectic.tir.stmt import Evaluate

# ---- buffers


def _spec(
    kind: str,
    shape: Any,
    dtype: Any = "float32",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "default",
    axis_separators: Any = None,
    *,
    source: Any = None,
) -> BufferSpec:
    if buffer_type not in ("", "default"):
        raise ValueError(f"buffer_type {buffer_type!r} is not supported")
    options = {
        "shape": tuple(shape) if isinstance(shape, (list, tuple)) else (shape,),
        "dtype": dtype.dtype if isinstance(dtype, DType) else dtype,
        "data": data,
        "strides": strides,
        "elem_offset": elem_offset,
        "scope": scope if data is None else None,
        "data_alignment": 64 if align <= 0 else align,
        "offset_factor": offset_factor,
        "axis_separators": axis_separators,
    }
    return BufferSpec(kind, options, source)


def Buffer(shape: Any, dtype: Any = "float32", *layout: Any, **options: Any) -> BufferSpec:
    """The type of a buffer parameter.

    Args:
        shape: Elements per axis.
        dtype: Dtype of an element.
        layout: The options by position, in the order given here.
        options: `data`, `strides`, `elem_offset`, `scope`, `align`, `offset_factor`, `buffer_type`,
            `axis_separators`; as those of `tir.decl_buffer`.
    """
    return _spec("param", shape, dtype, *layout, **options)


def alloc_buffer(shape: Any, dtype: Any = "float32", *layout: Any, **options: Any) -> BufferSpec:
    """A new buffer that lives in the block around it; arguments as those of `Buffer`."""
    return _spec("alloc", shape, dtype, *layout, **options)


def decl_buffer(shape: Any, dtype: Any = "float32", *layout: Any, **options: Any) -> BufferSpec:
    """A buffer over memory that exists already; arguments as those of `Buffer`."""
    return _spec("decl", shape, dtype, *layout, **options)


def match_buffer(param: Any, shape: Any = None, dtype: Any = "float32", *layout: Any, **options: Any) -> BufferSpec:
    """The buffer behind a handle parameter, or a name for a region of another buffer.

    Args:
        param: The parameter or region.
        shape: Elements per axis; that of a region when None.
        dtype: Dtype of an element.
        layout: As for `Buffer`.
        options: As for `Buffer`.

    Raises:
        TypeError: there is no shape.
    """
    if shape is None:
        region = getattr(param, "region", None)
        if region is None:
            raise TypeError("match_buffer of a parameter needs a shape")
        shape = [r.extent for r in region]
    return _spec("match", shape, dtype, *layout, **options, source=param)


# ---- loops


def grid(*extents: Any) -> Loops:
    """Perfectly nested serial loops from zero."""
    return Loops(tuple(Loop(Range(0, extent)) for extent in extents))


def _limits(start: Any, stop: Any, extent: Any) -> Range:
    if extent is not None:
        return Range(min=start, extent=extent)
    return Range(0, start) if stop is None else Range(start, stop)


def _loop(kind: str, doc: str) -> Any:
    def make(
        start: Any, stop: Any = None, *, extent: Any = None, annotations: Mapping[str, Any] | None = None
    ) -> Loops:
        return Loops((Loop(_limits(start, stop, extent), kind, None, dict(annotations or {})),))

    make.__name__, make.__doc__ = kind, doc
    return make


serial = _loop("serial", "A loop whose iterations run one after the other.")
parallel = _loop("parallel", "A loop whose iterations run on several threads.")
vectorized = _loop("vectorized", "A loop whose iterations are the lanes of a vector.")
unroll = _loop("unrolled", "A loop that is written out.")


def thread_binding(
    start: Any,
    stop: Any = None,
    thread: Any = None,
    *,
    extent: Any = None,
    annotations: Mapping[str, Any] | None = None,
) -> Loops:
    """A loop whose iterations are the threads of a hardware axis such as `threadIdx.x`."""
    if isinstance(stop, str) and thread is None:
        stop, thread = None, stop
    if thread is None:
        raise TypeError('thread_binding needs a thread, such as thread="threadIdx.x"')
    return Loops((Loop(_limits(start, stop, extent), "thread_binding", thread, dict(annotations or {})),))


def launch_thread(thread: str, extent: Any) -> LaunchOf:
    """A hardware axis for what follows, or for the body of a `with`; gives its variable."""
    return LaunchOf(thread, extent)


def iter_var(v: Any, dom: Any = None, iter_type: str = "data_par", thread_tag: str = "") -> IterVar:
    """An axis with a variable that exists already."""
    return IterVar(dom, v, iter_type, thread_tag)


# ---- blocks


def block(name: str = "", no_realize: builtins.bool = False) -> BlockOf:
    """`with T.block(name):` opens a block."""
    return BlockOf(name, no_realize)


def init() -> InitOf:
    """`with T.init():` holds what a block does before its reduction begins."""
    return InitOf()


def where(predicate: Any) -> Where:
    """The block runs only where the predicate holds."""
    return Where(predicate)


def reads(*regions: Any) -> Regions:
    """Regions that the block may read."""
    return Regions("reads", _listed(regions))


def writes(*regions: Any) -> Regions:
    """Regions that the block may write."""
    return Regions("writes", _listed(regions))


def _listed(regions: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(regions[0]) if len(regions) == 1 and isinstance(regions[0], (list, tuple)) else regions


def block_attr(attrs: Mapping[str, Any]) -> BlockAttrs:
    """Annotations of the block."""
    return BlockAttrs(dict(attrs))


class axis:
    """Axes of a block."""

    @staticmethod
    def spatial(dom: Any, binding: Any = None, dtype: str | None = None) -> Axis:
        """An axis of independent points."""
        return Axis("S", dom, binding, dtype)

    @staticmethod
    def reduce(dom: Any, binding: Any = None, dtype: str | None = None) -> Axis:
        """An axis that is summed over, or reduced in another way."""
        return Axis("R", dom, binding, dtype)

    @staticmethod
    def scan(dom: Any, binding: Any = None, dtype: str | None = None) -> Axis:
        """An axis whose points depend on earlier ones."""
        return Axis("scan", dom, binding, dtype)

    @staticmethod
    def opaque(dom: Any, binding: Any = None, dtype: str | None = None) -> Axis:
        """An axis of which nothing is known."""
        return Axis("O", dom, binding, dtype)

    @staticmethod
    def remap(kinds: str, bindings: Sequence[Any], dtype: str | None = None) -> Remap:
        """Axes that are loop variables, `S` or `R` each."""
        return Remap(kinds, tuple(bindings))

    S = spatial
    R = reduce


# ---- other statements


def func_attr(attrs: Mapping[str, Any]) -> FuncAttrs:
    """Annotations of the function."""
    return FuncAttrs(dict(attrs))


def attr(node: Any, attr_key: str, value: Any) -> AttrOf:
    """A remark for later passes, on what follows or on the body of a `with`."""
    return AttrOf(node, attr_key, value)


def allocate(
    extents: Sequence[Any],
    dtype: str,
    scope: str = "global",
    condition: Any = True,
    annotations: Mapping[str, Any] | None = None,
) -> AllocateOf:
    """Memory for what follows, or for the body of a `with`."""
    return AllocateOf(tuple(extents), dtype, scope, condition, dict(annotations or {}))


def LetStmt(value: Any, type_annotation: Any = None, *, var: Any = None) -> LetOf:
    """`with T.LetStmt(value) as v:` binds a variable in the body."""
    return LetOf(value, type_annotation, var)


def Let(expr: Any, where: Mapping[Var, Any]) -> PrimExpr:
    """`expr`, in which variables stand for values; the first given is the outermost."""
    result = as_prim(expr, "int32")
    for var, value in reversed(list(where.items())):
        result = _expr.Let(var, as_prim(value, var.dtype), result)
    return result


def evaluate(value: Any) -> Evaluate:
    """A statement that computes a value for its side effects."""
    return Evaluate(StringImm(value) if isinstance(value, str) else as_prim(value, "int32"))


def meta_var(value: Any) -> MetaVar:
    """A name for a value while parsing, instead of a variable of the program."""
    return MetaVar(value)


def Cast(dtype: Any, value: Any) -> PrimExpr:
    """`value` converted to a dtype."""
    return _expr_cast(dtype.dtype if isinstance(dtype, DType) else dtype, as_prim(value, "int32"))


def cast(src: Any, dtype: Any) -> PrimExpr:
    """`src` converted to a dtype; `Cast` with the operand first."""
    return Cast(dtype, src)


def broadcast(value: Any, lanes: int) -> PrimExpr:
    """A vector of `lanes` equal elements."""
    return _expr.Broadcast(as_prim(value, "int32"), lanes)


def ramp(base: Any, stride: Any, lanes: int) -> PrimExpr:
    """A vector of `base`, `base + stride`, ..."""
    first = as_prim(base, "int32")
    return _expr.Ramp(first, as_prim(stride, first.dtype), lanes)


def var(dtype: Any, name: str = "") -> Var:
    """A variable; without a name that of what it is assigned to."""
    return Var(name, dtype.dtype if isinstance(dtype, DType) else dtype)


def ptr(dtype: Any, storage_scope: str = "global", is_size_var: builtins.bool = False) -> PrimExpr:
    """A pointer to elements of a dtype, as `T.handle(dtype, storage_scope)`."""
    handle: Any = DTYPES["handle"]
    pointer: PrimExpr = handle(dtype, storage_scope)
    return pointer


def index_map(mapping: Any, *, inverse_index_map: Any = None, index_dtype: str = "int64") -> Any:
    """An index map of a Python function, as `tir.IndexMap.from_func`."""
    return _tir.IndexMap.from_func(mapping, inverse_index_map=inverse_index_map, index_dtype=index_dtype)


def Assert(condition: Any, message: str) -> AssertOf:
    """`with T.Assert(condition, message):` checks before its body."""
    return AssertOf(condition, message)


sblock, sblock_attr, sblock_alloc_buffer = block, block_attr, alloc_buffer  # as later versions of TVM spell them

__all__ = [
    "EQ",
    "GE",
    "GT",
    "LE",
    "LT",
    "NE",
    "And",
    "Assert",
    "Buffer",
    "Cast",
    "Let",
    "LetStmt",
    "Not",
    "Or",
    "Range",
    "Select",
    "alloc_buffer",
    "allocate",
    "attr",
    "axis",
    "block",
    "block_attr",
    "broadcast",
    "cast",
    "decl_buffer",
    "evaluate",
    "func_attr",
    "grid",
    "index_map",
    "init",
    "iter_var",
    "launch_thread",
    "match_buffer",
    "meta_var",
    "parallel",
    "prim_func",
    "ptr",
    "ramp",
    "reads",
    "sblock",
    "sblock_alloc_buffer",
    "sblock_attr",
    "serial",
    "thread_binding",
    "unroll",
    "var",
    "vectorized",
    "where",
    "writes",
]
__all__ += sorted({*DTYPES, *_tir.__all__} - set(__all__))


def __getattr__(name: str) -> Any:
    """Dtypes and scalar functions: `T.int32`, `T.exp`, ..."""
    if name in DTYPES:
        return DTYPES[name]
    if name in _tir.__all__:
        return as_written(getattr(_tir, name))
    raise AttributeError(f"T has no {name!r}; {did_you_mean(name, __all__) or ''}".rstrip("; "))


def __dir__() -> list[str]:
    return sorted(__all__)
