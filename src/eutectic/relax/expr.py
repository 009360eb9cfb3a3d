"""Graph expressions, bindings, blocks and functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from eutectic.ir.attrs import Attrs, DictAttrs, make_attrs
from eutectic.ir.dtype import from_numpy, to_numpy
from eutectic.ir.module import BaseFunc, GlobalVar, set_call_maker
from eutectic.ir.node import Node, field, init_field, node
from eutectic.ir.op import Op
from eutectic.ir.prim_expr import ExprOp, IntImm, PrimExpr, as_prim
from eutectic.ir.prim_expr import Var as ScalarVar
from eutectic.ir.span import Span
from eutectic.relax.base import Expr, ShapeExpr, StructInfo
from eutectic.relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from eutectic.support.deep import deep
from eutectic.support.errors import InternalError, UnsupportedTypeError
from eutectic.support.plain_memory import as_array, is_torch
from eutectic.support.shown import shown


@node("relax.Var")
class Var(Expr):
    """A variable; identity is the variable, the name is a hint.

    Raises:
        TypeError: `struct_info` is not a `StructInfo`.
    """

    name_hint: str = field(role="ignore")
    is_variable: ClassVar[bool] = True

    def __init__(self, name_hint: str | Var, struct_info: StructInfo | None = None, span: Span | None = None) -> None:
        name = name_hint.name_hint if isinstance(name_hint, Var) else name_hint
        if struct_info is not None and not isinstance(struct_info, StructInfo):
            raise TypeError(f"struct_info of {name} must be a StructInfo, got {type(struct_info).__name__}")
        init_field(self, "name_hint", name)
        init_field(self, "struct_info", struct_info)
        init_field(self, "span", span)

    @property
    def vid(self) -> Var:
        """The variable's identity, which is the object itself."""
        return self


@node("relax.DataflowVar", init=False)
class DataflowVar(Var):
    """A variable that only its own dataflow block may use."""


@node("relax.Constant")
class Constant(Expr):
    """A tensor constant.

    Attributes:
        data: The elements; the array must not be written to afterwards.
    """

    data: Any

    def __post_init__(self) -> None:
        data = _elements(self.data)
        if data is not self.data:
            init_field(self, "data", data)
        if self.struct_info is None:
            init_field(self, "struct_info", TensorStructInfo(ShapeExpr(data.shape), from_numpy(data.dtype)))


@node("relax.Tuple")
class Tuple(Expr):
    """A tuple of values."""

    fields: tuple[Expr, ...]

    def __post_init__(self) -> None:
        init_field(self, "fields", tuple(self.fields))
        infos = tuple(item.struct_info for item in self.fields if item.struct_info is not None)
        if self.struct_info is None and len(infos) == len(self.fields):
            init_field(self, "struct_info", TupleStructInfo(infos))

    def __getitem__(self, index: int) -> Expr:
        return self.fields[index]

    def __len__(self) -> int:
        return len(self.fields)

    def __iter__(self) -> Iterator[Expr]:
        return iter(self.fields)


@node("relax.TupleGetItem")
class TupleGetItem(Expr):
    """One field of a tuple value.

    Raises:
        IndexError: the tuple's length is known and `index` is outside.
    """

    tuple_value: Expr
    index: int

    def __post_init__(self) -> None:
        info = self.tuple_value.struct_info
        if isinstance(info, TupleStructInfo):
            if not 0 <= self.index < len(info.fields):
                raise IndexError(f"field {self.index} of a tuple with {len(info.fields)} fields")
            if self.struct_info is None:
                init_field(self, "struct_info", info.fields[self.index])


@node("relax.PrimValue")
class PrimValue(Expr):
    """A scalar given as an argument."""

    value: PrimExpr

    def __post_init__(self) -> None:
        init_field(self, "value", as_prim(self.value, "int64"))
        if self.struct_info is None:
            init_field(self, "struct_info", PrimStructInfo(value=self.value))


@node("relax.StringImm")
class StringImm(Expr):
    """A string given as an argument."""

    value: str

    def __post_init__(self) -> None:
        if self.struct_info is None:
            init_field(self, "struct_info", ObjectStructInfo())


@node("relax.DataTypeImm")
class DataTypeImm(Expr):
    """A dtype given as an argument."""

    value: str

    def __post_init__(self) -> None:
        if self.struct_info is None:
            init_field(self, "struct_info", ObjectStructInfo())


@node("relax.ExternFunc")
class ExternFunc(Expr):
    """A function found by name at run time."""

    global_symbol: str

    def __post_init__(self) -> None:
        if self.struct_info is None:
            init_field(self, "struct_info", FuncStructInfo.opaque_func())

    def __call__(self, *args: Expr) -> Call:
        """A call of it."""
        return Call(self, args)


@node("relax.Call")
class Call(Expr):
    """A call of an operator or function.

    Attributes:
        op: `Op`, `GlobalVar`, `ExternFunc`, `Var` or `Function`.
        args: Argument values.
        attrs: Options of the operator.
        sinfo_args: Struct info arguments, such as the output of `call_tir`.
    """

    op: Any
    args: tuple[Expr, ...]
    attrs: Attrs | None = None
    sinfo_args: tuple[StructInfo, ...] = ()

    def __init__(
        self,
        op: Any,
        args: Iterable[Any],
        attrs: Attrs | None = None,
        sinfo_args: Iterable[StructInfo] | StructInfo | None = None,
        span: Span | None = None,
        *,
        struct_info: StructInfo | None = None,
    ) -> None:
        init_field(self, "op", op)
        init_field(self, "args", tuple(convert(arg) for arg in args))
        init_field(self, "attrs", attrs)
        infos = (sinfo_args,) if isinstance(sinfo_args, StructInfo) else tuple(sinfo_args or ())
        init_field(self, "sinfo_args", infos)
        init_field(self, "span", span)
        init_field(self, "struct_info", struct_info)


class Binding(Node):
    """Gives a value to a variable."""

    __slots__ = ()
    var: Var
    value: Expr


@node("relax.VarBinding")
class VarBinding(Binding):
    """`var = value`."""

    value: Expr = field()
    var: Var = field(role="def")

    def __init__(self, var: Var, value: Expr) -> None:
        init_field(self, "var", var)
        init_field(self, "value", value)


@node("relax.MatchCast")
class MatchCast(Binding):
    """`var = match_cast(value, struct_info)`: checks at run time, and binds symbolic sizes."""

    value: Expr = field()
    struct_info: StructInfo = field(role="def")
    var: Var = field(role="def")

    def __init__(self, var: Var, value: Expr, struct_info: StructInfo) -> None:
        init_field(self, "var", var)
        init_field(self, "value", value)
        init_field(self, "struct_info", struct_info)


@node("relax.BindingBlock")
class BindingBlock(Node):
    """Bindings in order; may have side effects."""

    bindings: tuple[Binding, ...]

    def __post_init__(self) -> None:
        init_field(self, "bindings", tuple(self.bindings))


@node("relax.DataflowBlock")
class DataflowBlock(BindingBlock):
    """Bindings without side effects; only plain `Var`s are visible outside."""


@node("relax.SeqExpr")
class SeqExpr(Expr):
    """Blocks followed by a value."""

    blocks: tuple[BindingBlock, ...]
    body: Expr

    def __post_init__(self) -> None:
        init_field(self, "blocks", tuple(self.blocks))
        if self.struct_info is None and self.body.struct_info is not None:
            init_field(self, "struct_info", self.body.struct_info)


@node("relax.If")
class If(Expr):
    """A conditional value."""

    cond: Expr
    true_branch: Expr
    false_branch: Expr


@node("relax.Function")
class Function(BaseFunc, Expr):
    """A graph function.

    Attributes:
        params: Its parameters, with struct info.
        body: A `SeqExpr`; anything else is wrapped in one.
        ret_struct_info: Struct info of the result; taken from the body when None.
        is_pure: Whether calls have no side effects.
        attrs: Annotations such as `global_symbol`, `Primitive`, `Composite`.
    """

    params: tuple[Var, ...] = field(role="def")
    body: SeqExpr
    ret_struct_info: StructInfo | None = None
    is_pure: bool = True
    attrs: DictAttrs | None = None

    def __init__(
        self,
        params: Iterable[Var],
        body: Expr,
        ret_struct_info: StructInfo | None = None,
        is_pure: bool = True,
        attrs: Mapping[str, Any] | DictAttrs | None = None,
        span: Span | None = None,
        *,
        struct_info: StructInfo | None = None,
    ) -> None:
        params = tuple(params)
        missing = [param.name_hint for param in params if param.struct_info is None]
        if missing:
            raise TypeError(f"function parameters without struct info: {', '.join(missing)}")
        seq = body if isinstance(body, SeqExpr) else SeqExpr((), body)
        ret = ret_struct_info or seq.body.struct_info or ObjectStructInfo()
        init_field(self, "params", params)
        init_field(self, "body", seq)
        init_field(self, "ret_struct_info", ret)
        init_field(self, "is_pure", is_pure)
        init_field(self, "attrs", make_attrs(attrs))
        init_field(self, "span", span)
        infos = tuple(param.struct_info for param in params if param.struct_info is not None)
        init_field(self, "struct_info", FuncStructInfo(infos, ret, is_pure))

    @staticmethod
    def create_empty(
        params: Iterable[Var],
        ret_struct_info: StructInfo,
        is_pure: bool = True,
        attrs: Mapping[str, Any] | None = None,
        span: Any = None,
    ) -> Function:
        """A function with a signature whose body is an unbound value of the result's type."""
        return Function(params, Var("body", ret_struct_info), ret_struct_info, is_pure, attrs, span)

    def __call__(self, *args: Expr) -> Call:
        """A call of the function."""
        return Call(self, args)

    def bind_symbolic_vars(self, binding: Mapping[Any, Any]) -> Function:
        """A copy with symbolic sizes replaced; keys are names or variables, values integers or expressions."""
        return _binder()[0](self, binding)  # type: ignore[no-any-return]

    def bind_params(self, binding: Mapping[Any, Any]) -> Function:
        """A copy with parameters replaced by values; keys are names or variables."""
        return _binder()[1](self, binding)  # type: ignore[no-any-return]


_BINDER: list[tuple[Any, Any]] = []


def set_binder(symbolic: Any, params: Any) -> None:
    """Let `relax.transform` provide the two `bind_*` methods of functions."""
    _BINDER[:] = [(symbolic, params)]


def _binder() -> tuple[Any, Any]:
    if not _BINDER:
        raise InternalError("relax.transform was not imported", help="import eutectic.relax")
    return _BINDER[0]


def const(value: Any, dtype: str | None = None) -> Constant:
    """A tensor constant.

    Args:
        value: Number, array, or anything NumPy takes.
        dtype: Element type. None makes Python ints int32, floats float32 and
            bools bool, and turns int64 and float64 *data* into int32 and float32,
            as TVM's `relax.const` does.

    Returns:
        Rank 0 for numbers, the array's shape otherwise.
    """
    array = _elements(value)
    if dtype is not None:
        array = array.astype(to_numpy(dtype))
    elif array.dtype == np.int64:
        array = array.astype(np.int32)
    elif array.dtype == np.float64:
        array = array.astype(np.float32)
    return Constant(array)


def _elements(value: Any) -> np.ndarray[Any, Any]:
    """The elements of an array, a tensor, a number, or nested sequences of numbers.

    Raises:
        UnsupportedTypeError: an array or a tensor that is not plain dense memory.
    """
    if isinstance(value, np.ndarray):
        return as_array(value, "a constant", UnsupportedTypeError)
    if is_torch(value):
        return as_array(value.detach(), "a constant", UnsupportedTypeError)
    return np.asarray(value.numpy() if hasattr(value, "numpy") else value)


@deep
def convert(value: Any) -> Expr:
    """`value` as an expression: numbers, strings, sequences and arrays become the node that holds them."""
    if isinstance(value, (Expr, GlobalVar, Op)):
        return value  # type: ignore[return-value]  # global variables and operators may stand as arguments
    if isinstance(value, (bool, int, float, ExprOp)):
        return PrimValue(as_prim(value))
    if isinstance(value, str):
        return StringImm(value)
    if isinstance(value, np.ndarray):
        return Constant(value)
    if isinstance(value, (list, tuple)):
        return Tuple(tuple(convert(item) for item in value))
    raise TypeError(f"cannot use a {type(value).__name__} as a graph value: {shown(value)}")


def extern(name: str, struct_info: StructInfo | None = None) -> ExternFunc:
    """A function found by name at run time."""
    return ExternFunc(name, struct_info=struct_info)


def get_shape_of(expr: Expr) -> Expr:
    """The shape of a tensor value: its literal when known.

    Raises:
        ValueError: the value is not a tensor or its shape is unknown.
    """
    info = expr.struct_info
    if isinstance(info, TensorStructInfo) and info.shape is not None:
        return info.shape
    raise ValueError(f"the shape of {expr} is not known")


@deep
def describe_info(info: StructInfo | None) -> str:
    """The type of a value in one line, as the text form writes it."""
    match info:
        case None:
            return "unknown"
        case TensorStructInfo():
            if info.dims is None:
                sizes = f"ndim={info.ndim}" if info.ndim >= 0 else "?"
            else:
                sizes = "(" + ", ".join(map(describe_size, info.dims)) + ("," if info.ndim == 1 else "") + ")"
            return f'R.Tensor({sizes}, "{info.dtype}")'
        case TupleStructInfo():
            return "R.Tuple(" + ", ".join(map(describe_info, info.fields)) + ")"
        case _:
            return info.script()


def describe_size(value: PrimExpr) -> str:
    """A size in one line."""
    match value:
        case IntImm():
            return str(value.value)
        case ScalarVar():
            return value.name
        case _:
            return value.script()


def as_int(value: Any) -> int | None:
    """A constant integer expression as a Python int, or None."""
    if isinstance(value, PrimValue):
        value = value.value
    return value.value if isinstance(value, IntImm) else value if isinstance(value, int) else None


set_call_maker(lambda gv, args: Call(gv, args))
