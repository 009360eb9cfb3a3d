"""Tensor programs from their syntax: functions, loops and plain statements. Blocks are in `tir_blocks`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from eutectic.ir.dtype import is_float, is_integer
from eutectic.ir.node import replace
from eutectic.ir.prim_expr import IntImm, PrimExpr, Var, as_prim, cast, element_dtype
from eutectic.ir.prim_type import PrimType, Type
from eutectic.script.dtypes import DType
from eutectic.script.parser.environment import Environment, Scopes
from eutectic.script.parser.source import Source
from eutectic.script.parser.syntax import parameters, without_docstring
from eutectic.script.parser.tir_blocks import BlockFrame, region_of
from eutectic.script.parser.tir_evaluator import TirEvaluator
from eutectic.script.parser.tir_scoped import Scoped, Wrap, scoped
from eutectic.script.statements import FuncAttrs
from eutectic.script.tir_statements import (
    AllocateOf,
    AssertOf,
    AttrOf,
    Axis,
    BlockAttrs,
    BlockOf,
    BufferSpec,
    InitOf,
    LaunchOf,
    LetOf,
    Loop,
    Loops,
    MetaVar,
    Regions,
    Remap,
    Where,
)
from eutectic.support.deep import deep
from eutectic.tir.buffer import Buffer
from eutectic.tir.complete import complete
from eutectic.tir.function import PrimFunc
from eutectic.tir.iter_var import Range
from eutectic.tir.op import ret
from eutectic.tir.stmt import (
    AssertStmt,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
    While,
    seq,
)


class TirParser:
    """Parses tensor programs.

    Args:
        source: The text.
        environment: Names around the function.
        scopes: Variables of the surroundings, such as the module.
    """

    def __init__(self, source: Source, environment: Environment, scopes: Scopes | None = None) -> None:
        self.source = source
        self.scopes = scopes or Scopes()
        self.evaluator = TirEvaluator(source, self.scopes, environment)
        self.frame: BlockFrame | None = None
        self.ranges: dict[int, Range] = {}  # of loop variables, by identity
        self._kept: list[Var] = []  # so that no other object gets the identity of one
        self._params: list[Var] = []
        self._buffers: dict[Var, Buffer] = {}
        self._attrs: dict[str, Any] = {}
        self._allocated: list[Buffer] = []

    def function(self, node: ast.FunctionDef, *, private: bool, name: str | None = None) -> PrimFunc:
        """A function.

        Args:
            node: Its definition.
            private: Whether it is without a `global_symbol`.
            name: Its name, where that is no identifier.

        Raises:
            ScriptError: it is not well written.
        """
        self._attrs = {} if private else {"global_symbol": name or node.name}
        with self.scopes.frame():
            for arg in parameters(node, self.source):
                self._param(arg)
            result = self._result(node.returns) if node.returns is not None else None
            body = self.sequence(without_docstring(node.body))
        function = PrimFunc(
            tuple(self._params),
            body,
            ret_type=result,  # type: ignore[arg-type]  # None is void
            buffer_map=self._buffers,  # type: ignore[arg-type]  # converted by the node
            attrs=self._attrs,  # type: ignore[arg-type]  # converted by the node
            span=self.source.span(node),
        )
        return self.guard(node, lambda: complete(function, self._allocated))  # type: ignore[no-any-return]  # as complete says

    # ---- parameters

    def _param(self, arg: ast.arg) -> None:
        assert arg.annotation is not None
        value = self.evaluator.value(arg.annotation)
        match value:
            case DType():
                var = Var(arg.arg, value.dtype)
                self.scopes.define(arg.arg, var)
            case Var() if value.name == "":
                var = replace(value, name=arg.arg)
                self.scopes.define(arg.arg, var)
            case BufferSpec(kind="param"):
                buffer = self.guard(arg.annotation, lambda: value.build(arg.arg))
                var = Var(arg.arg, "handle")
                self._buffers[var] = buffer
                self.scopes.define(arg.arg, buffer)
            case _:
                expected = 'expected a type such as T.Buffer((8,), "float32"), T.handle or T.int32'
                self.source.refuse(arg.annotation, f"{expected}, got {type(value).__name__}")
        self._params.append(var)

    def _result(self, node: ast.expr) -> Any:
        value = self.evaluator.value(node)
        match value:
            case None | Type():
                return value
            case DType():
                return PrimType(value.dtype)
            case Var() if value.type_annotation is not None:
                return value.type_annotation
        raise self.source.error(node, f"expected the type of a result such as T.int32, got {type(value).__name__}")

    # ---- sequences

    def sequence(self, statements: Sequence[ast.stmt]) -> Stmt:
        """Statements as one; what binds a name for the rest of its sequence takes the rest as its body."""
        done: list[Stmt] = []
        holding: list[tuple[list[Stmt], Wrap, ast.stmt]] = []  # what came before a binding, and the binding
        for statement in statements:
            wrap = self.statement(statement, done)
            if wrap is not None:
                holding.append((done, wrap, statement))
                done = []
        body = seq(*done)
        for before, wrap, statement in reversed(holding):
            body = seq(*before, self._wrapped(wrap, body, statement))
        return body

    def _wrapped(self, wrap: Wrap, rest: Stmt, node: ast.AST) -> Stmt:
        wrapped: Stmt = self.guard(node, lambda: wrap(rest))
        return wrapped

    @deep
    def statement(self, node: ast.stmt, done: list[Stmt]) -> Wrap | None:
        """Parse one statement: append what it is to `done`, or return what it makes of the rest."""
        match node:
            case ast.For():
                done.append(self._for(node))
            case ast.While():
                condition = self._condition(node.test)
                done.append(While(condition, self._body(node.body), span=self.source.span(node)))
            case ast.If():
                self._if(node, done)
            case ast.With():
                stmt = self._with(node)
                if stmt is not None:
                    done.append(stmt)
            case ast.Assert():
                return self._assert(node)
            case ast.Assign():
                return self._assign(node, done)
            case ast.AnnAssign():
                return self._annotated(node)
            case ast.AugAssign():
                self._augmented(node, done)
            case ast.Expr():
                return self._expression(node, done)
            case ast.Return():
                value = self.evaluator.value(node.value) if node.value is not None else None
                if value is not None:
                    done.append(Evaluate(self.guard(node, lambda: ret(value))))
            case ast.Pass() | ast.Nonlocal() | ast.Global():
                return None
            case _:
                kind = type(node).__name__
                self.source.refuse(node, f"{kind} statements are not part of tensor programs")
        return None

    def _body(self, statements: Sequence[ast.stmt]) -> Stmt:
        with self.scopes.frame():
            return self.sequence(statements)

    # ---- control flow

    def _for(self, node: ast.For) -> Stmt:
        if node.orelse:
            self.source.refuse(node.orelse[0], "a loop has no else")
        value = self.evaluator.value(node.iter)
        if isinstance(value, range):
            if value.step != 1:
                self.source.refuse(node.iter, "loops step by one", help="multiply the variable in the body")
            value = Loops((Loop(Range(value.start, value.stop)),))
        if not isinstance(value, Loops):
            expected = "expected loops such as T.grid(8, 8) or T.serial(8)"
            self.source.refuse(node.iter, f"{expected}, got {type(value).__name__}")
        targets = node.target.elts if isinstance(node.target, (ast.Tuple, ast.List)) else [node.target]
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        if len(names) != len(targets):
            self.source.refuse(node.target, "loop variables are names")
        if len(names) != len(value.loops):
            self.source.refuse(node.target, f"{len(names)} variables for {len(value.loops)} loops")
        variables = [Var(name, loop.limits.extent.dtype) for name, loop in zip(names, value.loops, strict=True)]
        with self.scopes.frame():
            for var, loop in zip(variables, value.loops, strict=True):
                self.ranges[id(var)] = loop.limits
                self._kept.append(var)
                self.scopes.define(var.name, var)
            body = self.sequence(node.body)
        for var, loop in reversed(list(zip(variables, value.loops, strict=True))):
            body = self._loop(var, loop, body, node)
        return body

    def _loop(self, var: Var, loop: Loop, body: Stmt, node: ast.For) -> Stmt:
        attrs: Any = loop.annotations
        fields = (loop.limits.min, loop.limits.extent, loop.kind)
        span = self.source.span(node)
        stmt: Stmt = self.guard(node.iter, lambda: For(var, *fields, body, loop.thread, attrs, span=span))
        return stmt

    def _condition(self, node: ast.expr) -> PrimExpr:
        value = self.evaluator.value(node)
        if isinstance(value, bool):
            return IntImm("bool", int(value))
        if not isinstance(value, PrimExpr):
            self.source.refuse(node, f"expected a condition, got {type(value).__name__}")
        if value.dtype != "bool":
            self.source.refuse(node, f"expected a condition, got a value of {value.dtype}", help="compare it: x != 0")
        return value

    def _if(self, node: ast.If, done: list[Stmt]) -> None:
        value = self.evaluator.value(node.test)
        if isinstance(value, bool):  # known while parsing: only one branch is part of the program
            chosen = node.body if value else node.orelse
            if chosen:
                done.append(self._body(chosen))
            return
        condition = self._condition(node.test)
        orelse = self._body(node.orelse) if node.orelse else None
        done.append(IfThenElse(condition, self._body(node.body), orelse, span=self.source.span(node)))

    def _assert(self, node: ast.Assert) -> Wrap:
        condition = self._condition(node.test)
        message = self.evaluator.value(node.msg) if node.msg is not None else "assertion failed"
        if not isinstance(message, str):
            self.source.refuse(node.msg or node, f"the message must be a string, got {type(message).__name__}")
        span = self.source.span(node)
        return lambda rest: AssertStmt(condition, message, rest, span=span)  # type: ignore[arg-type]  # converted

    def _with(self, node: ast.With) -> Stmt | None:
        first, *more = node.items
        value = self.evaluator.value(first.context_expr)
        inner = [ast.copy_location(ast.With(items=more, body=node.body), node)] if more else node.body
        name = first.optional_vars
        if name is not None and not isinstance(name, ast.Name):
            self.source.refuse(name, "only names can be bound")
        match value:
            case BlockOf():
                return self._block(value, inner, node)
            case InitOf():
                frame = self._block_frame(node, "T.init()")
                if frame.init is not None:
                    self.source.refuse(node, "a block has one T.init()")
                frame.init = self._body(inner)
                return None
            case AttrOf() | AllocateOf() | LetOf() | LaunchOf() | AssertOf() | BufferSpec(kind="decl"):
                with self.scopes.frame():
                    wrap = self._scoped(value, name.id if name is not None else "", first.context_expr)
                    body = self.sequence(inner)
                return self._wrapped(wrap, body, node)
        expected = "expected T.block(...), T.init(), T.attr(...), T.allocate(...), T.decl_buffer(...) or T.LetStmt(...)"
        raise self.source.error(first.context_expr, f"{expected}, got {type(value).__name__}")

    def _scoped(self, value: Scoped, name: str, node: ast.AST) -> Wrap:
        """What a statement that binds `name` for the rest of a sequence makes of that rest."""
        binding: tuple[Any, Wrap] = self.guard(node, lambda: scoped(value, name, self.source.span(node)))
        if binding[0] is not None:
            self.scopes.define(name, binding[0])
        return binding[1]

    # ---- blocks

    def _block(self, value: BlockOf, statements: Sequence[ast.stmt], node: ast.With) -> Stmt:
        outer, self.frame = self.frame, BlockFrame(value.name)
        with self.scopes.frame():
            body = self.sequence(statements)
        frame, self.frame = self.frame, outer
        block: Stmt = self.guard(node, lambda: frame.finish(body, self.source.span(node), realize=not value.no_realize))
        return block

    def _block_frame(self, node: ast.AST, what: str) -> BlockFrame:
        if self.frame is None:
            self.source.refuse(node, f"{what} outside of a block", help='open one: with T.block("name"):')
        return self.frame

    # ---- assignments

    def _assign(self, node: ast.Assign, done: list[Stmt]) -> Wrap | None:
        if len(node.targets) != 1:
            self.source.refuse(node, "one target per assignment")
        target = node.targets[0]
        if isinstance(target, ast.Subscript):
            done.append(self._store(target, node.value, node))
            return None
        value = self.evaluator.value(node.value)
        if isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target, value, node)
            return None
        if not isinstance(target, ast.Name):
            self.source.refuse(target, "only names and elements of buffers can be assigned to")
        return self._bind(target.id, value, node)

    def _bind(self, name: str, value: Any, node: ast.Assign | ast.AnnAssign) -> Wrap | None:
        assert node.value is not None
        match value:
            case BufferSpec(kind="match"):
                self._match_buffer(name, value, node.value)
            case BufferSpec(kind="alloc"):
                buffer = self.guard(node.value, lambda: value.build(name))
                (self._allocated if self.frame is None else self.frame.alloc_buffers).append(buffer)
                self.scopes.define(name, buffer)
            case BufferSpec(kind="param"):  # a buffer that is bound outside of the function
                self.scopes.define(name, self.guard(node.value, lambda: value.build(name)))
            case BufferSpec() | AllocateOf() | LetOf() | LaunchOf():
                return self._scoped(value, name, node.value)
            case Axis():
                frame = self._block_frame(node, "an axis")
                self._axis(name, value, frame, node.value)
            case Remap():
                self._remap([name], value, node.value)
            case MetaVar():
                self.scopes.define(name, value.value)
            case Var() if value.name == "":
                self.scopes.define(name, replace(value, name=name))
            case PrimExpr() if not isinstance(value, Var):
                var = Var(name, value.dtype)
                self.scopes.define(name, var)
                span = self.source.span(node)
                return lambda rest: LetStmt(var, value, rest, span=span)
            case _:
                self.scopes.define(name, value)  # another name of a buffer or variable, or a Python value
        return None

    def _annotated(self, node: ast.AnnAssign) -> Wrap | None:
        if node.value is None or not isinstance(node.target, ast.Name):
            self.source.refuse(node, "a typed variable is a name with a value: `x: T.int32 = 1`")
        kind, value = self.evaluator.value(node.annotation), self.evaluator.value(node.value)
        if isinstance(kind, Var) and kind.name == "":
            var = replace(kind, name=node.target.id)
        elif isinstance(kind, DType):
            var = Var(node.target.id, kind.dtype)
        else:
            self.source.refuse(node.annotation, f"expected a type such as T.int32, got {type(kind).__name__}")
        converted = self.guard(node.value, lambda: as_prim(value, var.dtype))
        if converted.dtype != var.dtype:
            self.source.refuse(
                node.value, f"{var.name} is {var.dtype}, its value {converted.dtype}", help="convert it with T.Cast"
            )
        self.scopes.define(var.name, var)
        span = self.source.span(node)
        return lambda rest: LetStmt(var, converted, rest, span=span)

    def _unpack(self, target: ast.Tuple | ast.List, value: Any, node: ast.Assign) -> None:
        names = [part.id for part in target.elts if isinstance(part, ast.Name)]
        if isinstance(value, Remap) and len(names) == len(target.elts):
            self._remap(names, value, node.value)
            return
        parts: dict[str, Any] = {}
        self.evaluator.unpack(target, value, parts)
        for name, part in parts.items():
            if isinstance(part, (Axis, Var, BufferSpec)):
                self._bind(name, part, node)
            else:
                self.scopes.define(name, part)

    def _remap(self, names: list[str], value: Remap, node: ast.expr) -> None:
        frame = self._block_frame(node, "an axis")
        if len(names) != len(value.kinds) or len(names) != len(value.bindings):
            text = f"{len(names)} names, {len(value.kinds)} kinds and {len(value.bindings)} bindings of axes"
            self.source.refuse(node, text)
        for name, kind, binding in zip(names, value.kinds, value.bindings, strict=True):
            if id(binding) not in self.ranges:
                self.source.refuse(node, "T.axis.remap takes loop variables", help="use T.axis.spatial or .reduce")
            axis = Axis(kind, self.ranges[id(binding)], binding)
            self._axis(name, axis, frame, node)

    def _axis(self, name: str, axis: Axis, frame: BlockFrame, node: ast.expr) -> None:
        self.scopes.define(name, self.guard(node, lambda: frame.add_axis(name, axis)))

    def _match_buffer(self, name: str, spec: BufferSpec, node: ast.expr) -> None:
        buffer = self.guard(node, lambda: spec.build(name))
        if isinstance(spec.source, Var):
            if not any(spec.source is param for param in self._params):
                self.source.refuse(node, f"{spec.source.name} is not a parameter of the function")
            if spec.source in self._buffers:
                self.source.refuse(node, f"parameter {spec.source.name} has a buffer already")
            if self.frame is not None:
                self.source.refuse(node, "buffers of parameters are matched outside of blocks")
            self._buffers[spec.source] = buffer
        else:
            frame = self._block_frame(node, "match_buffer of a region")
            frame.match_buffers.append((buffer, self.guard(node, lambda: region_of(spec.source))))
        self.scopes.define(name, buffer)

    # ---- stores

    def _store(self, target: ast.Subscript, value: ast.expr, node: ast.stmt) -> Stmt:
        buffer = self.evaluator.value(target.value)
        if not isinstance(buffer, Buffer):
            self.source.refuse(
                target.value, f"only elements of buffers can be stored, not of a {type(buffer).__name__}"
            )
        index = self.evaluator.value(target.slice)
        indices = list(index) if isinstance(index, tuple) else [index]
        for part in indices:
            if isinstance(part, slice):
                self.source.refuse(target, "a region cannot be stored to", help="store to a vector: A[T.Ramp(0, 1, 4)]")
        if len(indices) != buffer.ndim:
            text = f"buffer {buffer.name} has {buffer.ndim} axes, indexed with {len(indices)}"
            self.source.refuse(target, text)
        stored = self._converted(self.evaluator.value(value), buffer, value)
        span = self.source.span(node)
        store: Stmt = self.guard(node, lambda: BufferStore(buffer, stored, indices, span=span))  # type: ignore[arg-type]  # converted
        return store

    def _converted(self, value: Any, buffer: Buffer, node: ast.expr) -> PrimExpr:
        """A value in the buffer's dtype; what would lose something must be converted in the script."""
        if not isinstance(value, (bool, int, float, PrimExpr)):
            self.source.refuse(node, f"cannot store a {type(value).__name__} into buffer {buffer.name}")
        expr: PrimExpr = self.guard(node, lambda: as_prim(value, buffer.dtype))
        have, want = element_dtype(expr.dtype), element_dtype(buffer.dtype)
        if have == want:
            return expr
        constant = isinstance(value, (bool, int, float))
        widens = (is_integer(have) or have == "bool") and is_float(want)
        if not (constant or widens):
            help = f'convert it: T.Cast("{want}", value)'
            self.source.refuse(node, f"stores {have} into buffer {buffer.name} of {want}", help=help)
        return cast(want, expr)

    def _augmented(self, node: ast.AugAssign, done: list[Stmt]) -> None:
        if not isinstance(node.target, ast.Subscript):
            self.source.refuse(node, "assignment with an operator needs an element of a buffer", help="A[i] += x")
        load = ast.copy_location(ast.Subscript(node.target.value, node.target.slice, ast.Load()), node.target)
        value = ast.copy_location(ast.BinOp(load, node.op, node.value), node)
        done.append(self._store(node.target, value, node))

    # ---- statements that are expressions

    def _expression(self, node: ast.Expr, done: list[Stmt]) -> Wrap | None:
        value = self.evaluator.value(node.value)
        match value:
            case FuncAttrs():
                self._attrs.update(value.values)
            case Regions() | Where() | BlockAttrs():
                frame = self._block_frame(node, f"T.{type(value).__name__.lower()}")
                self.guard(node.value, lambda: frame.note(value))
            case AttrOf():
                return self._scoped(value, "", node.value)
            case Stmt():
                done.append(replace(value, span=self.source.span(node)))
            case PrimExpr():
                done.append(Evaluate(value, span=self.source.span(node)))
            case None | str():
                pass
            case _:
                self.source.refuse(node, f"a {type(value).__name__} on its own is not a statement")
        return None

    def guard(self, node: ast.AST, compute: Callable[[], Any]) -> Any:
        """What `compute` gives; whatever it raises points at the syntax."""
        return self.evaluator.guard(node, compute)
