"""What the examples of graphs share: small modules, and what they call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relax
from tvm.relax import analysis

X = np.arange(6, dtype="float32").reshape(2, 3) / 8
INFO = relax.TensorStructInfo((2, 3), "float32")


def names_of(module: str, names: str) -> list[str]:
    return [f"{module}.{name}" for name in names.split()]


def graph(build: Callable[..., Any], *infos: Any, **options: Any) -> Any:
    """A module whose `main` has one dataflow block."""
    params = [relax.Var(f"x{i}", info) for i, info in enumerate(infos or (INFO,))]
    bb = relax.BlockBuilder()
    with bb.function("main", params, **options):
        with bb.dataflow():
            out = bb.emit_output(build(bb, *params))
        bb.emit_func_output(out)
    return bb.get()


def operators(mod: Any) -> list[str]:
    """Names of the operators that functions call, in order."""
    seen: list[str] = []
    for _, function in mod.functions_items():
        if isinstance(function, relax.Function):
            visit = lambda e: seen.append(e.op.name) if isinstance(e, relax.Call) and hasattr(e.op, "name") else None  # noqa: E731
            analysis.post_order_visit(function, visit)
    return seen


def two_paths(bb: Any, x: Any) -> Any:
    return bb.emit(relax.op.exp(bb.emit(relax.op.add(x, x))))
