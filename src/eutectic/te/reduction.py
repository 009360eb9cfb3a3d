"""Reductions of tensor expressions: axes, combiners, and `sum`, `max`, `min`, `prod`.

The nodes of this module never survive `create_prim_func`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from eutectic.ir.dtype import is_float
from eutectic.ir.node import Node, field, init_field, node
from eutectic.ir.prim_expr import FloatImm, IntImm, Operand, PrimExpr, TypedExpr, Var, as_prim
from eutectic.ir.visit import rewrite
from eutectic.te.tensor import sizes_of
from eutectic.tir import op
from eutectic.tir.iter_var import IterVar, Range


@node("tir.CommReducer")
class CommReducer(Node):
    """How two partial results become one.

    Attributes:
        lhs: Variables of the first partial result, one per value.
        rhs: Variables of the second.
        result: What they become.
        identity_element: What changes nothing.
    """

    lhs: tuple[Var, ...] = field(role="def")
    rhs: tuple[Var, ...] = field(role="def")
    result: tuple[PrimExpr, ...]
    identity_element: tuple[PrimExpr, ...]

    def __post_init__(self) -> None:
        init_field(self, "result", tuple(map(as_prim, self.result)))
        init_field(self, "identity_element", tuple(map(as_prim, self.identity_element)))


@node("tir.Reduce")
class Reduce(TypedExpr):
    """One value of a reduction; it may only be the whole body of a `compute`.

    Attributes:
        combiner: How partial results are combined.
        axis: What is reduced over.
        source: What is combined, one expression per value.
        condition: Points where it does not hold are left out.
        value_index: Which value this is.
        init: What the reduction starts from; empty for the identity.
    """

    combiner: CommReducer
    axis: tuple[IterVar, ...]
    source: tuple[PrimExpr, ...]
    condition: PrimExpr
    value_index: int = 0
    init: tuple[PrimExpr, ...] = ()

    def __post_init__(self) -> None:
        init_field(self, "source", tuple(map(as_prim, self.source)))
        init_field(self, "condition", as_prim(self.condition, "bool"))
        init_field(self, "init", tuple(map(as_prim, self.init)))
        init_field(self, "dtype", self.source[self.value_index].dtype)

    def __repr__(self) -> str:
        names = ", ".join(axis.var.name for axis in self.axis)
        return f"Reduce(value {self.value_index} of {len(self.source)} over {names})"


@node("te.ReduceAxis")
class ReduceAxis(IterVar, PrimExpr):
    """An axis to reduce over, usable as an index; a reduction puts the variable in its place."""

    @property
    def dtype(self) -> str:  # type: ignore[override]  # derived here, stored in other expressions
        """Dtype of the variable."""
        return self.var.dtype


def _with_variables(expr: PrimExpr) -> PrimExpr:
    """`expr` with the variable of each axis in its place."""
    rewritten: Any = rewrite(expr, lambda item: item.var if isinstance(item, ReduceAxis) else None)
    return rewritten  # type: ignore[no-any-return]  # a rewritten expression is one


def reduce_axis(dom: Any, name: str = "rv", thread_tag: str = "", span: Any = None) -> ReduceAxis:
    """An axis to reduce over.

    Args:
        dom: A `Range`, or a pair of begin and end; the dtype of the axis is that of the range.
        name: Name of the variable.
        thread_tag: Hardware axis; normally none.
        span: Accepted as TVM does.
    """
    if not isinstance(dom, Range):
        begin, end = sizes_of(tuple(dom))
        dom = Range(begin, end)
    return ReduceAxis(dom, Var(name, dom.extent.dtype), "comm_reduce", thread_tag)


def comm_reducer(
    fcombine: Callable[[Any, Any], Any], fidentity: Callable[..., Any], name: str = "reduce"
) -> Callable[..., Any]:
    """A reduction.

    Args:
        fcombine: Takes two partial results, expressions or tuples of them, and returns the combined one.
        fidentity: Takes the dtypes of the values, and returns what changes nothing.
        name: Name of the reduction, for messages.

    Returns:
        `reducer(expr, axis, where=None, init=None)`, with an axis or several; `expr` and `init` may be
        tuples, and so is the result then. `reducer(a, b, ...)` of expressions combines them at once.

    Reference: TVM te.comm_reducer.
    """

    def reducer(expr: Any, axis: Any, where: Any = None, init: Any = None, *more: Any) -> Any:
        if not _are_axes(axis):
            operands = [x for x in (expr, axis, where, init, *more) if x is not None]
            return reduce(fcombine, operands)
        several = isinstance(expr, (tuple, list))
        source = tuple(_with_variables(as_prim(x, "float32")) for x in (expr if several else (expr,)))
        start = () if init is None else tuple(init) if isinstance(init, (tuple, list)) else (init,)
        if start and len(start) != len(source):
            raise ValueError(f"{name} of {len(source)} values begins with {len(start)} values")
        reductions = reduction_of(
            _combiner(fcombine, fidentity, [x.dtype for x in source], name, several),
            (axis,) if isinstance(axis, IterVar) else tuple(axis),
            source,
            _with_variables(as_prim(True if where is None else where, "bool")),
            tuple(as_prim(x, s.dtype) for x, s in zip(start, source, strict=False)),
        )
        return reductions if several else reductions[0]

    reducer.__name__ = reducer.__qualname__ = name
    reducer.__doc__ = f"`{name}` of an expression over axes, or of several expressions."
    return reducer


def _are_axes(axis: Any) -> bool:
    return isinstance(axis, IterVar) or (
        isinstance(axis, (list, tuple)) and len(axis) > 0 and all(isinstance(a, IterVar) for a in axis)
    )


def reduction_of(
    combiner: CommReducer,
    axis: tuple[IterVar, ...],
    source: tuple[PrimExpr, ...],
    condition: PrimExpr,
    init: tuple[PrimExpr, ...],
) -> tuple[Reduce, ...]:
    """All values of a reduction.

    Raises:
        ValueError: an axis is not made by `reduce_axis`.
    """
    wrong = [a.var.name for a in axis if a.iter_type != "comm_reduce"]
    if wrong:
        raise ValueError(f"{wrong[0]} is not an axis to reduce over: make it with te.reduce_axis")
    plain = tuple(IterVar(a.dom, a.var, a.iter_type, a.thread_tag) for a in axis)
    return tuple(Reduce(combiner, plain, source, condition, index, init) for index in range(len(source)))


def _combiner(
    fcombine: Callable[[Any, Any], Any],
    fidentity: Callable[..., Any],
    dtypes: Sequence[str],
    name: str,
    several: bool,
) -> CommReducer:
    lhs = tuple(Var(f"x{i}" if several else "x", dtype) for i, dtype in enumerate(dtypes))
    rhs = tuple(Var(f"y{i}" if several else "y", dtype) for i, dtype in enumerate(dtypes))
    combined: Any = fcombine(lhs, rhs) if several else fcombine(lhs[0], rhs[0])
    identity: Any = fidentity(*dtypes)
    result = tuple(combined) if several else (combined,)
    start = tuple(identity) if several else (identity,)
    if not len(result) == len(start) == len(dtypes):
        raise ValueError(
            f"{name} of {len(dtypes)} values combines to {len(result)} values, and has {len(start)} identities"
        )
    return CommReducer(
        lhs,
        rhs,
        tuple(as_prim(x, dtype) for x, dtype in zip(result, dtypes, strict=True)),
        tuple(as_prim(x, dtype) for x, dtype in zip(start, dtypes, strict=True)),
    )


def lowest(dtype: str) -> PrimExpr:
    """What a maximum begins with: minus infinity, or the smallest value where there is no infinity."""
    return FloatImm(dtype, float("-inf")) if _has_infinity(dtype) else op.min_value(dtype)


def highest(dtype: str) -> PrimExpr:
    """What a minimum begins with: infinity, or the largest value where there is none."""
    return FloatImm(dtype, float("inf")) if _has_infinity(dtype) else op.max_value(dtype)


def _has_infinity(dtype: str) -> bool:
    return is_float(dtype) and dtype != "float8_e4m3fn"


def _number(value: int) -> Callable[[str], PrimExpr]:
    return lambda dtype: IntImm("bool", value) if dtype == "bool" else op.const(value, dtype)


def _add(x: Operand, y: Operand) -> PrimExpr:
    return as_prim(x, "float32") + y


def _mul(x: Operand, y: Operand) -> PrimExpr:
    return as_prim(x, "float32") * y


sum = comm_reducer(_add, _number(0), "sum")
prod = comm_reducer(_mul, _number(1), "prod")
max = comm_reducer(op.max, lowest, "max")
min = comm_reducer(op.min, highest, "min")
