"""DataflowBlockRewrite: changes of one dataflow block, step by step."""

from __future__ import annotations

from eutectic.ir.module import IRModule
from eutectic.ir.visit import rewrite
from eutectic.relax.analysis.unused import contains_impure_call
from eutectic.relax.analysis.uses import used_vars
from eutectic.relax.base import Expr
from eutectic.relax.block_builder import BlockBuilder
from eutectic.relax.expr import Binding, DataflowBlock, DataflowVar, Function, MatchCast, SeqExpr, Var, VarBinding
from eutectic.support.errors import WellFormedError


class DataflowBlockRewrite:
    """Adds, replaces and removes bindings of a dataflow block; the function that it is of is never changed.

    Args:
        dfb: The block.
        root_fn: The function that it is a block of.

    Raises:
        WellFormedError: the function has no such block.

    Reference: TVM relax.binding_rewrite.DataflowBlockRewrite.
    """

    def __init__(self, dfb: DataflowBlock, root_fn: Function) -> None:
        if all(block is not dfb for block in root_fn.body.blocks):
            raise WellFormedError("the dataflow block is none of the function", help="take it from func.body.blocks")
        self._function, self._root, self._block = root_fn, root_fn, dfb
        self._names = {binding.var.name_hint for binding in dfb.bindings}

    def mutated_dfb(self) -> DataflowBlock:
        """The block as it is now."""
        return self._block

    def mutated_root_fn(self) -> Function:
        """The function with the block as it is now."""
        return self._root

    def mutate_irmodule(self, irmodule: IRModule) -> IRModule:
        """A module with the function as it is now in place of the one that there was."""
        out = irmodule.clone()
        for gv, function in irmodule.functions_items():
            if function is self._function:
                out.update_func(gv, self._root)
                return out
        raise WellFormedError("the module does not have the function that is rewritten")

    def replace_all_uses(self, old_var: Var, new_var: Var) -> None:
        """Read another variable wherever one is read; in the whole function if the variable is seen there."""

        def renamed(expr: Expr) -> Expr:
            fresh = rewrite(expr, lambda item: new_var if item is old_var else None)
            assert isinstance(fresh, Expr)
            return fresh

        bindings = tuple(_with_value(binding, renamed(binding.value)) for binding in self._block.bindings)
        block = DataflowBlock(bindings)
        others = {
            id(other): type(other)(tuple(_with_value(b, renamed(b.value)) for b in other.bindings))
            for other in self._root.body.blocks
            if other is not self._block
        }
        blocks = [block if b is self._block else others[id(b)] for b in self._root.body.blocks]
        self._set(block, SeqExpr(tuple(blocks), renamed(self._root.body.body)))

    def add_binding(self, binding: Binding) -> None:
        """Append a binding.

        Raises:
            WellFormedError: its variable is bound already.
        """
        if any(known.var is binding.var for known in self._block.bindings):
            raise WellFormedError(f"{binding.var.name_hint} is bound already")
        self._replace(DataflowBlock((*self._block.bindings, binding)))
        self._names.add(binding.var.name_hint)

    def add(self, expr: Expr | Binding, name: str | None = None, is_dfvar: bool = False) -> None:
        """Append a value under a new variable.

        Args:
            expr: The value, or a binding.
            name: Name of the variable; None makes one.
            is_dfvar: Whether the variable is not seen outside of the block.
        """
        if isinstance(expr, Binding):
            self.add_binding(expr)
            return
        builder = BlockBuilder()
        with builder.testing_scope():
            value = builder.normalize(expr)
        hint, number = name or ("lv" if is_dfvar else "gv"), 0
        unique = hint
        while unique in self._names:
            number += 1
            unique = f"{hint}{number}"
        kind = DataflowVar if is_dfvar else Var
        self.add_binding(VarBinding(kind(unique, value.struct_info), value))

    def remove_unused(self, var: Var, allow_undef: bool = False) -> None:
        """Remove the binding of a variable that nothing reads.

        Raises:
            WellFormedError: it is read, or there is no such binding and `allow_undef` is off.
        """
        if var in self._read():
            raise WellFormedError(f"{var.name_hint} is read, so its binding cannot be removed")
        kept = tuple(binding for binding in self._block.bindings if binding.var is not var)
        if len(kept) == len(self._block.bindings):
            if allow_undef:
                return
            raise WellFormedError(f"{var.name_hint} has no binding in the block", help="pass allow_undef=True")
        self._replace(DataflowBlock(kept))

    def remove_all_unused(self) -> None:
        """Remove all bindings without side effects whose variables nothing reads."""
        while True:
            read = self._read()
            kept = tuple(b for b in self._block.bindings if b.var in read or contains_impure_call(b.value))
            if len(kept) == len(self._block.bindings):
                return
            self._replace(DataflowBlock(kept))

    def _read(self) -> set[Var]:
        return set(used_vars(self._root.body.body)) | {
            var for block in self._root.body.blocks for binding in block.bindings for var in used_vars(binding.value)
        }

    def _replace(self, block: DataflowBlock) -> None:
        blocks = tuple(block if other is self._block else other for other in self._root.body.blocks)
        self._set(block, SeqExpr(blocks, self._root.body.body))

    def _set(self, block: DataflowBlock, body: SeqExpr) -> None:
        root = self._root
        self._block = block
        self._root = Function(root.params, body, root.ret_struct_info, root.is_pure, root.attrs, root.span)


def _with_value(binding: Binding, value: Expr) -> Binding:
    if value is binding.value:
        return binding
    if isinstance(binding, VarBinding):
        return VarBinding(binding.var, value)
    assert isinstance(binding, MatchCast)
    return MatchCast(binding.var, value, binding.struct_info)
