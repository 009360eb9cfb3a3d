"""pad_einsum: axes that become multiples of numbers, and the reasons why some do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.tir.programs import block, matmul, nest
from tests.tir.schedule.programs import chain, dense_bias_relu, keeps, refused, small_conv, tiled
from tests.tir.transform.schedules import of, x

from eutectic import te, tir, topi
from eutectic.ir.node import replace
from eutectic.ir.prim_expr import PrimExpr, Var, cast
from eutectic.script import tir as T
from eutectic.support.errors import ScheduleError
from eutectic.tir import Buffer, BufferStore, For, PrimFunc, complete
from eutectic.tir.interpret import run
from eutectic.tir.schedule import Schedule
from eutectic.tir.schedule.state import replaced


def batched() -> PrimFunc:
    """A product with a batch, integers with a wider sum."""

    def definition(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, 5), "k")
        return te.compute(
            (2, 3, 4),
            lambda n, i, j: te.sum(cast("int32", a[n, i, k]) * cast("int32", b[n, j, k]), axis=k),
            name="C",
        )

    return of(definition, x(2, 3, 5, dtype="int8"), x(2, 4, 5, dtype="int8", name="w"))


def gram() -> PrimFunc:
    """A product of a matrix with itself: one buffer at two places."""

    def definition(a: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, 5), "k")
        return te.compute((3, 3), lambda i, j: te.sum(a[i, k] * a[j, k], axis=k), name="C")

    return of(definition, x(3, 5))


def reduction(kind: str, dtype: str) -> PrimFunc:
    """A reduction of columns."""
    return of(lambda t: getattr(topi, kind)(t, 1), x(3, 5, dtype=dtype))


def name_of(sch: Schedule) -> str:
    return next(s.block.name_hint for s in sch.state.index("main").blocks if s.block.iter_vars)


STEPS: dict[str, tuple[Callable[[], PrimFunc], Callable[[Schedule], Any]]] = {
    "a product": (lambda: matmul(size=5), lambda s: s.pad_einsum("matmul", [4, 2, 3])),
    "the reduction alone": (lambda: matmul(size=5), lambda s: s.pad_einsum("matmul", [5, 1, 4])),
    "columns alone": (lambda: matmul(size=5), lambda s: s.pad_einsum("matmul", [1, 4, 1])),
    "nothing to do": (lambda: matmul(size=6), lambda s: s.pad_einsum("matmul", [3, 2, 6])),
    "a size that is not known": (
        lambda: matmul(size=Var("n", "int64")),
        lambda s: s.pad_einsum("matmul", [4, 2, 3]),
    ),
    "integers": (batched, lambda s: s.pad_einsum("C", [1, 4, 4, 4])),
    "one buffer at two places": (gram, lambda s: s.pad_einsum("C", [4, 2, 8])),
    "elements": (dense_bias_relu, lambda s: s.pad_einsum("T_add", [8, 8])),
    "a maximum": (lambda: reduction("max", "float32"), lambda s: s.pad_einsum(name_of(s), [2, 8])),
    "a producer in the scope": (
        dense_bias_relu,
        lambda s: (s.pad_einsum("T_matmul", [8, 8, 4]), s.pad_einsum("T_add", [8, 8])),
    ),
    "then tiled": (
        lambda: matmul(size=5),
        lambda s: (
            s.pad_einsum("matmul", [4, 4, 4]),
            tiled(s, "matmul", 4, 4),
            s.decompose_padding("A_pad", s.get_loops("A_pad")[0]),
            s.compute_inline("B_pad"),
        ),
    ),
    "columns of a convolution": (
        small_conv,
        lambda s: (
            s.reindex("conv2d_nchw", ("read", 0)),
            s.pad_einsum("conv2d_nchw", [1, 4, 1, 1, 4, 1, 1]),
        ),
    ),
}


@pytest.mark.parametrize("name", STEPS)
def test_steps(golden, name: str):
    make, step = STEPS[name]
    before = make()
    sch = Schedule(before, debug_mask="all")
    step(sch)
    keeps(before, sch)
    golden(sch.func.script())


KINDS = [(kind, dtype) for kind in ("sum", "prod", "max", "min") for dtype in ("float32", "float16", "int32", "int64")]


@pytest.mark.parametrize(("kind", "dtype"), [*KINDS, ("max", "uint8"), ("min", "uint8")])
def test_reductions(kind: str, dtype: str):
    before = reduction(kind, dtype)
    sch = Schedule(before, debug_mask="all")
    sch.pad_einsum(name_of(sch), [2, 4])
    keeps(before, sch)


@pytest.mark.parametrize("sizes", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (1, 1, 1), (4, 4, 4)])
def test_sizes(sizes: tuple[int, int, int]):
    m, n, k = (Var(name, "int64") for name in "mnk")
    before = of(lambda a, b: topi.matmul(a, b), x(m, k), x(k, n, name="w"))
    sch = Schedule(before)
    sch.pad_einsum("T_matmul", [4, 2, 3])
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype("f4") for s in ((sizes[0], sizes[2]), (sizes[2], sizes[1])))
    results = []
    for func in (before, sch.func, tir.transform.lower(sch.func)):
        out = np.full(sizes[:2], 7, "f4")
        run(func, a, b, out)
        results.append(out)
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)


def test_handles_stay():
    sch = Schedule(matmul(size=5))
    work, loops = sch.get_block("matmul"), sch.get_loops("matmul")
    sch.pad_einsum(work, [8, 1, 4])
    assert [sch.get(loop).static_extent for loop in loops] == [8, 5, 8]
    assert [axis.dom.extent.value for axis in sch.get(work).iter_vars] == [8, 5, 8]
    sch.split(loops[0], [2, 4], disable_predication=True)


def test_loops_in_another_order_and_at_once():
    before = matmul(size=5)
    sch = Schedule(before, debug_mask="all")
    i, j, k = sch.get_loops("matmul")
    sch.reorder(k, j, i)
    sch.parallel(j)
    sch.vectorize(i)
    sch.pad_einsum("matmul", [4, 4, 4])
    keeps(before, sch)


# ---- refusals


def product(value: Callable[..., PrimExpr], first: Any = 0.0, dtype: str = "float32") -> PrimFunc:
    """`C[i] = C[i] + value(i, k, A, B)` over four terms of five rows, beginning with a number."""
    a, b, c = Buffer("A", (5, 4), dtype), Buffer("B", (5,), dtype), Buffer("C", (5,), dtype)
    start = first if isinstance(first, PrimExpr | float | int) else first(b)

    def body(i: Var, k: Var) -> Any:
        return block(
            "C",
            {"vi": (5, "S"), "vk": (4, "R")},
            (i, k),
            lambda i, k: BufferStore(c, c[i] + value(i, k, a, b), (i,)),
            lambda i, k: BufferStore(c, start if isinstance(start, float | int) else start[i], (i,)),
        )

    return complete(PrimFunc((a, b, c), nest("ik", (5, 4), body)))


def elements(value: Callable[..., PrimExpr], dtype: str = "float32") -> PrimFunc:
    """`C[i] = value(i, A)` for five elements."""
    a, c = Buffer("A", (5,), dtype), Buffer("C", (5,), dtype)

    def body(i: Var) -> Any:
        return block("C", {"vi": (5, "S")}, (i,), lambda i: BufferStore(c, value(i, a), (i,)))

    return complete(PrimFunc((a, c), nest("i", (5,), body)))


def bias() -> PrimFunc:
    """A sum whose initial value is a number that the caller gives."""
    return product(lambda i, k, a, b: a[i, k], lambda b: b)


@T.prim_func(private=True)
def smaller(A: T.Buffer((0, 5), "float32"), B: T.Buffer((3,), "float32"), C: T.Buffer((0,), "float32")):
    for i, k in T.grid(0, 5):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk] * B[vk]


@T.prim_func(private=True)
def in_place(A: T.Buffer((5,), "float32")):
    for i in range(5):
        with T.block("C"):
            v = T.axis.spatial(5, i)
            A[v] = A[v] + T.float32(1)


@T.prim_func(private=True)
def last_of_all(A: T.Buffer((5,), "float32"), C: T.Buffer((1,), "float32")):
    for i in range(5):
        with T.block("C"):
            v = T.axis.spatial(5, i)
            C[0] = A[v]


@T.prim_func(private=True)
def two_names(A: T.Buffer((5, 5), "float32")):
    with T.block("outer"):
        T.reads(A[0:5, 0:5])
        T.writes(A[0:5, 0:5])
        other = T.match_buffer(A[0:5, 0:5], (5, 5))
        for i, j in T.grid(5, 5):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = other[vj, vi]


@T.prim_func(private=True)
def guarded(A: T.Buffer((5,), "float32"), C: T.Buffer((5,), "float32")):
    for i in range(5):
        with T.block("C"):
            v = T.axis.spatial(5, i)
            T.where(i != 2)
            C[v] = A[v]


def perhaps_no_terms() -> PrimFunc:
    """A product over a size that is not known."""
    k = Var("n", "int64")
    return of(lambda a, b: topi.matmul(a, b), x(3, k), x(k, 4, name="w"))


def plain(i: Var, k: Var, a: Buffer, b: Buffer) -> PrimExpr:
    return a[i, k]


def pad(*padding: int, name: str = "C") -> Callable[[Schedule], Any]:
    return lambda s: s.pad_einsum(name, list(padding))


def decomposed(s: Schedule) -> None:
    s.decompose_reduction("C", s.get_loops("C")[0])
    s.pad_einsum("C_update", [2, 2])


def threads(s: Schedule) -> None:
    s.bind(s.get_loops("C")[0], "threadIdx.x")
    s.pad_einsum("C", [4, 1])


def terms_over_threads() -> PrimFunc:
    """Loops over terms are around one that is spread over threads; no schedule makes that of a program."""
    s = Schedule(perhaps_no_terms())
    k, i = s.get_loops("T_matmul")[2], s.get_loops("T_matmul")[1]
    s.reorder(k, i)
    loop = s.get(i)
    assert isinstance(loop, For)
    bound = replace(loop, kind="thread_binding", thread_binding="threadIdx.x")
    return s.func.with_body(replaced(s.func.body, {loop: bound}))


REFUSALS: dict[str, tuple[Callable[[], PrimFunc], Callable[[Schedule], Any], str]] = {
    "too few numbers": (lambda: matmul(size=5), pad(2, 2, name="matmul"), "one positive number for each of 3 axes"),
    "zero": (lambda: matmul(size=5), pad(2, 2, 0, name="matmul"), "one positive number for each of 3 axes"),
    "too large": (lambda: matmul(size=5), pad(1 << 31, 1, 1, name="matmul"), "do not fit int32"),
    "no plain index": (small_conv, pad(*[2] * 7, name="conv2d_nchw"), "of pad_temp is neither an axis nor a constant"),
    "infinity": (lambda: product(lambda i, k, a, b: a[i, k] * b[i]), pad(1, 8), "0 times infinity or NaN is NaN"),
    "another term": (lambda: product(lambda i, k, a, b: a[i, k] + 1.0), pad(1, 8), "is not proved to be 0"),
    "a function": (lambda: product(lambda i, k, a, b: tir.exp(a[i, k])), pad(1, 8), "is not proved to be 0"),
    "infinity when it is rounded": (
        lambda: product(lambda i, k, a, b: a[i, k] * tir.const(1e6, "float16"), 0.0, "float16"),
        pad(1, 8),
        "0 times infinity or NaN is NaN",
    ),
    "an infinite constant": (
        lambda: product(lambda i, k, a, b: a[i, k] * tir.infinity("float32")),
        pad(1, 8),
        "0 times infinity or NaN is NaN",
    ),
    "no dependence": (lambda: product(lambda i, k, a, b: b[i]), pad(1, 8), "is not proved to be 0"),
    "-0.0": (lambda: product(plain, -0.0), pad(1, 8), "its initial value could be -0.0"),
    "a initial value from memory": (bias, pad(1, 8), "its initial value could be -0.0"),
    "decomposed": (lambda: product(plain), decomposed, "it is a reduction without its initial values"),
    "split": (
        lambda: matmul(size=6),
        lambda s: (s.split(s.get_loops("matmul")[0], [2, 3]), pad(4, 1, 1, name="matmul")(s)),
        "have not one loop each",
    ),
    "a tail": (
        lambda: matmul(size=5),
        lambda s: (s.split(s.get_loops("matmul")[0], [2, 3]), pad(4, 1, 1, name="matmul")(s)),
        "it has a predicate",
    ),
    "a predicate": (lambda: guarded, pad(4), "it has a predicate"),
    "another block in the loop": (
        chain,
        lambda s: (s.compute_at("compute", s.get_loops("compute_1")[0]), pad(4, 4, name="compute_1")(s)),
        "there is more than loops around block compute_1",
    ),
    "in place": (lambda: in_place, pad(4), "reads A, which it stores, elsewhere"),
    "one element": (lambda: last_of_all, pad(4), "stores at [0], not at each of its spatial axes once"),
    "two names": (lambda: two_names, pad(4, 4), "knows the memory of A by several names"),
    "division": (
        lambda: elements(lambda i, a: tir.floordiv(7, a[i]), "int32"),
        pad(4),
        "it divides integers by what is not a constant",
    ),
    "shift": (
        lambda: elements(lambda i, a: tir.call_intrin("int32", "tir.shift_left", a[i], i), "int32"),
        pad(4),
        "it calls tir.shift_left",
    ),
    "out of bounds": (lambda: smaller, pad(1, 4), "accesses B within its 3 elements along an axis: 5 are accessed"),
    "threads": (lambda: product(plain), threads, "is bound to threads, of which there cannot be more"),
    "nothing is stored": (
        terms_over_threads,
        lambda s: s.pad_einsum("T_matmul", [4, 1, 1]),
        "stores nothing where axis v_k has no points",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name: str):
    make, step, said = REFUSALS[name]
    sch = Schedule(make())
    with pytest.raises(ScheduleError) as error:
        step(sch)
    assert said in str(error.value)
    assert "  --> tir main" in str(error.value)


def test_factors_that_are_finite_for_sure():
    """An integer, an axis and a constant are no infinities; a spatial axis may be padded whatever the factors are."""
    a, b, c = Buffer("A", (5, 4)), Buffer("B", (5,), "int16"), Buffer("C", (5,))

    def body(i: Var, k: Var) -> Any:
        return block(
            "C",
            {"vi": (5, "S"), "vk": (4, "R")},
            (i, k),
            lambda i, k: BufferStore(c, c[i] + a[i, k] * cast("float32", b[i]) * 0.5 * cast("float32", i), (i,)),
            lambda i, k: BufferStore(c, 1.5, (i,)),
        )

    before = complete(PrimFunc((a, b, c), nest("ik", (5, 4), body)))
    for padding in ([1, 3], [2, 3], [3, 1]):
        sch = Schedule(before, debug_mask="all")
        sch.pad_einsum("C", padding)
        keeps(before, sch)
    other = product(lambda i, k, a, b: a[i, k] * b[i])
    sch = Schedule(other, debug_mask="all")
    sch.pad_einsum("C", [3, 1])
    keeps(other, sch)


def test_integers_have_no_infinity():
    before = product(lambda i, k, a, b: a[i, k] * b[i], lambda b: b, "int32")
    sch = Schedule(before, debug_mask="all")
    sch.pad_einsum("C", [4, 3])
    keeps(before, sch)


@pytest.mark.parametrize("sign", [0.0, -0.0])
def test_negative_zeros_stay(sign: float):
    """-0.0 terms, and results that are zero."""
    before = product(plain, 0.0)
    sch = Schedule(before)
    sch.pad_einsum("C", [2, 8])
    a, b = np.full((5, 4), sign, "f4"), np.zeros(5, "f4")
    want, got = np.ones(5, "f4"), np.ones(5, "f4")
    run(before, a, b, want)
    run(sch.func, a, b, got)
    assert want.tobytes() == got.tobytes()


@T.prim_func(private=True)
def diagonal(A: T.Buffer((6, 6), "float32"), C: T.Buffer((5, 2), "float32")):
    for i, k in T.grid(5, 5):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi, 1] = T.float32(0)
            C[vi, 1] = C[vi, 1] + A[vk, vk] * A[3, vk] * A[vi, vk]


def test_constants_and_diagonals_and_larger_buffers(golden):
    """What lies beyond the block's points in a larger buffer is not a term."""
    sch = Schedule(diagonal, debug_mask="all")
    sch.pad_einsum("C", [1, 3])
    keeps(diagonal, sch)
    golden(sch.func.script())


def test_in_a_nested_block():
    @T.prim_func(private=True)
    def rows(A: T.Buffer((4, 5), "float32"), C: T.Buffer((4, 5), "float32")):
        for i in T.parallel(4):
            with T.block("row"):
                vi = T.axis.spatial(4, i)
                T.reads(A[vi, 0:5])
                T.writes(C[vi, 0:5])
                a = T.match_buffer(A[vi, 0:5], (5,), offset_factor=1)
                c = T.match_buffer(C[vi, 0:5], (5,), offset_factor=1)
                for j in range(5):
                    with T.block("C"):
                        vj = T.axis.spatial(5, j)
                        c[vj] = a[vj] * T.float32(2)

    sch = Schedule(rows, debug_mask="all")
    sch.pad_einsum("C", [4])
    keeps(rows, sch)


def test_a_refusal_says_which_axis(golden):
    sch = Schedule(product(lambda i, k, a, b: a[i, k] * b[i]))
    name = sch.get_block("C")
    golden(refused(sch, lambda: sch.pad_einsum(name, [4, 3])))
