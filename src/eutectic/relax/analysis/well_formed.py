"""The verifier: what must hold of every module, checked after each pass in tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.op import Op
from eutectic.ir.transform import register_verifier
from eutectic.relax.analysis.unused import contains_impure_call
from eutectic.relax.base import ShapeExpr, StructInfo
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
    describe_info,
)
from eutectic.relax.struct_info import FuncStructInfo, PrimStructInfo
from eutectic.relax.struct_info_relations import (
    BaseCheckResult,
    defined_symbolic_vars,
    free_symbolic_vars,
    struct_info_base_check,
)
from eutectic.support.deep import deep
from eutectic.support.errors import WellFormedError

_LITERALS = (Constant, ShapeExpr, PrimValue, StringImm, DataTypeImm, ExternFunc, GlobalVar, Op)


def well_formed(item: IRModule | Function, check_struct_info: bool = True) -> bool:
    """Whether a module or function keeps all invariants."""
    return not problems_of(item, check_struct_info)


def verify(mod: IRModule, after: str) -> None:
    """Raise when a module breaks an invariant.

    Raises:
        WellFormedError: it does; names the pass that made the module and every problem.
    """
    problems = problems_of(mod)
    if problems:
        raise WellFormedError(f"pass {after} made an ill-formed module: {problems[0]}", notes=problems[1:])


def problems_of(item: IRModule | Function, check_struct_info: bool = True) -> list[str]:
    """Broken invariants, one sentence each; empty when there are none."""
    mod = item if isinstance(item, IRModule) else IRModule({"main": item})
    checker = _Checker(mod if isinstance(item, IRModule) else None, check_struct_info)
    for gv, function in mod.functions_items():
        if isinstance(function, Function):
            checker.function(function, gv.name_hint)
            symbol = function.attr("global_symbol")
            if isinstance(item, IRModule) and symbol is not None and symbol != gv.name_hint:
                checker.problems.append(f"{gv.name_hint} has another global_symbol: {symbol}")
    return checker.problems


@dataclass
class _Checker:
    mod: IRModule | None
    check_struct_info: bool
    problems: list[str] = field(default_factory=list)
    defined: set[Var] = field(default_factory=set)
    visible: set[Var] = field(default_factory=set)
    symbols: set[Any] = field(default_factory=set)
    where: str = ""

    def say(self, text: str) -> None:
        self.problems.append(f"{self.where}: {text}")

    def function(self, function: Function, name: str) -> None:
        outer_where, outer_visible = self.where, set(self.visible)
        self.where = f"{self.where}.{name}" if self.where else name
        self.visible = {var for var in self.visible if not isinstance(var, DataflowVar)}  # they end with their block
        outer_symbols = set(self.symbols)
        self.symbols |= set(defined_symbolic_vars(param.struct_info for param in function.params))
        for param in function.params:
            self.sizes(param.struct_info, f"the type of {param.name_hint}")
            self.define(param)
            if isinstance(param, DataflowVar):
                self.say(f"parameter {param.name_hint} is a dataflow variable")
        self.seq(function.body)
        self.purity(function)
        self.where, self.visible, self.symbols = outer_where, outer_visible, outer_symbols

    def purity(self, function: Function) -> None:
        forced = bool(function.attr("relax.force_pure", False))
        if forced and not function.is_pure:
            self.say("has the attribute relax.force_pure, and is not marked pure")
        if function.is_pure and not forced and self.where.count(".") == 0 and contains_impure_call(function.body):
            self.say("is marked pure but calls something with side effects")

    def sizes(self, item: Any, what: str) -> None:
        """Symbolic sizes must be defined: by a parameter that has them as a size, or by a match_cast."""
        if self.check_struct_info and item is not None:
            unknown = [symbol.name for symbol in free_symbolic_vars(item) if symbol not in self.symbols]
            if unknown:
                self.say(f"{what} has the symbolic size {unknown[0]}, which is not defined there")

    def define(self, var: Var) -> None:
        if var in self.defined:
            self.say(f"{var.name_hint} is bound twice")
        self.defined.add(var)
        self.visible.add(var)
        if self.check_struct_info and var.struct_info is None:
            self.say(f"{var.name_hint} has no struct info")

    @deep
    def seq(self, expr: Any) -> None:
        if not isinstance(expr, SeqExpr):
            self.say(f"a body is a {type(expr).__name__}, not a SeqExpr")
            return
        for block in expr.blocks:
            self.block(block)
        self.argument(expr.body, "the result")

    def block(self, block: BindingBlock) -> None:
        local: list[Var] = []
        for binding in block.bindings:
            self.binding(binding)
            if isinstance(binding.var, DataflowVar):
                local.append(binding.var)
                if not isinstance(block, DataflowBlock):
                    self.say(f"dataflow variable {binding.var.name_hint} is bound outside a dataflow block")
            if isinstance(block, DataflowBlock) and isinstance(binding.value, If):
                self.say(f"{binding.var.name_hint} is a conditional inside a dataflow block")
            elif isinstance(block, DataflowBlock) and contains_impure_call(binding.value):
                self.say(f"{binding.var.name_hint} has side effects inside a dataflow block")
        self.visible.difference_update(local)

    def binding(self, binding: Binding) -> None:
        value, name = binding.value, binding.var.name_hint
        match value:
            case Call():
                self.callee(value, name)
                for arg in value.args:
                    self.argument(arg, f"an argument of {name}")
            case If():
                self.argument(value.cond, f"the condition of {name}")
                for branch in (value.true_branch, value.false_branch):
                    outer = set(self.visible)
                    self.seq(branch)
                    self.visible = outer
            case Function():
                self.visible.add(binding.var)  # it may call itself
                self.function(value, name)
            case TupleGetItem():
                self.argument(value.tuple_value, name)
            case SeqExpr():
                self.say(f"{name} is bound to a SeqExpr")
            case _:
                self.argument(value, name)
        if self.check_struct_info and value.struct_info is None:
            self.say(f"the value of {name} has no struct info")
        self.types(binding, name)
        self.define(binding.var)

    def types(self, binding: Binding, name: str) -> None:
        """The type of a variable holds for its value, and its sizes are defined."""
        stated, actual = binding.var.struct_info, binding.value.struct_info
        if isinstance(binding, MatchCast):
            self.symbols |= set(defined_symbolic_vars([binding.struct_info]))
        elif self.check_struct_info and stated is not None and actual is not None and _contradict(stated, actual):
            self.say(f"{name} has type {describe_info(stated)}, its value {describe_info(actual)}")
        if not isinstance(stated, (FuncStructInfo, PrimStructInfo)):
            self.sizes(stated, f"the type of {name}")

    def callee(self, call: Call, name: str) -> None:
        if isinstance(call.op, GlobalVar):
            if self.mod is not None and call.op not in self.mod:
                self.say(f"{name} calls {call.op.name_hint}, which the module does not have")
        elif isinstance(call.op, Function):
            self.function(call.op, name)
        else:
            self.argument(call.op, f"the callee of {name}")

    @deep
    def argument(self, arg: Any, what: str) -> None:
        match arg:
            case Var():
                if arg not in self.visible:
                    self.say(f"{what} reads {arg.name_hint}, which is not visible there")
            case Tuple():
                for item in arg.fields:
                    self.argument(item, what)
            case _ if not isinstance(arg, _LITERALS):
                self.say(f"{what} is a nested {type(arg).__name__}")


def _contradict(stated: StructInfo, actual: StructInfo) -> bool:
    return struct_info_base_check(stated, actual) in (BaseCheckResult.FAIL_L0, BaseCheckResult.FAIL_L1)


register_verifier(verify)
