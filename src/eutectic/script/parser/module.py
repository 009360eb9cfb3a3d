"""Modules from their syntax: functions that may call each other, in any order."""

from __future__ import annotations

import ast
from typing import Any

from eutectic.ir.module import BaseFunc, GlobalVar, IRModule
from eutectic.relax.struct_info import ObjectStructInfo
from eutectic.relax.vdevice import KEY, declared
from eutectic.script.parser.decorators import decorator_of
from eutectic.script.parser.environment import Environment, Scopes
from eutectic.script.parser.evaluate import Evaluator
from eutectic.script.parser.relax import FunctionOptions, RelaxParser
from eutectic.script.parser.source import Source
from eutectic.script.parser.tir import TirParser
from eutectic.script.statements import ModuleAttrs, ModuleInfos
from eutectic.support.errors import ScriptError
from eutectic.support.spelling import did_you_mean


class ModuleParser:
    """Parses the body of a module class.

    A function whose result is not annotated is parsed before the first call of it, so that
    its type is known there.

    Args:
        source: The text.
        node: The class.
        environment: Names around it.
    """

    def __init__(self, source: Source, node: ast.ClassDef, environment: Environment) -> None:
        self._source, self._node, self._environment = source, node, environment
        self._evaluator = Evaluator(source, Scopes(), environment)
        self._definitions: dict[str, tuple[ast.FunctionDef, str, dict[str, Any]]] = {}
        self._vars: dict[str, GlobalVar] = {}
        self._functions: dict[str, BaseFunc] = {}
        self._open: list[str] = []
        self._attrs: dict[str, Any] = {}
        self._infos: dict[str, Any] = {}
        self._programs = IRModule()

    def parse(self) -> IRModule:
        """The module.

        Raises:
            ScriptError: it is not well written.
        """
        for statement in self._node.body:
            self._declare(statement)
        with declared(self._infos.get(KEY, ())):
            for name in self._definitions:
                self._function(name)
        functions = {self._vars[name]: self._functions[name] for name in self._definitions}
        taken = {gv.name_hint for gv in functions}
        for gv, program in self._programs.functions.items():
            if gv.name_hint in taken:
                help = "pass primfunc_name_hint to R.emit_te"
                self._source.refuse(self._node, f"R.emit_te makes a program {gv.name_hint}, which is there", help=help)
            functions[gv] = program
        return IRModule(functions, self._attrs, self._infos)

    def script_attribute(self, name: str) -> GlobalVar:
        """A function of the module, as `cls.name` refers to it."""
        if name not in self._definitions:
            hint = did_you_mean(name, self._definitions)
            raise ScriptError(f"module {self._node.name} has no function {name!r}", help=hint)
        if name not in self._vars:
            node, kind, options = self._definitions[name]
            if kind == "relax.function":
                signature = self._relax().signature(node, FunctionOptions.of(options))
                if signature is not None:
                    self._vars[name] = GlobalVar(options.get("name") or name, struct_info=signature)
                elif name in self._open:
                    at = self._source.excerpt(node)
                    raise ScriptError(
                        f"{name} calls itself, so its result needs a type", at=at, help="-> R.Tensor(...)"
                    )
                else:
                    self._function(name)
            else:
                self._vars[name] = GlobalVar(options.get("name") or name, struct_info=ObjectStructInfo())
        return self._vars[name]

    # ---- statements

    def _declare(self, statement: ast.stmt) -> None:
        match statement:
            case ast.FunctionDef():
                kind, options = decorator_of(statement, self._evaluator)
                if statement.name in self._definitions:
                    self._source.refuse(statement, f"the module has two functions called {statement.name}")
                self._definitions[statement.name] = (statement, kind, options)
            case ast.Pass() | ast.Expr(value=ast.Constant(value=str())):
                return
            case ast.Expr():
                self._note(statement)
            case ast.Assign(targets=[ast.Name(id=name)]):
                self._evaluator.scopes.define(name, self._evaluator.value(statement.value))
            case _:
                text = f"{type(statement).__name__} statements are not part of modules"
                self._source.refuse(statement, text)

    def _note(self, statement: ast.Expr) -> None:
        value = self._evaluator.value(statement.value)
        if isinstance(value, ModuleAttrs):
            self._attrs.update(value.values)
        elif isinstance(value, ModuleInfos):
            self._infos.update(value.values)
        else:
            self._source.refuse(statement, f"a {type(value).__name__} on its own is not a statement of a module")

    def _function(self, name: str) -> None:
        if name in self._functions or name in self._open:
            return
        node, kind, options = self._definitions[name]
        self._open.append(name)
        function: BaseFunc
        if kind == "relax.function":
            parser = self._relax()
            function = parser.function(node, FunctionOptions.of(options))
            self._programs = parser.builder.get()
        else:
            private = bool(options.get("private", False))
            function = TirParser(self._source, self._environment, self._scopes()).function(
                node, private=private, name=options.get("name")
            )
        self._open.pop()
        self._functions[name] = function
        if name not in self._vars:
            self._vars[name] = GlobalVar(
                options.get("name") or name, struct_info=getattr(function, "struct_info", None)
            )

    def _relax(self) -> RelaxParser:
        return RelaxParser(self._source, self._environment, self._scopes(), self._programs)

    def _scopes(self) -> Scopes:
        scopes = Scopes()
        for name in self._evaluator.scopes.known():
            scopes.define(name, self._evaluator.scopes.find(name))
        scopes.define("cls", self)
        scopes.define(self._node.name, self)
        return scopes
