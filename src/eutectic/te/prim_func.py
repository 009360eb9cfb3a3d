"""`create_prim_func`: the tensor program of tensor expressions, one block per stage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from eutectic.ir.node import Node
from eutectic.ir.prim_expr import IntImm, PrimExpr, Var
from eutectic.ir.visit import post_order, rewrite
from eutectic.te.reduction import Reduce
from eutectic.te.tensor import ComputeOp, Operation, PlaceholderOp, ProducerLoad, Tensor
from eutectic.tir.block import DETECT_ACCESS, Block, BlockRealize
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.complete import complete
from eutectic.tir.expr import Let
from eutectic.tir.function import PrimFunc
from eutectic.tir.iter_var import IterVar, Range
from eutectic.tir.stmt import BufferStore, For, IfThenElse, LetStmt, Stmt, seq


def create_prim_func(ops: Sequence[Tensor | Var]) -> PrimFunc:
    """A tensor program that computes tensors.

    Each stage becomes a block under its own loops, named after the stage (made
    unique by a number); what is neither given nor asked for lives in the root block.

    Args:
        ops: Parameters in order: given tensors, wanted tensors, and scalar variables that no shape defines.

    Returns:
        A function with `global_symbol` `main` and `tir.noalias`. Shapes with variables define these where a
        size of a given or wanted tensor is just the variable.

    Raises:
        TypeError: an argument is neither a tensor nor a variable.
        ValueError: an argument is given twice, a placeholder that is read is not among the arguments, or
            a variable is used that neither a shape nor an argument defines.

    Reference: TVM te.create_prim_func.
    """
    for item in ops:
        if not isinstance(item, (Tensor, Var)):
            raise TypeError(f"create_prim_func takes tensors and variables, got {type(item).__name__}")
    if len({id(item) for item in ops}) != len(ops):
        raise ValueError("an argument of create_prim_func is given twice")
    program = _Program(ops)
    stages = _in_order([item for item in ops if isinstance(item, Tensor)])
    body = seq(*(program.stage(op) for op in stages if isinstance(op, ComputeOp)))
    params = tuple(program.buffers[item] if isinstance(item, Tensor) else item for item in ops)
    func = PrimFunc(params, body, attrs={"global_symbol": "main", "tir.noalias": True})  # type: ignore[arg-type]  # the node converts what it is given
    _check_variables(func, program.allocated)
    return complete(func, program.allocated)


def _in_order(wanted: Iterable[Tensor]) -> list[Operation]:
    """Operations below `wanted`, producers before users."""
    done: dict[Operation, None] = {}
    stack: list[tuple[Any, bool]] = [(tensor.op, False) for tensor in reversed(list(wanted))]
    while stack:
        op, ready = stack.pop()
        if op in done:
            continue
        if ready:
            done[op] = None
            continue
        stack.append((op, True))
        stack.extend((tensor.op, False) for tensor in reversed(op.input_tensors))
    return list(done)


def _check_variables(func: PrimFunc, allocated: Iterable[Buffer]) -> None:
    shapes = [size for buffer in func.buffer_map.values() for size in buffer.shape]
    known = {size for size in shapes if isinstance(size, Var)} | {p for p in func.params if p.dtype != "handle"}
    bound: set[Var] = set()
    for item in post_order(func.body):
        match item:
            case For():
                bound.add(item.loop_var)
            case Block():
                bound.update(axis.var for axis in item.iter_vars)
            case Let() | LetStmt():
                bound.add(item.var)
    extra = [size for buffer in allocated for size in buffer.shape]
    for root in (*shapes, *extra, func.body):
        for item in post_order(root, enter=lambda n: not isinstance(n, Buffer)):
            if isinstance(item, Var) and item.dtype != "handle" and item not in known and item not in bound:
                raise ValueError(
                    f"variable {item.name} is used, but no argument defines it: give it to create_prim_func, "
                    "or a tensor that has it as a size"
                )


class _Program:
    """Buffers of the tensors, and names of the blocks, of one function."""

    def __init__(self, ops: Sequence[Tensor | Var]) -> None:
        self.buffers: dict[Tensor, Buffer] = {}
        self.allocated: list[Buffer] = []
        self.names: set[str] = set()
        for item in ops:
            if isinstance(item, Tensor):
                self.buffers[item] = Buffer(item.name.replace(".", "_"), item.shape, item.dtype)
        self.results: dict[Operation, dict[int, Tensor]] = {}
        for item in self.buffers:
            self.results.setdefault(item.op, {})[item.value_index] = item

    def unique(self, name: str) -> str:
        """A name for a block: `name`, or that with the first free number."""
        candidate, count = name, 0
        while candidate in self.names:
            count += 1
            candidate = f"{name}_{count}"
        self.names.add(candidate)
        return candidate

    def outputs(self, op: ComputeOp) -> list[Buffer]:
        """Buffers of all results of a stage; allocated where they are no parameters."""
        known = self.results.setdefault(op, {})
        out = []
        for index, value in enumerate(op.body):
            if index not in known:
                name = op.name if len(op.body) == 1 else f"{op.name}_v{index}"
                buffer = Buffer(name, tuple(axis.dom.extent for axis in op.axis if axis.dom), value.dtype)
                self.allocated.append(buffer)
                known[index] = Tensor(buffer.shape, value.dtype, op, index)
                self.buffers[known[index]] = buffer
            out.append(self.buffers[known[index]])
        return out

    def load(self, read: ProducerLoad) -> BufferLoad:
        """The element of a buffer that stands for an element of a tensor."""
        tensor = self.results.get(read.producer.op, {}).get(read.producer.value_index)
        if tensor is None:
            raise ValueError(f"placeholder {read.producer.name} is read, but is no argument of create_prim_func")
        return BufferLoad(self.buffers[tensor], read.indices)

    def value(self, expr: PrimExpr, values: dict[Var, PrimExpr]) -> PrimExpr:
        """`expr` on buffers, with variables replaced."""

        def change(item: Node) -> Node | None:
            if isinstance(item, Var):
                return values.get(item)
            return self.load(item) if isinstance(item, ProducerLoad) else None

        rewritten: Any = rewrite(expr, change)
        return rewritten  # type: ignore[no-any-return]  # a rewritten expression is one

    def stage(self, op: ComputeOp) -> Stmt:
        """The loops and blocks of a stage; one nest per result, but one for all results of a reduction."""
        buffers = self.outputs(op)
        if isinstance(op.body[0], Reduce):
            return self.nest(op, op.body[0], buffers, op.name)
        several = len(buffers) > 1
        return seq(
            *(
                self.nest(op, value, [buffer], f"{op.name}_v{index}" if several else op.name)
                for index, (value, buffer) in enumerate(zip(op.body, buffers, strict=True))
            )
        )

    def nest(self, op: ComputeOp, value: PrimExpr, buffers: list[Buffer], name: str) -> Stmt:
        """One block under its loops."""
        axes = (*op.axis, *(value.axis if isinstance(value, Reduce) else ()))
        empty = isinstance(value, Reduce) and any(_is_empty(axis) for axis in value.axis)
        axes = op.axis if empty else axes
        inner = {axis.var: Var(f"v_{axis.var.name}", axis.var.dtype) for axis in axes}
        points: dict[Var, PrimExpr] = dict(inner.items())
        iter_vars = [IterVar(_domain(axis), inner[axis.var], axis.iter_type) for axis in axes]
        loops = [Var(axis.var.name, axis.var.dtype) for axis in axes]
        at = tuple(inner[axis.var] for axis in op.axis)
        init: Stmt | None = None
        if isinstance(value, Reduce):
            start = value.init or value.combiner.identity_element
            init = seq(*(BufferStore(b, self.value(x, points), at) for b, x in zip(buffers, start, strict=True)))
            body = init if empty else self.update(value, buffers, at, points)
            init = None if empty else init
        else:
            body = BufferStore(buffers[0], self.value(value, points), at)
        values: tuple[PrimExpr, ...] = tuple(loops)
        if not iter_vars:  # a block needs an axis to be told from the root
            iter_vars, values = [IterVar(Range(min=0, extent=1), Var("vi"), "data_par")], (IntImm("int32", 0),)
        notes = {**dict(op.attrs.items()), DETECT_ACCESS: 3}
        block = Block(tuple(iter_vars), (), (), self.unique(name), body, init, annotations=notes)  # type: ignore[arg-type]  # the node converts what it is given
        stmt: Stmt = BlockRealize(values, IntImm("bool", 1), block)
        for var, axis in zip(reversed(loops), reversed(axes), strict=True):
            dom = _domain(axis)
            stmt = For(var, dom.min, dom.extent, "serial", stmt)
        return stmt

    def update(self, value: Reduce, buffers: list[Buffer], at: tuple[Var, ...], points: dict[Var, PrimExpr]) -> Stmt:
        """What one point of the reduced axes adds; several results are computed before any is stored."""
        reducer = value.combiner
        known = dict(points)
        for var, buffer in zip(reducer.lhs, buffers, strict=True):
            known[var] = BufferLoad(buffer, at)
        for var, source in zip(reducer.rhs, value.source, strict=True):
            known[var] = self.value(source, points)
        combined = [self.value(x, known) for x in reducer.result]
        if len(buffers) == 1:
            body: Stmt = BufferStore(buffers[0], combined[0], at)
        else:
            held = [Var(f"v_{b.name}", b.dtype) for b in buffers]
            body = seq(*(BufferStore(b, v, at) for b, v in zip(buffers, held, strict=True)))
            for var, x in zip(reversed(held), reversed(combined), strict=True):
                body = LetStmt(var, x, body)
        condition = self.value(value.condition, points)
        return body if isinstance(condition, IntImm) and condition.value else IfThenElse(condition, body)


def _is_empty(axis: IterVar) -> bool:
    """Whether an axis is known to have no points; a reduction over it leaves what it starts from."""
    extent = _domain(axis).extent
    return isinstance(extent, IntImm) and extent.value == 0


def _domain(axis: IterVar) -> Range:
    assert axis.dom is not None
    return axis.dom


def placeholders_of(tensors: Iterable[Tensor]) -> list[Tensor]:
    """The given tensors that `tensors` are computed from, in order of first use."""
    placeholders: dict[Tensor, None] = {}
    for tensor in tensors:
        if isinstance(tensor.op, PlaceholderOp):
            placeholders.setdefault(tensor)
    for op in _in_order(tensors):
        for tensor in op.input_tensors if isinstance(op, ComputeOp) else ():
            if isinstance(tensor.op, PlaceholderOp):
                placeholders.setdefault(tensor)
    return list(placeholders)
