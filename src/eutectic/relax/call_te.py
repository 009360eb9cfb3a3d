"""call_te: a call of a tensor program that a tensor expression defines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from eutectic.arith import simplify
from eutectic.ir.module import GlobalVar
from eutectic.ir.prim_expr import PrimExpr
from eutectic.ir.prim_expr import Var as ScalarVar
from eutectic.ir.visit import post_order
from eutectic.relax.base import Expr, ShapeExpr
from eutectic.relax.expr import Call, DataTypeImm, PrimValue, StringImm, describe_info
from eutectic.relax.expr import Tuple as TupleExpr
from eutectic.relax.op.call_packed import call_tir
from eutectic.relax.struct_info import TensorStructInfo, TupleStructInfo
from eutectic.relax.struct_info_relations import substitute
from eutectic.support.deep import deep
from eutectic.support.errors import TypeInferenceError
from eutectic.te import Tensor, create_prim_func, placeholder
from eutectic.tir.function import PrimFunc

AddFunc: TypeAlias = Callable[[PrimFunc, str], GlobalVar]


def call_te(
    add_func: AddFunc,
    func: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    name: str | None = None,
    attrs: Mapping[str, Any] | None = None,
) -> Call:
    """A `call_tir` of the tensor program that `func` describes.

    Args:
        add_func: Adds the program to a module under a name near the given one.
        func: Takes tensors for graph tensors (also inside lists, tuples and dicts), lists of sizes for
            shapes, scalars for scalars, and everything else as it is; returns a tensor or several.
        args: Its arguments.
        kwargs: Its keyword arguments.
        name: Name of the program; None takes that of `func`.
        attrs: Annotations of the program beside `tir.noalias`.

    Returns:
        A call that is not bound yet; its symbolic sizes are those of the arguments.

    Raises:
        TypeInferenceError: an argument's shape is not known, or `func` returns something else than tensors.

    Reference: TVM BlockBuilder.call_te.
    """
    convert = _Arguments()
    result = func(*convert.each(args), **{key: convert.one(value) for key, value in kwargs.items()})
    outputs = list(result) if isinstance(result, (list, tuple)) else [result]
    if not outputs or not all(isinstance(output, Tensor) for output in outputs):
        kinds = ", ".join(type(output).__name__ for output in outputs) or "nothing"
        raise TypeInferenceError(f"{_name_of(func)} must return tensors of te, got {kinds}")
    shapes = [size for tensor in (*convert.tensors, *outputs) for size in tensor.shape]
    bare = {id(size) for size in shapes if isinstance(size, ScalarVar)}
    extra = [var for var in convert.fresh.values() if id(var) not in bare and _occurs(var, outputs, shapes)]
    program = create_prim_func([*convert.tensors, *outputs, *extra]).without_attr("global_symbol")
    if attrs:
        program = program.with_attr(dict(attrs))
    back = {fresh: symbol for symbol, fresh in convert.fresh.items()}
    infos = [_info(output, back) for output in outputs]
    tir_vars = ShapeExpr(tuple(back[var] for var in extra)) if extra else None
    gvar = add_func(program, name or _name_of(func))
    out: Any = infos if isinstance(result, (list, tuple)) else infos[0]
    return call_tir(gvar, TupleExpr(tuple(convert.values)), out, tir_vars)


class _Arguments:
    """Turns graph values into what tensor expressions are written with.

    Attributes:
        tensors: Placeholders, in order of appearance.
        values: The graph value behind each.
        fresh: The program's own variable for each symbolic size.
    """

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self.values: list[Expr] = []
        self.fresh: dict[ScalarVar, ScalarVar] = {}

    def each(self, values: Sequence[Any]) -> list[Any]:
        """Several arguments."""
        return [self.one(value) for value in values]

    @deep
    def one(self, value: Any) -> Any:
        """One argument."""
        match value:
            case ShapeExpr():
                return [self.size(size) for size in value.values]
            case PrimValue():
                return self.size(value.value)
            case StringImm() | DataTypeImm():
                return value.value
            case TupleExpr():
                return self.each(value.fields)
            case Expr():
                return self._tensor(value)
            case PrimExpr():
                return self.size(value)
            case list() | tuple():
                return type(value)(self.each(value))
            case dict():
                return {key: self.one(item) for key, item in value.items()}
            case _:
                return value

    def size(self, value: PrimExpr) -> PrimExpr:
        """A size or scalar in the program's own variables."""
        for part in post_order(value):
            if isinstance(part, ScalarVar) and part not in self.fresh:
                self.fresh[part] = type(part)(part.name, part.dtype)
        renamed = substitute(value, self.fresh)
        assert isinstance(renamed, PrimExpr)
        return renamed

    def _tensor(self, value: Expr) -> Tensor:
        info = value.struct_info
        if isinstance(info, TupleStructInfo):
            raise TypeInferenceError("call_te takes the fields of a tuple one by one", help="pass x[0], x[1], ...")
        if not isinstance(info, TensorStructInfo) or info.dims is None or not info.dtype:
            actual = describe_info(info)
            raise TypeInferenceError(
                f"call_te needs tensors of known shape and dtype, got {actual}", help="bind it with match_cast first"
            )
        shape = [self.size(size) for size in info.dims]
        name = _letter(len(self.tensors))
        self.tensors.append(placeholder(shape, info.dtype, name))
        self.values.append(value)
        return self.tensors[-1]


def _letter(index: int) -> str:
    """A, B, ... Z, A1, B1, ..."""
    return chr(ord("A") + index % 26) + (str(index // 26) if index >= 26 else "")


def _name_of(func: Callable[..., Any]) -> str:
    name = getattr(func, "__name__", "")
    return name if name.isidentifier() else "te_func"


def _occurs(var: ScalarVar, outputs: Sequence[Tensor], shapes: Sequence[PrimExpr]) -> bool:
    """Whether a program uses a variable, in a size or in what it computes."""
    todo, seen = list(outputs), set()
    if any(part is var for size in shapes for part in post_order(size)):
        return True
    while todo:
        tensor = todo.pop()
        if tensor.op in seen:
            continue
        seen.add(tensor.op)
        todo.extend(tensor.op.input_tensors)
        parts = (*getattr(tensor.op, "body", ()), *(a.dom for a in getattr(tensor.op, "axis", ()) if a.dom is not None))
        if any(part is var for item in parts for part in post_order(item)):
            return True
    return False


def _info(output: Tensor, back: Mapping[ScalarVar, ScalarVar]) -> TensorStructInfo:
    sizes = []
    for size in output.shape:
        substituted = substitute(size, back)
        assert isinstance(substituted, PrimExpr)
        sizes.append(simplify(substituted))
    return TensorStructInfo(ShapeExpr(tuple(sizes)), output.dtype)
