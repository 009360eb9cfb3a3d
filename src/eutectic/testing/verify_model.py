"""A compiled torch model beside eager and float64, and where a difference begins.

The truth is the model in float64; eager says how far float32 may be from it. Where the compiled model is further away,
the first value of the graph that differs is found by compiling shorter and shorter graphs, and the first pass that
changes results by running the module before and after each.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from torch.utils import _pytree as pytree

import eutectic
from eutectic.ir.module import IRModule
from eutectic.relax.analysis import all_vars
from eutectic.relax.expr import BindingBlock, Call, Function, SeqExpr, Tuple
from eutectic.relax.frontend.torch import export_model, from_exported_program, signature_of
from eutectic.relax.interpret import Interpreter
from eutectic.relax.struct_info import TensorStructInfo, TupleStructInfo
from eutectic.support.errors import EutecticError
from eutectic.testing.conversions import first_wrong_conversion

TIMES_EAGER: Final = 4.0  # the error of eager that is allowed
LEAST: Final = 1e-5  # error that is always allowed, of the scale of an output


@dataclass(frozen=True)
class OutputError:
    """How far an output is from the truth, relative to its scale.

    Attributes:
        name: Place of the output among the results.
        ours: The compiled model.
        eager: torch.
        ok: Whether ours is as good as it has to be.
    """

    name: str
    ours: float
    eager: float
    ok: bool


@dataclass(frozen=True)
class FirstDifference:
    """Where results begin to differ.

    Attributes:
        operator: The operator whose value is the first to differ; empty when none by itself does.
        place: Module path and source line of it.
        change: What is said of the first pass that changes results, with the folder of its reproducer; empty when none
            does.
    """

    operator: str
    place: str
    change: str


def output_errors(model: Any, compiled: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[OutputError]:
    """Compare each output of a compiled model with eager and with the model in float64.

    Args:
        model: A torch module or exported program.
        compiled: What was compiled of it.
        args: Arguments by position.
        kwargs: Arguments by name.
    """
    module = model.module() if hasattr(model, "graph_signature") else model
    with torch.no_grad():
        eager = _leaves(module(*copy.deepcopy(args), **copy.deepcopy(dict(kwargs))))
        exact = _leaves(_float64(module, args, kwargs))
    ours = _leaves(compiled(*copy.deepcopy(args), **copy.deepcopy(dict(kwargs))))
    rows = []
    for place, (mine, theirs, truth) in enumerate(zip(ours, eager, exact, strict=True)):
        mine_error, eager_error = _error(mine, truth), _error(theirs, truth)
        rows.append(OutputError(f"output {place}", mine_error, eager_error, mine_error <= _allowed(eager_error)))
    return rows


def first_difference(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any], **options: Any) -> FirstDifference:
    """Where a compiled model begins to differ from its graph.

    Args:
        model: A torch module or exported program.
        args: Arguments by position.
        kwargs: Arguments by name.
        options: As for `eutectic.compile`.
    """
    change = ""
    try:
        eutectic.compile(model, tuple(args), kwargs=dict(kwargs), validate=True, **options)
    except EutecticError as error:
        facts = [f"  {fact}" for fact in error.facts if not fact.startswith("while compiling")]
        change = "\n".join((error.message, *facts))
    program, mod, arrays = _graph(model, args, kwargs)
    count = _first_differing(mod, arrays, options.get("target"))
    if count is None:
        node = first_wrong_conversion(program, mod, args, kwargs, arrays)
        return FirstDifference("", "", change) if node is None else _of_conversion(node, change)
    value = _bindings(mod)[count - 1].value
    operator = value.op.name if isinstance(value, Call) and hasattr(value.op, "name") else type(value).__name__
    span = getattr(value, "span", None)
    return FirstDifference(operator, _place(span), change)


def _place(span: Any) -> str:
    if span is None:
        return ""
    return str(span) if span.file else f"module {span.module}" if span.module else ""


def _of_conversion(node: Any, change: str) -> FirstDifference:
    return FirstDifference(f"{node.target}, as it was imported", _users_line(node), change)


def _users_line(node: Any) -> str:
    """File and line of a node of torch, as the last lines of its stack say it."""
    lines = [line.strip() for line in str(node.stack_trace or "").splitlines() if line.strip().startswith("File ")]
    return lines[-1] if lines else node.name


def shortened(mod: IRModule, count: int) -> IRModule:
    """A module whose `main` ends after some of its bindings and returns what the rest of it reads.

    A value that is wrong and is not the last one is then seen as well, so that bisection over the count is right.

    Args:
        mod: A graph module.
        count: Bindings that stay.
    """
    main = mod["main"]
    assert isinstance(main, Function)
    kept = _bindings(mod)[:count]
    rest = [binding.value for binding in _bindings(mod)[count:]]
    read = {var for value in (*rest, main.body.body) for var in all_vars(value)}
    results: list[Any] = [kept[-1].var]
    results += [b.var for b in kept[:-1] if b.var in read and isinstance(b.var.struct_info, TensorStructInfo)]
    info = TupleStructInfo(tuple(var.struct_info for var in results))
    body = SeqExpr((BindingBlock(tuple(kept)),), Tuple(tuple(results)))
    return IRModule({"main": Function(main.params, body, info, main.is_pure, main.attrs)})


def _first_differing(mod: IRModule, arrays: Sequence[Any], target: Any) -> int | None:
    """How many bindings there are up to the first whose value differs; None when none does. By bisection."""
    places = [k for k, b in enumerate(_bindings(mod), 1) if isinstance(b.var.struct_info, TensorStructInfo)]
    if not places or _agrees(mod, places[-1], arrays, target):
        return None
    low, high = -1, len(places) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if _agrees(mod, places[middle], arrays, target):
            low = middle
        else:
            high = middle
    return places[high]


def _agrees(mod: IRModule, count: int, arrays: Sequence[Any], target: Any) -> bool:
    part = shortened(mod, count)
    expected = Interpreter(part).run("main", *arrays)
    received = eutectic.compile(part, target=target)(*arrays)
    return all(_error(mine, exact) <= 1e-4 for mine, exact in zip(received, expected, strict=True))


def _graph(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, IRModule, list[Any]]:
    program = export_model(model, tuple(args), dict(kwargs))
    arrays = signature_of(program).flatten(tuple(args), dict(kwargs))
    return program, from_exported_program(program, leaves_to_torch=True), list(arrays)


def _bindings(mod: IRModule) -> list[Any]:
    main = mod["main"]
    assert isinstance(main, Function)
    return [binding for block in main.body.blocks for binding in block.bindings]


def _float64(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    def wide(value: Any) -> Any:
        return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value

    exact = copy.deepcopy(module).double()
    return exact(*pytree.tree_map(wide, tuple(args)), **pytree.tree_map(wide, dict(kwargs)))


def _leaves(value: Any) -> list[Any]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, (torch.Tensor, np.ndarray))]


def _error(value: Any, truth: Any) -> float:
    mine, exact = (
        np.asarray(x.detach().double() if isinstance(x, torch.Tensor) else x, np.float64) for x in (value, truth)
    )
    if mine.shape != exact.shape:
        return float("inf")
    if not exact.size:
        return 0.0
    both = np.isnan(mine) & np.isnan(exact) | (mine == exact)
    difference = np.where(both, 0.0, np.abs(mine - exact))
    finite = np.abs(exact[np.isfinite(exact)])
    scale = max(float(finite.max()) if finite.size else 1.0, 1e-30)
    return float(np.where(np.isnan(difference), np.inf, difference).max()) / scale


def _array(value: Any) -> Any:
    return np.asarray(value.detach().double() if isinstance(value, torch.Tensor) else value, np.float64)


def _allowed(eager: float) -> float:
    return max(TIMES_EAGER * eager, LEAST)
