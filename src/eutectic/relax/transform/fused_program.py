"""One tensor program that does what a graph function of `call_tir`s does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from eutectic.arith import Analyzer, prove_equal
from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.node import Node, replace
from eutectic.ir.op import Op
from eutectic.ir.prim_expr import IntImm, PrimExpr
from eutectic.ir.prim_expr import Var as ScalarVar
from eutectic.ir.visit import map_fields, post_order
from eutectic.relax.analysis.op_pattern import root_body
from eutectic.relax.base import ShapeExpr, ShapeStructInfo, StructInfo
from eutectic.relax.expr import Call, Function, MatchCast, Tuple, TupleGetItem, Var, describe_info
from eutectic.relax.struct_info import PrimStructInfo, TensorStructInfo, TupleStructInfo
from eutectic.relax.struct_info_relations import substitute
from eutectic.support.deep import deep
from eutectic.tir.block import Block, BlockRealize
from eutectic.tir.buffer import Buffer
from eutectic.tir.expr import Let
from eutectic.tir.function import PrimFunc
from eutectic.tir.iter_var import IterVar
from eutectic.tir.stmt import Allocate, For, LetStmt, Stmt, seq
from eutectic.tir.trusted import is_trusted, trust

Path: TypeAlias = tuple[int, ...]
Value: TypeAlias = "Buffer | tuple[Value, ...] | None"  # None for what carries sizes only


@dataclass(frozen=True)
class FusedProgram:
    """A tensor program and how it is called in place of a graph function.

    Attributes:
        func: The program: inputs, results, then sizes that no buffer has.
        inputs: For each input the number of the function's parameter, and the fields in it that lead to the tensor.
        tir_vars: Symbolic sizes of the function that the program takes as integers.
        callees: Names of the programs that went into it.
    """

    func: PrimFunc
    inputs: tuple[Path, ...]
    tir_vars: tuple[ScalarVar, ...]
    callees: frozenset[str]


class _CannotFuseError(Exception):
    """Carries a reason out of the walk; never leaves this module."""


def fuse_program(function: Function, mod: IRModule) -> FusedProgram | str:
    """The program that does what a function does, or the reason why there is none.

    Args:
        function: Its bindings are `call_tir`s, tuples and fields of tuples.
        mod: Where the called programs are.
    """
    try:
        return _Maker(mod).make(function)
    except _CannotFuseError as reason:
        return str(reason)


class _Names:
    """Gives each buffer or block a name of its own."""

    def __init__(self, separator: str) -> None:
        self._taken: set[str] = set()
        self._separator = separator

    def unique(self, name: str) -> str:
        candidate, number = name, 0
        while candidate in self._taken:
            number += 1
            candidate = f"{name}{self._separator}{number}"
        self._taken.add(candidate)
        return candidate


class _Maker:
    """Collects the buffers and bodies of one program."""

    def __init__(self, mod: IRModule) -> None:
        self.mod = mod
        self.symbols: dict[ScalarVar, ScalarVar] = {}  # of the program, by those of the graph
        self.values: dict[Var, Value] = {}
        self.inputs: list[tuple[Path, Buffer]] = []
        self.buffers: list[Buffer] = []
        self.allocated: list[Buffer] = []
        self.parts: list[Stmt] = []
        self.callees: set[str] = set()
        self.annotations: dict[str, Any] = {}
        self.buffer_names, self.block_names = _Names("_"), _Names("")

    def make(self, function: Function) -> FusedProgram:
        for number, param in enumerate(function.params):
            self.values[param] = self.input(param.struct_info, param.name_hint, (number,))
        for block in function.body.blocks:
            for binding in block.bindings:
                if isinstance(binding, MatchCast):
                    raise _CannotFuseError(f"{binding.var.name_hint} is bound by match_cast")
                self.values[binding.var] = self.value(binding.value, binding.var.name_hint)
        result = self.value(function.body.body, "its result")
        outputs = [item for item in (result if isinstance(result, tuple) else (result,)) if isinstance(item, Buffer)]
        expected = len(result) if isinstance(result, tuple) else 1
        if len(outputs) != expected or (isinstance(result, tuple) and expected == 1):
            raise _CannotFuseError(f"its result is {describe_info(function.ret_struct_info)}")
        if len(set(outputs)) < len(outputs) or not all(output in self.buffers for output in outputs):
            raise _CannotFuseError("it returns a parameter, or one value twice")
        return self.finished(outputs)

    def finished(self, outputs: Sequence[Buffer]) -> FusedProgram:
        """The program around the parts."""
        fresh: dict[int, Node] = {}
        results = list(outputs)
        for buffer in self.buffers:
            name = buffer.name if buffer in outputs else f"{buffer.name}_intermediate"
            fresh[id(buffer)] = named = replace(buffer, name=self.buffer_names.unique(name))
            if buffer in outputs:
                results[outputs.index(buffer)] = named
            else:
                self.allocated.append(named)
        body = copied(seq(*self.parts), fresh)
        assert isinstance(body, Stmt)
        root = Block((), (), (), "root", body, alloc_buffers=tuple(self.allocated), annotations=self.annotations)  # type: ignore[arg-type]  # the node converts what it is given
        handles = {ScalarVar(f"p_{buffer.name}", "handle"): buffer for _, buffer in self.inputs}
        handles.update({ScalarVar(f"p_output{i}", "handle"): buffer for i, buffer in enumerate(results)})
        known = {size for buffer in handles.values() for size in buffer.shape if isinstance(size, ScalarVar)}
        used = {n: None for root_ in (*handles.values(), root) for n in post_order(root_) if isinstance(n, ScalarVar)}
        loose = [(symbol, var) for symbol, var in self.symbols.items() if var in used and var not in known]
        func = PrimFunc(
            (*handles, *(var for _, var in loose)),
            BlockRealize((), IntImm("bool", 1), root),
            buffer_map=handles,  # type: ignore[arg-type]  # the node converts what it is given
            attrs={"tir.noalias": True},  # type: ignore[arg-type]  # the node converts what it is given
        )
        if all(is_trusted(self.mod[name]) for name in self.callees):
            trust(func)
        paths = tuple(path for path, _ in self.inputs)
        return FusedProgram(func, paths, tuple(symbol for symbol, _ in loose), frozenset(self.callees))

    # ---- graph values

    @deep
    def input(self, info: StructInfo | None, name: str, path: Path) -> Value:
        """What a parameter of the function is within the program."""
        match info:
            case TensorStructInfo() if info.dims is not None and info.dtype:
                buffer = Buffer(self.buffer_names.unique(name), self.sizes(info.dims), info.dtype)
                self.inputs.append((path, buffer))
                return buffer
            case TupleStructInfo():
                return tuple(self.input(part, f"{name}_{i}", (*path, i)) for i, part in enumerate(info.fields))
            case ShapeStructInfo() | PrimStructInfo():
                return None
            case _:
                raise _CannotFuseError(f"parameter {name} is {describe_info(info)}")

    def sizes(self, dims: Sequence[PrimExpr]) -> tuple[PrimExpr, ...]:
        """Sizes in the program's own variables."""
        for dim in dims:
            for part in post_order(dim):
                if isinstance(part, ScalarVar) and part not in self.symbols:
                    self.symbols[part] = replace(part)
        return tuple(substitute(dim, self.symbols) for dim in dims)  # type: ignore[misc]  # an expression stays one

    @deep
    def value(self, expr: Any, what: str) -> Value:
        """The buffers that hold a value."""
        match expr:
            case Var() if expr in self.values:
                return self.values[expr]
            case Tuple():
                return tuple(self.value(item, what) for item in expr.fields)
            case TupleGetItem():
                source = self.value(expr.tuple_value, what)
                if isinstance(source, tuple):
                    return source[expr.index]
            case Call(op=Op(name="relax.call_tir")):
                return self.call(expr)
            case Call():
                name = getattr(expr.op, "name", getattr(expr.op, "name_hint", type(expr.op).__name__))
                raise _CannotFuseError(f"{what} is a call of {name}")
        raise _CannotFuseError(f"{what} is a {type(expr).__name__}")

    def call(self, call: Call) -> Value:
        """Append the body of a called program; returns its results."""
        target = call.args[0]
        func = self.mod.get(target) if isinstance(target, GlobalVar) else None
        name = getattr(target, "name_hint", type(target).__name__)
        body = root_body(func) if isinstance(func, PrimFunc) else None
        if not isinstance(func, PrimFunc) or body is None:
            raise _CannotFuseError(f"{name} is no tensor program of blocks")
        arguments = self.value(call.args[1], f"an argument of {name}")
        inputs = arguments if isinstance(arguments, tuple) else (arguments,)
        info = call.sinfo_args[0]
        infos = info.fields if isinstance(info, TupleStructInfo) else (info,)
        formals = func.buffer_map.values()
        if len(formals) != len(inputs) + len(infos):
            raise _CannotFuseError(f"{name} takes {len(formals)} buffers, and is given {len(inputs) + len(infos)}")
        results = tuple(
            self.result(part, name, formal) for part, formal in zip(infos, formals[len(inputs) :], strict=True)
        )
        table = self.matched(func, name, (*inputs, *results), self.integers(call))
        self.append(func, body, table)
        self.callees.add(name)
        return results if isinstance(info, TupleStructInfo) else results[0]

    def result(self, info: StructInfo, name: str, formal: Buffer) -> Buffer:
        """The buffer of a result of a called program."""
        if not isinstance(info, TensorStructInfo) or info.dims is None or not info.dtype:
            raise _CannotFuseError(f"the result of {name} is {describe_info(info)}")
        self.buffers.append(Buffer(formal.name.removesuffix("_intermediate"), self.sizes(info.dims), info.dtype))
        return self.buffers[-1]

    def integers(self, call: Call) -> tuple[PrimExpr, ...]:
        """What a called program is given beside tensors."""
        info = call.args[2].struct_info if len(call.args) > 2 else ShapeExpr(()).struct_info
        if not isinstance(info, ShapeStructInfo) or info.values is None:
            raise _CannotFuseError("a program gets integers that are not known")
        return self.sizes(info.values)

    # ---- called programs

    def matched(
        self, func: PrimFunc, name: str, actual: Sequence[Any], integers: Sequence[PrimExpr]
    ) -> dict[int, Node]:
        """What the parameters of a called program stand for: buffers, their pointers, and sizes."""
        handles = [param for param in func.params if param.dtype == "handle"]
        scalars = [param for param in func.params if param.dtype != "handle"]
        formals = func.buffer_map.values()
        if not len(handles) == len(formals) == len(actual) or len(scalars) != len(integers):
            raise _CannotFuseError(f"{name} takes other parameters than it is given")
        bound = {var: _as(value, var.dtype) for var, value in zip(scalars, integers, strict=True)}
        table: dict[int, Node] = {}
        for formal, buffer in zip(formals, actual, strict=True):
            if not isinstance(buffer, Buffer) or formal.dtype != buffer.dtype or formal.ndim != buffer.ndim:
                raise _CannotFuseError(f"buffer {formal.name} of {name} does not fit what it is given")
            if formal.strides or formal.elem_offset is not None or formal.scope() != "global":
                raise _CannotFuseError(f"buffer {formal.name} of {name} has a layout of its own")
            table |= {id(formal): buffer, id(formal.data): buffer.data}
            for size, value in zip(formal.shape, buffer.shape, strict=True):
                if isinstance(size, ScalarVar) and size not in bound:
                    bound[size] = _as(value, size.dtype)
        for formal, buffer in zip(formals, actual, strict=True):
            for axis, (size, value) in enumerate(zip(formal.shape, buffer.shape, strict=True)):
                wanted = substitute(size, bound)
                if not (isinstance(wanted, PrimExpr) and _equal(wanted, value)):
                    raise _CannotFuseError(
                        f"axis {axis} of buffer {formal.name} of {name} is not known to have size {value}"
                    )
        return table | {id(var): value for var, value in bound.items()}

    def append(self, func: PrimFunc, body: Stmt, table: dict[int, Node]) -> None:
        """Append a body with buffers, variables and block names of its own."""
        root = func.body
        assert isinstance(root, BlockRealize)
        for item in post_order(body):
            if isinstance(item, ScalarVar) and item.dtype == "handle" and item in func.params:
                raise _CannotFuseError(f"a program uses its parameter {item.name} as a pointer")
        for buffer in _buffers(root):
            if id(buffer) not in table:
                table[id(buffer)] = self.own_buffer(buffer, table)
        for var in _bound_vars(body):
            table.setdefault(id(var), replace(var))
        self.allocated += [table[id(buffer)] for buffer in root.block.alloc_buffers]  # type: ignore[misc]  # own buffers are buffers
        self.annotations.update(root.block.annotations.items())
        part = copied(body, table, self.block_names)
        assert isinstance(part, Stmt)
        self.parts.append(part)

    def own_buffer(self, buffer: Buffer, table: dict[int, Node]) -> Buffer:
        """A copy of a buffer that lives inside a called program."""
        data = table.setdefault(id(buffer.data), replace(buffer.data))
        fresh = copied(buffer, table)
        assert isinstance(fresh, Buffer)
        return replace(fresh, name=self.buffer_names.unique(buffer.name), data=data)


def _as(value: PrimExpr, dtype: str) -> PrimExpr:
    return value if value.dtype == dtype else value.astype(dtype)


def _equal(a: PrimExpr, b: PrimExpr) -> bool:
    return prove_equal(a, b) or Analyzer().can_prove_equal(_as(a, "int64"), _as(b, "int64"))


def _buffers(root: Node) -> Iterator[Buffer]:
    for item in post_order(root):
        if isinstance(item, Buffer):
            yield item


def _bound_vars(body: Stmt) -> Iterator[ScalarVar]:
    """Variables that statements and expressions of a body define."""
    for item in post_order(body):
        match item:
            case For():
                yield item.loop_var
            case IterVar() | Let() | LetStmt():
                yield item.var
            case Allocate():
                yield item.buffer_var


def copied(root: Node, table: Mapping[int, Node], names: _Names | None = None) -> Node:
    """`root` with the nodes of `table` replaced as they are, and blocks renamed.

    Args:
        root: A statement or buffer.
        table: Replacements by `id`; what is below them is not looked at.
        names: Gives the names of blocks; None keeps them.
    """
    memo = dict(table)
    for item in list(post_order(root, enter=lambda n: id(n) not in table)):
        if id(item) in memo:
            continue
        fresh = map_fields(item, lambda child: memo.get(id(child), child))
        if isinstance(fresh, Block) and names is not None:
            fresh = replace(fresh, name_hint=names.unique(fresh.name_hint))
        memo[id(item)] = fresh
    return memo[id(root)]
