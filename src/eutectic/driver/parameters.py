"""Parameters of graph functions as the runtime checks them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from eutectic.ir.dtype import to_numpy
from eutectic.ir.prim_expr import PrimExpr
from eutectic.ir.prim_expr import Var as ScalarVar
from eutectic.relax.base import Expr, ShapeExpr, ShapeStructInfo, StructInfo
from eutectic.relax.expr import PrimValue, Tuple, Var, VarBinding
from eutectic.relax.struct_info import PrimStructInfo, TensorStructInfo, TupleStructInfo
from eutectic.relax.struct_info_relations import free_symbolic_vars
from eutectic.runtime.params import AnyParam, Param, ScalarParam, ShapeParam, TensorParam, TupleParam
from eutectic.runtime.sizes import Size
from eutectic.support.deep import deep
from eutectic.support.errors import CodegenError


@dataclass(frozen=True)
class Sizes:
    """How symbolic sizes are told to the runtime.

    Attributes:
        size: A size as the runtime takes it.
        names: Symbols by name.
        low: Least values, by the symbols' own names.
        high: Largest values.
    """

    size: Callable[[PrimExpr], Size]
    names: Mapping[ScalarVar, str]
    low: Mapping[str, Any]
    high: Mapping[str, Any]

    def ranges(self, info: StructInfo) -> dict[str, tuple[int, int | None]]:
        """Ranges of the symbols in a struct info."""
        return {
            self.names[var]: (bound(self.low, var.name) or 0, bound(self.high, var.name))
            for var in free_symbolic_vars(info)
        }


def bound(bounds: Mapping[str, Any], name: str) -> int | None:
    """A limit as an integer; None when there is none."""
    limit = bounds.get(name)
    return getattr(limit, "value", limit)


@deep
def parameter(name: str, info: StructInfo | None, sizes: Sizes) -> Param:
    """What the runtime checks of an argument.

    Raises:
        CodegenError: nothing of that kind can be passed.
    """
    match info:
        case TensorStructInfo() if info.dtype:
            shape = None if info.dims is None else tuple(map(sizes.size, info.dims))
            return TensorParam(name, to_numpy(info.dtype), shape, info.ndim, sizes.ranges(info))
        case ShapeStructInfo():
            known = None if info.values is None else tuple(map(sizes.size, info.values))
            return ShapeParam(name, known, info.ndim, sizes.ranges(info))
        case PrimStructInfo() if info.dtype:
            value = None if info.value is None else sizes.size(info.value)
            return ScalarParam(name, to_numpy(info.dtype), value, sizes.ranges(info))
        case TupleStructInfo():
            return TupleParam(name, tuple(parameter(f"{name}[{i}]", f, sizes) for i, f in enumerate(info.fields)))
        case _:
            raise CodegenError(
                f"parameter {name} is not a tensor of known dtype, a number, a shape, or a tuple of these"
            )


@deep
def value_check(name: str, info: StructInfo | None, sizes: Sizes) -> Param:
    """What the runtime checks of a value in the program; what says nothing of it is not checked."""
    match info:
        case TensorStructInfo():
            shape = None if info.dims is None else tuple(map(sizes.size, info.dims))
            dtype = to_numpy(info.dtype) if info.dtype else None
            return TensorParam(name, dtype, shape, info.ndim, sizes.ranges(info), "value")
        case TupleStructInfo():
            fields = tuple(value_check(f"{name}[{i}]", field, sizes) for i, field in enumerate(info.fields))
            return TupleParam(name, fields, "value")
        case ShapeStructInfo():
            known = None if info.values is None else tuple(map(sizes.size, info.values))
            return ShapeParam(name, known, info.ndim, sizes.ranges(info), "value")
        case PrimStructInfo() if info.dtype and info.value is not None:
            return ScalarParam(name, to_numpy(info.dtype), sizes.size(info.value), sizes.ranges(info), "value")
        case _:
            return AnyParam(name)


@dataclass(frozen=True)
class Unpacked:
    """A variable that is a tuple, taken apart.

    Attributes:
        parts: Its tensors: variables, each with the path into the tuple.
        bindings: What puts the tuple together again, under its own variables.
    """

    parts: tuple[tuple[Var, tuple[int, ...]], ...]
    bindings: tuple[VarBinding, ...]


def unpack(whole: Var) -> Unpacked:
    """Variables for the tensors of a tuple, so that native code can take them one by one."""
    parts: list[tuple[Var, tuple[int, ...]]] = []
    bindings: list[VarBinding] = []

    @deep
    def build(name: str, info: Any, path: tuple[int, ...], own: Var | None) -> Expr:
        match info:
            case TupleStructInfo():
                var = own or Var(name, info)
                fields = tuple(build(f"{name}_{i}", field, (*path, i), None) for i, field in enumerate(info.fields))
                bindings.append(VarBinding(var, Tuple(fields)))
                return var
            case ShapeStructInfo(values=values) if values is not None:
                return ShapeExpr(values)
            case PrimStructInfo(value=value) if value is not None:
                return PrimValue(value)
            case _:
                parts.append((Var(name, info), path))
                return parts[-1][0]

    build(whole.name_hint, whole.struct_info, (), whole)
    return Unpacked(tuple(parts), tuple(bindings))
