"""TakeExampleSizes: tensor programs are told what the sizes were that vary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eutectic.ir.module import IRModule
from eutectic.ir.transform import Pass, PassContext, with_functions
from eutectic.tir.analysis.conditions import variables
from eutectic.tir.function import PrimFunc
from eutectic.tir.function_attributes import EXAMPLE_SIZES, example_sizes


@dataclass(frozen=True)
class TakeExampleSizes(Pass):
    """Tell tensor programs what their symbolic sizes were in the example that the graph was made from.

    Schedules then cut these into parts that suit the example, and suit other sizes as well as any. A graph has them in
    its attribute `example_sizes`, by name; a program gets those in the shapes of its parameters. Programs that have the
    attribute keep theirs.

    before:                                  after:
        @T.prim_func                             @T.prim_func
        def add(x: T.handle, ...):               def add(x: T.handle, ...):
            n = T.int64()                            T.func_attr({"example_sizes": {"n": 12}})
            ...                                      n = T.int64()
        @R.function
        def main(x: R.Tensor(("n",))):
            R.func_attr({"example_sizes": {"n": 12}})
            ...

    Cost: reads the shapes of all parameters where a graph has the attribute, nothing otherwise.
    """

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """See the class."""
        graphs = [func for _, func in mod.functions_items() if not isinstance(func, PrimFunc)]
        known = {name: int(size) for graph in graphs for name, size in example_sizes(graph).items()}
        changed: dict[Any, Any] = {}
        for gv, func in mod.functions_items() if known else ():
            if isinstance(func, PrimFunc) and not example_sizes(func):
                own = {name: known[name] for name in sorted(_names(func)) if name in known}
                if own:
                    changed[gv] = func.with_attr(EXAMPLE_SIZES, own)
        return with_functions(mod, changed)


def _names(func: PrimFunc) -> set[str]:
    """Names of the variables in the shapes of parameters."""
    sizes = [size for buffer in func.buffer_map.values() for size in buffer.shape]
    return {var.name for size in sizes for var in variables(size)}
