"""`placeholder` and `compute`: how tensors are given and computed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from eutectic.ir.attrs import make_attrs
from eutectic.ir.prim_expr import ExprOp, FloatImm, IntImm, PrimExpr, SizeVar, Var, as_prim
from eutectic.ir.visit import post_order
from eutectic.te.reduction import Reduce
from eutectic.te.tensor import ComputeOp, PlaceholderOp, Tensor, sizes_of
from eutectic.tir.iter_var import IterVar, Range


def var(name: str = "tindex", dtype: str = "int32", span: Any = None) -> Var:
    """A symbolic scalar."""
    return Var(name, dtype)


def size_var(name: str = "size", dtype: str = "int32", span: Any = None) -> SizeVar:
    """A symbolic scalar that is not negative."""
    return SizeVar(name, dtype)


def placeholder(shape: Any, dtype: str | None = None, name: str = "placeholder") -> Tensor:
    """A tensor that is given.

    Args:
        shape: Sizes; Python integers are int32, unless another size is int64.
        dtype: Dtype of an element; None is float32.
        name: Name of its buffer.
    """
    sizes = sizes_of(shape)
    return Tensor(sizes, dtype or "float32", PlaceholderOp(sizes, dtype or "float32", name=name))


def compute(
    shape: Any,
    fcompute: Callable[..., Any],
    name: str = "compute",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
    varargs_names: list[str] | None = None,
) -> Any:
    """One or more tensors of a shape, computed element by element.

    Args:
        shape: Sizes of the result; each axis variable has the dtype of its size.
        fcompute: Takes one variable per axis, and returns the value of the element; or a tuple of values
            for several tensors. The axes are named after its parameters, those of `*i` `i0`, `i1`, ...
        name: Name of the stage, its buffer and its block.
        tag: Free text about the stage.
        attrs: Annotations of the block.
        varargs_names: Names of the axes that a `*i` takes.

    Returns:
        A tensor, or a tuple of tensors when `fcompute` returns several values.

    Raises:
        ValueError: `fcompute` takes another number of variables, or values of different reductions are mixed.
        TypeError: a value is no expression, or a reduction is used within an expression.

    Reference: TVM te.compute.
    """
    sizes = sizes_of(shape)
    names = _axis_names(fcompute, len(sizes), varargs_names, name)
    axis = tuple(
        IterVar(Range(min=0, extent=size), Var(n, size.dtype), "data_par") for n, size in zip(names, sizes, strict=True)
    )
    computed = fcompute(*(a.var for a in axis))
    several = isinstance(computed, (tuple, list))
    body = tuple(_value(value, name) for value in (computed if several else (computed,)))
    _check_reductions(body, name)
    op = ComputeOp(axis, body, name=name, tag=tag, attrs=make_attrs(dict(attrs or {})))
    tensors = tuple(Tensor(sizes, value.dtype, op, index) for index, value in enumerate(body))
    return tensors if several else tensors[0]


def _axis_names(fcompute: Callable[..., Any], rank: int, varargs: list[str] | None, stage: str) -> list[str]:
    params = inspect.signature(fcompute).parameters.values()
    named = [p.name for p in params if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty]
    rest = any(p.kind is p.VAR_POSITIONAL for p in params)
    if rest and len(named) <= rank:
        left = rank - len(named)
        if varargs is not None and len(varargs) != left:
            raise ValueError(f"stage {stage} has {left} more axes, but varargs_names has {len(varargs)} names")
        named += varargs if varargs is not None else [f"i{i}" for i in range(left)]
    if len(named) != rank:
        raise ValueError(f"stage {stage} has {rank} axes, but its function takes {len(named)} variables")
    return named


def _value(value: Any, stage: str) -> PrimExpr:
    if isinstance(value, ExprOp):
        return as_prim(value)
    if isinstance(value, bool):
        return IntImm("bool", int(value))
    if isinstance(value, (int, float)):
        return IntImm("int32", value) if isinstance(value, int) else FloatImm("float32", value)
    raise TypeError(f"the function of stage {stage} must return expressions, got {type(value).__name__}")


def _check_reductions(body: tuple[PrimExpr, ...], stage: str) -> None:
    first = body[0]
    for index, value in enumerate(body):
        inside = value.source if isinstance(value, Reduce) else (value,)
        if any(isinstance(item, Reduce) for part in inside for item in post_order(part)):
            raise TypeError(
                f"stage {stage} uses a reduction within an expression: make the reduction a stage of its own"
            )
        if not isinstance(first, Reduce) and not isinstance(value, Reduce):
            continue
        same = isinstance(value, Reduce) and isinstance(first, Reduce) and value.combiner is first.combiner
        if not same or getattr(value, "value_index", -1) != index or len(body) != len(getattr(value, "source", ())):
            raise ValueError(
                f"stage {stage} mixes values: return all values of one reduction, in order, and nothing else"
            )
