"""Regions of a library as kernels of our own: for calls that the library would compute wrongly."""

from __future__ import annotations

from eutectic.driver.libraries import Libraries
from eutectic.driver.link import program_of
from eutectic.driver.native import NativeBuilder
from eutectic.driver.pipeline import kernels
from eutectic.ir.module import IRModule
from eutectic.ir.node import Node
from eutectic.ir.transform import PassContext
from eutectic.ir.visit import rewrite
from eutectic.relax.base import Expr
from eutectic.relax.block_builder import BlockBuilder
from eutectic.relax.expr import Call, Function, MatchCast, Var
from eutectic.runtime.program import Program
from eutectic.support.deep import deep
from eutectic.target import Target


def region_program(
    region: Function, threads: int | None = None, target: Target | None = None, *, elsewhere: bool = False
) -> Program | None:
    """A program that computes what a region computes, by kernels of our own.

    Args:
        region: A function with composites inside, as `MergeCompositeFunctions` makes it.
        threads: Threads of a call.
        target: What the kernels are for; None takes this machine.
        elsewhere: As in `NativeBuilder`.

    Returns:
        The program; None for a region with casts of shapes.
    """
    if any(isinstance(b, MatchCast) for block in region.body.blocks for b in block.bindings):
        return None
    mod = IRModule({"main": without_composites(region)})
    with PassContext():
        mod = kernels()(mod)
    return program_of(mod, Libraries(), "main", NativeBuilder(target or Target(), threads, elsewhere=elsewhere))


def without_composites(region: Function) -> Function:
    """A region with the bodies of its composites in place of their calls."""
    builder = BlockBuilder()
    with builder.function("main", list(region.params)):
        with builder.dataflow():
            result = builder.emit_output(_emit(builder, region, {}))
        builder.emit_func_output(result)
    inlined = builder.get()["main"]
    assert isinstance(inlined, Function)
    return inlined


@deep
def _emit(builder: BlockBuilder, function: Function, known: dict[Var, Expr]) -> Expr:
    """Emit the bindings of a function whose parameters are known; gives its result."""
    local: dict[Var, Function] = {}
    for block in function.body.blocks:
        for binding in block.bindings:
            value = binding.value
            if isinstance(value, Function):
                local[binding.var] = value
                continue
            if isinstance(value, Call) and isinstance(value.op, Var) and value.op in local:
                inner = local[value.op]
                arguments = dict(zip(inner.params, (_substitute(arg, known) for arg in value.args), strict=True))
                known[binding.var] = _emit(builder, inner, arguments)
            else:
                known[binding.var] = builder.emit(_substitute(value, known))
    return _substitute(function.body.body, known)


def _substitute(expr: Expr, known: dict[Var, Expr]) -> Expr:
    def change(node: Node) -> Node | None:
        return known.get(node) if isinstance(node, Var) else None

    substituted = rewrite(expr, change)
    assert isinstance(substituted, Expr)
    return substituted
