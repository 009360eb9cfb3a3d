"""JoinVaryingAxes: tensor programs that go through several axes of varying sizes as through one get one axis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.transform import Pass, PassContext, with_functions
from eutectic.relax.base import Expr, ShapeExpr, StructInfo
from eutectic.relax.expr import Call, Function, Tuple, TupleGetItem
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.op.reshape import reshape
from eutectic.relax.struct_info import TensorStructInfo, TupleStructInfo
from eutectic.relax.struct_info_relations import leaf_infos
from eutectic.relax.transform.fuse_ops import is_call_tir
from eutectic.relax.transform.tir_calls import only_tir_calls, passed_by
from eutectic.tir.buffer_layout import product
from eutectic.tir.function import PrimFunc
from eutectic.tir.transform.join_axes import Groups, JoinedAxes, join_axes


@dataclass(frozen=True)
class JoinVaryingAxes(Pass):
    """Give tensor programs one axis where they walk through neighbouring ones of varying sizes as through one.

    The points of an image of any size are then as many rows: tiles of a product of them have one remainder instead of
    one in each line, and no product of sizes keeps loops from being one. The graph gives the same memory other shapes,
    which costs nothing. Programs that are seen from outside, or called otherwise, stay as they are.

    before:                                                   after:
        y = call_tir(f, (x,), Tensor((1, h, w, 16)))              x1 = reshape(x, (1, h * w, 8))
                                                                  y1 = call_tir(f, (x1,), Tensor((1, h * w, 16)))
                                                                  y = reshape(y1, (1, h, w, 16))

    Cost: linear in the size of programs with neighbouring axes of varying sizes, nothing for others.
    """

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """See the class."""
        only_called = _only_called(mod)
        programs = ((gv, func) for gv, func in mod.functions_items() if isinstance(func, PrimFunc))
        found = {gv: join_axes(func) for gv, func in programs if gv in only_called and not func.attr("global_symbol")}
        joined = {gv: program for gv, program in found.items() if program is not None}
        if not joined:
            return mod
        graphs = {gv: _Rewriter(joined).visit_expr(func) for gv, func in mod.functions_items() if _is_graph(func)}
        return with_functions(mod, {**{gv: program.func for gv, program in joined.items()}, **graphs})


def _is_graph(func: object) -> bool:
    return isinstance(func, Function)


def _only_called(mod: IRModule) -> set[GlobalVar]:
    """Tensor programs that graphs call by `call_tir` with tensors of known ranks, and that nothing else mentions."""
    calls = only_tir_calls(mod)
    return {gv for gv, own in calls.items() if all(_has_dims(info) for call in own for info in _infos(call))}


def _infos(call: Call) -> Iterator[StructInfo | None]:
    """What a call takes and gives."""
    yield from (arg.struct_info for arg in passed_by(call))
    yield from leaf_infos(call.sinfo_args)


def _has_dims(info: object) -> bool:
    return isinstance(info, TensorStructInfo) and info.dims is not None


class _Rewriter(PyExprMutator):
    def __init__(self, joined: Mapping[GlobalVar, JoinedAxes]) -> None:
        super().__init__()
        self._joined = joined

    def visit_call_(self, call: Call) -> Expr:
        """A call of a program with other shapes: what it takes gets them, what it gives has its own again."""
        fresh = super().visit_call_(call)
        assert isinstance(fresh, Call)
        program = self._joined.get(fresh.args[0]) if is_call_tir(fresh) else None  # type: ignore[call-overload]  # others are no program either
        if program is None:
            return fresh
        args, (out,) = passed_by(fresh), fresh.sinfo_args
        given = program.groups[: len(args)]
        values = Tuple(tuple(self._shaped(arg, groups) for arg, groups in zip(args, given, strict=True)))
        outputs = leaf_infos((out,))
        infos = [_joined_info(info, groups) for info, groups in zip(outputs, program.groups[len(args) :], strict=True)]
        result = TupleStructInfo(tuple(infos)) if isinstance(out, TupleStructInfo) else infos[0]
        made = self.builder_.emit(
            Call(fresh.op, (fresh.args[0], values, *fresh.args[2:]), fresh.attrs, (result,), fresh.span)
        )
        if not isinstance(out, TupleStructInfo):
            return _reshaped(made, outputs[0])
        parts = [self.builder_.emit(TupleGetItem(made, number)) for number in range(len(outputs))]
        return Tuple(
            tuple(self.builder_.emit(_reshaped(part, info)) for part, info in zip(parts, outputs, strict=True))
        )

    def _shaped(self, arg: Expr, groups: Groups) -> Expr:
        info = arg.struct_info
        assert isinstance(info, TensorStructInfo)
        wanted = _joined_info(info, groups)
        return arg if len(wanted.dims or ()) == len(info.dims or ()) else self.builder_.emit(_reshaped(arg, wanted))


def _reshaped(value: Expr, info: StructInfo) -> Expr:
    """A value in another shape; as it is where it has that."""
    assert isinstance(info, TensorStructInfo)
    assert info.dims is not None
    own = value.struct_info
    if isinstance(own, TensorStructInfo) and len(own.dims or ()) == len(info.dims):
        return value
    return reshape(value, ShapeExpr(info.dims))


def _joined_info(info: StructInfo, groups: Groups) -> TensorStructInfo:
    """The type of a tensor with joined axes."""
    assert isinstance(info, TensorStructInfo)
    assert info.dims is not None
    dims = info.dims
    return TensorStructInfo(ShapeExpr(tuple(product([dims[axis] for axis in group]) for group in groups)), info.dtype)
