"""LegalizeOps: calls of operators become calls of tensor programs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from eutectic.arith import prove_equal
from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.node import Node, replace
from eutectic.ir.op import Op, register_op_attr
from eutectic.ir.prim_expr import FloatImm, IntImm, PrimExpr
from eutectic.ir.transform import Pass, PassContext, register_config_key
from eutectic.relax.base import Expr, ShapeExpr, ShapeStructInfo, StructInfo
from eutectic.relax.block_builder import BlockBuilder
from eutectic.relax.expr import (
    Binding,
    Call,
    Constant,
    DataTypeImm,
    Function,
    PrimValue,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.op.registry import has_trait, op_def
from eutectic.relax.struct_info import PrimStructInfo, TensorStructInfo, TupleStructInfo
from eutectic.support.deep import deep
from eutectic.support.errors import EutecticAdvice
from eutectic.support.registry import note_addition
from eutectic.tir.function import PrimFunc
from eutectic.tir.trusted import trust

Legalization: TypeAlias = Callable[[BlockBuilder, Call], Expr]

register_config_key("relax.transform.apply_legalize_ops", True)


@dataclass(frozen=True)
class LegalizeOps(Pass):
    """Replace calls of operators by `call_tir` of tensor programs, which it adds to the module.

    before:                         after:
        lv = add(x, y)                  lv = call_tir(add, (x, y))
        gv = nn.relu(lv)                gv = call_tir(relu, (lv,))

    The rule of an operator is the one of `customize_legalize_map`, else its attribute `FLegalize`, else that of its
    definition. Operators in what a rule returns or emits are lowered in turn. A call stays when a shape is not
    known, and when its operator has no rule. Regions of backends (functions with `Codegen` or `Composite`) stay.

    Attributes:
        customize_legalize_map: Operator names and functions `(builder, call) -> expression`.
        skip_ops: Names of operators that stay.
        enable_warning: Whether an operator without a rule is pointed out, once per operator.

    Cost: each distinct combination of operator, attributes and types of arguments is lowered once.
    """

    customize_legalize_map: Mapping[str, Legalization] | None = None
    skip_ops: Collection[str] | None = None
    enable_warning: bool = False

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Lower every graph function outside the regions of backends."""
        if not ctx.option("relax.transform.apply_legalize_ops"):
            return mod
        rewriter = _Rewriter(mod, self)
        changed = {}
        for gv, function in mod.functions_items():
            if isinstance(function, Function):
                fresh = rewriter.visit_expr(function)
                if fresh is not function:
                    changed[gv] = fresh
        rewriter.warn()
        if not changed:
            return mod
        out = rewriter.builder_.get()
        out.update(changed)
        return out


def register_legalize(op_name: str, legal_func: Legalization) -> None:
    """Set the attribute `FLegalize` of an operator, which comes before the rule of its definition.

    Args:
        op_name: The operator; it is created when missing.
        legal_func: Takes a builder and a call, and returns what the call becomes, or the call itself.

    Reference: TVM relax.transform.legalize_ops.common.register_legalize.
    """
    note_addition(f"attribute FLegalize of {op_name}")
    register_op_attr(op_name, "FLegalize", legal_func)


class _Rewriter(PyExprMutator):
    def __init__(self, mod: IRModule, options: LegalizeOps) -> None:
        super().__init__(mod)
        self._custom = options.customize_legalize_map or {}
        self._skipped = frozenset(_name(op) for op in options.skip_ops or ())
        self._warns = options.enable_warning
        self._without_rule: dict[str, str] = {}
        self._known: dict[Any, _Template] = {}
        self._binding = ""

    def visit_function_(self, function: Function) -> Expr:
        """Leave the regions of backends alone."""
        attrs = function.attrs
        outside = attrs is not None and ("Codegen" in attrs or "Composite" in attrs)
        return function if outside else super().visit_function_(function)

    def visit_binding(self, binding: Binding) -> None:
        """Remember what is being bound, for advice."""
        self._binding = binding.var.name_hint
        super().visit_binding(binding)

    def visit_call_(self, call: Call) -> Any:
        """Lower a call whose operator has a rule and whose shapes are known."""
        visited = self.visit_expr_post_order(call)
        if not isinstance(visited, Call) or not isinstance(visited.op, Op) or visited.op.name in self._skipped:
            return visited
        rule = self._rule(visited.op)
        if rule is None:
            if not has_trait(visited, "calls"):
                self._without_rule.setdefault(visited.op.name, self._binding)
            return visited
        if has_trait(visited, "calls"):  # what is called has a program: nothing about sizes need be known
            return rule(self.builder_, visited)
        if not _is_known(visited.struct_info) or not all(map(_is_lowerable, visited.args)):
            return visited
        return self._legalized(self._with_fields(visited), rule)

    def _with_fields(self, call: Call) -> Call:
        """The call with tuples as their fields, one by one."""
        if not any(isinstance(arg, Var) and isinstance(arg.struct_info, TupleStructInfo) for arg in call.args):
            return call
        return replace(call, args=tuple(map(self._fields, call.args)))

    def _fields(self, arg: Expr) -> Expr:
        info = arg.struct_info
        if not isinstance(arg, Var) or not isinstance(info, TupleStructInfo):
            return arg
        bound = self.lookup_binding(arg)
        if isinstance(bound, Tuple):
            return bound
        return Tuple(tuple(self.builder_.emit(TupleGetItem(arg, i)) for i in range(len(info.fields))))

    def _rule(self, op: Op) -> Legalization | None:
        definition = op_def(op)
        own = definition.legalize_fn if definition is not None else None
        rule: Legalization | None = self._custom.get(op.name) or op.get_attr("FLegalize") or own
        return rule

    def _legalized(self, call: Call, rule: Legalization) -> Any:
        definition = op_def(call.op)
        own = definition is not None and definition.legalize_fn is rule  # others may depend on more than the key has
        key = _key(call) if own else None
        known = self._known.get(key) if key is not None else None
        if known is not None:
            return known.applied(call, self.builder_)
        self.builder_.begin_block(self.builder_.current_block_is_dataflow())
        lowered = self._lowered(call, rule)
        bindings = [_placed(binding, call) for binding in self.builder_.end_block().bindings]
        for binding in bindings:
            self.builder_.emit_normalized(binding)
        if lowered is not call and key is not None and all(isinstance(b, VarBinding) for b in bindings):
            self._known[key] = _Template(call, tuple(b for b in bindings if isinstance(b, VarBinding)), lowered)
        return lowered

    def _lowered(self, call: Call, rule: Legalization) -> Any:
        """What the rule makes of a call, lowered in turn with all that it emitted."""
        self.builder_.begin_block(self.builder_.current_block_is_dataflow())
        replacement = rule(self.builder_, call)
        bindings = self.builder_.end_block().bindings
        definition = op_def(call.op)
        if definition is not None and definition.legalize_fn is rule:
            self._trust([replacement, *(b.value for b in bindings if isinstance(b, VarBinding))])
        for binding in bindings:
            super().visit_binding(binding)
        if replacement is call:
            return call
        again = isinstance(replacement, Call) and replacement.op is not call.op
        final = self.builder_.normalize(
            self.visit_expr(replacement) if again else super().visit_expr_post_order(replacement)
        )
        return _with_info(final, call)

    def _trust(self, values: Sequence[Any]) -> None:
        """Take the programs of operators as they are: these look at the indices that they are given."""
        mod = self.builder_.get()
        for value in values:
            callee: Any = value.args[0] if isinstance(value, Call) and value.args else None
            program = mod.get(callee) if isinstance(callee, GlobalVar) else None
            if isinstance(program, PrimFunc):
                trust(program)

    def warn(self) -> None:
        """Point out the operators that have no rule."""
        if not self._warns:
            return
        for name, where in self._without_rule.items():
            warnings.warn(
                f"operator {name} has no legalisation and stays a call of an operator at {where}; give it one with "
                f'customize_legalize_map={{"{name}": function}}, or list it in skip_ops',
                EutecticAdvice,
                stacklevel=5,  # the caller of the pass: warn, run, run_pass and __call__ are between
            )


def _name(op: Any) -> str:
    return op.name if isinstance(op, Op) else str(op)


@deep
def _is_known(info: StructInfo | None) -> bool:
    """Whether shapes and dtypes are written down, those of fields too."""
    match info:
        case TensorStructInfo():
            return info.dims is not None and info.dtype != ""
        case TupleStructInfo():
            return all(map(_is_known, info.fields))
        case ShapeStructInfo():
            return info.values is not None
        case _:
            return info is not None


def _is_lowerable(arg: Expr) -> bool:
    if isinstance(arg.struct_info, PrimStructInfo):
        return isinstance(arg, PrimValue)
    return isinstance(arg, (StringImm, DataTypeImm)) or _is_known(arg.struct_info)


def _with_info(lowered: Any, call: Call) -> Any:
    """A call of a tensor program under the struct info of the call that it replaces, where that is the same thing."""
    if not isinstance(lowered, Call) or lowered.struct_info is call.struct_info or len(lowered.sinfo_args) != 1:
        return lowered
    if call.struct_info is None or not _agree(lowered.struct_info, call.struct_info):
        return lowered
    info, span = call.struct_info, lowered.span or call.span
    return replace(lowered, sinfo_args=(info,), struct_info=info, span=span)


@deep
def _agree(a: StructInfo | None, b: StructInfo | None) -> bool:
    if isinstance(a, TupleStructInfo) and isinstance(b, TupleStructInfo):
        return len(a.fields) == len(b.fields) and all(map(_agree, a.fields, b.fields))
    if not isinstance(a, TensorStructInfo) or not isinstance(b, TensorStructInfo):
        return False
    if a.dims is None or b.dims is None or a.dtype != b.dtype or len(a.dims) != len(b.dims):
        return False
    if a.static_shape is not None and b.static_shape is not None:
        return a.static_shape == b.static_shape
    return all(map(prove_equal, a.dims, b.dims))


# ---- lowering equal calls once


@dataclass(frozen=True)
class _Template:
    """What became of a call, to be repeated for others that differ in the arguments only."""

    call: Call
    bindings: tuple[VarBinding, ...]
    result: Expr

    def applied(self, call: Call, builder: BlockBuilder) -> Any:
        """The same for another call; its bindings go to the builder."""
        known = {id(old): new for old, new in zip(_leaves(self.call), _leaves(call), strict=True)}
        for binding in self.bindings:
            known[id(binding.var)] = builder.emit(_rebuilt(binding.value, known, call))
        return _rebuilt(self.result, known, call)


@deep
def _rebuilt(expr: Expr, known: dict[int, Expr], call: Call) -> Expr:
    """An expression with other leaves; calls get the span of what they come from."""
    if id(expr) in known:
        return known[id(expr)]
    match expr:
        case Call():
            args = tuple(_rebuilt(arg, known, call) for arg in expr.args)
            return replace(expr, args=args, span=call.span)
        case Tuple():
            return Tuple(tuple(_rebuilt(item, known, call) for item in expr.fields), span=call.span)
        case TupleGetItem():
            return TupleGetItem(_rebuilt(expr.tuple_value, known, call), expr.index, span=call.span)
        case _:
            return expr


def _placed(binding: Binding, call: Call) -> Binding:
    """A binding whose call, if it has no place in the source, gets that of the call it comes from."""
    if isinstance(binding, VarBinding) and isinstance(binding.value, Call) and binding.value.span is None:
        return VarBinding(binding.var, replace(binding.value, span=call.span))
    return binding


def _leaves(call: Call) -> Iterator[Expr]:
    for arg in call.args:
        yield from arg.fields if isinstance(arg, Tuple) else (arg,)


def _key(call: Call) -> Any:
    """What the program of a call depends on; None when that cannot be compared."""
    options = [] if call.attrs is None else [value for _, value in call.attrs.items()]
    if any(isinstance(value, Node) for value in options):
        return None
    parts: list[Any] = []
    seen: dict[int, int] = {}
    for arg in call.args:
        fields = arg.fields if isinstance(arg, Tuple) else (arg,)
        parts.append(len(fields) if isinstance(arg, Tuple) else -1)
        for item in fields:
            part = _part(item)
            if part is None:
                return None
            parts.append((part, seen.setdefault(id(item), len(seen))))
    # as text, in which 0.0 and -0.0 differ
    return call.op.name, type(call.attrs), repr(options), tuple(parts)


def _part(arg: Expr) -> Any:
    info = arg.struct_info
    match arg:
        case Var() | Constant() if isinstance(info, TensorStructInfo) and info.dims is not None:
            value = arg.data.tobytes() if isinstance(arg, Constant) and arg.data.ndim == 0 else None
            return info.dtype, tuple(map(_number, info.dims)), info.vdevice, value
        case ShapeExpr():
            return "shape", tuple(map(_number, arg.values))
        case PrimValue():
            return "scalar", arg.value.dtype, _number(arg.value)
        case StringImm() | DataTypeImm():
            return "name", arg.value
        case _:
            return None


def _number(value: PrimExpr) -> Any:
    """A constant as text, anything else as itself: symbols are compared by identity."""
    return repr(value.value) if isinstance(value, (IntImm, FloatImm)) else value
