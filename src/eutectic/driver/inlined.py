"""Modules without the regions that libraries had taken: their operators back in the functions that call them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.node import Node
from eutectic.ir.prim_expr import PrimExpr
from eutectic.ir.prim_expr import Var as ScalarVar
from eutectic.ir.visit import rewrite
from eutectic.relax.base import Expr
from eutectic.relax.expr import (
    Binding,
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    Function,
    SeqExpr,
    Var,
    VarBinding,
)
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.support.deep import deep
from eutectic.support.errors import CodegenError


def without_regions(mod: IRModule, kept: Collection[str] = ()) -> IRModule:
    """A module in which regions of libraries are plain operators again; results are the same.

    Args:
        mod: Module after `MergeCompositeFunctions`, before `RunCodegen`.
        kept: Libraries whose regions stay. Where all do, the module is returned as it is.
    """
    functions = mod.functions_items()
    regions = {
        gv.name_hint: function
        for gv, function in functions
        if isinstance(function, Function) and function.attr("Codegen")
    }
    if all(function.attr("Codegen") in kept for function in regions.values()):
        return mod
    others = {gv.name_hint: function for gv, function in functions if gv.name_hint not in regions}
    plain = {
        name: _inlined(function, regions) if isinstance(function, Function) else function
        for name, function in others.items()
    }
    return IRModule(plain, attrs=mod.attrs)


def _inlined(function: Function, regions: Mapping[str, Function]) -> Function:
    """A function with the bodies of regions in place of their calls."""
    blocks = [_block(block, regions) for block in function.body.blocks]
    body = SeqExpr(tuple(blocks), function.body.body)
    return Function(function.params, body, function.ret_struct_info, function.is_pure, function.attrs, function.span)


def _block(block: BindingBlock, regions: Mapping[str, Function]) -> BindingBlock:
    kind = DataflowVar if isinstance(block, DataflowBlock) else Var
    bindings: list[Binding] = []
    for binding in block.bindings:
        value = binding.value
        region = (
            regions.get(value.op.name_hint) if isinstance(value, Call) and isinstance(value.op, GlobalVar) else None
        )
        if region is None or not isinstance(value, Call):
            bindings.append(binding)
            continue
        inner, result = _body(region, value.args, kind)
        bindings += [*inner, VarBinding(binding.var, result)]
    return type(block)(tuple(bindings))


@deep
def _body(function: Function, args: Sequence[Expr], kind: type[Var]) -> tuple[list[Binding], Expr]:
    """The bindings of a function for some arguments, and its result; composites in it are inlined as well.

    Args:
        function: A region or a composite.
        args: What it is called with.
        kind: What its variables become.
    """
    function = function.bind_symbolic_vars(_sizes(function, args))
    known: dict[Var, Expr] = dict(zip(function.params, args, strict=True))
    local: dict[Var, Function] = {}
    bindings: list[Binding] = []
    for binding in (binding for block in function.body.blocks for binding in block.bindings):
        value = binding.value
        if not isinstance(binding, VarBinding):
            raise CodegenError(
                "a region casts shapes, so its operators cannot be taken out of it", help="compile for its library"
            )
        if isinstance(value, Function):
            local[binding.var] = value
        elif isinstance(value, Call) and isinstance(value.op, Var) and value.op in local:
            inner, known[binding.var] = _body(local[value.op], [_with(arg, known) for arg in value.args], kind)
            bindings += inner
        else:
            fresh = kind(binding.var.name_hint, binding.var.struct_info, binding.var.span)
            bindings.append(VarBinding(fresh, _with(value, known)))
            known[binding.var] = fresh
    return bindings, _with(function.body.body, known)


def _sizes(function: Function, args: Sequence[Expr]) -> dict[ScalarVar, PrimExpr]:
    """The sizes that a function's symbols stand for, as its arguments have them."""
    sizes: dict[ScalarVar, PrimExpr] = {}
    for param, arg in zip(function.params, args, strict=True):
        wanted, actual = param.struct_info, arg.struct_info
        if isinstance(wanted, TensorStructInfo) and isinstance(actual, TensorStructInfo):
            pairs = zip(wanted.dims or (), actual.dims or (), strict=False)
            sizes.update({size: other for size, other in pairs if isinstance(size, ScalarVar) and size is not other})
    return sizes


def _with(expr: Expr, known: Mapping[Var, Expr]) -> Expr:
    def change(node: Node) -> Node | None:
        return known.get(node) if isinstance(node, Var) else None

    substituted = rewrite(expr, change)
    assert isinstance(substituted, Expr)
    return substituted
