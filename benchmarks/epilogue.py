"""What fusing an epilogue is worth: a tiled product with bias and clip, fused and as a pass of its own.

Both programs have the same schedule, made with `tir.Schedule`; one of them then gets
`fuse_reduction_epilogue`. They are measured in turns in one process, and must agree bit for bit.

    python benchmarks/epilogue.py --size 1024 --rounds 20
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


def program(size: int) -> tir.PrimFunc:
    """`clip(a @ b + bias, -6, 6)` as two stages: the product, and what becomes of it."""
    a, b = (te.placeholder((size, size), "float32", name) for name in ("a", "b"))
    bias = te.placeholder((size,), "float32", "bias")
    product = topi.matmul(a, b)
    low, high = tir.const(-6.0, "float32"), tir.const(6.0, "float32")

    def finish(i: Any, j: Any) -> Any:
        return tir.min(tir.max(product[i, j] + bias[j], low), high)

    return te.create_prim_func([a, b, bias, te.compute((size, size), finish, "finish")])


def scheduled(size: int, fused: bool) -> tir.PrimFunc:
    """The program with tiles of 4 x 16 accumulators and rows of tiles in parallel."""
    schedule = tir.Schedule(program(size))
    product, finish = schedule.get_block("T_matmul"), schedule.get_block("finish")
    i, j, k = schedule.get_loops(product)
    i_outer, i_inner = schedule.split(i, [None, 4])
    j_outer, j_inner = schedule.split(j, [None, 16])
    schedule.reorder(i_outer, j_outer, k, i_inner, j_inner)
    if fused:
        schedule.fuse_reduction_epilogue(product, finish)
    else:
        rows, columns = schedule.get_loops(finish)
        schedule.parallel(rows)
        schedule.vectorize(schedule.split(columns, [None, 16])[1])
    schedule.parallel(i_outer)
    schedule.unroll(i_inner)
    schedule.vectorize(j_inner)
    made = schedule.mod["main"]
    assert isinstance(made, tir.PrimFunc)
    return made


def main(argv: list[str] | None = None) -> int:
    """Measure; the exit status is 1 when the programs do not agree."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", type=int, default=1024, help="rows, columns and terms; a multiple of 16")
    parser.add_argument("--rounds", type=int, default=20, help="turns of each")
    parser.add_argument("--threads", type=int, default=usable_cpus())
    arguments = parser.parse_args(argv)
    dice = np.random.default_rng(0)
    size = arguments.size
    given = [dice.standard_normal(shape, np.float32) for shape in ((size, size), (size, size), (size,))]
    calls, results = {}, {}
    for name, fused in (("fused", True), ("separate", False)):
        function = NativePrimFunc(scheduled(size, fused), Target("llvm"), arguments.threads, name)
        out = results[name] = np.empty((size, size), np.float32)
        calls[name] = lambda function=function, out=out: function(*given, out)
        calls[name]()
    equal = bool(np.array_equal(results["fused"], results["separate"]))
    samples = interleaved(calls, rounds=arguments.rounds)
    medians = {name: float(np.median(times)) * 1e3 for name, times in samples.items()}
    document = {
        "benchmark": "epilogue",
        "machine": describe(arguments.threads),
        "size": size,
        "median_ms": medians,
        "separate_to_fused": medians["separate"] / medians["fused"],
        "equal": equal,
    }
    print(json.dumps(document, indent=2))
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
