"""Programs of any length, width and depth, and what they compute."""

from __future__ import annotations

from typing import Any

import numpy as np

from eutectic import IRModule, relax
from eutectic.ir.prim_expr import Var
from eutectic.relax import op
from eutectic.tir.buffer import Buffer, BufferLoad, decl_buffer
from eutectic.tir.function import PrimFunc
from eutectic.tir.op import const
from eutectic.tir.stmt import BufferStore, For, IfThenElse, LetStmt, Stmt, seq

GRAPHS = ("chain", "diamond", "expression", "parameters", "shared", "tuple", "wide")
TENSOR_PROGRAMS = ("if", "left", "let", "right", "sequence")
SIZE = 4


def graph(kind: str, count: int) -> IRModule:
    """A graph function of about `count` operators."""
    bb = relax.BlockBuilder()
    info = relax.TensorStructInfo((SIZE,), "float32")
    params = [relax.Var(f"x{i}", info) for i in range(count if kind == "parameters" else 1)]
    with bb.function("main", params):
        with bb.dataflow():
            out = bb.emit_output(_graph_value(bb, kind, count, params))
        bb.emit_func_output(out)
    return bb.get()


def _graph_value(bb: relax.BlockBuilder, kind: str, count: int, params: list[Any]) -> Any:
    x = value = params[0]
    match kind:
        case "chain":
            for i in range(count):
                value = bb.emit(op.nn.relu(value) if i % 2 else op.add(value, x))
        case "diamond":
            for _ in range(count // 3):
                left = bb.emit(op.nn.relu(value))
                value = bb.emit(op.multiply(bb.emit(op.add(left, value)), relax.const(0.5)))
        case "expression":  # one value, which normalisation binds piece by piece
            for i in range(count):
                value = op.nn.relu(value) if i % 2 else op.add(value, x)
        case "parameters":
            for param in params[1:]:
                value = bb.emit(op.add(value, param))
        case "shared":  # each tuple holds the one before
            for _ in range(min(count, 100)):
                value = bb.emit(relax.Tuple([value]))
            for _ in range(min(count, 100)):
                value = bb.emit(relax.TupleGetItem(value, 0))
        case "tuple":
            value = relax.Tuple([bb.emit(op.add(x, x)) for _ in range(count)])
        case "wide":
            value = bb.emit(op.concat([bb.emit(op.add(x, x)) for _ in range(count)], 0))
    return value


def tensor_program(kind: str, count: int) -> PrimFunc:
    """A tensor program of about `count` operations: `B` of 16 numbers from `A`."""
    a, b = decl_buffer((16,), "float32", "A"), decl_buffer((16,), "float32", "B")
    handles = {Var("a", "handle"): a, Var("b", "handle"): b}
    return PrimFunc(tuple(handles), _body(kind, count, a, b), buffer_map=handles, attrs={"global_symbol": "main"})


def _body(kind: str, count: int, a: Buffer, b: Buffer) -> Stmt:
    i, one = Var("i", "int32"), const(1.0, "float32")
    value: Any = BufferLoad(a, [i])
    match kind:
        case "left" | "right":
            for _ in range(count):
                value = value + BufferLoad(a, [i]) if kind == "left" else BufferLoad(a, [i]) - value
            return For(i, 0, 16, "serial", BufferStore(b, value, [i]))
        case "sequence":
            return seq(*(BufferStore(b, BufferLoad(a, [k % 16]) + one, [k % 16]) for k in range(count)))
        case "let":
            names = [Var(f"v{k}", "float32") for k in range(count)]
            body: Stmt = BufferStore(b, names[-1], [0])
            for k in reversed(range(count)):
                body = LetStmt(names[k], names[k - 1] + one if k else BufferLoad(a, [0]), body)
            return body
        case _:
            body = BufferStore(b, BufferLoad(a, [0]), [0])
            for k in range(count):
                body = IfThenElse(BufferLoad(a, [k % 16]) > const(-1.0, "float32"), body, None)
            return body


def expected(kind: str, count: int, a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What a tensor program stores, in float64; zero where it stores nothing."""
    x = a.astype(np.float64)
    out = np.zeros(16)
    match kind:
        case "left":
            return x * (count + 1)
        case "right":
            return x if count % 2 == 0 else np.zeros(16)
        case "sequence":
            return x + 1
        case "let":
            out[0] = x[0] + count - 1
        case _:
            out[0] = x[0]
    return out
