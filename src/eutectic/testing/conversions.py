"""The first operator of torch whose conversion gives another value than torch.

A graph that is wrong from the start shows no pass at fault. Every value that torch computes should be among the values
of the graph; the first one that is not was converted wrongly. An operator whose value is no binding by itself, because
the one after it was converted together with it, is named in its place only when one of them is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch
from torch import fx
from torch.utils import _pytree as pytree

from eutectic.ir.module import IRModule
from eutectic.relax.expr import BindingBlock, Function, SeqExpr, Tuple
from eutectic.relax.interpret import Interpreter
from eutectic.relax.struct_info import TensorStructInfo, TupleStructInfo

TOLERANCE: Final = 1e-4  # relative to the largest element


def first_wrong_conversion(
    program: Any, mod: IRModule, args: Sequence[Any], kwargs: Mapping[str, Any], arrays: Sequence[Any]
) -> fx.Node | None:
    """The first node of an exported program whose value the graph lacks; None when it has all.

    Args:
        program: The exported program.
        mod: What was imported of it.
        args: Arguments by position.
        kwargs: Arguments by name.
        arrays: Arguments of `main`.
    """
    values = _values(mod, arrays)
    recorder = _Recorder(program.module())
    with torch.no_grad():
        recorder.run(*pytree.tree_leaves((tuple(args), dict(kwargs))))
    for node, value in recorder.values:
        if not any(_equal(value, other) for other in (*arrays, *values)):
            return node
    return None


class _Recorder(fx.Interpreter):
    """Runs a graph of torch and keeps what its operators give."""

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self.values: list[tuple[fx.Node, Any]] = []

    def run_node(self, n: fx.Node) -> Any:
        """Run one node."""
        value = super().run_node(n)
        if n.op == "call_function" and isinstance(value, torch.Tensor):
            self.values.append((n, value.detach().clone()))
        return value


def _values(mod: IRModule, arrays: Sequence[Any]) -> list[Any]:
    main = mod["main"]
    assert isinstance(main, Function)
    bindings = [binding for block in main.body.blocks for binding in block.bindings]
    tensors = [binding.var for binding in bindings if isinstance(binding.var.struct_info, TensorStructInfo)]
    infos: list[Any] = [var.struct_info for var in tensors]
    info = TupleStructInfo(tuple(infos))
    body = SeqExpr((BindingBlock(tuple(bindings)),), Tuple(tuple(tensors)))
    whole = IRModule({"main": Function(main.params, body, info, main.is_pure, main.attrs)})
    return list(Interpreter(whole).run("main", *arrays))


def _equal(value: torch.Tensor, other: Any) -> bool:
    mine = np.asarray(value.double() if not value.is_complex() else value)
    theirs = np.asarray(other)
    if mine.shape != theirs.shape:
        return False
    scale = float(np.abs(mine[np.isfinite(mine)]).max(initial=0.0))
    return bool(np.allclose(theirs, mine, rtol=TOLERANCE, atol=TOLERANCE * scale, equal_nan=True))
