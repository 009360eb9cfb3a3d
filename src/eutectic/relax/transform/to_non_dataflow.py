"""ToNonDataflow and ConvertToDataflow: programs without dataflow blocks, and with as many as there can be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from eutectic.ir.module import IRModule
from eutectic.ir.node import Node
from eutectic.ir.transform import PassContext
from eutectic.ir.visit import rewrite
from eutectic.relax.analysis.unused import contains_impure_call
from eutectic.relax.analysis.uses import used_vars
from eutectic.relax.base import Expr
from eutectic.relax.expr import (
    Binding,
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    Function,
    If,
    SeqExpr,
    Var,
)
from eutectic.relax.transform.infra import FunctionPass
from eutectic.support.deep import deep

Split: TypeAlias = Callable[[BindingBlock], Sequence[BindingBlock]]


@dataclass(frozen=True)
class ToNonDataflow(FunctionPass):
    """Make every dataflow block a plain block, and its variables plain ones.

    before::

        with R.dataflow():
            lv = add(x, x)
            gv = exp(lv)
            R.output(gv)
        return gv

    after::

        lv = add(x, x)
        gv = exp(lv)
        return gv
    """

    def run_function(self, function: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Rewrite one function."""
        known: dict[int, Var] = {}

        def change(item: Node) -> Node | None:
            if isinstance(item, DataflowVar):
                return known.setdefault(id(item), Var(item.name_hint, item.struct_info, item.span))
            return None

        plain = rewrite(function, change)
        assert isinstance(plain, Function)
        return _with_blocks(plain, lambda block: [BindingBlock(block.bindings)] if _is_dataflow(block) else [block])


def _is_dataflow(block: BindingBlock) -> bool:
    return isinstance(block, DataflowBlock)


@dataclass(frozen=True)
class ConvertToDataflow(FunctionPass):
    """Put runs of bindings without side effects into dataflow blocks.

    Attributes:
        min_size: How many calls a run must have at least.
    """

    min_size: int = 2

    def run_function(self, function: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Rewrite one function; variables that are not read after their block become local to it."""
        split = _with_blocks(function, lambda block: [block] if _is_dataflow(block) else list(self._split(block)))
        return function if split is function else _with_local_variables(_joined(split))

    def _split(self, block: BindingBlock) -> Iterable[BindingBlock]:
        run: list[Binding] = []
        for binding in block.bindings:
            if _is_pure(binding):
                run.append(binding)
                continue
            yield from self._finished(run)
            yield BindingBlock((binding,))
            run = []
        yield from self._finished(run)

    def _finished(self, run: list[Binding]) -> Iterable[BindingBlock]:
        if run:
            calls = sum(isinstance(binding.value, Call) for binding in run)
            yield (DataflowBlock if calls >= self.min_size else BindingBlock)(tuple(run))


def _is_pure(binding: Binding) -> bool:
    return not isinstance(binding.value, (If, Function)) and not contains_impure_call(binding.value)


@deep
def _with_blocks(function: Function, split: Split) -> Function:
    """The function with each block replaced by those that `split` makes of it, in branches too."""

    def change(item: Node) -> Node | None:
        if not isinstance(item, SeqExpr):
            return None
        blocks = [fresh for block in item.blocks for fresh in split(block)]
        if len(blocks) == len(item.blocks) and all(a is b for a, b in zip(blocks, item.blocks, strict=True)):
            return None
        inner = [_in_branches(block, split) for block in blocks]
        return SeqExpr(tuple(inner), item.body, struct_info=item.struct_info, span=item.span)

    fresh = rewrite(function, change)
    assert isinstance(fresh, Function)
    return fresh


@deep
def _in_branches(block: BindingBlock, split: Split) -> BindingBlock:
    """A block whose conditionals and functions are rewritten as well, as what is replaced is not looked into."""

    def inside(binding: Binding) -> Binding:
        if not isinstance(binding.value, (If, Function)):
            return binding
        holder = Function((), SeqExpr((), binding.value))
        value: Expr = _with_blocks(holder, split).body.body
        return type(binding)(binding.var, value)  # type: ignore[call-arg]  # no cast has such a value

    return type(block)(tuple(map(inside, block.bindings)))


def _joined(function: Function) -> Function:
    """Adjacent blocks of one kind as one."""

    def change(item: Node) -> Node | None:
        if not isinstance(item, SeqExpr):
            return None
        blocks: list[BindingBlock] = []
        for block in item.blocks:
            if blocks and type(blocks[-1]) is type(block):
                blocks[-1] = type(block)((*blocks[-1].bindings, *block.bindings))
            else:
                blocks.append(block)
        return SeqExpr(tuple(blocks), item.body, struct_info=item.struct_info, span=item.span)

    body = change(function.body)
    assert isinstance(body, SeqExpr)
    return Function(function.params, body, function.ret_struct_info, function.is_pure, function.attrs, function.span)


def _with_local_variables(function: Function) -> Function:
    """Variables of dataflow blocks that nothing outside of their block reads, as dataflow variables."""
    local: dict[int, Var] = {}
    blocks = function.body.blocks
    for number, block in enumerate(blocks):
        if not _is_dataflow(block):
            continue
        others = [b.value for i, other in enumerate(blocks) if i != number for b in other.bindings]
        outside = {id(var) for value in (*others, function.body.body) for var in used_vars(value)}
        for binding in block.bindings:
            var = binding.var
            if type(var) is Var and id(var) not in outside:
                local[id(var)] = DataflowVar(var.name_hint, var.struct_info, var.span)

    fresh = rewrite(function, lambda item: local.get(id(item)))
    assert isinstance(fresh, Function)
    return fresh
