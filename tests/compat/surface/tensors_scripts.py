"""Examples of `T`, the namespace of scripts of tensor programs."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from tests.compat.surface.examples import example
from tvm import ir, tir
from tvm.script import from_source
from tvm.script import tir as T

import eutectic.tir as ours
from eutectic.compat.surface import SURFACES
from eutectic.tir.interpret import run

LISTED = {name.name for name in SURFACES["tvm.script.tir"].names()}
HERE = "tvm.script.tir"


def _dtype(name: str) -> None:
    """A variable, a constant, a conversion, and an annotation of a parameter."""
    constructor = getattr(T, name)
    dtype = {"boolean": "bool"}.get(name, name)
    assert constructor().dtype == dtype
    assert isinstance(constructor(), tir.Var)
    assert isinstance(constructor(is_size_var=True), tir.SizeVar)
    assert constructor(expr=1).dtype == dtype
    assert constructor(tir.Var("x", dtype.split("x")[0])).dtype == dtype
    func = from_source(f"@T.prim_func\ndef f(a: T.{name}):\n    T.evaluate(T.call_extern('void', 'g', a))")
    assert func.params[0].dtype == dtype


for _name in LISTED & {*dir(T)}:
    if type(getattr(T, _name)).__name__ == "DType" and _name != "void":
        example(f"{HERE}.{_name}")(partial(_dtype, _name))


@example(f"{HERE}.handle", f"{HERE}.void", f"{HERE}.ptr", f"{HERE}.var")
def _pointers() -> None:
    assert T.handle().dtype == T.ptr("float32").dtype == "handle"
    assert T.void().dtype == "void"
    pointer = T.handle("float16", "shared", is_size_var=False)
    assert pointer.type_annotation.storage_scope == "shared"
    assert T.var("int64", "k").name == "k"
    assert T.var(T.int8).dtype == "int8"


@example(*(f"{HERE}.{name}" for name in LISTED & {
    "Add", "And", "Broadcast", "BufferLoad", "Call", "Cast", "Div", "EQ", "FloatImm", "FloorDiv", "FloorMod",
    "GE", "GT", "IntImm", "IterVar", "LE", "LT", "Let", "Max", "Min", "Mod", "Mul", "NE", "Not", "Or", "Ramp",
    "Range", "Select", "Shuffle", "SizeVar", "StringImm", "Sub", "Var", "cast", "broadcast", "ramp",
    "index_map",
}))  # fmt: skip
def _nodes() -> None:
    x, y = T.Var("x", "int32"), T.SizeVar("y", "int32")
    for name in (
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Mod",
        "FloorDiv",
        "FloorMod",
        "Min",
        "Max",
        "EQ",
        "NE",
        "LT",
        "LE",
        "GT",
        "GE",
    ):
        node = getattr(T, name)(x, y)
        assert type(node) is getattr(tir, name)
        assert node.a is x
        assert node.b is y
    assert isinstance(T.And(x < y, x > 1), tir.And)
    assert isinstance(T.Or(x < y, x > 1), tir.Or)
    assert isinstance(T.Not(x < y), tir.Not)
    assert isinstance(T.Select(x < y, x, y), tir.Select)
    assert T.Cast("int64", x).dtype == T.cast(x, "int64").dtype == "int64"
    assert T.Ramp(x, T.int32(2), 4).dtype == T.ramp(x, 2, 4).dtype == "int32x4"
    assert T.Broadcast(x, 4).dtype == T.broadcast(x, 4).dtype == "int32x4"
    assert ir.structural_equal(T.IntImm("int32", 3), T.int32(3))
    assert T.FloatImm("float32", 0.5).value == 0.5
    assert T.StringImm("text").value == "text"
    assert T.Call("float32", "tir.exp", (T.float32(1),)).op.name == "tir.exp"
    assert T.IterVar(T.Range(0, 4), x, 0).dom.extent.value == 4
    load = T.BufferLoad(tir.decl_buffer((4,)), [x])
    assert load.dtype == "float32"
    assert T.Shuffle([T.broadcast(x, 2)], [T.int32(1)]).dtype == "int32"
    assert ir.structural_equal(T.Let(x + 1, where={x: y}), ours.Let(x, y, x + 1), map_free_vars=True)
    assert [i.value for i in T.index_map(lambda i, j: (j, i)).map_indices([1, 2])] == [2, 1]


@example(f"{HERE}.prim_func", f"{HERE}.grid", f"{HERE}.block", f"{HERE}.alloc_buffer", f"{HERE}.init", f"{HERE}.where")
@example(f"{HERE}.reads", f"{HERE}.writes", f"{HERE}.block_attr", f"{HERE}.func_attr", f"{HERE}.Buffer", f"{HERE}.axis")
@example(*(f"{HERE}.axis.{name}" for name in ("spatial", "reduce", "remap")))
def _blocks() -> None:
    @T.prim_func(private=False, check_well_formed=True)
    def product(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
        T.func_attr({"tir.noalias": True})
        C = T.alloc_buffer((4,), "float32", scope="global")
        for i, k in T.grid(4, 9):
            with T.block("sum"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.where(k < 8)
                T.reads(A[vi, vk])
                T.writes(C[vi])
                T.block_attr({"mine": 1})
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + A[vi, vk]
        for i, j in T.grid(4, 1):
            with T.block("copy"):
                vi = T.axis.spatial(4, i)
                vj = T.axis.reduce(1, j)
                B[vi] = C[vi] + T.Cast("float32", vj)

    values, result = np.arange(32, dtype="float32").reshape(4, 8), np.zeros(4, "float32")
    run(product, values, result)
    np.testing.assert_array_equal(result, values.sum(1))
    assert product.attrs["tir.noalias"]
    assert "T.where" in product.script()
    assert '"mine": 1' in product.script()
    assert ir.structural_equal(from_source(product.script()), product)


@example(*(f"{HERE}.axis.{name}" for name in ("scan", "opaque")))
def _other_axes() -> None:
    @T.prim_func
    def f(A: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("b"):
                v = T.axis.scan(4, i)
                w = T.axis.opaque(1, 0)
                A[v] = T.Cast("float32", w)

    text = f.script()
    assert "T.axis.scan(4, i)" in text
    assert "T.axis.opaque(1, 0)" in text


@example(*(f"{HERE}.{name}" for name in ("serial", "parallel", "vectorized", "unroll", "thread_binding")))
def _loops() -> None:
    @T.prim_func
    def f(A: T.Buffer((64,), "float32")):
        for i in T.serial(0, 2, annotations={"mine": 1}):
            for j in T.parallel(2):
                for k in T.unroll(1, 3):
                    for v in T.vectorized(4):
                        A[i * 16 + j * 8 + k * 4 + v] = T.float32(1)
        for t in T.thread_binding(4, thread="threadIdx.x"):
            A[t] = T.float32(2)

    loops = []
    tir.stmt_functor.post_order_visit(f.body, lambda item: loops.append(item) if isinstance(item, tir.For) else None)
    assert [loop.kind for loop in loops] == ["vectorized", "unrolled", "parallel", "serial", "thread_binding"]
    assert loops[3].annotations["mine"] == 1
    assert loops[4].thread_binding.thread_tag == "threadIdx.x"
    assert loops[1].min.value == 1
    assert loops[1].extent.value == 2


@example(*(f"{HERE}.{name}" for name in ("attr", "allocate", "decl_buffer", "LetStmt", "Assert", "While", "evaluate")))
@example(*(f"{HERE}.{name}" for name in ("launch_thread", "iter_var", "meta_var", "match_buffer")))
def _statements() -> None:
    @T.prim_func
    def f(a: T.handle, n: T.int32):
        A = T.match_buffer(a, (n,), "float32", strides=[1], elem_offset=0, align=64, offset_factor=1)
        size = T.meta_var(4)
        T.attr(T.iter_var(T.int32(), T.Range(0, 4), "data_par", ""), "mine", 1)
        with T.launch_thread("threadIdx.x", size) as tx:
            memory = T.allocate([size], "float32", "global")
            B = T.decl_buffer((size,), data=memory)
            with T.LetStmt(tx + 1) as v, T.Assert(v > 0, "must be positive"):
                B[0] = T.Cast("float32", v)
            while A[0] < T.float32(3):
                A[0] = A[0] + B[0]
            T.evaluate(0)

    text = f.script()
    for part in ("T.launch_thread", "T.allocate", "T.decl_buffer", "while A[0] < T.float32(3.0)", '"mine"'):
        assert part in text, text
    assert '"must be positive"' in text
    assert ir.structural_equal(from_source(text), f)
    assert f.buffer_map[f.params[0]].strides[0].value == 1
    assert T.While is tir.While


@example("tvm.script.from_source", "tvm.script.ir_module", "tvm.script.ir", "tvm.script.tir", "tvm.script.relax")
def _text() -> None:
    from tvm import script

    source = """
@I.ir_module
class Module:
    @T.prim_func
    def f(A: T.Buffer((4,), "float32")):
        for i in range(4):
            A[i] = VALUE
"""
    module = from_source(source, extra_vars={"VALUE": T.float32(3)}, check_well_formed=True)
    assert ir.structural_equal(from_source(module.script()), module)
    assert script.ir_module is not None
    assert script.ir.ir_module is script.ir_module
    assert script.tir.prim_func is T.prim_func
    assert callable(script.relax.function)
    with pytest.raises(AttributeError, match=r"has no tvm\.script\.parse; from_source"):
        _ = script.parse
