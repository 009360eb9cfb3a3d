"""What schedule primitives cost, and what they reach: kernels that are scheduled by primitives alone.

Prints for each kernel the milliseconds of each primitive and of all of them, how many proofs they asked for, GFLOP/s of
the kernel, and the largest error against float64 on a small case of the same schedule.

    python benchmarks/primitives.py                      # all kernels
    python benchmarks/primitives.py --kernels conv3x3 --rounds 50 --threads 1
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from eutectic import te, tir
from eutectic.arith import sets
from eutectic.backend.llvm.machine import machine_of
from eutectic.driver.build_prim_func import NativePrimFunc
from eutectic.target import Target
from eutectic.testing.timing import interleaved
from eutectic.tir.schedule.primitive import Primitive
from machine import describe, usable_cpus

LANES: Final = 16
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Kernel:
    """A program and its schedule.

    Attributes:
        make: The program, whose last argument is the result.
        schedule: What is done to it.
        inputs: Shapes of the other arguments.
        output: Shape of the result.
        flops: Floating-point operations.
        truth: The result in float64.
    """

    make: Callable[[], tir.PrimFunc]
    schedule: Callable[[tir.Schedule], None]
    inputs: tuple[tuple[int, ...], ...]
    output: tuple[int, ...]
    flops: int
    truth: Callable[..., Array]


def _unroll_reduction(sch: tir.Schedule, name: str, copy: str, outside: int, factors: list[int | None]) -> None:
    """Registers for a tile: all of its loops are unrolled, the last one is vectors.

    Args:
        sch: The schedule.
        name: The reduction, whose tile is inside of the loops that it runs over.
        copy: The block that stores the tile.
        outside: Loops around the tile's nests.
        factors: For each loop of the reduction the iterations that are unrolled.
    """
    loops = sch.get_loops(name)[outside:]
    first = sch.decompose_reduction(name, loops[0])
    for block in (first, copy):
        *unrolled, lanes = sch.get_loops(block)[outside:]
        for loop in unrolled:
            sch.unroll(loop)
        sch.vectorize(lanes)
    for loop, factor in zip(loops, factors, strict=False):
        if factor is not None:
            sch.unroll(sch.split(loop, [None, factor])[1])
    for loop in loops[len(factors) : -1]:
        sch.unroll(loop)
    sch.vectorize(loops[-1])


def blocked_conv(channels: int, size: int, window: int, tile: int = 14) -> Kernel:
    """A convolution with stride 1 over padded `NCHW16c` data and `OIhw16i16o` weights."""
    groups, padded = channels // LANES, size + window - 1
    shapes = (1, groups, padded, padded, LANES), (groups, groups, window, window, LANES, LANES)

    def make() -> tir.PrimFunc:
        data, weight = (
            te.placeholder(shape, "float32", name) for shape, name in zip(shapes, ("data", "weight"), strict=True)
        )
        c, kh, kw, ii = (
            te.reduce_axis((0, extent), name)
            for extent, name in zip((groups, window, window, LANES), ("c", "kh", "kw", "ii"), strict=True)
        )

        def term(n: Any, o: Any, y: Any, x: Any, lane: Any) -> Any:
            return te.sum(data[n, c, y + kh, x + kw, ii] * weight[o, c, kh, kw, ii, lane], [c, kh, kw, ii])

        return te.create_prim_func([data, weight, te.compute((1, groups, size, size, LANES), term, "conv")])

    def schedule(sch: tir.Schedule) -> None:
        conv = sch.get_block("conv")
        n, o, y, x, lane, c, kh, kw, ii = sch.get_loops(conv)
        outer, vectors = sch.split(o, [None, 2])
        x_outer, points = sch.split(x, [None, tile])
        local = sch.cache_write(conv, 0, "local")
        sch.reorder(n, outer, y, x_outer, c, kh, kw, ii, points, vectors, lane)
        sch.reverse_compute_at(local, x_outer)
        if size % tile:
            sch.loop_partition(x_outer, [size // tile, 1])
        for suffix in ("", "_partition_1") if size % tile else ("",):
            _unroll_reduction(sch, f"conv{suffix}", f"conv_local{suffix}", 4, [None, None, None, 2])
        sch.parallel(outer)

    def truth(data: Array, weight: Array) -> Array:
        windows = np.lib.stride_tricks.sliding_window_view(data, (window, window), axis=(2, 3))
        made: Array = np.einsum("ncyxihw,ochwil->noyxl", windows, weight, optimize=True)
        return made

    flops = 2 * channels * channels * size * size * window * window
    return Kernel(make, schedule, shapes, (1, groups, size, size, LANES), flops, truth)


def depthwise(channels: int, size: int, tile: int = 14) -> Kernel:
    """A 3x3 convolution of each channel by itself, over padded `NCHW16c` data."""
    groups = channels // LANES
    shapes = (1, groups, size + 2, size + 2, LANES), (groups, 3, 3, LANES)

    def make() -> tir.PrimFunc:
        data, weight = (te.placeholder(shape, "float32", name) for shape, name in zip(shapes, "dw", strict=True))
        kh, kw = te.reduce_axis((0, 3), "kh"), te.reduce_axis((0, 3), "kw")

        def term(n: Any, c: Any, y: Any, x: Any, lane: Any) -> Any:
            return te.sum(data[n, c, y + kh, x + kw, lane] * weight[c, kh, kw, lane], [kh, kw])

        return te.create_prim_func([data, weight, te.compute((1, groups, size, size, LANES), term, "conv")])

    def schedule(sch: tir.Schedule) -> None:
        conv = sch.get_block("conv")
        n, c, y, x, lane, kh, kw = sch.get_loops(conv)
        outer, points = sch.split(x, [None, tile])
        local = sch.cache_write(conv, 0, "local")
        sch.reorder(n, c, y, outer, kh, kw, points, lane)
        sch.reverse_compute_at(local, outer)
        _unroll_reduction(sch, "conv", "conv_local", 4, [3, 3])
        sch.parallel(c)

    def truth(data: Array, weight: Array) -> Array:
        windows = np.lib.stride_tricks.sliding_window_view(data, (3, 3), axis=(2, 3))
        made: Array = np.einsum("ncyxlhw,chwl->ncyxl", windows, weight, optimize=True)
        return made

    return Kernel(make, schedule, shapes, (1, groups, size, size, LANES), 2 * 9 * channels * size * size, truth)


def product(size: int, terms: int, block: int | None = None, tile: int = 14) -> Kernel:
    """A product whose second operand is packed in panels of two vectors; with `block`, that many terms at a time."""
    panel = 2 * LANES
    shapes = (size, terms), (size // panel, terms, panel)
    whole, tail = divmod(size, tile)

    def make() -> tir.PrimFunc:
        a, b = (te.placeholder(shape, "float32", name) for shape, name in zip(shapes, "ab", strict=True))
        k = te.reduce_axis((0, terms), "k")

        def term(i: Any, j: Any) -> Any:
            return te.sum(a[i, k] * b[j // panel, k, j % panel], [k])

        return te.create_prim_func([a, b, te.compute((size, size), term, "product")])

    def schedule(sch: tir.Schedule) -> None:
        i, j, k = sch.get_loops("product")
        i_outer, rows = sch.split(i, [None, tile])
        j_outer, vectors, lanes = sch.split(j, [None, 2, LANES])
        suffixes = ("", "_partition_1") if tail else ("",)
        if block is None:
            local = sch.cache_write("product", 0, "local")
            sch.reorder(j_outer, i_outer, k, rows, vectors, lanes)
            sch.reverse_compute_at(local, i_outer)
        else:
            k_outer, k_inner = sch.split(k, [None, block])
            sch.reorder(j_outer, k_outer, i_outer, k_inner, rows, vectors, lanes)
            first = sch.decompose_reduction("product", k_outer)
            sch.vectorize(sch.get_loops(first)[-1])
        parts = sch.loop_partition(i_outer, [whole, 1]) if tail else [i_outer]
        for suffix in suffixes:
            if block is None:
                _unroll_reduction(sch, f"product{suffix}", f"product_local{suffix}", 2, [2])
            else:
                _update_in_place(sch, f"product_update{suffix}")
        if tail:
            sch.loop_join(*parts)
        sch.parallel(j_outer)

    def truth(a: Array, b: Array) -> Array:
        made: Array = a @ b.transpose(1, 0, 2).reshape(terms, size)
        return made

    return Kernel(make, schedule, shapes, (size, size), 2 * size * size * terms, truth)


def by_microkernels(size: int, terms: int, block: int) -> Kernel:
    """The same product, `block` terms at a time, of which each tile is a tensor intrinsic."""
    rows, columns = (14, 2 * LANES) if machine_of(Target("llvm")).registers == 32 else (6, LANES)

    def schedule(sch: tir.Schedule) -> None:
        i, j, k = sch.get_loops("product")
        i_outer, tile = sch.split(i, [None, rows])
        panel, within, lanes = sch.split(j, [None, 2 * LANES // columns, columns])
        k_outer, k_inner = sch.split(k, [None, block])
        sch.reorder(panel, k_outer, within, i_outer, tile, lanes, k_inner)
        first = sch.decompose_reduction("product", k_outer)
        sch.vectorize(sch.get_loops(first)[-1])
        sch.tensorize(tile, f"matmul_{rows}x{columns}x{block}_f32")
        sch.parallel(panel)

    return replace(product(size, terms), schedule=schedule)


def _update_in_place(sch: tir.Schedule, name: str) -> None:
    """A tile is loaded, updated by a block of terms and stored back."""
    k, rows, vectors, lanes = sch.get_loops(name)[3:]
    sch.blockize(k)
    for copy in sch.cache_inplace(name, 0, "local"):
        *unrolled, last = sch.get_loops(copy)
        for loop in unrolled:
            sch.unroll(loop)
        sch.vectorize(sch.split(last, [None, LANES])[1])
        sch.unroll(sch.get_loops(copy)[-2])
    sch.unroll(sch.split(k, [None, 2])[1])
    for loop in (rows, vectors):
        sch.unroll(loop)
    sch.vectorize(lanes)


KERNELS: Final[dict[str, tuple[Callable[[], Kernel], Callable[[], Kernel]]]] = {
    "conv3x3": (lambda: blocked_conv(64, 56, 3), lambda: blocked_conv(32, 14, 3)),
    "conv3x3_128": (lambda: blocked_conv(128, 28, 3), lambda: blocked_conv(32, 14, 3)),
    "conv3x3_tail": (lambda: blocked_conv(64, 61, 3), lambda: blocked_conv(32, 19, 3)),
    "conv1x1": (lambda: blocked_conv(64, 56, 1), lambda: blocked_conv(32, 14, 1)),
    "depthwise": (lambda: depthwise(128, 56), lambda: depthwise(32, 14)),
    "product": (lambda: product(512, 512, tile=13), lambda: product(32, 24)),
    "product_in_place": (lambda: product(512, 512, 256, tile=12), lambda: product(32, 24, 8, tile=12)),
    "product_by_microkernels": (lambda: by_microkernels(672, 512, 256), lambda: by_microkernels(672, 16, 8)),
}
"""The kernel that is measured, and a small one of the same schedule that is compared with float64."""


@dataclass
class Costs:
    """What primitives cost."""

    seconds: dict[str, float]
    calls: Counter[str]
    proofs: int = 0
    proof_seconds: float = 0.0


@contextmanager
def counted() -> Iterator[Costs]:
    """Measure each primitive and each proof within."""
    costs = Costs(defaultdict(float), Counter())
    call, proved = Primitive.__call__, sets._proved

    def timed_call(self: Any, schedule: Any, /, *args: Any, **kwargs: Any) -> Any:
        start = time.process_time()  # of the processor, as other programs run, too
        try:
            return call(self, schedule, *args, **kwargs)
        finally:
            costs.seconds[self.name] += time.process_time() - start
            costs.calls[self.name] += 1

    def timed_proof(*args: Any, **kwargs: Any) -> Any:
        start = time.process_time()
        try:
            return proved(*args, **kwargs)
        finally:
            costs.proofs += 1
            costs.proof_seconds += time.process_time() - start

    Primitive.__call__, sets._proved = timed_call, timed_proof  # type: ignore[method-assign]
    try:
        yield costs
    finally:
        Primitive.__call__, sets._proved = call, proved  # type: ignore[method-assign]


def scheduled(kernel: Kernel) -> tuple[tir.PrimFunc, Costs]:
    """The program after its schedule, and what that cost."""
    program = kernel.make()
    with counted() as costs:
        schedule = tir.Schedule(program)
        kernel.schedule(schedule)
    made = schedule.mod["main"]
    assert isinstance(made, tir.PrimFunc)
    return made, costs


def _arguments(kernel: Kernel) -> list[Array]:
    rng = np.random.default_rng(0)
    return [*(rng.standard_normal(shape, np.float32) for shape in kernel.inputs), np.zeros(kernel.output, np.float32)]


def error_of(kernel: Kernel, threads: int) -> float:
    """The largest difference from float64."""
    arguments = _arguments(kernel)
    NativePrimFunc(scheduled(kernel)[0], Target("llvm"), threads, "small")(*arguments)
    want = kernel.truth(*(argument.astype(np.float64) for argument in arguments[:-1]))
    return float(np.abs(arguments[-1] - want).max())


def measured(name: str, rounds: int, threads: int, repeat: int) -> dict[str, Any]:
    """Costs of the schedule, speed and error of the kernel."""
    large, small = (make() for make in KERNELS[name])
    scheduled(small)  # loads what is loaded once
    runs = [scheduled(large) for _ in range(repeat)]
    program, costs = min(runs, key=lambda run: sum(run[1].seconds.values()))
    start = time.perf_counter()
    function = NativePrimFunc(program, Target("llvm"), threads, name)
    built = time.perf_counter() - start
    arguments = _arguments(large)
    function(*arguments)
    times = np.array(interleaved({name: lambda: function(*arguments)}, rounds=rounds)[name])
    return {
        "kernel": name,
        "primitives_ms": {key: round(1e3 * value, 1) for key, value in costs.seconds.items()},
        "calls": dict(costs.calls),
        "total_ms": round(1e3 * sum(costs.seconds.values()), 1),
        "total_ms_first": round(1e3 * sum(runs[0][1].seconds.values()), 1),
        "proofs": costs.proofs,
        "proofs_ms": round(1e3 * costs.proof_seconds, 1),
        "build_ms": round(1e3 * built, 1),
        "gflops": round(large.flops / float(np.median(times)) / 1e9, 1),
        "largest_error": error_of(small, threads),
    }


def main(argv: list[str] | None = None) -> int:
    """Measure; the exit status is 1 when a result is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kernels", nargs="+", choices=list(KERNELS), default=list(KERNELS))
    parser.add_argument("--rounds", type=int, default=30, help="turns of each kernel")
    parser.add_argument("--repeat", type=int, default=3, help="schedules that are made; the fastest is reported")
    parser.add_argument("--threads", type=int, default=usable_cpus())
    given = parser.parse_args(argv)
    results = [measured(name, given.rounds, given.threads, given.repeat) for name in given.kernels]
    print(json.dumps({"benchmark": "primitives", "machine": describe(given.threads), "results": results}, indent=2))
    return 0 if all(result["largest_error"] < 1e-3 for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
