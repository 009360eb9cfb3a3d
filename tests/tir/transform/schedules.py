"""Programs to lower, schedules made by hand, and what a lowered program must be."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from eutectic import te, tir, topi
from eutectic.ir.dtype import is_float, to_numpy
from eutectic.ir.node import Node, replace
from eutectic.ir.prim_expr import PrimExpr, Var, evaluate, floordiv, logical_and
from eutectic.ir.visit import post_order, rewrite
from eutectic.testing.round_trip import check_round_trip
from eutectic.tir import Block, BlockRealize, BufferLoad, BufferStore, For, PrimFunc
from eutectic.tir.interpret import run


def loops(func: PrimFunc) -> list[For]:
    """All loops, inner ones first."""
    return [item for item in post_order(func.body) if isinstance(item, For)]


def in_loop(func: PrimFunc, loop: For, change: Callable[[For], tir.Stmt]) -> PrimFunc:
    """`func` with one loop replaced."""

    def swap(item: Node) -> Node | None:
        return change(item) if isinstance(item, For) and item.loop_var is loop.loop_var else None

    made = rewrite(func, swap)
    assert isinstance(made, PrimFunc)
    return made


def with_kind(func: PrimFunc, loop: For, kind: str) -> PrimFunc:
    """One loop made of another kind."""
    return in_loop(func, loop, lambda item: replace(item, kind=kind))


def split(func: PrimFunc, loop: For, factor: int, kinds: tuple[str, str]) -> PrimFunc:
    """One loop made two, the inner one of `factor` iterations; blocks below get a predicate for the tail."""
    outer, inner = (Var(f"{loop.loop_var.name}_{n}", loop.loop_var.dtype) for n in "oi")
    value = outer * factor + inner

    def change(item: For) -> tir.Stmt:
        def below(part: Node) -> Node | None:
            if part is loop.loop_var:
                return value
            if isinstance(part, BlockRealize):
                return replace(part, predicate=logical_and(part.predicate, value < item.extent))
            return None

        body = rewrite(item.body, below)
        count = floordiv(item.extent + (factor - 1), factor)
        return For(outer, 0, count, kinds[0], For(inner, 0, factor, kinds[1], body))  # type: ignore[arg-type]

    return in_loop(func, loop, change)


def innermost(func: PrimFunc) -> list[For]:
    """The loops without loops inside."""
    return [loop for loop in loops(func) if not any(isinstance(x, For) for x in post_order(loop.body))]


def schedules(func: PrimFunc, seed: int) -> Iterator[tuple[str, PrimFunc]]:
    """The program as it is, and with loops of other kinds."""
    yield "plain", func
    rng = random.Random(seed)
    for lanes in rng.sample((2, 3, 4, 6, 8, 13, 16), 3):
        made = func
        for loop in innermost(func):
            made = split(made, loop, lanes, ("serial", "vectorized"))
        yield f"innermost by {lanes}", made
    for number in range(4):
        made, said = func, []
        for loop in loops(func):
            kinds = ["serial"] if is_reduction(func, loop) else ["serial", "vectorized", "parallel"]
            choice = rng.choice(["split", "kind", "keep"])
            if choice == "split":
                pair = (rng.choice([*kinds, "unrolled"]), rng.choice([*kinds, "unrolled"]))
                factor = rng.choice([2, 3, 4, 8])
                made = split(made, loop, factor, pair)
                said.append(f"{loop.loop_var.name}/{factor} {pair}")
            elif choice == "kind":
                kind = rng.choice(kinds)
                made = with_kind(made, loop, kind)
                said.append(f"{loop.loop_var.name} {kind}")
        yield f"random {number}: {', '.join(said)}", made


def is_reduction(func: PrimFunc, loop: For) -> bool:
    """Whether a loop is bound to a reduction axis."""
    for item in post_order(loop.body):
        if isinstance(item, BlockRealize):
            for axis, value in zip(item.block.iter_vars, item.iter_values, strict=True):
                if axis.iter_type != "data_par" and any(part is loop.loop_var for part in post_order(value)):
                    return True
    return False


def check_lowered(func: PrimFunc) -> None:
    """What code generators rely on."""
    tir.verify_well_formed(func)
    for item in post_order(func.body):
        assert not isinstance(item, (Block, BlockRealize)), "a block is left"
        if isinstance(item, For):
            assert item.kind in ("serial", "parallel", "thread_binding")
        if isinstance(item, (BufferLoad, BufferStore)):
            assert len(item.indices) == 1
        if isinstance(item, (tir.BinaryExpr, tir.Comparison)):
            assert not item.a.dtype.startswith(("float16", "bfloat16"))


def arguments(func: PrimFunc, seed: int, sizes: dict[str, int] | None = None) -> list[Any]:
    """Random arrays for the parameters; sizes that are variables come by name."""
    generator = np.random.default_rng(seed)
    out: list[Any] = []
    for item in func.buffers:
        assert isinstance(item, tir.Buffer)
        shape = [size_of(size, sizes or {}) for size in item.shape]
        values = generator.standard_normal(shape) * 3
        if item.dtype == "bool":
            out.append(values > 0)
        elif is_float(item.dtype):
            out.append(np.asarray(values).astype(to_numpy(item.dtype)))
        else:
            out.append(np.asarray(generator.integers(0, 4, shape)).astype(to_numpy(item.dtype)))
    return out


def size_of(size: PrimExpr, sizes: dict[str, int]) -> int:
    known = {item: sizes[item.name] for item in post_order(size) if isinstance(item, Var)}
    return evaluate(size, known)


def result(func: PrimFunc, arrays: list[Any], **options: Any) -> list[Any]:
    """What the interpreter makes of copies of the arguments."""
    copies = [x.copy() for x in arrays]
    run(func, *copies, **options)
    return copies


def same(got: list[Any], want: list[Any], exact: bool) -> None:
    for a, b in zip(got, want, strict=True):
        if exact or a.dtype.kind in "iub":
            np.testing.assert_array_equal(a.view(f"u{a.itemsize}"), b.view(f"u{b.itemsize}"))
        else:
            np.testing.assert_allclose(a.astype("f8"), b.astype("f8"), rtol=2e-2 if a.itemsize < 4 else 1e-5, atol=1e-6)


def check_schedule(
    func: PrimFunc, seed: int, exact: bool = True, sizes: dict[str, int] | None = None, text: bool = True
) -> PrimFunc:
    """A program lowers to one that computes the same; gives that one."""
    lowered = tir.transform.lower(func)
    check_lowered(lowered)
    if text:
        check_round_trip(lowered)
    arrays = arguments(func, seed, sizes)
    want = result(func, arrays)
    same(result(lowered, arrays, check=True), want, exact)
    same(result(lowered, arrays, order="shuffle"), want, exact)
    return lowered


def x(*shape: Any, dtype: str = "float32", name: str = "x") -> te.Tensor:
    return te.placeholder(shape, dtype, name=name)


def func_of(*tensors: Any) -> PrimFunc:
    return te.create_prim_func(list(tensors))


def of(definition: Callable[..., Any], *inputs: te.Tensor) -> PrimFunc:
    """The program of a definition."""
    made = definition(*inputs)
    return func_of(*inputs, *(made if isinstance(made, (list, tuple)) else [made]))


def _pooled(kind: str) -> Callable[[te.Tensor], Any]:
    return lambda t: topi.nn.pool2d(t, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), kind)


def _conv(t: te.Tensor, w: te.Tensor, b: te.Tensor) -> Any:
    return topi.nn.relu(topi.add(topi.nn.conv2d(t, w, 1, 1, 1), b))


PROGRAMS: dict[str, Callable[[], PrimFunc]] = {
    "add": lambda: of(topi.add, x(5, 7), x(5, 7, name="y")),
    "broadcast": lambda: of(topi.multiply, x(3, 1, 7), x(4, 1, name="y")),
    "scalar": lambda: of(topi.exp, x()),
    "chain": lambda: of(lambda t: topi.tanh(topi.exp(topi.negative(t))), x(4, 9)),
    "int8": lambda: of(topi.add, x(3, 11, dtype="int8"), x(3, 11, dtype="int8", name="y")),
    "bool": lambda: of(topi.less, x(3, 10), x(3, 10, name="y")),
    "where": lambda: of(topi.where, x(3, 9, dtype="bool", name="c"), x(3, 9), x(3, 9, name="y")),
    "cast": lambda: of(lambda t: topi.cast(t, "int32"), x(3, 9)),
    "sum": lambda: of(lambda t: topi.sum(t, 1), x(5, 9)),
    "sum of columns": lambda: of(lambda t: topi.sum(t, 0), x(6, 9)),
    "max": lambda: of(lambda t: topi.max(t, (0, 2)), x(3, 5, 4)),
    "argmax": lambda: of(lambda t: topi.argmax(t, 1), x(4, 6)),
    "mean": lambda: of(lambda t: topi.mean(t, -1, True), x(4, 6)),
    "matmul": lambda: of(topi.matmul, x(5, 6), x(6, 7, name="y")),
    "conv": lambda: of(_conv, x(1, 2, 4, 5), x(3, 2, 3, 3, name="w"), x(1, 3, 1, 1, name="b")),
    "max pool": lambda: of(_pooled("max"), x(1, 2, 7, 7)),
    "avg pool": lambda: of(_pooled("avg"), x(1, 2, 7, 7)),
    "softmax": lambda: of(lambda t: topi.nn.softmax(t, -1), x(3, 9)),
    "softmax of columns": lambda: of(lambda t: topi.nn.softmax(t, 0), x(5, 6)),
    "layer norm": lambda: of(lambda t, g, b: topi.nn.layer_norm(t, g, b, -1), x(3, 8), x(8, name="g"), x(8, name="b")),
    "transpose": lambda: of(lambda t: topi.transpose(t, (2, 0, 1)), x(3, 4, 5)),
    "reshape": lambda: of(lambda t: topi.reshape(t, (6, 10)), x(3, 4, 5)),
    "concatenate": lambda: of(lambda *t: topi.concatenate(t, 1), x(3, 4), x(3, 5, name="y"), x(3, 2, name="z")),
    "take": lambda: of(lambda t, i: topi.take(t, i, 0), x(4, 6), x(3, 2, dtype="int32", name="i")),
    "gather": lambda: of(lambda t, i: topi.gather(t, 1, i), x(4, 6), x(4, 5, dtype="int64", name="i")),
    "flip": lambda: of(lambda t: topi.flip(t, 1), x(3, 7)),
    "pad": lambda: of(lambda t: topi.nn.pad(t, (1, 2), (2, 1)), x(3, 5)),
    "strided slice": lambda: of(lambda t: topi.strided_slice(t, [0, 1], [3, 7], [1, 2]), x(3, 8)),
    "tile": lambda: of(lambda t: topi.tile(t, (2, 2)), x(3, 5)),
    "half": lambda: of(
        lambda a, b: topi.nn.relu(topi.add(topi.multiply(a, b), a)),
        x(3, 9, dtype="float16"),
        x(3, 9, dtype="float16", name="y"),
    ),
    "bfloat": lambda: of(
        lambda a, b: topi.divide(topi.subtract(a, b), topi.maximum(a, b)),
        x(3, 9, dtype="bfloat16"),
        x(3, 9, dtype="bfloat16", name="y"),
    ),
    "bfloat matmul": lambda: of(topi.matmul, x(3, 4, dtype="bfloat16"), x(4, 5, dtype="bfloat16", name="y")),
    "half softmax": lambda: of(lambda t: topi.nn.softmax(t, -1), x(3, 5, dtype="float16")),
    "one": lambda: of(topi.matmul, x(1, 1), x(1, 1, name="y")),
    "nothing": lambda: of(topi.add, x(0, 4), x(0, 4, name="y")),
}
