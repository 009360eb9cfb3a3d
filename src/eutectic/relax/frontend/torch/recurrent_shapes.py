"""Recurrent layers while torch traces: their shapes, instead of a walk through all steps.

To know what `aten.lstm` gives, torch goes through the sequence step by step. That makes the number of steps a constant
of the program, and takes seconds for long sequences, though the exported program keeps the operator whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, Final

import torch
from torch._decomp import decomposition_table
from torch._subclasses.fake_tensor import FakeTensor

_Results = tuple[torch.Tensor, ...]


def _shapes(x: torch.Tensor, states: Sequence[torch.Tensor], params: Any, *options: Any) -> _Results:
    """Results without data; the hidden state has as many numbers as each direction gives."""
    *_, bidirectional, _ = options
    width = states[0].shape[2] * (2 if bidirectional else 1)
    return x.new_empty((*x.shape[:2], width)), *(torch.empty_like(state) for state in states)


def _of_one_state(x: torch.Tensor, state: torch.Tensor, params: Any, *options: Any) -> _Results:
    return _shapes(x, [state], params, *options)


_FUNCTIONS: Final[Mapping[Any, Callable[..., _Results]]] = {
    torch.ops.aten.lstm.input: _shapes,
    torch.ops.aten.gru.input: _of_one_state,
    torch.ops.aten.rnn_tanh.input: _of_one_state,
    torch.ops.aten.rnn_relu.input: _of_one_state,
}


def _for_fakes(shapes: Callable[..., _Results], otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """Shapes for tensors without data, torch's own function for others."""

    @wraps(otherwise)
    def run(x: torch.Tensor, *args: Any) -> Any:
        return (shapes if isinstance(x, FakeTensor) else otherwise)(x, *args)

    return run


@contextmanager
def recurrent_shapes() -> Iterator[None]:
    """Let torch take the shapes of recurrent layers from here; for one thread at a time.

    Reference: `torch.export._patches`, which puts a `while_loop` in the same place.
    """
    kernels = {op: dict(op.py_kernels) for op in _FUNCTIONS}
    rules = {op: decomposition_table[op] for op in _FUNCTIONS if op in decomposition_table}
    try:
        for op, shapes in _FUNCTIONS.items():
            _use(op, {key: _for_fakes(shapes, kernel) for key, kernel in kernels[op].items()})
        decomposition_table.update({op: _for_fakes(_FUNCTIONS[op], rule) for op, rule in rules.items()})
        yield
    finally:
        for op, own in kernels.items():
            _use(op, own)
        decomposition_table.update(rules)


def _use(op: Any, kernels: Mapping[Any, Any]) -> None:
    op.py_kernels.update(kernels)
    op._dispatch_cache.clear()
