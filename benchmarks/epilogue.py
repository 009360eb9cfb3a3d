"""What fusing an epilogue is worth: a tiled product with bias and clip, fused and as a pass of its own.

Both programs have the same schedule, made with `tir.Schedule`: panels of the second operand are copied together, tiles
of the product are kept in registers. One of them then gets `fuse_reduction_epilogue`; the other writes its tiles to
memory, and bias and clip are a second pass. They are measured in turns in one process, and must agree bit for bit.
The pass costs the same for any number of terms, so that its share grows as the sums get shorter.

    python benchmarks/epilogue.py --size 1024 --terms 1024 256 64 --rounds 100
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import numpy as np

from eutectic import te, tir, topi
from eutectic.driver.build_prim_func import NativePrimFunc
from eutectic.target import Target
from eutectic.testing.timing import interleaved
from machine import describe, usable_cpus

ROWS, COLUMNS = 4, 16  # of a tile of accumulators


def program(size: int, terms: int) -> tir.PrimFunc:
    """`clip(a @ b + bias, -6, 6)` as two stages: the product, and what becomes of it."""
    a, b = te.placeholder((size, terms), "float32", "a"), te.placeholder((terms, size), "float32", "b")
    bias = te.placeholder((size,), "float32", "bias")
    product = topi.matmul(a, b)
    low, high = tir.const(-6.0, "float32"), tir.const(6.0, "float32")

    def finish(i: Any, j: Any) -> Any:
        return tir.min(tir.max(product[i, j] + bias[j], low), high)

    return te.create_prim_func([a, b, bias, te.compute((size, size), finish, "finish")])


def scheduled(size: int, terms: int, fused: bool) -> tir.PrimFunc:
    """The program in tiles, columns of tiles in parallel."""
    schedule = tir.Schedule(program(size, terms))
    product, finish = schedule.get_block("T_matmul"), schedule.get_block("finish")
    i, j, k = schedule.get_loops(product)
    i_outer, i_inner = schedule.split(i, [None, ROWS])
    j_outer, j_inner = schedule.split(j, [None, COLUMNS])
    schedule.reorder(j_outer, i_outer, k, i_inner, j_inner)
    panel = schedule.cache_read(product, 1, "global")
    schedule.compute_at(panel, j_outer)
    schedule.vectorize(schedule.get_loops(panel)[-1])
    if fused:
        schedule.set_scope(product, 0, "local")
        schedule.fuse_reduction_epilogue(product, finish)
        stored = finish
    else:
        stored = schedule.cache_write(product, 0, "local")
        schedule.reverse_compute_at(stored, i_outer)
        rows, columns = schedule.get_loops(finish)
        schedule.parallel(rows)
        schedule.vectorize(schedule.split(columns, [None, COLUMNS])[1])
    rows, columns = schedule.get_loops(stored)[-2:]
    schedule.unroll(rows)
    schedule.vectorize(columns)
    schedule.parallel(j_outer)
    schedule.unroll(i_inner)
    schedule.vectorize(j_inner)
    made = schedule.mod["main"]
    assert isinstance(made, tir.PrimFunc)
    return made


def measured(size: int, terms: int, rounds: int, threads: int) -> dict[str, Any]:
    """Times of both programs."""
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(shape, np.float32) for shape in ((size, terms), (terms, size), (size,))]
    calls, results = {}, {}
    for name, fused in (("fused", True), ("separate", False)):
        function = NativePrimFunc(scheduled(size, terms, fused), Target("llvm"), threads, name)
        out = results[name] = np.empty((size, size), np.float32)
        calls[name] = lambda function=function, out=out: function(*given, out)
        calls[name]()
    samples = interleaved(calls, rounds=rounds)
    ratios = np.sort(np.array(samples["separate"]) / np.array(samples["fused"]))
    spread = int(np.ceil(0.98 * np.sqrt(len(ratios))))  # 95 % interval of a median: 1.96 standard deviations of ranks
    middle = len(ratios) // 2
    return {
        "terms": terms,
        "median_ms": {name: float(np.median(times)) * 1e3 for name, times in samples.items()},
        "separate_to_fused": float(np.median(ratios)),
        "interval_95": [float(ratios[max(middle - spread, 0)]), float(ratios[min(middle + spread, len(ratios) - 1)])],
        "equal": bool(np.array_equal(results["fused"], results["separate"])),
    }


def main(argv: list[str] | None = None) -> int:
    """Measure; the exit status is 1 when the programs do not agree."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", type=int, default=1024, help="rows and columns; a multiple of 16")
    parser.add_argument("--terms", type=int, nargs="+", default=[1024, 256, 64], help="terms of each sum")
    parser.add_argument("--rounds", type=int, default=100, help="turns of each")
    parser.add_argument("--threads", type=int, default=usable_cpus())
    arguments = parser.parse_args(argv)
    size, threads = arguments.size, arguments.threads
    document = {
        "benchmark": "epilogue",
        "machine": describe(threads),
        "size": size,
        "results": [measured(size, terms, arguments.rounds, threads) for terms in arguments.terms],
    }
    print(json.dumps(document, indent=2))
    return 0 if all(result["equal"] for result in document["results"]) else 1


if __name__ == "__main__":
    sys.exit(main())
