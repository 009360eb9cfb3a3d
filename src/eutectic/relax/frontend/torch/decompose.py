"""The functional form of an exported program: no in-place operators, composites such as conv2d kept whole."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from weakref import WeakKeyDictionary

import torch
from torch._decomp import get_decompositions
from torch.export import ExportedProgram

from eutectic.relax.frontend.torch.ops import TABLE
from eutectic.relax.frontend.torch.table import key_of

ROUNDS: Final = 5  # of taking operators without converter apart
_Done = dict[frozenset[str], ExportedProgram]
_DONE: Final[WeakKeyDictionary[ExportedProgram, _Done]] = WeakKeyDictionary()


@contextmanager
def quiet() -> Iterator[None]:
    """Silence what torch's own export code warns about itself; nothing else."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)` is deprecated", FutureWarning)
        yield


def functional(program: ExportedProgram, custom: Collection[str] = ()) -> ExportedProgram:
    """The program after `run_decompositions({})`; computed once per program.

    Operators that have no converter, but that torch can express by others, are taken apart.

    Args:
        program: The program as exported.
        custom: Keys of converters given by the user, whose operators stay whole.
    """
    done = _DONE.setdefault(program, {})
    names = frozenset(custom)
    if names not in done:
        # Beneath autograd torch leaves operators whole that it takes apart for the sake of their gradients.
        with quiet(), torch.inference_mode():
            done[names] = _taken_apart(program.run_decompositions({}), names)
    return done[names]


def _taken_apart(program: ExportedProgram, custom: Collection[str]) -> ExportedProgram:
    known: Mapping[Any, Any] | None = None
    for _ in range(ROUNDS):
        unknown = {
            target for target in _operators(program) if str(target) not in TABLE and not key_of(str(target), custom)
        }
        if not unknown:
            break
        known = torch.export.default_decompositions() if known is None else known
        steps = {target: known[target] for target in unknown if target in known}
        steps.update(_more(target for target in unknown if target not in steps))
        if not steps:
            break
        program = program.run_decompositions(steps)
    return program


def _operators(program: ExportedProgram) -> set[Any]:
    """Operators on tensors; what computes sizes, such as `aten.sym_size`, is read off the nodes' values instead."""
    return {
        node.target
        for node in program.graph.nodes
        if isinstance(node.target, torch._ops.OpOverload)
        and not isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool))
    }


def _more(targets: Iterable[Any]) -> dict[Any, Any]:
    """Decompositions that torch does not use by default, without those into its primitives."""
    found = get_decompositions(list(targets))
    return {target: rule for target, rule in found.items() if rule.__module__ == "torch._decomp.decompositions"}
