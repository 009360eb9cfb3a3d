"""Relations between struct infos: subtyping, unification at calls, erasure of names out of scope."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum

from eutectic.arith import prove_equal, prove_unequal, simplify
from eutectic.ir.node import Node
from eutectic.ir.prim_expr import PrimExpr
from eutectic.ir.prim_expr import Var as ScalarVar
from eutectic.ir.visit import post_order, rewrite
from eutectic.relax.base import ShapeExpr, ShapeStructInfo, StructInfo
from eutectic.relax.expr import Call, describe_info
from eutectic.relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from eutectic.support.deep import deep
from eutectic.support.errors import TypeInferenceError


class BaseCheckResult(IntEnum):
    """How far one struct info is known to cover another."""

    FAIL_L0 = 0  # can never match
    FAIL_L1 = 1  # sizes are known to differ
    FAIL_L2 = 2  # may match; needs a check at run time
    PASS = 3


def substitute(item: Node, values: Mapping[ScalarVar, PrimExpr]) -> Node:
    """`item` with symbolic scalars replaced, and the changed sizes simplified."""
    if not values:
        return item
    table = {id(var): value for var, value in values.items()}

    def change(node: Node) -> Node | None:
        return table.get(id(node))

    return rewrite(item, change)


def substitute_info(info: StructInfo, values: Mapping[ScalarVar, PrimExpr]) -> StructInfo:
    """`info` with symbolic sizes replaced and simplified."""
    fresh = substitute(info, values)
    if fresh is info:
        return info
    return _map_shapes(fresh, lambda dims: tuple(simplify(d) for d in dims))  # type: ignore[arg-type]  # rewrite keeps the class


@deep
def leaf_infos(infos: Iterable[StructInfo]) -> list[StructInfo]:
    """Struct infos with tuples replaced by their fields, nested ones too."""
    out: list[StructInfo] = []
    for info in infos:
        out += leaf_infos(info.fields) if isinstance(info, TupleStructInfo) else [info]
    return out


def free_symbolic_vars(item: Node | Iterable[Node]) -> list[ScalarVar]:
    """Symbolic scalars that occur in struct infos, functions or expressions, in order of appearance."""
    symbols: dict[int, ScalarVar] = {}
    for root in (item,) if isinstance(item, Node) else item:
        for part in post_order(root):
            if isinstance(part, ScalarVar):
                symbols.setdefault(id(part), part)
            info = getattr(part, "struct_info", None)
            if isinstance(info, StructInfo):
                symbols.update({id(v): v for v in _scalars(info) if id(v) not in symbols})
    return list(symbols.values())


def _scalars(info: StructInfo) -> list[ScalarVar]:
    return [part for part in post_order(info) if isinstance(part, ScalarVar)]


def defined_symbolic_vars(infos: Iterable[StructInfo | None]) -> list[ScalarVar]:
    """Symbolic scalars that stand alone as a size somewhere, so that a value defines them."""
    symbols: dict[int, ScalarVar] = {}
    seen: set[int] = set()
    todo = list(infos)[::-1]
    while todo:
        info = todo.pop()
        if id(info) in seen:
            continue
        seen.add(id(info))
        if isinstance(info, TupleStructInfo):
            todo.extend(reversed(info.fields))
            continue
        for dim in _all_dims(info):
            if isinstance(dim, ScalarVar):
                symbols.setdefault(id(dim), dim)
    return list(symbols.values())


@deep
def _all_dims(info: StructInfo | None) -> list[PrimExpr]:
    match info:
        case TensorStructInfo():
            return list(info.dims or ())
        case ShapeStructInfo():
            return list(info.values or ())
        case PrimStructInfo():
            return [info.value] if info.value is not None else []
        case TupleStructInfo():
            return [dim for part in info.fields for dim in _all_dims(part)]
        case _:
            return []


_Change = Callable[[tuple[PrimExpr, ...]], tuple[PrimExpr, ...] | None]


@deep
def _map_shapes(info: StructInfo, f: _Change, done: dict[int, StructInfo] | None = None) -> StructInfo:
    """`info` with `f` applied to each known shape and scalar; None erases it but keeps rank and dtype.

    What `info` shares stays shared, and is looked at once: `done` has it by its id.
    """
    done = {} if done is None else done
    match info:
        case TensorStructInfo() if info.dims is not None:
            sizes = f(info.dims)
            return TensorStructInfo(None if sizes is None else ShapeExpr(sizes), info.dtype, info.vdevice, info.ndim)
        case ShapeStructInfo() if info.values is not None:
            return ShapeStructInfo(f(info.values), info.ndim)
        case PrimStructInfo() if info.value is not None:
            value = f((info.value,))
            return PrimStructInfo(info.dtype, None if value is None else value[0])
        case TupleStructInfo():
            if id(info) not in done:
                done[id(info)] = TupleStructInfo(tuple(_map_shapes(part, f, done) for part in info.fields))
            return done[id(info)]
        case _:
            return info


def erase_to_well_defined(info: StructInfo, in_scope: Iterable[ScalarVar]) -> StructInfo:
    """`info` without the shapes and values that mention symbolic scalars not in scope; ranks are kept."""
    known = {id(var) for var in in_scope}

    def keep(dims: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...] | None:
        used = [part for dim in dims for part in post_order(dim) if isinstance(part, ScalarVar)]
        return dims if all(id(var) in known for var in used) else None

    return _map_shapes(info, keep)


@deep
def struct_info_base_check(base: StructInfo, derived: StructInfo) -> BaseCheckResult:
    """Whether every value described by `derived` is described by `base`."""
    if base is derived or isinstance(base, ObjectStructInfo):
        return BaseCheckResult.PASS
    if isinstance(derived, ObjectStructInfo):
        return BaseCheckResult.FAIL_L2
    if type(base) is not type(derived):
        return BaseCheckResult.FAIL_L0
    match base, derived:
        case TensorStructInfo(), TensorStructInfo():
            return _check_tensor(base, derived)
        case ShapeStructInfo(), ShapeStructInfo():
            return _check_dims(base.values, derived.values, base.ndim, derived.ndim)
        case PrimStructInfo(), PrimStructInfo():
            if base.dtype != derived.dtype:
                return BaseCheckResult.FAIL_L0
            return _check_dims(_one(base.value), _one(derived.value), 1, 1)
        case TupleStructInfo(), TupleStructInfo():
            if len(base.fields) != len(derived.fields):
                return BaseCheckResult.FAIL_L0
            pairs = zip(base.fields, derived.fields, strict=True)
            return min((struct_info_base_check(x, y) for x, y in pairs), default=BaseCheckResult.PASS)
        case _:
            return BaseCheckResult.PASS if base == derived else BaseCheckResult.FAIL_L2


def _one(value: PrimExpr | None) -> tuple[PrimExpr, ...] | None:
    return None if value is None else (value,)


def _check_tensor(base: TensorStructInfo, derived: TensorStructInfo) -> BaseCheckResult:
    if base.dtype and derived.dtype and base.dtype != derived.dtype:
        return BaseCheckResult.FAIL_L0
    result = BaseCheckResult.FAIL_L2 if base.dtype and not derived.dtype else BaseCheckResult.PASS
    if base.shape is not None and base.dims is None and base.shape is not derived.shape:
        result = BaseCheckResult.FAIL_L2  # a shape held by a variable is known to equal only itself
    return min(result, _check_dims(base.dims, derived.dims, base.ndim, derived.ndim))


def _check_dims(
    base: tuple[PrimExpr, ...] | None, derived: tuple[PrimExpr, ...] | None, base_rank: int, derived_rank: int
) -> BaseCheckResult:
    if base_rank != -1 and derived_rank != -1 and base_rank != derived_rank:
        return BaseCheckResult.FAIL_L0
    if base is None:
        return BaseCheckResult.PASS if base_rank in (-1, derived_rank) else BaseCheckResult.FAIL_L2
    if derived is None:
        return BaseCheckResult.FAIL_L2
    pairs = list(zip(base, derived, strict=True))
    if any(prove_unequal(x, y) for x, y in pairs):
        return BaseCheckResult.FAIL_L1
    return BaseCheckResult.PASS if all(prove_equal(x, y) for x, y in pairs) else BaseCheckResult.FAIL_L2


@deep
def struct_info_lca(a: StructInfo, b: StructInfo) -> StructInfo:
    """The most specific struct info that covers both."""
    if struct_info_base_check(a, b) is BaseCheckResult.PASS:
        return a
    if struct_info_base_check(b, a) is BaseCheckResult.PASS:
        return b
    match a, b:
        case TensorStructInfo(), TensorStructInfo():
            dtype = a.dtype if a.dtype == b.dtype else ""
            same = a.dims is not None and b.dims is not None and a.ndim == b.ndim
            equal = same and all(prove_equal(x, y) for x, y in zip(a.dims or (), b.dims or (), strict=True))
            return TensorStructInfo(a.shape if equal else None, dtype, None, a.ndim if a.ndim == b.ndim else -1)
        case ShapeStructInfo(), ShapeStructInfo():
            return ShapeStructInfo(None, a.ndim if a.ndim == b.ndim else -1)
        case PrimStructInfo(), PrimStructInfo() if a.dtype == b.dtype:
            return PrimStructInfo(a.dtype)
        case TupleStructInfo(), TupleStructInfo() if len(a.fields) == len(b.fields):
            return TupleStructInfo(tuple(struct_info_lca(x, y) for x, y in zip(a.fields, b.fields, strict=True)))
        case _:
            return ObjectStructInfo()


def derive_call_ret_struct_info(signature: FuncStructInfo, call: Call) -> StructInfo:
    """Struct info of a call: the result with the arguments' sizes put for the parameters' symbols.

    Raises:
        TypeInferenceError: wrong number of arguments, or one cannot fit its parameter.
    """
    if signature.params is None:
        if signature.derive_func is not None:
            return signature.derive_func(call)
        return call.sinfo_args[0] if call.sinfo_args else signature.ret or ObjectStructInfo()
    if len(signature.params) != len(call.args):
        raise TypeInferenceError(f"function takes {len(signature.params)} arguments, got {len(call.args)}")
    infos = [arg.struct_info for arg in call.args if arg.struct_info is not None]
    if len(infos) != len(call.args):
        return signature.ret or ObjectStructInfo()
    bound: dict[ScalarVar, PrimExpr] = {}
    for param, info in zip(signature.params, infos, strict=True):
        bind_sizes(param, info, bound)
    for i, (param, info) in enumerate(zip(signature.params, infos, strict=True)):
        expected = substitute_info(param, bound)
        if struct_info_base_check(expected, info) <= BaseCheckResult.FAIL_L1:
            raise TypeInferenceError(
                f"argument {i} has type {describe_info(info)}, the function takes {describe_info(expected)}"
            )
    result = substitute_info(signature.ret or ObjectStructInfo(), bound)
    inner = {id(var) for param in signature.params for var in _scalars(param)} - {id(var) for var in bound}
    loose = [var for var in _scalars(result) if id(var) in inner]
    return erase_to_well_defined(result, [v for v in _scalars(result) if v not in loose]) if loose else result


@deep
def bind_sizes(param: StructInfo, arg: StructInfo, bound: dict[ScalarVar, PrimExpr]) -> None:
    """Bind the symbolic scalars that stand alone in `param` to the sizes of `arg`; first use wins."""
    match param, arg:
        case TupleStructInfo(), TupleStructInfo() if len(param.fields) == len(arg.fields):
            for inner, actual in zip(param.fields, arg.fields, strict=True):
                bind_sizes(inner, actual, bound)
        case _:
            for size, value in zip(_all_dims(param), _all_dims(arg), strict=False):
                if isinstance(size, ScalarVar) and size not in bound:
                    bound[size] = value
