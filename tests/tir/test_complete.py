"""Regions and root blocks that scripts leave out are inferred from the body."""

from __future__ import annotations

from typing import Any

import pytest
from tests.tir.programs import block, matmul, nest, softmax

from eutectic import tir
from eutectic.ir.structural import assert_structural_equal
from eutectic.support.errors import WellFormedError
from eutectic.tir import (
    DETECT_ACCESS,
    Block,
    BlockRealize,
    Buffer,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    MatchBufferRegion,
    PrimFunc,
    Stmt,
    Var,
    complete,
    seq,
)

A, B, OUT = Buffer("A", (16, 16)), Buffer("B", (16,), "int32"), Buffer("OUT", (16,))


def regions(body: Any, axes: dict[str, tuple[Any, str]] | None = None, **options: Any) -> tuple[str, str]:
    """Text of what is inferred for one block with the axes `v` and `w`."""
    made = block("b", axes or {"v": (16, "S"), "w": (16, "R")}, (0, 0), body, **options)
    func = complete(PrimFunc((A, B, OUT), made))
    inner = func.body.block.body.block
    assert DETECT_ACCESS not in inner.annotations
    return tuple(", ".join(r.script() for r in found) for found in (inner.reads, inner.writes))


def store(value: Any, at: Any = 0) -> Stmt:
    return BufferStore(OUT, value, (at,))


def loop(low: Any, extent: Any, body: Any) -> Stmt:
    k = Var("k")
    return For(k, low, extent, "serial", body(k))


ACCESSES = {
    "points": (lambda v, w: store(A[v, w] + A[v, w], v), "A[v, w]", "OUT[v]"),
    "loop": (lambda v, w: loop(0, 4, lambda k: store(A[v * 4 + k, w], v)), "A[v * 4:v * 4 + 4, w]", "OUT[v]"),
    "backwards": (lambda v, w: loop(0, 4, lambda k: store(A[v - k, 8 - k], v)), "A[v - 3:v - 3 + 4, 5:9]", "OUT[v]"),
    "offset-loop": (lambda v, w: loop(2, 4, lambda k: store(A[0, k * 2 + 1], v)), "A[0, 5:12]", "OUT[v]"),
    "neighbours": (lambda v, w: store(A[v - 1, 0] + A[v + 1, 0], v), "A[v - 1:v - 1 + 3, 0]", "OUT[v]"),
    "division": (lambda v, w: loop(0, 8, lambda k: store(A[k // 4, k % 4], v)), "A[0:2, 0:4]", "OUT[v]"),
    "unbounded": (lambda v, w: loop(0, 8, lambda k: store(A[0, k * k], v)), "A[0, 0:16]", "OUT[v]"),
    "gather": (lambda v, w: store(A[v, B[w]], v), "A[v, B[w]], B[w]", "OUT[v]"),
    "gather-in-loop": (lambda v, w: loop(0, 4, lambda k: store(A[v, B[k]], v)), "A[v, 0:16], B[0:4]", "OUT[v]"),
    "condition": (lambda v, w: IfThenElse(B[v] > 0, store(1.0, v)), "B[v]", "OUT[v]"),
    "let": (
        lambda v, w: tir.LetStmt(x := Var("x"), v * 2, store(A[x, w], v)),
        "A[v * 2, w]",
        "OUT[v]",
    ),
    "two-stores": (lambda v, w: seq(store(0.0, v), store(0.0, v + 4)), "", "OUT[v:v + 5]"),
    "unrelated": (lambda v, w: seq(store(0.0, v), store(0.0, w)), "", "OUT[T.min(v, w):"),
    "vector": (lambda v, w: Evaluate(A.vload((v, w * 4), "float32x4")), "A[v, w * 4:w * 4 + 4]", ""),
    "nothing": (lambda v, w: Evaluate(v + w), "", ""),
}


@pytest.mark.parametrize("case", ACCESSES)
def test_regions_cover_what_the_body_accesses(case):
    body, reads, writes = ACCESSES[case]
    found = regions(body)
    assert found[0] == reads
    assert found[1] == writes or (case == "unrelated" and found[1].startswith(writes))


def test_reads_of_partial_results_are_left_out_with_an_init():
    def update(v: Var, w: Var) -> Stmt:
        return store(OUT[v] + A[v, w], v)

    assert regions(update) == ("OUT[v], A[v, w]", "OUT[v]")
    assert regions(update, init=lambda v, w: store(0.0, v)) == ("A[v, w]", "OUT[v]")


def test_buffers_inside_are_left_out():
    local = Buffer("local", (4,))
    body = seq(BufferStore(local, A[0, 0], (0,)), store(local[0], 0))
    assert regions(lambda v, w: body, alloc_buffers=(local,)) == ("A[0, 0]", "OUT[0]")


def test_matched_buffers_count_as_their_source():
    part = Buffer("part", (4,))
    match = MatchBufferRegion(part, A[2, 4:8])
    found = regions(lambda v, w: loop(0, 2, lambda k: store(part[k + 1], v)), match_buffers=(match,))
    assert found == ("A[2, 5:7]", "OUT[v]")


def test_blocks_inside_count_with_their_regions_at_the_values_of_their_axes():
    def body(v: Var, w: Var) -> Stmt:
        k = Var("k")
        inner = block("inner", {"x": (16, "S")}, (v * 4 + k,), lambda x: store(A[x, 0], x))
        return For(k, 0, 4, "serial", inner)

    assert regions(body) == ("A[v * 4:v * 4 + 4, 0]", "OUT[v * 4:v * 4 + 4]")


def test_masks_choose_what_is_inferred():
    stated = (A[0:16, 0:16],)
    made = Block((), stated, stated, "b", store(A[0, 0]), annotations={DETECT_ACCESS: 2, "kept": 1})
    func = complete(PrimFunc((A, OUT), nest("i", (4,), lambda i: BlockRealize((), True, made))))
    done = func.body.block.body.body.block
    assert [r.script() for r in (*done.reads, *done.writes)] == ["A[0:16, 0:16]", "OUT[0]"]
    assert done.annotations.keys() == ["kept"]


def test_pointers_need_stated_regions():
    call = Evaluate(tir.call_extern("int32", "f", A.data))
    with pytest.raises(WellFormedError, match="block b uses buffer A through its pointer"):
        regions(lambda v, w: call)
    assert regions(lambda v, w: Evaluate(tir.address_of(A[v, 0]))) == ("A[v, 0]", "")


def test_a_root_block_is_added_once():
    func = matmul()
    root = func.body.block
    assert (root.name_hint, root.iter_vars, root.reads, root.writes) == ("root", (), (), ())
    assert complete(func) is func
    plain = PrimFunc((OUT,), store(1.0))
    assert complete(plain) is plain
    assert complete(plain, (Buffer("t", (4,)),)).body.block.alloc_buffers[0].name == "t"
    assert_structural_equal(complete(softmax()), softmax())


def test_symbolic_sizes():
    n = Var("n", "int64")
    x = Buffer("x", (n * 4,))
    k = Var("k", "int64")
    made = block("b", {}, (), lambda: For(k, 0, n, "serial", BufferStore(x, 0.0, (k * 4,))))
    func = complete(PrimFunc((x,), nest("i", (4,), lambda i: made)))
    assert func.body.block.body.body.block.writes[0].script() == "x[T.int64(0):n * T.int64(4) - T.int64(3)]"
