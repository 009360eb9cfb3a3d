"""Examples of the nodes of tensor programs, walks over them, analyses and passes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tests.compat.surface.examples import example
from tvm import ir, te, tir
from tvm.script import tir as T
from tvm.tir import analysis, stmt_functor

from eutectic.tir.interpret import run

X, Y = tir.Var("x", "int32"), tir.Var("y", "int32")
HERE = "tvm.tir"


@T.prim_func
def product(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
    C = T.alloc_buffer((4,))
    for i, k in T.grid(4, 8):
        with T.block("sum"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
    for i in range(4):
        with T.block("copy"):
            vi = T.axis.spatial(4, i)
            B[vi] = C[vi] * T.float32(2)


def of_kind(root: Any, kind: type) -> list[Any]:
    """All nodes of a kind."""
    nodes: list[Any] = []
    stmt_functor.post_order_visit(root, lambda item: nodes.append(item) if isinstance(item, kind) else None)
    return nodes


@example(
    *(
        f"{HERE}.{name}"
        for name in [
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
        ]
    )
)
@example(
    *(
        f"{HERE}.{name}"
        for name in [
            "And",
            "Or",
            "Not",
            "Select",
            "Cast",
            "PrimExpr",
            "Var",
            "SizeVar",
            "IntImm",
            "FloatImm",
            "StringImm",
        ]
    )
)
@example(*(f"{HERE}.{name}" for name in ["Ramp", "Broadcast", "Shuffle", "Let", "Call", "IterVar", "ProducerLoad"]))
def _expressions() -> None:
    for name in ["Add", "Sub", "Mul", "Div", "Mod", "FloorDiv", "FloorMod", "Min", "Max"]:
        node = getattr(tir, name)(a=X, b=Y)
        assert isinstance(node, tir.PrimExpr)
        assert node.a is X
        assert node.dtype == "int32"
    for name in ["EQ", "NE", "LT", "LE", "GT", "GE"]:
        assert getattr(tir, name)(X, Y).dtype == "bool"
    assert ir.structural_equal(tir.Add(X, Y), X + Y)
    assert ir.structural_equal(tir.FloorDiv(X, Y), X // Y)
    both = tir.And(X < Y, tir.Not(X > 3))
    assert isinstance(both.b, tir.Not)
    assert tir.Or(X < Y, both).dtype == "bool"
    choice = tir.Select(condition=both, true_value=X, false_value=Y)
    assert choice.true_value is X
    assert tir.Cast("int64", X).dtype == "int64"
    assert tir.IntImm("int32", 3).value == 3
    assert tir.FloatImm("float32", 0.5).value == 0.5
    assert tir.StringImm("text").value == "text"
    assert tir.SizeVar("n", "int64").dtype == "int64"
    lanes = tir.Ramp(X, tir.const(1), 4)
    assert lanes.dtype == "int32x4"
    assert tir.Broadcast(X, 2).lanes == 2
    assert tir.Shuffle([lanes], [tir.const(2)]).dtype == "int32"
    bound = tir.Let(X, Y + 1, X * 2)
    assert bound.var is X
    assert tir.Call("int32", "tir.popcount", [X]).args[0] is X
    axis = tir.IterVar(tir.Range(0, 4), "i", tir.IterVar.DataPar)
    assert axis.var.name == "i"
    assert axis.dom.extent.value == 4
    tensor = te.placeholder((4,), name="t")
    assert isinstance(tensor[X], tir.ProducerLoad)
    assert tensor[X].producer is tensor


@example(*(f"{HERE}.{name}" for name in ["Buffer", "BufferLoad", "BufferRegion", "MatchBufferRegion", "decl_buffer"]))
@example(*(f"{HERE}.Buffer.{name}" for name in ["vload", "vstore", "scope", "offset_of", "get_flattened_buffer"]))
def _buffers() -> None:
    buffer = tir.decl_buffer((4, 8), "float16", name="A", scope="shared", strides=None, data_alignment=128)
    assert isinstance(buffer, tir.Buffer)
    assert buffer.scope() == "shared"
    assert buffer.data_alignment == 128
    load, store = buffer.vload([X, 0]), buffer.vstore([X, 0], 1.0)
    assert isinstance(load, tir.BufferLoad)
    assert load.dtype == "float16"
    assert store.value.dtype == "float16"
    assert ir.structural_equal(load, tir.BufferLoad(buffer, [X, 0]))
    assert isinstance(store, tir.BufferStore)
    (offset,) = buffer.offset_of([X, Y])
    assert tvm.arith.Analyzer().can_prove_equal(offset, X * 8 + Y)
    flat = buffer.get_flattened_buffer()
    assert flat.shape[0].value == 32
    assert flat.data is buffer.data
    region = tir.BufferRegion(buffer, [tir.Range(0, 2), tir.Range(0, 8)])
    match = tir.MatchBufferRegion(tir.decl_buffer((2, 8), "float16", scope="shared"), region)
    assert match.source.buffer is buffer
    assert match.source.region[0].extent.value == 2


@example(
    *(
        f"{HERE}.{name}"
        for name in ["Stmt", "SeqStmt", "stmt_seq", "stmt_list", "For", "ForKind", "While", "IfThenElse", "LetStmt"]
    )
)
@example(
    *(f"{HERE}.{name}" for name in ["Evaluate", "BufferStore", "Allocate", "DeclBuffer", "AttrStmt", "AssertStmt"])
)
def _statements() -> None:
    buffer = tir.decl_buffer((8,), name="A")
    store = tir.BufferStore(buffer, value=1.0, indices=[X])
    nothing = tir.Evaluate(0)
    assert isinstance(store, tir.Stmt)
    assert store.value.dtype == "float32"
    both = tir.stmt_seq(store, nothing)
    assert isinstance(both, tir.SeqStmt)
    assert len(tir.stmt_list(both)) == 2
    assert tir.stmt_list(store) == [store]
    loop = tir.For(X, 0, 8, tir.ForKind.PARALLEL, store, annotations={"mine": 1})
    assert loop.kind == tir.ForKind.PARALLEL
    assert loop.extent.value == 8
    assert loop.body is store
    func = tir.PrimFunc([buffer], loop)
    array = np.zeros(8, "float32")
    run(func, array)
    assert array.sum() == 8
    assert tir.While(Y < 3, store).body is store
    assert tir.IfThenElse(Y < 3, store, nothing).else_case is nothing
    assert tir.LetStmt(Y, X + 1, store).var is Y
    pointer = buffer.data
    allocation = tir.Allocate(pointer, "float32", [8], tir.const(True), tir.DeclBuffer(buffer, store))
    assert isinstance(allocation.body, tir.DeclBuffer)
    assert allocation.extents[0].value == 8
    assert tir.AttrStmt(pointer, "mine", 1, store).attr_key == "mine"
    assert tir.AssertStmt(Y > 0, "positive", nothing).message.value == "positive"


@example(
    *(f"{HERE}.{name}" for name in ("Block", "BlockRealize", "PrimFunc", "PrimFunc.with_body", "PrimFunc.with_attr"))
)
@example(*(f"{HERE}.PrimFunc.{name}" for name in ("without_attr", "script", "show", "specialize")))
@example(f"{HERE}.build")
def _functions() -> None:
    (total, copied) = [block for block in of_kind(product.body, tir.BlockRealize) if block.block.iter_vars]
    assert isinstance(total.block, tir.Block)
    assert total.block.name_hint == "sum"
    assert copied.block.init is None
    block = tir.Block([], [], [], "mine", tir.Evaluate(0))
    func = tir.PrimFunc([X], tir.BlockRealize([], tir.const(True), block), ret_type=None, attrs={"key": 1})
    assert func.attrs["key"] == 1
    assert "key" not in func.without_attr("key").attrs
    assert func.with_attr("key", 2).attrs["key"] == 2
    assert isinstance(func.with_body(tir.Evaluate(X)).body, tir.Evaluate)
    func.show()
    assert "def main" in func.script() or "prim_func" in func.script()

    @T.prim_func
    def doubled(a: T.handle, b: T.handle, factor: T.float32):
        n = T.int32()
        A, B = T.match_buffer(a, (n,)), T.match_buffer(b, (n,))
        for i in range(n):
            B[i] = A[i] * factor

    special = doubled.specialize({doubled.params[0]: tir.decl_buffer((4,), name="A4"), doubled.params[2]: 2.0})
    result = np.zeros(4, "float32")
    run(special, np.arange(4, dtype="float32"), result)
    np.testing.assert_array_equal(result, [0, 2, 4, 6])
    assert len(special.params) == 2
    assert special.buffer_map[special.params[1]].shape[0].value == 4
    with pytest.raises(ValueError, match="is no parameter"):
        doubled.specialize({X: 1})
    executable = tir.build(doubled, target="llvm")
    executable(np.arange(4, dtype="float32"), result, 3.0)
    np.testing.assert_array_equal(result, [0, 3, 6, 9])


@example(*(f"{HERE}.IndexMap.{name}" for name in ["from_func", "map_indices", "map_shape", "map_ndarray", "inverse"]))
@example(
    *(f"{HERE}.IndexMap.{name}" for name in ("from_func_with_separators", "is_equivalent_to", "non_surjective_inverse"))
)
@example(f"{HERE}.IndexMap")
def _index_maps() -> None:
    blocked = tir.IndexMap.from_func(
        lambda i, j: (i // 4, j, i % 4), ndim=2, inverse_index_map=None, index_dtype="int32"
    )
    assert isinstance(blocked, tir.IndexMap)
    assert [x.value for x in blocked.map_shape([8, 3])] == [2, 3, 4]
    analyzer = tvm.arith.Analyzer()
    assert [analyzer.simplify(x).value for x in blocked.map_indices([5, 2])] == [1, 2, 1]
    array = np.arange(24).reshape(8, 3)
    np.testing.assert_array_equal(blocked.map_ndarray(arr_src=array), array.reshape(2, 4, 3).transpose(0, 2, 1))
    back = blocked.inverse([8, 3])
    assert back.is_equivalent_to(tir.IndexMap.from_func(lambda a, b, c: (a * 4 + c, b), index_dtype="int32"))
    _, outside = blocked.non_surjective_inverse([6, 3])
    assert outside.dtype == "bool"
    apart, places = tir.IndexMap.from_func_with_separators(lambda i: (i // 4, tir.IndexMap.AXIS_SEPARATOR, i % 4))
    assert len(apart.final_indices) == 2
    assert places == [1]


@example(*(f"tvm.tir.stmt_functor.{name}" for name in ("post_order_visit", "pre_order_visit", "ir_transform")))
@example(*(f"tvm.tir.stmt_functor.{name}" for name in ("substitute", "renew_defs")))
def _walks() -> None:
    seen: list[str] = []
    stmt_functor.post_order_visit(X + Y * 2, lambda item: seen.append(type(item).__name__))
    assert seen == ["Var", "Var", "IntImm", "Mul", "Add"]
    seen.clear()

    def outside(item: Any) -> bool:
        seen.append(type(item).__name__)
        return not isinstance(item, tir.Mul)

    stmt_functor.pre_order_visit(X + Y * 2, outside)
    assert seen == ["Add", "Var", "Mul"]
    store = tir.BufferStore(tir.decl_buffer((8,), "int32"), tir.popcount(X) + Y, [X])
    loop = tir.For(X, 0, 8, tir.ForKind.SERIAL, store)
    counted = stmt_functor.ir_transform(loop, None, lambda call: call.args[0] * 2, ["tir.Call"])
    assert ir.structural_equal(counted.body.value, X * 2 + Y)
    kept = stmt_functor.ir_transform(loop, lambda item: tir.Evaluate(0) if isinstance(item, tir.For) else None, None)
    assert isinstance(kept, tir.Evaluate)
    assert ir.structural_equal(stmt_functor.substitute(X + Y, {Y: 3}), X + 3)
    assert ir.structural_equal(stmt_functor.substitute(store, {Y: X}).value, tir.popcount(X) + X)
    fresh = stmt_functor.renew_defs(product)
    assert ir.structural_equal(fresh, product)
    before, after = ({*of_kind(func.body, tir.Var)} for func in (product, fresh))
    assert before
    assert not before & after
    assert not {*product.buffer_map.values()} & {*fresh.buffer_map.values()}


@example(f"{HERE}.PyStmtExprVisitor", f"{HERE}.PyStmtExprMutator")
def _classes() -> None:
    @tir.functor.visitor
    class Loads(tir.PyStmtExprVisitor):
        def __init__(self) -> None:
            self.names: list[str] = []

        def visit_buffer_load_(self, op: Any) -> None:
            self.names.append(op.buffer.name)
            super().visit_buffer_load_(op)

    @tir.functor.mutator
    class Doubled(tir.PyStmtExprMutator):
        def visit_float_imm_(self, op: Any) -> Any:
            return tir.FloatImm(op.dtype, op.value * 2)

    loads = Loads()
    loads.visit_stmt(product.body)
    assert loads.names == ["C", "A", "C"]
    a, result = np.ones((4, 8), "float32"), np.zeros(4, "float32")
    run(product.with_body(Doubled().visit_stmt(product.body)), a, result)
    np.testing.assert_array_equal(result, 32)


@example(*(f"tvm.tir.analysis.{name}" for name in ("expr_deep_equal", "undefined_vars", "verify_ssa")))
@example(*(f"tvm.tir.analysis.{name}" for name in ("verify_well_formed", "is_pure_function", "assert_pure_function")))
def _analysis() -> None:
    assert analysis.expr_deep_equal(X + 1, X + 1)
    assert not analysis.expr_deep_equal(X + 1, Y + 1)
    store = tir.BufferStore(buffer := tir.decl_buffer((8,)), 1.0, [X + Y])
    assert analysis.undefined_vars(tir.For(X, 0, 8, 0, store), [buffer.data]) == [Y]
    assert analysis.undefined_vars(X + Y) == [X, Y]
    assert analysis.undefined_vars(X + Y, [X]) == [Y]
    loop, again = (tir.For(X, 0, 8, 0, tir.Evaluate(X)) for _ in range(2))
    assert analysis.verify_ssa(product)
    assert not analysis.verify_ssa(tir.PrimFunc([], tir.stmt_seq(loop, again)))
    assert analysis.verify_well_formed(product)
    assert analysis.verify_well_formed(obj=tvm.IRModule({"main": product}))
    wrong = tir.PrimFunc([], tir.Evaluate(Y))
    assert not analysis.verify_well_formed(wrong, assert_mode=False)
    with pytest.raises(tvm.TVMError):
        analysis.verify_well_formed(wrong, assert_mode=True)
    assert not analysis.is_pure_function(product)
    assert analysis.is_pure_function(tir.PrimFunc([X], loop))
    assert analysis.assert_pure_function(tir.PrimFunc([X], loop))
    with pytest.raises(ValueError, match="writes to B"):
        analysis.assert_pure_function(product)


@example(*(f"tvm.tir.analysis.{name}" for name in ("calculate_allocated_bytes", "detect_buffer_access_lca")))
@example(*(f"tvm.tir.analysis.{name}" for name in ("estimate_tir_flops", "get_block_read_write_region")))
@example("tvm.tir.analysis.find_anchor_block")
def _measures() -> None:
    module = tvm.IRModule({"main": product})
    assert analysis.calculate_allocated_bytes(product) == {"main": {"global": 16}}
    assert analysis.calculate_allocated_bytes(module) == {"main": {"global": 16}}
    assert analysis.estimate_tir_flops(module) == 4 * 8 + 4
    assert analysis.find_anchor_block(module).name_hint == "sum"
    blocks = {item.name_hint: item for item in of_kind(product.body, tir.Block)}
    lca = {buffer.name: stmt for buffer, stmt in analysis.detect_buffer_access_lca(product).items()}
    assert lca["C"] is blocks["root"]
    assert lca["A"] is blocks["sum"]
    assert lca["B"] is blocks["copy"]
    reads, writes = analysis.get_block_read_write_region(blocks["copy"], {})
    assert [r.buffer.name for r in reads] == ["C"]
    assert [w.buffer.name for w in writes] == ["B"]


@example(*(f"tvm.tir.transform.{name}" for name in ("Simplify", "RemoveNoOp", "UnrollLoop", "VectorizeLoop")))
@example(*(f"tvm.tir.transform.{name}" for name in ("ConvertSSA", "VerifySSA", "HoistIfThenElse", "FlattenBuffer")))
def _passes() -> None:
    @T.prim_func
    def plain(A: T.Buffer((8,), "float32"), n: T.int32):
        for i in T.unroll(2):
            for j in T.vectorized(4):
                A[i * 4 + j] = T.float32(1)
        for i in range(4):
            if n > 0:
                A[i + 0] = A[i] + T.float32(1)
        T.evaluate(0)

    module, results = tvm.IRModule({"main": plain}), []
    passes = tvm.tir.transform
    for step in ("Simplify", "RemoveNoOp", "UnrollLoop", "ConvertSSA", "VerifySSA", "HoistIfThenElse", "FlattenBuffer"):
        func = getattr(passes, step)()(module)["main"]
        run(func, array := np.zeros(8, "float32"), 3)
        results.append(array)
    run(passes.VectorizeLoop()(module)["main"], array := np.zeros(8, "float32"), 3)
    for result in (*results, array):
        np.testing.assert_array_equal(result, [2] * 4 + [1] * 4)
    assert "T.unroll" not in passes.UnrollLoop()(module).script()
    assert "T.vectorized" not in passes.VectorizeLoop()(module).script()


@example(*(f"tvm.tir.transform.{name}" for name in ("LowerInitBlock", "ConvertBlocksToOpaque", "LowerOpaqueBlock")))
@example(
    *(f"tvm.tir.transform.{name}" for name in ("PlanAndUpdateBufferAllocationLocation", "CompactBufferAllocation"))
)
def _lowering() -> None:
    passes = tvm.tir.transform
    steps = ("LowerInitBlock", "PlanAndUpdateBufferAllocationLocation", "ConvertBlocksToOpaque")
    module = tvm.IRModule({"main": product})
    for step in (*steps, "CompactBufferAllocation", "LowerOpaqueBlock"):
        module = getattr(passes, step)()(module)
        a, result = np.ones((4, 8), "float32"), np.zeros(4, "float32")
        run(module["main"], a, result)
        np.testing.assert_array_equal(result, 16)
    assert not of_kind(module["main"].body, tir.Block)


@example(*(f"tvm.tir.transform.{name}" for name in ("prim_func_pass", "PrimFuncPass", "Apply", "Filter")))
@example("tvm.tir.transform.BindTarget", "tvm.tir.transform.AnnotateEntryFunc")
def _own_passes() -> None:
    passes = tvm.tir.transform

    @passes.prim_func_pass(opt_level=0)
    def marked(func: Any, mod: Any, ctx: Any) -> Any:
        return func.with_attr("mine", 1)

    module = tvm.IRModule({"main": product, "other": product.with_attr("global_symbol", "other")})
    assert isinstance(marked, passes.PrimFuncPass)
    assert marked(module)["other"].attrs["mine"] == 1
    assert passes.Apply(lambda func: func.with_attr("mine", 2))(module)["main"].attrs["mine"] == 2
    only = passes.Filter(lambda func: func.attrs["global_symbol"] == "other")(module)
    assert [name.name_hint for name in only.functions] == ["other"]
    target = tvm.target.Target("llvm")
    bound = passes.BindTarget(target)(module)
    assert bound["main"].attrs["target"] is target
    assert "target" not in module["main"].attrs
    entries = passes.AnnotateEntryFunc()(module)
    assert entries["main"].attrs["tir.is_entry_func"]
    assert "tir.is_entry_func" not in entries["other"].attrs
