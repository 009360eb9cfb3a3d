"""Visitors and mutators that users subclass: one method per kind of expression, binding and block.

Reference: TVM's `relax.PyExprVisitor` and `relax.PyExprMutator`.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.op import Op
from eutectic.relax.base import Expr, ShapeExpr, StructInfo
from eutectic.relax.block_builder import BlockBuilder, add_block
from eutectic.relax.expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    DataTypeImm,
    ExternFunc,
    Function,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.support.deep import deep

C = TypeVar("C", bound=type)

_METHODS: Final[dict[type, str]] = {
    Constant: "visit_constant_",
    Tuple: "visit_tuple_",
    DataflowVar: "visit_dataflow_var_",
    Var: "visit_var_",
    ShapeExpr: "visit_shape_expr_",
    ExternFunc: "visit_extern_func_",
    GlobalVar: "visit_global_var_",
    Function: "visit_function_",
    Call: "visit_call_",
    SeqExpr: "visit_seq_expr_",
    If: "visit_if_",
    Op: "visit_op_",
    TupleGetItem: "visit_tuple_getitem_",
    PrimValue: "visit_prim_value_",
    StringImm: "visit_string_imm_",
    DataTypeImm: "visit_data_type_imm_",
}
_LEAF_METHODS: Final = (
    "visit_constant_",
    "visit_shape_expr_",
    "visit_extern_func_",
    "visit_global_var_",
    "visit_op_",
    "visit_prim_value_",
    "visit_string_imm_",
    "visit_data_type_imm_",
)


def _method_of(expr: Any) -> str:
    name = _METHODS.get(type(expr))
    if name is None:
        raise TypeError(f"not a graph expression: {type(expr).__name__}")
    return name


def visitor(cls: C) -> C:
    """Class decorator for subclasses of `PyExprVisitor`; checks the base class."""
    if not issubclass(cls, PyExprVisitor):
        raise TypeError(f"@visitor is for subclasses of PyExprVisitor, {cls.__name__} is not one")
    return cls


def mutator(cls: C) -> C:
    """Class decorator for subclasses of `PyExprMutator`; checks the base class."""
    if not issubclass(cls, PyExprMutator):
        raise TypeError(f"@mutator is for subclasses of PyExprMutator, {cls.__name__} is not one")
    return cls


class PyExprVisitor:
    """Walks expressions without changing them; override any `visit_*` method."""

    @deep
    def visit_expr(self, expr: Any) -> None:
        """Visit one expression through the method of its kind."""
        getattr(self, _method_of(expr))(expr)

    def _leaf(self, expr: Any) -> None:
        """Leaves have nothing below them."""

    def visit_var_(self, var: Var) -> None:
        """Visit a use of a variable."""

    def visit_dataflow_var_(self, var: DataflowVar) -> None:
        """Visit a use of a dataflow variable."""

    def visit_tuple_(self, expr: Tuple) -> None:
        """Visit the fields."""
        for item in expr.fields:
            self.visit_expr(item)

    def visit_call_(self, call: Call) -> None:
        """Visit callee and arguments."""
        self.visit_expr(call.op)
        for arg in call.args:
            self.visit_expr(arg)

    def visit_tuple_getitem_(self, expr: TupleGetItem) -> None:
        """Visit the tuple."""
        self.visit_expr(expr.tuple_value)

    def visit_if_(self, expr: If) -> None:
        """Visit condition and branches."""
        for part in (expr.cond, expr.true_branch, expr.false_branch):
            self.visit_expr(part)

    def visit_seq_expr_(self, expr: SeqExpr) -> None:
        """Visit blocks, then the value."""
        for block in expr.blocks:
            self.visit_binding_block(block)
        self.visit_expr(expr.body)

    def visit_function_(self, function: Function) -> None:
        """Visit parameters, then the body."""
        for param in function.params:
            self.visit_var_def(param)
        self.visit_expr(function.body)

    def visit_binding_block(self, block: BindingBlock) -> None:
        """Visit one block through the method of its kind."""
        is_dataflow = isinstance(block, DataflowBlock)
        (self.visit_dataflow_block_ if is_dataflow else self.visit_binding_block_)(block)  # type: ignore[arg-type]  # chosen by class

    def visit_binding_block_(self, block: BindingBlock) -> None:
        """Visit the bindings of a plain block."""
        for binding in block.bindings:
            self.visit_binding(binding)

    def visit_dataflow_block_(self, block: DataflowBlock) -> None:
        """Visit the bindings of a dataflow block."""
        for binding in block.bindings:
            self.visit_binding(binding)

    def visit_binding(self, binding: Binding) -> None:
        """Visit one binding through the method of its kind."""
        if isinstance(binding, MatchCast):
            self.visit_match_cast_(binding)
        elif isinstance(binding, VarBinding):
            self.visit_var_binding_(binding)

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """Visit the value, then the variable it is given to."""
        self.visit_expr(binding.value)
        self.visit_var_def(binding.var)

    def visit_match_cast_(self, binding: MatchCast) -> None:
        """Visit the value, then the variable it is given to."""
        self.visit_expr(binding.value)
        self.visit_var_def(binding.var)

    def visit_var_def(self, var: Var) -> None:
        """Visit a variable where it is defined."""
        (self.visit_dataflow_var_def_ if isinstance(var, DataflowVar) else self.visit_var_def_)(var)  # type: ignore[arg-type]  # chosen by class

    def visit_var_def_(self, var: Var) -> None:
        """Visit the definition of a plain variable."""

    def visit_dataflow_var_def_(self, var: DataflowVar) -> None:
        """Visit the definition of a dataflow variable."""

    def visit_span(self, span: Any) -> Any:
        """Visit a source position."""
        return span


class PyExprMutator:
    """Rebuilds expressions; override any `visit_*` method and return the replacement.

    Args:
        mod: Functions that calls may refer to, and to which `builder_` adds.

    Attributes:
        builder_: Builds the new program; `emit` in it adds bindings before the current one.
    """

    def __init__(self, mod: IRModule | None = None) -> None:
        self.builder_ = BlockBuilder(mod)
        self._remap: dict[Var, Var] = {}

    # ---- expressions

    @deep
    def visit_expr(self, expr: Any) -> Any:
        """Rewrite one expression through the method of its kind."""
        return getattr(self, _method_of(expr))(expr)

    def visit_expr_post_order(self, expr: Any) -> Any:
        """Rewrite what is below `expr`, then `expr` as this base class would; the result is normalised.

        Your own method for the kind of `expr` is not called again on it.
        """
        return self.builder_.normalize(getattr(PyExprMutator, _method_of(expr))(self, expr))

    def _leaf(self, expr: Any) -> Any:
        """Leaves stay as they are."""
        return expr

    def visit_var_(self, var: Var) -> Expr:
        """A use of a variable: what it was remapped to."""
        return self._remap.get(var, var)

    def visit_dataflow_var_(self, var: DataflowVar) -> Expr:
        """A use of a dataflow variable: what it was remapped to."""
        return self._remap.get(var, var)

    def visit_tuple_(self, expr: Tuple) -> Expr:
        """Rewrite the fields."""
        fields = tuple(self.visit_expr(item) for item in expr.fields)
        return expr if _same(fields, expr.fields) else Tuple(fields, span=expr.span)

    def visit_call_(self, call: Call) -> Expr:
        """Rewrite callee and arguments."""
        op = self.visit_expr(call.op)
        args = tuple(self.visit_expr(arg) for arg in call.args)
        if op is call.op and _same(args, call.args):
            return call
        return Call(op, args, call.attrs, call.sinfo_args, call.span)

    def visit_tuple_getitem_(self, expr: TupleGetItem) -> Expr:
        """Rewrite the tuple."""
        value = self.visit_expr(expr.tuple_value)
        return expr if value is expr.tuple_value else TupleGetItem(value, expr.index, span=expr.span)

    def visit_if_(self, expr: If) -> Expr:
        """Rewrite condition and branches, each branch in its own scope."""
        cond = self.visit_expr(expr.cond)
        branches = [self.visit_with_new_scope(branch) for branch in (expr.true_branch, expr.false_branch)]
        if _same((cond, *branches), (expr.cond, expr.true_branch, expr.false_branch)):
            return expr
        return If(cond, *branches, span=expr.span)

    def visit_seq_expr_(self, expr: SeqExpr) -> Expr:
        """Rewrite the blocks, then the value."""
        blocks: list[BindingBlock] = []
        changed = False
        for block in expr.blocks:
            fresh = self.visit_binding_block(block)
            changed |= fresh is not block
            add_block(blocks, fresh)
        self.builder_.begin_block(is_dataflow=False)
        body = self.builder_.normalize_argument(self.visit_expr(expr.body))
        add_block(blocks, self.builder_.end_block())
        if not changed and body is expr.body and len(blocks) == len(expr.blocks) and expr.struct_info is not None:
            return expr
        return SeqExpr(tuple(blocks), body, span=expr.span)

    def visit_function_(self, function: Function) -> Expr:
        """Rewrite parameters, then the body in a new scope."""
        params = tuple(self.visit_var_def(param) for param in function.params)
        body = self.visit_with_new_scope(function.body, params)
        if body is function.body and _same(params, function.params):
            return function
        ret = body.struct_info if body.struct_info is not None else function.ret_struct_info
        keep = function.ret_struct_info if ret == function.ret_struct_info else ret
        return Function(params, body, keep, function.is_pure, function.attrs, function.span)

    def visit_with_new_scope(self, expr: Expr, params: tuple[Var, ...] | None = None) -> Any:
        """Rewrite `expr` in a scope of its own; bindings it needs end up inside its result."""
        self.builder_.begin_scope(params)
        try:
            if isinstance(expr, SeqExpr):
                result = self.visit_expr(expr)
                return result if isinstance(result, SeqExpr) else SeqExpr((), result)
            self.builder_.begin_block(is_dataflow=False)
            body = self.builder_.normalize_argument(self.visit_expr(expr))
            block = self.builder_.end_block()
            return SeqExpr((block,) if block.bindings else (), body)
        finally:
            self.builder_.end_scope()

    # ---- blocks and bindings

    def visit_binding_block(self, block: BindingBlock) -> BindingBlock:
        """Rewrite one block through the method of its kind."""
        if isinstance(block, DataflowBlock):
            return self.visit_dataflow_block_(block)
        return self.visit_binding_block_(block)

    def visit_binding_block_(self, block: BindingBlock) -> BindingBlock:
        """Rewrite the bindings of a plain block."""
        return self._rebuild(block, is_dataflow=False)

    def visit_dataflow_block_(self, block: DataflowBlock) -> BindingBlock:
        """Rewrite the bindings of a dataflow block."""
        return self._rebuild(block, is_dataflow=True)

    def _rebuild(self, block: BindingBlock, *, is_dataflow: bool) -> BindingBlock:
        self.builder_.begin_block(is_dataflow)
        for binding in block.bindings:
            self.visit_binding(binding)
        fresh = self.builder_.end_block()
        return block if _same(fresh.bindings, block.bindings) else fresh

    def visit_binding(self, binding: Binding) -> None:
        """Rewrite one binding through the method of its kind; the result goes to `builder_`."""
        if isinstance(binding, MatchCast):
            self.visit_match_cast_(binding)
        elif isinstance(binding, VarBinding):
            self.visit_var_binding_(binding)

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """Rewrite the value; the variable is re-made when its struct info changed."""
        value = self.builder_.normalize(self.visit_expr(binding.value))
        var = self.visit_var_def(binding.var)
        if value is binding.value and var is binding.var and value.struct_info is not None:
            self.builder_.emit_normalized(binding)
            return
        fresh = self.with_struct_info(var, value.struct_info) if value.struct_info is not None else var
        if fresh is not binding.var:
            self._remap[binding.var] = fresh
        self.builder_.emit_normalized(VarBinding(fresh, value))

    def visit_match_cast_(self, binding: MatchCast) -> None:
        """Rewrite the value of a match cast."""
        value = self.visit_expr(binding.value)
        var = self.visit_var_def(binding.var)
        if value is binding.value and var is binding.var:
            self.builder_.emit_normalized(binding)
            return
        self.builder_.emit_normalized(MatchCast(var, self.builder_.normalize_argument(value), binding.struct_info))

    def visit_var_def(self, var: Var) -> Var:
        """The variable to define in place of `var`."""
        return self.visit_dataflow_var_def_(var) if isinstance(var, DataflowVar) else self.visit_var_def_(var)

    def visit_var_def_(self, var: Var) -> Var:
        """The plain variable to define in place of `var`."""
        return self._remap.get(var, var)

    def visit_dataflow_var_def_(self, var: DataflowVar) -> Var:
        """The dataflow variable to define in place of `var`."""
        return self._remap.get(var, var)

    def visit_span(self, span: Any) -> Any:
        """The span to put on new nodes."""
        return span

    # ---- helpers for subclasses

    def lookup_binding(self, var: Any) -> Expr | None:
        """The value bound to `var` so far in the new program; None for parameters and non-variables."""
        return self.builder_.lookup_binding(var) if isinstance(var, Var) else None

    def set_var_remap(self, vid: Var, var: Var) -> None:
        """From now on, replace uses of `vid` by `var`."""
        self._remap[vid] = var

    def get_var_remap(self, vid: Var) -> Var:
        """What uses of `vid` are replaced by."""
        return self._remap.get(vid, vid)

    def with_struct_info(self, var: Var, info: StructInfo) -> Var:
        """`var`, or a new variable of the same name when the struct info differs."""
        if var.struct_info is info or (var.struct_info is not None and _cheap_equal(var.struct_info, info)):
            return var
        return type(var)(var.name_hint, info, var.span)


for _name in _LEAF_METHODS:
    setattr(PyExprVisitor, _name, PyExprVisitor._leaf)
    setattr(PyExprMutator, _name, PyExprMutator._leaf)


def _same(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


def _cheap_equal(a: StructInfo, b: StructInfo) -> bool:
    """Equality without the general walk in the common case of static tensors."""
    if isinstance(a, TensorStructInfo) and isinstance(b, TensorStructInfo) and a.static_shape and b.static_shape:
        return a.static_shape == b.static_shape and a.dtype == b.dtype and a.vdevice == b.vdevice
    return a == b
