"""The functional form of an exported program: no in-place operators, composites such as conv2d kept whole."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from weakref import WeakKeyDictionary

import torch
from torch.export import ExportedProgram

_DONE: Final[WeakKeyDictionary[ExportedProgram, ExportedProgram]] = WeakKeyDictionary()


@contextmanager
def quiet() -> Iterator[None]:
    """Silence what torch's own export code warns about itself; nothing else."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)` is deprecated", FutureWarning)
        yield


def functional(program: ExportedProgram) -> ExportedProgram:
    """The program after `run_decompositions({})`; computed once per program."""
    found = _DONE.get(program)
    if found is None:
        with quiet(), torch.no_grad():
            found = program.run_decompositions({})
        _DONE[program] = found
    return found
