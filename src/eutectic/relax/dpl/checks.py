"""Conditions that the checks of several pattern tables share.

Each takes the context of a check, and returns a `Refusal` when the match must not be
taken, so that the reason reaches the remarks. `all_of` joins them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from eutectic.arith import prove_equal
from eutectic.ir.prim_expr import PrimExpr
from eutectic.relax.analysis.uses import used_vars
from eutectic.relax.base import Expr
from eutectic.relax.dpl.remarks import Refusal
from eutectic.relax.dpl.table import PatternCheckContext
from eutectic.relax.expr import Call, Constant, DataflowVar, Var, as_int, describe_info, describe_size
from eutectic.relax.struct_info import TensorStructInfo

Condition: TypeAlias = Callable[[PatternCheckContext], Refusal | None]


def all_of(*conditions: Condition) -> Condition:
    """The first refusal of several conditions."""

    def check(context: PatternCheckContext) -> Refusal | None:
        return next((refusal for c in conditions if (refusal := c(context)) is not None), None)

    return check


def has_leaking_intermediate_variables(context: PatternCheckContext) -> bool:
    """Whether a matched value other than the root is read outside the match."""
    return bool(_leaking(context))


def _leaking(context: PatternCheckContext) -> list[Var]:
    own = set(context.matched_bindings)
    root = context.value_to_bound_var.get(context.matched_expr)
    return [
        var
        for var in own
        if var is not root
        and (not isinstance(var, DataflowVar) or any(u not in own for u in context.var_usages.get(var, ())))
    ]


def check_single_output(context: PatternCheckContext) -> Refusal | None:
    """Only the root is read outside: backends of these tables return one tensor."""
    leaking = sorted(var.name_hint for var in _leaking(context))
    if not leaking:
        return None
    return Refusal(f"{', '.join(leaking)} is read elsewhere too", None, "single reader", variables=tuple(leaking))


def tensor_of(value: Any) -> TensorStructInfo | None:
    """The struct info of a tensor of known shape and dtype, else None."""
    info = getattr(value, "struct_info", None)
    return info if isinstance(info, TensorStructInfo) and info.dims is not None and info.dtype else None


def require_tensors(*names: str) -> Condition:
    """The named parts, where they took part, are tensors whose shape and dtype are known."""

    def check(context: PatternCheckContext) -> Refusal | None:
        for name in names:
            value = context.parts.get(name)
            if value is not None and tensor_of(value) is None:
                return Refusal(f"the {name} is {describe_info(value.struct_info)}, of unknown shape or dtype", value)
        return None

    return check


def require_dtypes(allowed: Mapping[str, tuple[str, ...]], backend: str, root: str = "root") -> Condition:
    """Both operands have one dtype that is allowed, and the root one of the dtypes that go with it.

    Args:
        allowed: Dtypes of the result by dtype of the operands.
        backend: Name of the library, for the sentence.
        root: Name of the root.
    """

    def check(context: PatternCheckContext) -> Refusal | None:
        left, right = tensor_of(context.parts["lhs"]), tensor_of(context.parts["rhs"])
        out = getattr(context.parts[root].struct_info, "dtype", "")
        if left is None or right is None:
            return Refusal("the dtypes of the operands are not known", context.parts["lhs"], "dtype")
        names = ", ".join(allowed)
        if left.dtype != right.dtype or left.dtype not in allowed:
            actual = f"{left.dtype} with {right.dtype}"
            why = f"{backend} has no kernel for {actual}; both are one of {names}"
            return Refusal(why, context.parts["lhs"], "dtype", names, actual)
        if out not in allowed[left.dtype]:
            wanted = " or ".join(allowed[left.dtype])
            why = f"{backend} has {left.dtype} operands with a result of {wanted}, not {out}"
            return Refusal(why, context.parts[root], "dtype", wanted, out)
        return None

    return check


def check_matmul_ranks(context: PatternCheckContext) -> Refusal | None:
    """Both operands of a matrix product have a row and a column axis."""
    for name in ("lhs", "rhs"):
        info = tensor_of(context.parts[name])
        if info is None or info.ndim < 2:
            actual = describe_info(context.parts[name].struct_info)
            return Refusal(f"the {name} of the matmul is {actual}; it needs two axes", context.parts[name], "shape")
    return None


def check_static_contraction(context: PatternCheckContext) -> Refusal | None:
    """The axis that is summed over has a constant size, as kernels are chosen by it."""
    size = _dims(context, "lhs")[-1]
    if as_int(size) is None:
        why = f"the size {describe_size(size)} that the matmul sums over is symbolic"
        return Refusal(why, context.parts["lhs"], "shape", "a constant size", describe_size(size))
    return None


def check_transposed(context: PatternCheckContext) -> Refusal | None:
    """A transposition, where the pattern has one, swaps the last two axes and nothing else."""
    call = context.parts.get("transpose")
    if call is None:
        return None
    assert isinstance(call, Call) and call.attrs is not None
    rank = len(_dims(context, "rhs"))
    axes = call.attrs["axes"]
    order = tuple(reversed(range(rank))) if axes is None else tuple(axis % rank for axis in axes)
    wanted = (*range(rank - 2), rank - 1, rank - 2)
    if order != wanted:
        why = f"permute_dims{order} of the right operand is not the transposition {wanted} of its matrices"
        return Refusal(why, call, "attribute", str(wanted), str(order))
    return None


def check_batches(context: PatternCheckContext) -> Refusal | None:
    """Either the right operand has no batch axes, or both have the same: one stride per operand cannot broadcast."""
    left, right = _dims(context, "lhs")[:-2], _dims(context, "rhs")[:-2]
    if not right:
        return None
    same = len(left) == len(right) and all(prove_equal(a, b) for a, b in zip(left, right, strict=True))
    if not same:
        shown = " and ".join(f"({', '.join(map(describe_size, dims))})" for dims in (left, right))
        why = f"the batch axes {shown} of the matmul are not provably equal, and broadcasting needs copies"
        return Refusal(why, context.parts["rhs"], "shape", "equal batch axes", shown)
    return None


def columns_of(context: PatternCheckContext) -> PrimExpr:
    """The size of the last axis of the product."""
    return _dims(context, "rhs")[-2 if "transpose" in context.parts else -1]


def multiples_of(count: int, dtypes: tuple[str, ...], backend: str) -> Condition:
    """For operands of the given dtypes rows of both operands and of the product are whole vectors of `count`."""

    def check(context: PatternCheckContext) -> Refusal | None:
        info = tensor_of(context.parts["lhs"])
        if info is None or info.dtype not in dtypes:
            return None
        for what, size in (("inner size", _dims(context, "lhs")[-1]), ("number of columns", columns_of(context))):
            known = as_int(size)
            if known is None or known % count:
                shown = describe_size(size)
                why = f"{backend} multiplies {info.dtype} in groups of {count}; the {what} is {shown}"
                return Refusal(why, context.parts["rhs"], "shape", f"a multiple of {count}", shown)
        return None

    return check


def without_bias_for(dtypes: tuple[str, ...], backend: str) -> Condition:
    """Operands of the given dtypes are multiplied without a bias."""

    def check(context: PatternCheckContext) -> Refusal | None:
        info, bias = tensor_of(context.parts["lhs"]), context.parts.get("bias")
        if bias is None or info is None or info.dtype not in dtypes:
            return None
        return Refusal(f"{backend} has no bias for products of {info.dtype}", bias, "dtype")

    return check


def require_zero_point(context: PatternCheckContext) -> Refusal | None:
    """Scale and zero point of a dequantization are single numbers, the latter 0."""
    for name in ("scale", "zp"):
        value = context.parts[name]
        if not isinstance(value, Constant) or value.data.ndim != 0:
            actual = describe_info(value.struct_info)
            return Refusal(f"the {name} is {actual}, not one number", value, "shape", "a number", actual)
    zero = context.parts["zp"]
    assert isinstance(zero, Constant)
    if np.any(zero.data != 0):
        return Refusal(f"the zero point is {zero.data}, not 0", zero, "constant", "0", str(zero.data))
    return None


def require_scalars(*names: str) -> Condition:
    """The named parts are single numbers, so that where they are multiplied in does not matter."""

    def check(context: PatternCheckContext) -> Refusal | None:
        for name in names:
            info = tensor_of(context.parts[name])
            if info is None or any(as_int(size) != 1 for size in info.dims or ()):
                actual = describe_info(context.parts[name].struct_info)
                return Refusal(f"{name} is {actual}, not one number", context.parts[name], "shape", "a number", actual)
        return None

    return check


def check_residual(context: PatternCheckContext) -> Refusal | None:
    """The residual has the shape of the root, or one value per channel, and does not need the root's result."""
    residual, root = context.parts.get("residual"), context.parts["root"]
    if residual is None:
        return None
    if depends_on(residual, root, context):
        return Refusal("the residual is made from the result that it is combined with", residual, "no cycle")
    info, out = tensor_of(residual), tensor_of(root)
    if info is None or out is None or info.dims is None or out.dims is None:
        return Refusal("the shape of the residual is not known", residual, "shape")
    if info.dtype != out.dtype:
        return Refusal(
            f"the residual is {info.dtype}, the result {out.dtype}", residual, "dtype", out.dtype, info.dtype
        )
    same = info.ndim == out.ndim and all(prove_equal(a, b) for a, b in zip(info.dims, out.dims, strict=True))
    row = bool(info.dims) and prove_equal(info.dims[-1], out.dims[-1])
    if not same and not (row and info.ndim <= out.ndim and all(as_int(size) == 1 for size in info.dims[:-1])):
        actual, wanted = describe_info(info), describe_info(out)
        why = f"the residual {actual} is neither of the shape of {wanted} nor one value per channel"
        return Refusal(why, residual, "shape", wanted, actual)
    return None


def depends_on(value: Expr, source: Expr, context: PatternCheckContext) -> bool:
    """Whether `value` is made from `source`, through bindings of any block of the function."""
    bound = {var: expr for expr, var in context.value_to_bound_var.items()}
    if isinstance(source, Var):
        source = bound.get(source, source)
    seen: set[Var] = set()
    todo: list[Expr] = [value]
    while todo:
        item = todo.pop()
        item = bound.get(item, item) if isinstance(item, Var) else item
        if item is source:
            return True
        for var in used_vars(item):
            if var not in seen:
                seen.add(var)
                todo.append(var)
    return False


def _dims(context: PatternCheckContext, name: str) -> tuple[PrimExpr, ...]:
    info = tensor_of(context.parts[name])
    assert info is not None and info.dims is not None, "require_tensors comes first"
    return tuple(info.dims)
