"""transform_layout: elements of a buffer change places, in every block that accesses it."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from runpy import run_path
from typing import Any

import numpy as np
import pytest
from tests.tir.programs import matmul, softmax
from tests.tir.schedule.programs import chain, dense_bias_relu, keeps, refused, small_conv, tiled
from tests.tir.transform.schedules import of, x

from eutectic import relax, tir, topi
from eutectic.ir.prim_expr import evaluate
from eutectic.ir.structural import structural_equal
from eutectic.script import ir as I
from eutectic.script import relax as R
from eutectic.script import tir as T
from eutectic.tir import IndexMap, PrimFunc
from eutectic.tir.interpret import run
from eutectic.tir.schedule import Schedule
from eutectic.tir.schedule.validate import inputs


def packed_matmul(sch: Schedule) -> None:
    copy = sch.cache_read("T_matmul", 1, "global")
    sch.transform_layout("T_matmul", ("read", 1), lambda k, j: (j // 4, k, j % 4))
    sch.transform_block_layout(copy, lambda k, j: (j // 4, k, j % 4))


def padded_copy(sch: Schedule) -> None:
    sch.cache_read("matmul", 1, "global")
    sch.transform_layout("matmul", ("read", 1), lambda k, j: (j // 4, k, j % 4), pad_value=float("-inf"))


STEPS: dict[str, tuple[Callable[[], PrimFunc], Callable[[Schedule], Any]]] = {
    "a packed operand": (lambda: of(topi.matmul, x(6, 4), x(4, 8, name="w")), packed_matmul),
    "padding": (lambda: matmul(size=6), padded_copy),
    "padding by its place": (
        lambda: matmul(size=6, dtype="int32"),
        lambda s: (
            s.cache_write("matmul", 0, "global"),
            s.transform_layout(
                "matmul",
                ("write", 0),
                lambda i, j: ((i + 2) // 4, j, (i + 2) % 4),
                pad_value=lambda a, j, b: tir.if_then_else(j > 3, a * 10 + b, -1).astype("int32"),
            ),
        ),
    ),
    "a chain": (
        chain,
        lambda s: (
            s.transform_layout("compute", ("write", 0), lambda i, j: j * 4 + i),
            s.transform_layout("compute", "T_negative", lambda i, j: [j, i]),
        ),
    ),
    "a convolution": (
        small_conv,
        lambda s: s.transform_layout("conv2d_nchw", ("read", 0), lambda n, c, h, w: (n, h, w, c)),
    ),
    "under tiles": (
        dense_bias_relu,
        lambda s: (
            tiled(s, "T_matmul", 2, 3),
            s.transform_layout("T_matmul", "T_matmul", lambda i, j: (i // 2, j // 2, i % 2, j % 2)),
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
    golden(sch.func.script() + "\n" + "\n".join(sch.trace.as_python()))


# ---- what makes it hard


@T.prim_func(private=True)
def scattered(A: T.Buffer((8,), "float32"), P: T.Buffer((6,), "int32"), C: T.Buffer((6,), "float32")):
    """A buffer that is read by memory, in a predicate, behind a condition, in a loop bound and in a nested block."""
    B = T.alloc_buffer((8,), "float32")
    K = T.alloc_buffer((6,), "int32")
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] * T.float32(2)
    for i in range(6):
        with T.block("K"):
            v = T.axis.spatial(6, i)
            K[v] = P[v] % 3
    for i in range(6):
        with T.block("C"):
            v = T.axis.spatial(6, i)
            T.where(K[i] != 1)
            C[v] = T.if_then_else(v >= 1, B[v - 1], B[K[v]])
            for j in range(K[v]):
                C[v] = C[v] + B[v + j // 2]
            with T.block("inner"):
                C[v] = C[v] + T.Select(B[v] > T.float32(0), B[K[K[v]]], T.float32(1))


def test_accesses_of_every_kind():
    for buffer, f in (("B", lambda i: (i % 4, i // 4)), ("K", lambda i: (i // 4, i % 4)), ("K", lambda i: i * 3 + 1)):
        sch = Schedule(scattered, debug_mask="all")
        block = buffer
        sch.transform_layout(block, buffer, f)
        keeps(scattered, sch)


@T.prim_func(private=True)
def sized(a: T.handle, b: T.handle):
    n, m = T.int32(), T.int32()
    A = T.match_buffer(a, (n, m), "float32")
    C = T.match_buffer(b, (n, m), "float32")
    B = T.alloc_buffer((n, m), "float32")
    for i, j in T.grid(n, m):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid(n, m):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] * T.float32(2)


@pytest.mark.parametrize("pad", [None, 7.0])
@pytest.mark.parametrize(
    "f", [lambda i, j: (j, i), lambda i, j: (j // 2, i, j % 2), lambda i, j: (i // 2, j // 3, i % 2, j % 3)]
)
def test_symbolic_sizes(f: Any, pad: float | None):
    sch = Schedule(sized, debug_mask="all")
    sch.transform_layout("C", ("read", 0), f, pad)
    keeps(sized, sch)


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (1, 1), (1, 5)])
def test_small_shapes(shape: tuple[int, int]):
    before = of(lambda t: topi.tanh(topi.exp(t)), x(*shape))
    for f in (lambda i, j: (j, i), lambda i, j: (j // 3, i, j % 3), lambda i, j: (0, i + 1, j)):
        for pad in (None, 2):
            sch = Schedule(before)
            sch.transform_layout("compute", ("write", 0), f, pad_value=pad)
            keeps(before, sch)


@T.prim_func(private=True)
def scalar(A: T.Buffer((), "float32"), C: T.Buffer((), "float32")):
    with T.block("root"):
        B = T.alloc_buffer((), "float32")
        with T.block("B"):
            B[()] = A[()] + T.float32(1)
        with T.block("C"):
            C[()] = B[()]


def test_a_scalar():
    sch = Schedule(scalar)
    sch.transform_layout("B", ("write", 0), lambda: (0, 0))
    assert "B = T.alloc_buffer((1, 1))" in sch.func.script()
    keeps(scalar, sch)


def test_a_swizzle_has_no_formula_but_is_counted():
    before = of(lambda t: topi.tanh(topi.exp(t)), x(8, 4))
    sch = Schedule(before, debug_mask="all")
    sch.transform_layout("compute", ("write", 0), lambda i, j: (i, j ^ (i % 4)))
    keeps(before, sch)


def test_parallel_and_vectorized_loops():
    before = chain()
    sch = Schedule(before, debug_mask="all")
    sch.parallel(sch.get_loops("compute_1")[0])
    sch.vectorize(sch.get_loops("compute_1")[1])
    sch.vectorize(sch.get_loops("compute")[1])
    sch.transform_layout("compute", ("write", 0), lambda i, j: (j // 4, i, j % 4), pad_value=0)
    keeps(before, sch)


def test_buffers_by_name_and_by_node():
    """All forms of the argument are one in the trace."""
    made = []
    for given in (("write", 0), ["write", 0], "compute", None):
        sch = Schedule(chain())
        region = sch.get(sch.get_block("compute")).writes[0]
        sch.transform_layout("compute", region.buffer if given is None else given, lambda i, j: (j, i))
        assert 'buffer=["write", 0], index_map=lambda i, j: (j, i), pad_value=None' in sch.trace.as_python()[-1]
        made.append(sch.mod)
    assert all(structural_equal(made[0], other) for other in made)


def test_traces_keep_maps_with_inverses_and_infinities(tmp_path: Path):
    before = chain()
    sch = Schedule(before)
    made = IndexMap.from_func(lambda i, j: (3 - i, j // 4, j % 4), inverse_index_map=lambda i, a, b: (3 - i, a * 4 + b))
    sch.transform_layout("compute", "compute", made, pad_value=np.float32("inf"))
    json.dumps(sch.trace.as_json())
    keeps(before, sch)
    script = tmp_path / "trace.py"  # what the trace prints is Python that does the same
    script.write_text(str(sch.trace))
    again = Schedule(before)
    run_path(str(script), {"tir": tir})["apply_trace"](again)
    assert structural_equal(again.mod, sch.mod)


def test_regions_that_are_stated_keep_their_order():
    before = dense_bias_relu()
    sch = Schedule(before)
    sch.cache_read("T_matmul", 0, "global")
    names = [region.buffer.name for region in sch.get(sch.get_block("T_matmul")).reads]
    sch.transform_layout("T_matmul", ("read", 0), lambda i, k: (k, i))
    assert [region.buffer.name for region in sch.get(sch.get_block("T_matmul")).reads] == names
    keeps(before, sch)


# ---- parameters


def relaid(array: Any, f: Any, shape: list[int], fill: Any) -> Any:
    index_map = IndexMap.from_func(f)
    made = np.full(shape, fill, array.dtype)
    for at in product(*map(range, array.shape)):
        made[tuple(int(k) for k in index_map.map_indices(list(at)))] = array[at]
    return made


def keeps_up_to_layout(before: PrimFunc, after: PrimFunc, maps: dict[int, Any], pads: dict[int, Any]) -> None:
    """The same as `keeps`, where some arguments are in another layout."""
    tir.verify_well_formed(after)
    for kind in ("numbers", "special values"):
        given = inputs(before, kind)
        sizes = {
            var: int(size)
            for buffer, array in zip(before.buffers, given, strict=True)
            for var, size in zip(buffer.shape, array.shape, strict=True)
            if isinstance(var, tir.Var)
        }
        shapes = [[evaluate(size, sizes) for size in buffer.shape] for buffer in after.buffers]
        want = [np.copy(item) for item in given]
        run(before, *want)
        for func in (after, tir.transform.lower(after)):
            got = [
                relaid(given[k], f, shapes[k], 77) if (f := maps.get(k)) else given[k].copy() for k in range(len(given))
            ]
            run(func, *got)
            for k, array in enumerate(got):
                expected = relaid(want[k], maps[k], shapes[k], pads.get(k, 77)) if k in maps else want[k]
                np.testing.assert_array_equal(array, expected)


def test_parameters_change_the_interface():
    before = matmul(size=6)
    sch = Schedule(before, debug_mask="all")
    first, second, third = (lambda i, j: (j, i)), (lambda k, j: (j // 4, k, j % 4)), (lambda i, j: (i // 4, j, i % 4))
    sch.transform_layout("matmul", ("read", 0), first)
    sch.transform_layout("matmul", ("read", 1), second)
    sch.transform_layout("matmul", ("write", 0), third, pad_value=5)
    assert [b.name for b in sch.func.buffers] == ["A", "B", "C"]
    assert list(sch.func.buffers[1].shape) == [2, 6, 4]
    keeps_up_to_layout(before, sch.func, {0: first, 1: second, 2: third}, {2: 5})


def test_symbolic_parameters():
    f = lambda i, j: (j // 2, i, j % 2)  # noqa: E731
    sch = Schedule(sized)
    sch.transform_layout("B", ("read", 0), f)
    keeps_up_to_layout(sized, sch.func, {0: f}, {})
    said = refused(sch, lambda: sch.transform_layout("C", ("write", 0), f))
    assert "only the shape of parameter C says what m is" in said
    swapped = lambda i, j: (j, i)  # noqa: E731
    sch.transform_layout("C", ("write", 0), swapped)
    keeps_up_to_layout(sized, sch.func, {0: f, 1: swapped}, {})


@I.ir_module
class Called:
    @T.prim_func(private=True)
    def double(A: T.Buffer((4, 6), "float32"), C: T.Buffer((4, 6), "float32")):
        for i, j in T.grid(4, 6):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] * T.float32(2)

    @R.function
    def main(x: R.Tensor((4, 6), "float32")) -> R.Tensor((4, 6), "float32"):
        cls = Called
        return R.call_tir(cls.double, (x,), out_sinfo=R.Tensor((4, 6), "float32"))


def test_callers_rely_on_the_layout():
    assert isinstance(Called["main"], relax.Function)
    sch = Schedule(Called)
    said = refused(sch, lambda: sch.transform_layout("C", ("read", 0), lambda i, j: (j, i)))
    assert "main would pass A to double in the old layout" in said


# ---- refusals


@T.prim_func(private=True)
def matched(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v]
    for i in range(4):
        with T.block("C"):
            v = T.axis.spatial(4, i)
            D = T.match_buffer(B[v * 2 : v * 2 + 2], (2,), offset_factor=1)
            for j in range(2):
                C[v * 2 + j] = D[j]


@T.prim_func(private=True)
def addressed(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v]
    with T.block("C"):
        T.reads(B[0:8])
        T.writes(C[0:8])
        T.evaluate(T.call_extern("int32", "copy", T.address_of(C[0]), T.address_of(B[0])))


@T.prim_func(private=True)
def pointed(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v]
    with T.block("C"):
        T.reads(B[0:8])
        T.writes(C[0:8])
        T.evaluate(T.call_extern("int32", "copy", C.data, B.data))


@T.prim_func(private=True)
def vectors(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,), "float32")
    for i in range(2):
        with T.block("B"):
            v = T.axis.spatial(2, i)
            B[T.Ramp(v * 4, 1, 4)] = A[T.Ramp(v * 4, 1, 4)]
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[v]


@T.prim_func(private=True)
def strided(a: T.handle, C: T.Buffer((8,), "float32")):
    A = T.match_buffer(a, (8,), "float32", strides=[2])
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = A[v]


def aligned(s: Schedule) -> Any:
    s.storage_align("compute", 0, 0, 8, 0)
    return s.transform_layout("compute", ("write", 0), lambda i, j: (j, i))


def bound(s: Schedule) -> Any:
    s.bind(s.get_loops("compute")[0], "threadIdx.x")
    return s.transform_layout("compute", ("write", 0), lambda i, j: (i // 3, j, i % 3), 0)


swap = lambda i: (i % 4, i // 4)  # noqa: E731
REFUSALS: dict[str, tuple[Callable[[], PrimFunc], Callable[[Schedule], Any], str]] = {
    "no kind": (chain, lambda s: s.transform_layout("compute", ("reads", 0), swap), "is no buffer of a block"),
    "no number": (chain, lambda s: s.transform_layout("compute", ("read", 1), swap), "reads no buffer 1"),
    "no name": (chain, lambda s: s.transform_layout("compute", "y", swap), "accesses no buffer called y"),
    "no function": (chain, lambda s: s.transform_layout("compute", ("write", 0), 3), "is a int, no function"),
    "rank": (chain, lambda s: s.transform_layout("compute", ("write", 0), swap), "takes 1 indices, and buffer compute"),
    "separators": (
        chain,
        lambda s: s.transform_layout("compute", ("write", 0), lambda i, j: (i, IndexMap.AXIS_SEPARATOR, j)),
        "axis separators",
    ),
    "not injective": (
        chain,
        lambda s: s.transform_layout(
            "compute", ("write", 0), lambda i, j: (i // 2, j), assume_injective_transform=True
        ),
        "each element in a place of its own",
    ),
    "negative": (
        chain,
        lambda s: s.transform_layout("compute", ("write", 0), lambda i, j: (i - 1, j)),
        "not negative and fit int32",
    ),
    "free variable": (
        chain,
        lambda s: s.transform_layout("compute", ("write", 0), lambda i, j: (i + tir.Var("n", "int64"), j)),
        "variable n is no input",
    ),
    "too large": (
        chain,
        lambda s: s.transform_layout("compute", ("write", 0), lambda i, j: (i * 100000, j * 100000)),
        "places, which do not fit int32",
    ),
    "overflow": (
        chain,
        lambda s: s.transform_layout("compute", ("write", 0), lambda i, j: (i * (1 << 30) // (1 << 29), j)),
        "not negative and fit int32",
    ),
    "only read": (
        chain,
        lambda s: s.transform_layout("T_negative", ("read", 0), lambda i, j: (i // 3, j, i % 3), 0),
        "parameter x is only read",
    ),
    "pad value": (
        lambda: of(lambda t: topi.add(t, topi.negative(t)), x(4, 6, dtype="int8")),
        lambda s: s.transform_layout("T_negative", ("write", 0), lambda i, j: (i // 3, j, i % 3), 300),
        "300 is no value of buffer T_negative of int8",
    ),
    "pad dtype": (
        chain,
        lambda s: s.transform_layout("compute", ("write", 0), lambda i, j: (i // 3, j, i % 3), lambda *at: at[0]),
        "the value for padding is int64",
    ),
    "pad values": (
        chain,
        lambda s: s.transform_layout("compute", ("write", 0), lambda i, j: (i // 3, j, i % 3), lambda *at: at),
        "is one value, not 3",
    ),
    "pad places": (
        chain,
        lambda s: s.transform_layout("compute", ("write", 0), lambda i, j: (i * 2, j), 0),
        "not known which places are padding",
    ),
    "match_buffer": (lambda: matched, lambda s: s.transform_layout("B", "B", swap), "has another name, D"),
    "address_of": (lambda: addressed, lambda s: s.transform_layout("B", "B", swap), "may take an address"),
    "pointer": (lambda: pointed, lambda s: s.transform_layout("B", "B", swap), "used through a pointer"),
    "vectors": (lambda: vectors, lambda s: s.transform_layout("C", "B", swap), "accessed by vectors"),
    "strides": (lambda: strided, lambda s: s.transform_layout("C", "A", swap), "has strides"),
    "alignment": (chain, aligned, "is aligned by storage_align"),
    "threads": (chain, bound, "threads access compute"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name: str):
    make, step, said = REFUSALS[name]
    sch = Schedule(make())
    if name in ("alignment", "threads"):
        with pytest.raises(tir.ScheduleError, match=said):
            step(sch)
        return
    message = refused(sch, lambda: step(sch))
    assert said in message
    assert "  --> tir main" in message


def test_a_refusal_in_full(golden):
    sch = Schedule(chain())
    golden(refused(sch, lambda: sch.transform_layout("compute", ("write", 0), lambda i, j: (i // 2, j))))


def test_a_buffer_used_elsewhere_by_pointer_does_not_forbid_others():
    sch = Schedule(pointed)
    sch.transform_layout("B", ("read", 0), swap)
    assert "A: T.Buffer((4, 2), " in sch.func.script()


def test_softmax_keeps_all_readers():
    before = softmax()
    sch = Schedule(before, debug_mask="all")
    sch.transform_layout("e", ("write", 0), lambda i, j: (j // 2, i, j % 2))
    sch.transform_layout("y", "total", lambda i: (i // 3, i % 3), pad_value=1)
    keeps(before, sch)
