"""How operators become tensor programs: what the legalisations of the operator files share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from eutectic import topi
from eutectic.ir.dtype import is_float
from eutectic.ir.prim_expr import PrimExpr, Var
from eutectic.relax.base import Expr, ShapeExpr
from eutectic.relax.expr import Call, Constant, PrimValue
from eutectic.relax.op.builder import Builder
from eutectic.relax.op.numerics import dtype_of
from eutectic.relax.op.registry import OpDef
from eutectic.relax.op.shapes import same, static
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.te import Tensor
from eutectic.tir.op import const

Options = Callable[[Any], dict[str, Any]]


def lower(
    definition: OpDef, function: Callable[..., Any], *, name: str | None = None, options: Options | None = None
) -> None:
    """Give an operator the lowering `function(*tensors, **options(attrs))`.

    Args:
        definition: The operator.
        function: Makes a tensor, or several, of the tensors of the arguments.
        name: Name of the program; None takes that of `function`.
        options: Its keyword arguments, from the attributes of the call.
    """

    @definition.legalize
    def _legalize(builder: Builder, c: Call) -> Expr:
        keywords = options(c.attrs) if options is not None else {}
        return builder.call_te(function, *c.args, primfunc_name_hint=name, **keywords)


def embedded(arg: Expr) -> Any:
    """A constant without axes as the number that a program holds in itself; everything else unchanged."""
    if isinstance(arg, Constant) and arg.data.ndim == 0:
        return const(arg.data.item(), dtype_of(arg.data))
    return arg


def literal(arg: Expr) -> Any:
    """A scalar argument as a number or an expression of sizes; None when only the run time knows it."""
    if not isinstance(arg, PrimValue):
        return None
    return getattr(arg.value, "value", arg.value)


def of_sizes(builder: Builder, x: Expr, sizes: Mapping[int, PrimExpr]) -> Expr:
    """A tensor whose sizes at some axes are the given ones; checked at run time where that is not known before."""
    info = x.struct_info
    assert isinstance(info, TensorStructInfo) and info.dims is not None
    if all(same(info.dims[axis], size) for axis, size in sizes.items()):
        return x
    dims = [sizes.get(axis, size) for axis, size in enumerate(info.dims)]
    return builder.match_cast(x, TensorStructInfo(ShapeExpr(tuple(dims)), info.dtype, info.vdevice))


def own_sizes(sizes: Iterable[PrimExpr], name: str) -> list[PrimExpr]:
    """Sizes for a program's parameters: those that vary are variables of its own, `name` and a number."""
    return [size if static(size) is not None else Var(f"{name}{k}", "int64") for k, size in enumerate(sizes)]


def result_shape(c: Call) -> ShapeExpr:
    """The shape of the tensor that a call gives; the caller knows that it is a literal."""
    info = c.struct_info
    assert isinstance(info, TensorStructInfo) and isinstance(info.shape, ShapeExpr)
    return info.shape


def result_dtype(c: Call) -> str:
    """The dtype of the tensor that a call gives."""
    info = c.struct_info
    assert isinstance(info, TensorStructInfo)
    return info.dtype


def summed(product: Callable[[str], Tensor], operands: Sequence[Tensor], out_dtype: str) -> Tensor:
    """A sum of products in a dtype that is wide enough for its operands and its result, and cast to the latter.

    Args:
        product: Makes the tensor, given the dtype in which it is computed.
        operands: Tensors that are multiplied.
        out_dtype: Dtype of the result; `void` takes that of the first operand.
    """
    dtype = operands[0].dtype if out_dtype == "void" else out_dtype
    names = {dtype, *(x.dtype for x in operands)}
    mixed = len({is_float(name) for name in names}) > 1
    if dtype == "float64" or not (mixed or "float64" in names):
        return product(dtype)
    return topi.cast(product("float64"), dtype)


def rearranged(x: Tensor, layout: str, wanted: str) -> Tensor:
    """A tensor in another layout; itself when it is that one already."""
    return x if layout == wanted else topi.transpose(x, [layout.index(axis) for axis in wanted])
