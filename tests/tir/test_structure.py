"""Nodes of tensor programs: what their constructors normalise, and when two programs are the same."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.tir.programs import matmul, nest, softmax

from eutectic import tir
from eutectic.ir.node import Node, replace
from eutectic.ir.structural import structural_equal, structural_hash, structural_mismatch
from eutectic.ir.visit import post_order, rewrite
from eutectic.support.errors import WellFormedError
from eutectic.tir import (
    Allocate,
    Block,
    BlockRealize,
    Buffer,
    BufferStore,
    Evaluate,
    For,
    IntImm,
    IterVar,
    LetStmt,
    PointerType,
    PrimFunc,
    PrimType,
    Range,
    SeqStmt,
    Var,
    seq,
)


def test_names_of_variables_buffers_and_blocks_do_not_count():
    a, b = matmul(), matmul("other_")
    assert structural_mismatch(a, b) is None
    assert structural_hash(a) == structural_hash(b)


def copy(
    n: int = 8, dtype: str = "float32", scope: str = "global", kind: str = "serial", back: bool = False, **options
):
    x, y = Buffer("x", (n,), dtype), Buffer("y", (n,), dtype, scope=scope, **options)
    i = Var("i")
    source, target = (y, x) if back else (x, y)
    return PrimFunc((x, y), For(i, 0, n, kind, BufferStore(target, source[i], (i,))))


@pytest.mark.parametrize(
    "other",
    [
        copy(9),
        copy(dtype="float16"),
        copy(scope="shared"),
        copy(kind="parallel"),
        copy(back=True),
        copy(strides=(2,)),
        copy(data_alignment=128),
        copy(elem_offset=4),
        copy().with_attr("global_symbol", "f"),
        replace(copy(), ret_type="int32"),
    ],
    ids=["shape", "dtype", "scope", "kind", "binding", "strides", "alignment", "offset", "attribute", "result"],
)
def test_everything_else_counts(other):
    assert structural_equal(copy(), copy())
    assert not structural_equal(copy(), other)


def test_buffers_are_matched_where_they_are_declared():
    def swapped(first: bool) -> PrimFunc:
        a, b = Buffer("a", (4,)), Buffer("b", (4,))
        body = seq(BufferStore(a if first else b, 1.0, (0,)), BufferStore(b, 2.0, (0,)))
        return PrimFunc((), BlockRealize((), True, Block((), (), (), "root", body, alloc_buffers=(a, b))))

    assert structural_equal(swapped(True), swapped(True))
    assert structural_hash(swapped(True)) == structural_hash(swapped(True))
    assert not structural_equal(swapped(True), swapped(False))
    assert structural_hash(swapped(True)) != structural_hash(swapped(False))


def test_free_buffers_and_variables_are_equal_only_to_themselves():
    a, b, i = Buffer("a", (4,)), Buffer("a", (4,)), Var("i")
    assert structural_equal(BufferStore(a, 1.0, (i,)), BufferStore(a, 1.0, (i,)))
    assert not structural_equal(BufferStore(a, 1.0, (i,)), BufferStore(b, 1.0, (i,)))
    assert structural_equal(BufferStore(a, 1.0, (i,)), BufferStore(b, 1.0, (i,)), map_free_vars=True)


def test_dtypes_of_variables_are_part_of_the_hash():
    def function(dtype: str) -> PrimFunc:
        n = Var("n", dtype)
        return PrimFunc((n,), Evaluate(n))

    assert structural_hash(function("int32")) != structural_hash(function("int64"))
    assert not structural_equal(function("int32"), function("int64"))


def test_storage_scopes_of_pointers_count():
    def function(scope: str) -> PrimFunc:
        p = Var("p", PointerType(PrimType("float32"), scope))
        return PrimFunc((), Allocate(p, "float32", (4,), True, Evaluate(0)))

    assert structural_equal(function("local"), function("local"))
    assert not structural_equal(function("local"), function("shared"))


def test_symbolic_shapes_are_bound_by_the_signature():
    assert structural_equal(matmul(size=Var("n", "int64")), matmul(size=Var("m", "int64")))
    assert not structural_equal(matmul(size=Var("n", "int64")), matmul(size=Var("n", "int32")))


def test_the_hash_is_the_same_in_every_process():
    code = "from tests.tir.programs import softmax\nfrom eutectic.ir.structural import structural_hash\n"
    runs = {
        subprocess.run(
            [sys.executable, "-c", code + "print(structural_hash(softmax()))"],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(["src", ".", *sys.path])},
        ).stdout
        for seed in ("0", "1")
    }
    assert runs == {f"{structural_hash(softmax())}\n"}


def test_rewriting_replaces_a_buffer_everywhere():
    func = matmul()
    old = func.buffer_map[func.params[0]]
    new = Buffer("fresh", (16, 16))
    made = rewrite(func, lambda item: new if item is old else None)
    assert isinstance(made, PrimFunc)
    assert made.buffer_map[made.params[0]] is new
    assert structural_equal(made, func)
    assert not any(item is old for item in post_order(made))
    assert rewrite(func, lambda item: None) is func


def test_deep_nests_are_walked_without_recursion():
    def deep() -> PrimFunc:
        stmt: Node = Evaluate(0)
        for k in range(3000):
            stmt = For(Var(f"i{k}"), 0, 2, "serial", stmt)
        return PrimFunc((), stmt)

    assert structural_equal(deep(), deep())
    assert structural_hash(deep()) == structural_hash(deep())
    assert tir.verify_well_formed(deep())
    assert len(deep().script()) > 3000


# ---- constructors


def test_sequences_are_flat():
    one = Evaluate(1)
    assert seq(one) is one
    assert structural_equal(seq(), Evaluate(0))
    assert len(SeqStmt((one, SeqStmt((one, one))))) == 3
    with pytest.raises(WellFormedError, match="at least 2 statements"):
        SeqStmt((one,))


def test_ranges():
    m, n = Var("m"), Var("n")
    assert (Range(4).min, Range(4).extent) == (0, 4)
    assert (Range(2, 10).min, Range(2, 10).extent) == (2, 8)
    assert structural_equal(Range(m, m + n).extent, n)
    assert Range(min=Var("k", "int64"), extent=1).extent.dtype == "int64"
    with pytest.raises(WellFormedError, match="range from a int32 with an extent of int64"):
        Range(min=m, extent=Var("k", "int64"))


def test_buffers_index_like_arrays():
    a, i = Buffer("a", (4, 8)), Var("i")
    assert isinstance(a[i, 0], tir.BufferLoad)
    assert structural_equal(a[i], tir.BufferLoad(a, (i,)))
    region = a[0:2, i]
    assert structural_equal(region, tir.BufferRegion(a, (Range(0, 2), Range(min=i, extent=1))))
    assert structural_equal(a[:, 1:].region[1], Range(1, 8))
    assert structural_equal(a.full_region(), a[:, :])
    assert a.vload((0, 0), "float32x4").dtype == "float32x4"
    with pytest.raises(TypeError, match="cannot have a step"):
        a[0:4:2]
    with pytest.raises(TypeError, match="cannot be iterated"):
        list(a)


def test_decl_buffer():
    made = tir.decl_buffer((4,), "int8", "b", scope="shared", offset_factor=16)
    assert (made.scope(), made.data.dtype, made.elem_offset.name) == ("shared", "handle", "b_elem_offset")
    assert tir.decl_buffer(4).dtype == "float32"
    with pytest.raises(WellFormedError, match="2 strides"):
        Buffer("b", (4,), strides=(1, 2))
    with pytest.raises(WellFormedError, match="scope 'local', but its data is in 'global'"):
        Buffer("b", (4,), data=Buffer("a", (4,)).data, scope="local")


def test_loops_normalise_what_they_are_given():
    i = Var("i", "int64")
    loop = For(i, 0, 4, 4, Evaluate(i), "threadIdx.x", {"hint": [1]})
    assert (loop.kind, loop.extent.dtype, loop.annotations["hint"]) == ("thread_binding", "int64", (1,))
    assert loop.thread_binding.thread_tag == "threadIdx.x"
    assert tir.ForKind.UNROLLED == "unrolled"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda i: For(i, 0, -1, "serial", Evaluate(0)), "loop i has extent -1"),
        (lambda i: For(i, 0, 4, "sideways", Evaluate(0)), "unknown kind 'sideways'"),
        (lambda i: For(i, 0, 4, "serial", Evaluate(0), "threadIdx.x"), "kind 'serial' with thread 'threadIdx.x'"),
        (lambda i: For(i, 0, 4, "thread_binding", Evaluate(0)), "kind 'thread_binding' with thread None"),
        (lambda i: For(i, 0, Var("n", "int64"), "serial", Evaluate(0)), "loop i of int32 has an extent of int64"),
        (lambda i: BlockRealize((i,), True, Block((), (), (), "b", Evaluate(0))), "0 axes, but 1 values"),
        (lambda i: IterVar(Range(4), "v", "sideways"), "axis v has unknown type"),
        (lambda i: PrimFunc((), Evaluate(0), None, {i: Buffer("a", (4,))}), "no parameter: i"),
    ],
)
def test_constructors_refuse(build, message):
    with pytest.raises(WellFormedError, match=message):
        build(Var("i"))


def test_axes_take_the_numbers_and_letters_of_tvm():
    kinds = [IterVar(Range(4), "v", kind).iter_type for kind in (0, 2, "S", "R", "scan", "opaque", IterVar.CommReduce)]
    assert kinds == ["data_par", "comm_reduce", "data_par", "comm_reduce", "ordered", "opaque", "comm_reduce"]


def test_functions_map_handles_to_buffers():
    func = matmul()
    handle = func.params[0]
    assert (handle.dtype, handle in func.buffer_map, len(func.buffer_map)) == ("handle", True, 3)
    assert list(func.buffer_map) == list(func.params)
    assert func.buffers == tuple(func.buffer_map.values())
    with pytest.raises(KeyError, match="parameter n has no buffer"):
        func.buffer_map[Var("n")]
    body = Evaluate(IntImm("int32", 1))
    assert func.with_body(body).body is body


def test_lets_bind():
    x, y = Var("x"), Var("y")
    assert structural_equal(LetStmt(x, 1, Evaluate(x)), LetStmt(y, 1, Evaluate(y)))
    assert not structural_equal(LetStmt(x, 1, Evaluate(x)), LetStmt(y, 1, Evaluate(x)))
    assert structural_equal(tir.Let(x, 1, x + 1), tir.Let(y, 1, y + 1))


def test_grids_of_other_extents_differ():
    assert structural_equal(
        nest("ij", (2, 3), lambda i, j: Evaluate(i + j)), nest("ab", (2, 3), lambda i, j: Evaluate(i + j))
    )
    assert not structural_equal(
        nest("ij", (2, 3), lambda i, j: Evaluate(i + j)), nest("ij", (2, 3), lambda i, j: Evaluate(j + i))
    )
