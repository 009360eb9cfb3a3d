"""Graph functions from their syntax."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from eutectic.ir.module import IRModule
from eutectic.ir.node import init_field
from eutectic.ir.prim_expr import Var as ScalarVar
from eutectic.relax.base import Expr, StructInfo
from eutectic.relax.block_builder import BlockBuilder, refuse_impossible_cast
from eutectic.relax.expr import (
    Binding,
    BindingBlock,
    Call,
    DataflowVar,
    Function,
    If,
    MatchCast,
    SeqExpr,
    TupleGetItem,
    Var,
    VarBinding,
    const,
    convert,
    describe_info,
)
from eutectic.relax.struct_info import FuncStructInfo, ObjectStructInfo, TupleStructInfo
from eutectic.relax.struct_info_relations import BaseCheckResult, erase_to_well_defined, struct_info_base_check
from eutectic.script.annotations import Annotation, Deferred
from eutectic.script.parser.decorators import decorator_of
from eutectic.script.parser.environment import Environment, Scopes
from eutectic.script.parser.evaluate import Evaluator
from eutectic.script.parser.source import Source
from eutectic.script.parser.symbols import Symbols, declared_dtypes
from eutectic.script.parser.syntax import (
    as_value,
    bound_names,
    is_graph_tuple,
    is_output,
    kind_of,
    parameters,
    without_docstring,
)
from eutectic.script.statements import Dataflow, EmitTE, FuncAttrs, MatchCastOf, Output
from eutectic.support.deep import deep

_LOOPS: Final = "graph functions have no loops; write a @T.prim_func, or unroll in Python around BlockBuilder"


@dataclass(frozen=True)
class FunctionOptions:
    """Arguments of a function's decorator."""

    pure: bool = True
    private: bool = False
    local: bool = False
    name: str | None = None

    @staticmethod
    def of(keywords: Mapping[str, Any]) -> FunctionOptions:
        """Options from the keyword arguments of a decorator."""
        return FunctionOptions(
            bool(keywords.get("pure", True)), bool(keywords.get("private", False)), name=keywords.get("name")
        )


class _Evaluator(Evaluator):
    """Lets operators be called with types that mention sizes in quotes."""

    def __init__(self, source: Source, scopes: Scopes, environment: Environment, parser: RelaxParser) -> None:
        super().__init__(source, scopes, environment)
        self._parser = parser

    def argument(self, value: Any, node: ast.expr) -> Any:
        """Types as struct info; everything else as it is."""
        return self._parser.symbols.types_in(value, node)


@dataclass
class _Block:
    """The dataflow block being parsed, if any.

    Attributes:
        outputs: Names visible afterwards, with the position of the statement that gives each its last value.
        hidden: Names bound inside only.
    """

    outputs: dict[str, int] = field(default_factory=dict)
    index: int = 0
    hidden: set[str] = field(default_factory=set)


class RelaxParser:
    """Parses functions of the graph dialect.

    Args:
        source: The text.
        environment: Names around the function.
        scopes: Variables of the surroundings, such as the module.
        programs: Tensor programs that `R.emit_te` has added so far; None where there is no module.
    """

    def __init__(
        self,
        source: Source,
        environment: Environment,
        scopes: Scopes | None = None,
        programs: IRModule | None = None,
    ) -> None:
        self.source = source
        self.scopes = scopes or Scopes()
        self.evaluator = _Evaluator(source, self.scopes, environment, self)
        self.builder = BlockBuilder(programs)
        self.has_module = programs is not None
        self.symbols = Symbols(self.evaluator, None, {})
        self._block: _Block | None = None

    # ---- functions

    def signature(self, node: ast.FunctionDef, options: FunctionOptions) -> FuncStructInfo | None:
        """Type of a function from its header alone; None when the result is not annotated."""
        if node.returns is None:
            return None
        with self._function_scope(node):
            params = self._params(node)
            ret = self._type(node.returns)
        infos = tuple(param.struct_info or ObjectStructInfo() for param in params)
        return FuncStructInfo(infos, ret, options.pure)

    def function(self, node: ast.FunctionDef, options: FunctionOptions) -> Function:
        """A function.

        Raises:
            ScriptError: it is not well written.
            TypeInferenceError: an operator refuses its arguments.
        """
        outer_block, self._block = self._block, None
        try:
            with self._function_scope(node):
                params = self._params(node)
                ret = self._type(node.returns) if node.returns is not None else None
                attrs: dict[str, Any] = (
                    {} if options.private or options.local else {"global_symbol": options.name or node.name}
                )
                self.builder.begin_scope(params)
                try:
                    body = self._function_body(node, attrs)
                finally:
                    self.builder.end_scope()
                self._check_type(node.returns or node, ret, body.body.struct_info, "the returned value")
                if ret is None:
                    ret = erase_to_well_defined(body.struct_info or ObjectStructInfo(), self.symbols.known.values())
        finally:
            self._block = outer_block
        return Function(params, body, ret, options.pure, attrs, self.source.span(node))

    @contextmanager
    def _function_scope(self, node: ast.FunctionDef) -> Iterator[None]:
        outer = self.symbols
        self.symbols = Symbols(self.evaluator, outer, declared_dtypes(node.body))
        with self.scopes.frame():
            yield
        self.symbols = outer

    def _params(self, node: ast.FunctionDef) -> list[Var]:
        values: list[tuple[ast.arg, Any]] = []
        for arg in parameters(node, self.source):
            assert arg.annotation is not None
            values.append((arg, self.evaluator.value(arg.annotation)))
        self.symbols.define_in(value for _, value in values)
        params = []
        for arg, value in values:
            assert arg.annotation is not None
            info = self.symbols.resolve(value, arg.annotation)
            params.append(Var(arg.arg, info, self.source.span(arg)))
            self.scopes.define(arg.arg, params[-1])
        for name, symbol in self.symbols.known.items():
            if name not in self.scopes.known():
                self.scopes.define(name, symbol)
        return params

    def _type(self, node: ast.expr, *, define: bool = False) -> StructInfo:
        return self.symbols.resolve(self.evaluator.value(node), node, define=define)

    def _function_body(self, node: ast.FunctionDef, attrs: dict[str, Any]) -> SeqExpr:
        statements = without_docstring(node.body)
        if not statements or not isinstance(statements[-1], ast.Return):
            late = next((s for s in statements if isinstance(s, ast.Return)), None)
            if late is not None:
                after = statements[statements.index(late) + 1]
                self.source.refuse(after, "nothing may follow the return of a function")
            last = statements[-1] if statements else node
            self.source.refuse(last, f"function {node.name} ends without return", help="add `return <value>`")
        end = statements[-1]
        assert isinstance(end, ast.Return)
        if end.value is None:
            self.source.refuse(end, "return needs a value", help="write `return R.tuple()` for nothing")
        blocks: list[BindingBlock] = []
        self.builder.begin_block(is_dataflow=False)
        self._statements(statements[:-1], blocks, attrs)
        value = self._expr(end.value)
        result = self._guarded(end, lambda: self.builder.normalize_argument(value))
        self._close_block(blocks)
        return SeqExpr(tuple(blocks), result)

    # ---- statements

    @deep
    def _statements(self, statements: Sequence[ast.stmt], blocks: list[BindingBlock], attrs: dict[str, Any]) -> None:
        for index, statement in enumerate(statements):
            if self._block is not None:
                self._block.index = index
            if isinstance(statement, ast.With):
                self._with(statement, blocks)
                continue
            method = getattr(self, f"_{type(statement).__name__}", self._refuse_statement)
            method(statement, attrs)

    def _refuse_statement(self, statement: ast.stmt, _: dict[str, Any]) -> None:
        help = None
        match statement:
            case ast.For() | ast.While() | ast.AsyncFor():
                message, help = "a loop in a graph function", _LOOPS
            case ast.AugAssign():
                message, help = "assignment with an operator", "write it out: x = x + y"
            case ast.Return() if self._block is not None:
                message = "return inside a dataflow block"
                help = "list the value in R.output(...) and return it after the block"
            case ast.Return():
                message = "return inside a branch"
                help = "let both branches bind the same variable and return it after the if"
            case ast.ClassDef() | ast.Import() | ast.ImportFrom() | ast.Try():
                message = f"a {type(statement).__name__} statement in a graph function"
            case _:
                message = f"{type(statement).__name__} statements are not part of graph functions"
        self.source.refuse(statement, message, help=help)

    def _Pass(self, _: ast.Pass, __: dict[str, Any]) -> None:
        return

    _Nonlocal = _Global = _Pass  # names of the code around are seen, and nothing here changes them

    def _Expr(self, node: ast.Expr, attrs: dict[str, Any]) -> None:
        value = self.evaluator.value(node.value)
        match value:
            case FuncAttrs():
                attrs.update(value.values)
            case Output():
                help = "it is the last statement of a `with R.dataflow():` block"
                self.source.refuse(node, "R.output is in the wrong place", help=help)
            case MatchCastOf():
                self._match_cast("_", value, node, None)
            case Expr():
                self._bind("_", value, node, None)
            case None | str():
                return
            case Annotation() | Deferred():
                self.source.refuse(node, "a type on its own has no effect", help="write `name: type = value`")
            case _:
                self.source.refuse(node, f"a {type(value).__name__} on its own is not a statement")

    def _Assign(self, node: ast.Assign, _: dict[str, Any]) -> None:
        if len(node.targets) != 1:
            self.source.refuse(node, "one target per assignment")
        self._assign(node.targets[0], node.value, node, None)

    def _AnnAssign(self, node: ast.AnnAssign, _: dict[str, Any]) -> None:
        if node.value is None:
            self.source.refuse(node, "a variable needs a value")
        self._assign(node.target, node.value, node, node.annotation)

    def _assign(self, target: ast.expr, value_node: ast.expr, node: ast.stmt, annotation: ast.expr | None) -> None:
        value = self._program_called(self.evaluator.value(value_node), value_node)
        if isinstance(target, (ast.Tuple, ast.List)):
            self._assign_parts(target, value, node)
            return
        if not isinstance(target, ast.Name):
            self.source.refuse(target, "only names can be assigned to; values of a graph never change")
        if is_graph_tuple(value) and (value or annotation is not None):
            value = convert(value)
        if isinstance(value, (bool, int, float)):
            value = self._guarded(value_node, lambda: const(value))
        match value:
            case MatchCastOf():
                self._match_cast(target.id, value, node, annotation)
            case ScalarVar() if value.name == "":
                declared = self._guarded(node, lambda: self.symbols.declare(target.id, value.dtype, kind=type(value)))
                self.scopes.define(target.id, declared)
            case Expr():
                self._bind(target.id, value, node, annotation)
            case FuncAttrs() | Output() | Dataflow() | Annotation() | Deferred():
                self.source.refuse(value_node, f"a {type(value).__name__} is not a value")
            case _:
                if annotation is not None:
                    self.source.refuse(value_node, f"a typed variable needs a graph value, got {kind_of(value)}")
                self.scopes.define(target.id, value)  # known while parsing only: a list, a symbol, the module

    def _program_called(self, value: Any, node: ast.expr) -> Any:
        """The call of a tensor program that is defined where it is called; other values as they are."""
        if not isinstance(value, EmitTE):
            return value
        if not self.has_module:
            self.source.refuse(node, "R.emit_te outside of a module", help="put the function into an @I.ir_module")
        return self._guarded(node, lambda: self.builder.call_te(value.function, *value.args, **value.keywords))

    def _assign_parts(self, target: ast.Tuple | ast.List, value: Any, node: ast.stmt) -> None:
        if not isinstance(value, Expr):
            parts: dict[str, Any] = {}
            self.evaluator.unpack(target, value, parts)
            for name, part in parts.items():
                if isinstance(part, Expr):
                    self._bind(name, part, node, None)
                else:
                    self.scopes.define(name, part)
            return
        bound = self._guarded(node, lambda: self.builder.normalize_argument(value))
        info = bound.struct_info
        if not isinstance(info, TupleStructInfo):
            self.source.refuse(node, f"cannot unpack a value of type {describe_info(info)}")
        if len(info.fields) != len(target.elts):
            self.source.refuse(target, f"{len(target.elts)} names for a tuple of {len(info.fields)} fields")
        for index, part in enumerate(target.elts):
            if not isinstance(part, ast.Name):
                self.source.refuse(part, "only names can be assigned to")
            self._bind(part.id, bound[index], node, None)

    # ---- bindings

    def _kind_of(self, name: str) -> type[Var]:
        """Whether a name bound by the present statement is visible outside its dataflow block."""
        if self._block is None:
            return Var
        if self._block.outputs.get(name) == self._block.index:
            return Var
        self._block.hidden.add(name)
        return DataflowVar

    def _bind(self, name: str, value: Any, node: ast.stmt, annotation: ast.expr | None) -> Var:
        stated = self._type(annotation) if annotation is not None else None
        bound = self._guarded(node, lambda: self.builder.normalize(convert(value)))
        info = bound.struct_info
        if annotation is not None:
            self._check_type(annotation, stated, info, f"the value of {name}")
        var = self._kind_of(name)(name, stated or info, bound.span or self.source.span(node))
        self._emit(VarBinding(var, bound))
        self.scopes.define(name, var)
        return var

    def _match_cast(self, name: str, cast: MatchCastOf, node: ast.stmt, annotation: ast.expr | None) -> None:
        at = node.value if isinstance(node, (ast.Assign, ast.AnnAssign, ast.Expr)) and node.value else node
        known = set(self.symbols.known)
        info = self.symbols.resolve(cast.struct_info, at, define=True)
        for symbol in set(self.symbols.known) - known:
            self.scopes.define(symbol, self.symbols.known[symbol])
        if annotation is not None:
            stated = self._type(annotation)
            if stated != info:
                text = f"{describe_info(stated)} is not the type that the cast states, {describe_info(info)}"
                self.source.refuse(annotation, text)
        if not isinstance(cast.value, Expr):
            self.source.refuse(at, f"match_cast takes a graph value, got {kind_of(cast.value)}")
        value = self._guarded(at, lambda: self.builder.normalize_argument(cast.value))
        self._guarded(at, lambda: refuse_impossible_cast(value, info))
        var = self._kind_of(name)(name, info, self.source.span(node))
        self._emit(MatchCast(var, value, info))
        self.scopes.define(name, var)

    def _emit(self, binding: Binding) -> None:
        self.builder.emit_normalized(binding)

    def _check_type(self, node: ast.AST, stated: StructInfo | None, actual: StructInfo | None, what: str) -> None:
        if stated is None or actual is None:
            return
        if struct_info_base_check(stated, actual) in (BaseCheckResult.FAIL_L0, BaseCheckResult.FAIL_L1):
            self.source.refuse(
                node, f"{what} has type {describe_info(actual)}, not {describe_info(stated)} as stated here"
            )

    # ---- blocks

    def _close_block(self, blocks: list[BindingBlock]) -> None:
        block = self.builder.end_block()
        if block.bindings:
            blocks.append(block)

    def _with(self, node: ast.With, blocks: list[BindingBlock]) -> None:
        item = node.items[0]
        if len(node.items) != 1 or item.optional_vars is not None:
            self.source.refuse(node, "expected `with R.dataflow():`")
        value = self.evaluator.value(item.context_expr)
        if not isinstance(value, Dataflow):
            self.source.refuse(item.context_expr, f"expected R.dataflow(), got {kind_of(value)}")
        if self._block is not None:
            self.source.refuse(node, "dataflow blocks do not nest")
        self._close_block(blocks)
        self._block = self._outputs_of(node)
        self.builder.begin_block(is_dataflow=True)
        with self.scopes.frame() as inside:
            self._statements(node.body[:-1], blocks, {})
        blocks.append(self.builder.end_block())
        for name in self._block.hidden - set(self._block.outputs):
            self.scopes.hidden[name] = f"{name} is bound in a dataflow block that does not list it in R.output"
        for name, value in inside.items():
            if name in self._block.outputs or not isinstance(value, DataflowVar):
                self.scopes.define(name, value)
        self._block = None
        self.builder.begin_block(is_dataflow=False)

    def _outputs_of(self, node: ast.With) -> _Block:
        """Names in the `R.output` that ends a dataflow block, with the statements that bind them last."""
        last = node.body[-1]
        call = last.value if isinstance(last, ast.Expr) else None
        if not isinstance(call, ast.Call) or not is_output(call):
            early = next((s for s in node.body if isinstance(s, ast.Expr) and is_output(s.value)), None)
            if early is not None:
                self.source.refuse(early, "R.output must be the last statement of its dataflow block")
            self.source.refuse(last, "a dataflow block must end with R.output(...)")
        block = _Block()
        for arg in call.args:
            if not isinstance(arg, ast.Name):
                self.source.refuse(arg, "R.output takes names of variables")
            bound = [i for i, s in enumerate(node.body[:-1]) if arg.id in bound_names(s)]
            if not bound:
                self.source.refuse(arg, f"{arg.id} is not bound in this dataflow block")
            block.outputs[arg.id] = bound[-1]
        return block

    def _If(self, node: ast.If, _: dict[str, Any]) -> None:
        cond = self._expr(node.test)
        if not node.orelse:
            self.source.refuse(node, "an if needs an else", help="both branches bind the same variable")
        (name, then), (other, orelse) = self._branch(node.body), self._branch(node.orelse)
        if name != other:
            text = f"both branches must end by binding the same variable, they bind {name} and {other}"
            self.source.refuse(node.orelse[-1], text)
        self._bind(name, If(cond, then, orelse, span=self.source.span(node)), node, None)

    def _branch(self, statements: list[ast.stmt]) -> tuple[str, SeqExpr]:
        last = statements[-1]
        names = bound_names(last)
        if len(names) != 1 or isinstance(last, ast.With):
            self.source.refuse(last, "a branch must end by binding a variable")
        name = names[0]
        outer, self._block = self._block, None
        blocks: list[BindingBlock] = []
        self.builder.begin_block(is_dataflow=False)
        with self.scopes.frame():
            self._statements(statements, blocks, {})
            result = self.scopes.find(name)
        last_block = self.builder.end_block()
        bindings = last_block.bindings
        # A branch ends with its value: a last binding that only names a value is that value.
        computed = (Call, If, Function, TupleGetItem)
        if bindings and bindings[-1].var is result and not isinstance(bindings[-1].value, computed):
            result, bindings = bindings[-1].value, bindings[:-1]
        if bindings:
            blocks.append(BindingBlock(bindings))
        self._block = outer
        return name, SeqExpr(tuple(blocks), result)

    def _FunctionDef(self, node: ast.FunctionDef, _: dict[str, Any]) -> None:
        """A nested function, bound to its name."""
        kind, keywords = decorator_of(node, self.evaluator)
        if kind != "relax.function":
            self.source.refuse(node, "a nested function needs @R.function")
        options = replace(FunctionOptions.of(keywords), local=True)
        signature = self.signature(node, options)
        span = self.source.span(node)
        var = self._kind_of(node.name)(node.name, signature, span)
        self.scopes.define(node.name, var)  # so that it may call itself
        function = self.function(node, options)
        if signature is None:
            init_field(var, "struct_info", function.struct_info)
        self._emit(VarBinding(var, function))

    # ---- expressions

    def _expr(self, node: ast.expr) -> Expr:
        value = self.evaluator.value(node)
        if isinstance(value, (Annotation, Deferred, FuncAttrs, Output, Dataflow, MatchCastOf)):
            self.source.refuse(node, f"expected a graph value, got {kind_of(value)}")
        return self._guarded(node, lambda: as_value(value))  # type: ignore[no-any-return]  # the lambda is typed

    def _guarded(self, node: ast.AST, compute: Any) -> Any:
        return self.evaluator.guard(node, compute)
