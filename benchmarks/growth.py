"""How time grows with the length of a program, stage by stage, and how memory grows with the number of compilations.

    python benchmarks/growth.py             # seconds of each stage at 1x, 2x, 4x and 8x, and the last ratio
    python benchmarks/growth.py --memory    # what stays after 240 compilations

Kernels are compiled anew: the cache on disk is switched off.
"""

from __future__ import annotations

import argparse
import gc
import os
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import eutectic
from eutectic import IRModule, relax
from eutectic.relax import dpl, op
from eutectic.relax.base import dims
from eutectic.relax.transform import AnnotateTIROpPattern, FuseOps, FuseTIR, LegalizeOps
from eutectic.script import from_source

SIZES = (1, 2, 4, 8)
PERIOD = 20  # operators between two matches of the pattern that is rewritten


def chain(count: int, scale: float = 2.0) -> IRModule:
    """A graph function of `count` operators, one after another."""
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo(relax.ShapeExpr(dims((4, 8))), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            value: Any = bb.emit(op.multiply(x, relax.const(scale, "float32")))
            for i in range(count):
                value = bb.emit([op.nn.relu, op.exp, lambda v: op.add(v, x)][min(i % PERIOD, 2)](value))
            out = bb.emit_output(value)
        bb.emit_func_output(out)
    return bb.get()


def exported(count: int) -> Any:
    """A torch program of `count` operators."""
    import torch

    class Chain(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            for i in range(count):
                x = torch.relu(x) if i % 2 else x + 1.0
            return x

    return torch.export.export(Chain(), (torch.ones(4, 8),))


def stages(unit: int) -> dict[str, Callable[[int], Callable[[], Any]]]:
    """For each stage a function that prepares it for a multiple of `unit`, and gives what is to be timed."""
    from eutectic.relax.frontend.torch import from_exported_program

    def lowered(n: int) -> IRModule:
        mod: IRModule = AnnotateTIROpPattern()(LegalizeOps()(chain(n * unit)))
        return mod

    def rewriting(n: int) -> Callable[[], Any]:
        function = chain(n * unit)["main"]
        with dpl.PatternContext() as context:
            inner = dpl.is_op("relax.nn.relu")(dpl.wildcard())
            outer = dpl.is_op("relax.exp")(inner)
        return lambda: dpl.rewrite_bindings(context, lambda found, _: {found[outer]: op.tanh(found[inner])}, function)

    def parsing(n: int) -> Callable[[], Any]:
        text = chain(n * unit).script()
        return lambda: from_source(text)

    def after(prepare: Callable[[int], Any], run: Callable[[Any], Any]) -> Callable[[int], Callable[[], Any]]:
        def ready(n: int) -> Callable[[], Any]:
            given = prepare(n)
            return lambda: run(given)

        return ready

    return {
        "import": after(lambda n: exported(n * unit // 2), from_exported_program),
        "passes": after(lambda n: chain(n * unit), LegalizeOps()),
        "fusion": after(lowered, lambda mod: FuseTIR()(FuseOps()(mod))),
        "code generation": after(lambda n: chain(n * unit // 4), lambda mod: eutectic.build(mod, target="llvm")),
        "printing": after(lambda n: chain(n * unit), lambda mod: mod.script()),
        "parsing": parsing,
        "rewriting": rewriting,
    }


def growth(unit: int) -> dict[str, list[float]]:
    """Seconds of each stage at each size, after one run that loads what is loaded once."""
    table: dict[str, list[float]] = {}
    for name, prepare in stages(unit).items():
        prepare(1)()
        table[name] = []
        for size in SIZES:
            run = prepare(size)
            gc.collect()
            start = time.perf_counter()
            run()
            table[name].append(time.perf_counter() - start)
    return table


def resident() -> int:
    """KiB of memory that the process has."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize() // 1024


def kept(count: int, *, different: bool, warm_up: int = 60) -> float:
    """KiB that stay after `count` compilations of one module, or of as many modules."""

    def compile_one(number: int) -> None:
        executable = eutectic.build(chain(3, 2.0 + number * different), target="llvm")
        eutectic.VirtualMachine(executable, eutectic.cpu())["main"](np.ones((4, 8), "float32"))

    for number in range(warm_up):
        compile_one(number)
    gc.collect()
    before = resident()
    for number in range(warm_up, warm_up + count):
        compile_one(number)
    gc.collect()
    return resident() - before


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--memory", action="store_true", help="what compilations leave behind, in place of times")
    parser.add_argument("--unit", type=int, default=250, help="operators at 1x")
    options = parser.parse_args()
    os.environ["EUTECTIC_CACHE_DIR"] = ""
    if options.memory:
        for different in (False, True):
            what = "different modules" if different else "the same module"
            print(f"240 compilations of {what}: {kept(240, different=different) / 1024:.2f} MiB stay")
        return
    print(f"{'stage':<18}" + "".join(f"{size * options.unit:>9}" for size in SIZES) + "   last doubling")
    for name, seconds in growth(options.unit).items():
        print(f"{name:<18}" + "".join(f"{s:>9.3f}" for s in seconds) + f"{seconds[-1] / seconds[-2]:>12.2f}x")
    print(f"at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
