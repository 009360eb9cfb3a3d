"""BlockBuilder: builds functions in normal form, one binding at a time.

In normal form the arguments of calls are variables, constants, or tuples of
those; every nested call has its own binding, and every value its struct info.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from eutectic.ir.module import BaseFunc, GlobalVar, IRModule
from eutectic.ir.node import replace
from eutectic.ir.op import Op
from eutectic.ir.prim_expr import Var as ScalarVar
from eutectic.ir.structural import structural_digest, structural_equal
from eutectic.relax.base import Expr, ShapeExpr, StructInfo
from eutectic.relax.call_te import call_te
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
    convert,
    describe_info,
)
from eutectic.relax.op.registry import infer_call, op_def
from eutectic.relax.struct_info import FuncStructInfo, ObjectStructInfo
from eutectic.relax.struct_info_relations import (
    BaseCheckResult,
    defined_symbolic_vars,
    derive_call_ret_struct_info,
    erase_to_well_defined,
    struct_info_base_check,
    struct_info_lca,
)
from eutectic.support.deep import deep
from eutectic.support.errors import TypeInferenceError, WellFormedError

Leaf: TypeAlias = Var | Constant | ShapeExpr | PrimValue | StringImm | DataTypeImm | ExternFunc
_LEAVES = (Var, Constant, ShapeExpr, PrimValue, StringImm, DataTypeImm, ExternFunc, GlobalVar, Op)


@dataclass
class _Block:
    """Bindings being collected."""

    is_dataflow: bool
    bindings: list[Binding] = field(default_factory=list)
    known: dict[int, tuple[Expr, Var]] = field(default_factory=dict)


@dataclass
class _Frame:
    """A function (or nested scope) being built."""

    name: str | None
    params: tuple[Var, ...] | None
    attrs: dict[str, Any]
    pure: bool
    blocks: list[BindingBlock] = field(default_factory=list)
    result: GlobalVar | None = None
    symbols: list[ScalarVar] = field(default_factory=list)


class BlockBuilder:
    """Builds functions into a module.

    Args:
        mod: Functions that calls may refer to; copied.
    """

    _stack: ClassVar[list[BlockBuilder]] = []

    def __init__(self, mod: IRModule | None = None) -> None:
        self._mod = mod.clone() if mod is not None else IRModule()
        self._frames: list[_Frame] = []
        self._open: list[_Block] = []
        self._values: dict[Var, Expr] = {}
        self._names: dict[str, int] = {}
        self._by_digest: dict[type, dict[bytes, list[GlobalVar]]] = {}

    @staticmethod
    def current() -> BlockBuilder | None:
        """The builder whose function is being built, or None."""
        return BlockBuilder._stack[-1] if BlockBuilder._stack else None

    # ---- functions and blocks

    @contextmanager
    def function(
        self,
        name: str,
        params: Var | Sequence[Var] | None = None,
        attrs: Mapping[str, Any] | None = None,
        pure: bool = True,
        private: bool = False,
    ) -> Iterator[BlockBuilder]:
        """Build a function called `name`.

        Raises:
            RuntimeError: the body ended without `emit_func_output`.
        """
        param_vars = None if params is None else (params,) if isinstance(params, Var) else tuple(params)
        own = dict(attrs or {})
        if not private:
            own.setdefault("global_symbol", name)
        frame = _Frame(name, param_vars, own, pure, symbols=_symbols(param_vars))
        saved_names, self._names = self._names, {}
        self._frames.append(frame)
        BlockBuilder._stack.append(self)
        self._open.append(_Block(is_dataflow=False))
        try:
            yield self
        except BaseException:
            self._open.clear()
            self._frames.pop()
            raise
        finally:
            BlockBuilder._stack.pop()
            self._names = saved_names
        self._open.clear()
        self._frames.pop()
        if frame.result is None:
            raise RuntimeError(f"function {name} ended without emit_func_output")

    @contextmanager
    def dataflow(self) -> Iterator[BlockBuilder]:
        """Collect the bindings made inside into a dataflow block."""
        self._flush()
        self._open[-1] = _Block(is_dataflow=True)
        yield self
        self._flush()
        self._open[-1] = _Block(is_dataflow=False)

    def _flush(self) -> None:
        block = self._open[-1]
        if block.bindings:
            add_block(self._frames[-1].blocks, make_block(block.is_dataflow, block.bindings))
        self._open[-1] = _Block(block.is_dataflow)

    def begin_scope(self, params: Iterable[Var] | None = None) -> None:
        """Open a nested scope whose variables and symbols are visible inside only."""
        outer = self._frames[-1].symbols if self._frames else []
        param_vars = tuple(params or ())
        self._frames.append(_Frame(None, param_vars, {}, True, symbols=[*outer, *_symbols(param_vars)]))

    def end_scope(self) -> None:
        """Close the innermost nested scope."""
        self._frames.pop()

    @contextmanager
    def testing_scope(self, def_vars: Iterable[ScalarVar] = ()) -> Iterator[BlockBuilder]:
        """A scope in which `emit` works outside any function; for tests of inference."""
        self.begin_scope()
        self._frames[-1].symbols.extend(def_vars)
        self._open.append(_Block(is_dataflow=False))
        yield self
        self._open.pop()
        self.end_scope()

    def begin_block(self, is_dataflow: bool) -> None:
        """Start collecting a block; for mutators."""
        self._open.append(_Block(is_dataflow))

    def end_block(self) -> BindingBlock:
        """The block collected since `begin_block`."""
        block = self._open.pop()
        return make_block(block.is_dataflow, block.bindings)

    def current_block_is_dataflow(self) -> bool:
        """Whether bindings made now go to a dataflow block."""
        return bool(self._open) and self._open[-1].is_dataflow

    # ---- bindings

    def emit(self, expr: Any, name_hint: str = "") -> Var:
        """Bind `expr` to a new variable: `lv...` in a dataflow block, `gv...` elsewhere."""
        dataflow = self.current_block_is_dataflow()
        return self._bind(expr, name_hint or ("lv" if dataflow else "gv"), DataflowVar if dataflow else Var)

    def emit_output(self, expr: Any, name_hint: str = "") -> Var:
        """Bind `expr` to a variable that is visible outside the dataflow block.

        Raises:
            WellFormedError: no dataflow block is open.
        """
        if not self.current_block_is_dataflow():
            raise WellFormedError("emit_output is for dataflow blocks", help="use emit, or open one with bb.dataflow()")
        return self._bind(expr, name_hint or "gv", Var)

    def _bind(self, expr: Any, hint: str, kind: type[Var]) -> Var:
        value = self.normalize(convert(expr))
        var = kind(self.get_unique_name(hint), value.struct_info, value.span)
        self.emit_normalized(VarBinding(var, value))
        return var

    def match_cast(self, value: Expr, struct_info: StructInfo, name_hint: str = "") -> Var:
        """Bind `value` under another struct info, checked at run time; defines symbolic sizes.

        Raises:
            TypeInferenceError: the cast can never succeed.
        """
        value = self.normalize_argument(value)
        refuse_impossible_cast(value, struct_info)
        dataflow = self.current_block_is_dataflow()
        kind = DataflowVar if dataflow else Var
        var = kind(self.get_unique_name(name_hint or ("lv" if dataflow else "gv")), struct_info)
        self.emit_normalized(MatchCast(var, value, struct_info))
        return var

    def emit_normalized(self, binding: Binding) -> None:
        """Append a binding that is in normal form already."""
        if not self._open:
            raise WellFormedError("no block is open", help="emit inside bb.function(...) or bb.testing_scope()")
        self._open[-1].bindings.append(binding)
        if isinstance(binding, MatchCast):
            self._frames[-1].symbols.extend(defined_symbolic_vars([binding.struct_info]))
        else:
            self._values[binding.var] = binding.value

    def lookup_binding(self, var: Var) -> Expr | None:
        """The value bound to `var` so far; None for parameters and match-cast variables."""
        return self._values.get(var)

    def emit_func_output(self, output: Any, params: Var | Sequence[Var] | None = None) -> GlobalVar:
        """Finish the function; parameters are given here or to `function`.

        Raises:
            WellFormedError: called twice, or parameters are given at both places or at none.
        """
        frame = self._frames[-1]
        if frame.result is not None:
            raise WellFormedError(f"function {frame.name} already has its output")
        if (frame.params is None) == (params is None):
            raise WellFormedError(f"give the parameters of {frame.name} either to function() or to emit_func_output()")
        if params is not None:
            frame.params = (params,) if isinstance(params, Var) else tuple(params)
            frame.symbols.extend(_symbols(frame.params))
        body = self.normalize_argument(convert(output))
        self._flush()
        info = erase_to_well_defined(body.struct_info or ObjectStructInfo(), _symbols(frame.params))
        function = Function(frame.params or (), SeqExpr(tuple(frame.blocks), body), info, frame.pure, frame.attrs)
        assert frame.name is not None
        if frame.name in self._mod and "global_symbol" in frame.attrs:
            raise WellFormedError(f"the module already has a function {frame.name}")
        name = frame.name if frame.name not in self._mod else self.get_unique_global(frame.name)
        frame.result = GlobalVar(name, struct_info=function.struct_info)
        self._mod[frame.result] = function
        self._by_digest.clear()
        return frame.result

    # ---- normal form

    @deep
    def normalize(self, expr: Expr) -> Expr:
        """`expr` in normal form, with struct info; nested calls get bindings in the current block."""
        match expr:
            case Call():
                return self._normalize_call(expr)
            case Tuple():
                fields = tuple(self.normalize_argument(item) for item in expr.fields)
                same = all(a is b for a, b in zip(fields, expr.fields, strict=True))
                return expr if same and expr.struct_info is not None else Tuple(fields, span=expr.span)
            case TupleGetItem():
                value = self.normalize_argument(expr.tuple_value)
                if value is expr.tuple_value and expr.struct_info is not None:
                    return expr
                if isinstance(value, Tuple):
                    return value.fields[expr.index]
                return TupleGetItem(value, expr.index, span=expr.span)
            case SeqExpr():
                for block in expr.blocks:
                    for binding in block.bindings:
                        self.emit_normalized(binding)
                return self.normalize(expr.body)
            case If():
                return self._normalize_if(expr)
            case _:
                return expr

    def normalize_argument(self, expr: Expr) -> Expr:
        """`expr` as an argument: a leaf, or a tuple of leaves; other values are bound first."""
        if isinstance(expr, _LEAVES):
            return expr
        if isinstance(expr, Tuple):
            return self.normalize(expr)
        known = self._open[-1].known if self._open else {}
        if id(expr) in known:
            return known[id(expr)][1]
        value = self.normalize(expr)
        if isinstance(value, _LEAVES) or (isinstance(value, Tuple) and not isinstance(expr, Tuple)):
            return value
        if not self._open:
            raise WellFormedError("a nested call needs an open block for its binding")
        dataflow = self.current_block_is_dataflow()
        kind = DataflowVar if dataflow else Var
        var = kind(self.get_unique_name("lv" if dataflow else "gv"), value.struct_info, value.span)
        self.emit_normalized(VarBinding(var, value))
        known[id(expr)] = (expr, var)
        return var

    def _normalize_call(self, call: Call) -> Expr:
        op = call.op
        if isinstance(op, Expr) and not isinstance(op, (_LEAVES, Function)):
            op = self.normalize_argument(op)
        args = tuple(self.normalize_argument(arg) for arg in call.args)
        same = op is call.op and all(a is b for a, b in zip(args, call.args, strict=True))
        if same and call.struct_info is not None:
            return call
        fresh = call if same else Call(op, args, call.attrs, call.sinfo_args, call.span)
        return replace(fresh, struct_info=self.infer(fresh))

    def _normalize_if(self, expr: If) -> If:
        branches = []
        for branch in (expr.true_branch, expr.false_branch):
            if isinstance(branch, SeqExpr) and branch.struct_info is not None:
                branches.append(branch)
                continue
            self.begin_block(is_dataflow=False)
            body = self.normalize_argument(branch)
            block = self.end_block()
            branches.append(SeqExpr((block,) if block.bindings else (), body))
        cond = self.normalize_argument(expr.cond)
        infos = [branch.struct_info or ObjectStructInfo() for branch in branches]
        return If(cond, *branches, struct_info=struct_info_lca(*infos), span=expr.span)

    def infer(self, call: Call) -> StructInfo:
        """Struct info of a call whose arguments are in normal form.

        Raises:
            TypeInferenceError: the callee cannot take the arguments.
        """
        op = call.op
        if isinstance(op, Op):
            if op_def(op) is None:
                return call.sinfo_args[0] if call.sinfo_args else ObjectStructInfo()
            return infer_call(call).struct_info or ObjectStructInfo()
        if call.sinfo_args:
            return call.sinfo_args[0]
        signature = op.struct_info
        if isinstance(op, GlobalVar) and op in self._mod:
            signature = getattr(self._mod[op], "struct_info", None)
        if isinstance(signature, FuncStructInfo):
            return derive_call_ret_struct_info(signature, call)
        return ObjectStructInfo()

    # ---- tensor expressions

    def call_te(
        self,
        func: Callable[..., Any],
        *args: Any,
        primfunc_name_hint: str | None = None,
        primfunc_attrs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Call:
        """A call of the tensor program that `func` defines on the arguments' tensors; see `relax.call_te`."""
        return call_te(self.add_func, func, args, kwargs, name=primfunc_name_hint, attrs=primfunc_attrs)

    def emit_te(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Var:
        """Bind `call_te` with the same arguments to a new variable."""
        return self.emit(self.call_te(func, *args, **kwargs))

    # ---- module and names

    def add_func(self, function: BaseFunc, name: str) -> GlobalVar:
        """Add a function; a structurally equal one of the module is shared instead.

        Returns:
            The variable of the existing or the new function; a name in use gets a number.
        """
        kind = type(function)  # of the other kinds none is equal, and a graph function may hold all of the weights
        if kind not in self._by_digest:
            self._by_digest[kind] = {}
            for gv, known in self._mod.functions_items():
                if type(known) is kind:
                    self._by_digest[kind].setdefault(structural_digest(known, is_exact=False), []).append(gv)
        digest = structural_digest(function, is_exact=False)
        for gv in self._by_digest[kind].get(digest, ()):
            if gv in self._mod and structural_equal(self._mod[gv], function):
                return gv
        gv = GlobalVar(self.get_unique_global(name), struct_info=getattr(function, "struct_info", None))
        self._mod[gv] = function
        self._by_digest[kind].setdefault(digest, []).append(gv)
        return gv

    def update_func(self, gv: GlobalVar, function: BaseFunc) -> None:
        """Add or replace a function."""
        self._mod[gv] = function
        self._by_digest.clear()

    def get_unique_global(self, name: str) -> str:
        """`name` made an identifier and, when in use, given the first free number."""
        base = re.sub(r"\W", "_", name) or "f"
        taken, number = base, 0
        while taken in self._mod:
            number += 1
            taken = f"{base}{number}"
        return taken

    def get_unique_name(self, hint: str) -> str:
        """A variable name not yet given out in this function."""
        count = self._names.get(hint, 0)
        self._names[hint] = count + 1
        return hint if count == 0 else f"{hint}{count}"

    def get(self) -> IRModule:
        """The module built so far."""
        return self._mod

    def finalize(self) -> IRModule:
        """The module, with each public function's `global_symbol` equal to its name."""
        for gv, function in self._mod.functions_items():
            symbol = function.attrs.get("global_symbol") if function.attrs else None
            if symbol not in (None, gv.name_hint):
                self._mod[gv] = function.with_attr("global_symbol", gv.name_hint)
        return self._mod


def refuse_impossible_cast(value: Expr, struct_info: StructInfo) -> None:
    """Check that a `match_cast` may succeed.

    Raises:
        TypeInferenceError: it cannot, whatever the value is.
    """
    info = value.struct_info or ObjectStructInfo()
    checks = (struct_info_base_check(info, struct_info), struct_info_base_check(struct_info, info))
    if all(check is BaseCheckResult.FAIL_L0 for check in checks):
        raise TypeInferenceError(
            f"match_cast of {describe_info(info)} to {describe_info(struct_info)} can never succeed"
        )


def _symbols(params: Iterable[Var] | None) -> list[ScalarVar]:
    return defined_symbolic_vars(param.struct_info for param in params or ())


def make_block(is_dataflow: bool, bindings: Iterable[Binding]) -> BindingBlock:
    """A block of the given kind."""
    return DataflowBlock(tuple(bindings)) if is_dataflow else BindingBlock(tuple(bindings))


def add_block(blocks: list[BindingBlock], block: BindingBlock) -> None:
    """Append a block: empty ones vanish, adjacent ones of one kind become one."""
    if not block.bindings:
        return
    if blocks and type(blocks[-1]) is type(block):
        blocks[-1] = type(block)((*blocks[-1].bindings, *block.bindings))
    else:
        blocks.append(block)
