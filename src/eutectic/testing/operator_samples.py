"""Samples of torch's own table of operators (OpInfo): what an operator is called with, the same in every run."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any, Final

import numpy as np
import torch
from torch import nn
from torch.utils import _pytree as pytree

from eutectic.support.errors import FrontendError
from eutectic.support.spelling import did_you_mean

DTYPES: Final = ("float32", "float64", "float16", "bfloat16", "int64", "bool")
_SEED: Final = 20
_LARGEST: Final = 1 << 16  # elements of one argument; larger ones show nothing new and take long

# Operators whose results are drawn at random or not written at all: only shape and dtype are a promise.
ARBITRARY: Final = frozenset(
    {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
)


@dataclass(frozen=True)
class Sample:
    """One call of an operator.

    Attributes:
        operator: Name in torch's table, with its variant.
        dtype: Dtype that the samples were asked for.
        function: What is called.
        args: Positional arguments, tensors and anything else.
        kwargs: Keyword arguments.
        place: Position among the samples of the operator and dtype.
    """

    operator: str
    dtype: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    place: int

    def __str__(self) -> str:
        arguments = [*map(_shown, self.args), *(f"{name}={_shown(value)}" for name, value in self.kwargs.items())]
        return f"{self.operator} {self.dtype} #{self.place}: ({', '.join(arguments)})"


class _Call(nn.Module):
    """One call, as a module of its own: errors of the importer say of which module an operator is."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function = function

    def forward(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """The result of the function."""
        return self._function(*args, **kwargs)


class Calls(nn.Module):
    """Several samples as one module: its inputs are the tensors of all of them, its outputs a list of the results.

    The calls are its modules `calls.0`, `calls.1`, ....
    """

    def __init__(self, samples: Sequence[Sample]) -> None:
        super().__init__()
        leaves, self._spec = pytree.tree_flatten([(sample.args, sample.kwargs) for sample in samples])
        self._fixed = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self._places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.calls = nn.ModuleList(_Call(sample.function) for sample in samples)
        self._tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

    def inputs(self) -> tuple[torch.Tensor, ...]:
        """The tensors of the samples, copied, so that nothing written to them is seen by the next call."""
        return tuple(_copied(tensor) for tensor in self._tensors)

    def forward(self, *tensors: torch.Tensor) -> list[Any]:
        """The results of all samples."""
        leaves = list(self._fixed)
        for place, tensor in zip(self._places, tensors, strict=True):
            leaves[place] = tensor
        operands = pytree.tree_unflatten(leaves, self._spec)
        return [call(args, kwargs) for call, (args, kwargs) in zip(self.calls, operands, strict=True)]


@cache
def table() -> dict[str, Any]:
    """The operators of torch's table by name and variant.

    Raises:
        FrontendError: a package that the table needs is missing.
    """
    if find_spec("expecttest") is None:
        raise FrontendError(
            "torch's table of operators needs the package expecttest, which is not installed",
            help="pip install expecttest",
        )
    from torch.testing._internal.common_methods_invocations import op_db  # takes seconds to import

    return {_name(info): info for info in op_db}


def _name(info: Any) -> str:
    return f"{info.name}/{info.variant_test_name}" if info.variant_test_name else str(info.name)


def select(names: Sequence[str]) -> list[str]:
    """The operators of torch's table that are asked for; all of them when none is.

    Raises:
        FrontendError: one of the names is not in the table.
    """
    known = table()
    for name in names:
        if name not in known:
            raise FrontendError(f"torch's table has no operator {name!r}", help=did_you_mean(name, list(known)))
    return list(names) or sorted(known)


def samples(operator: str, dtype: str, count: int | None) -> list[Sample]:
    """Samples of one operator and dtype, evenly spread over those of the table; none where torch has none.

    Args:
        operator: A name of `table`.
        dtype: One of `DTYPES`.
        count: How many at most; None takes all.
    """
    info, kind = table()[operator], getattr(torch, dtype)
    if not info.supports_dtype(kind, "cpu"):
        return []
    with seeded():
        candidates = [
            Sample(operator, dtype, info.op, (sample_input.input, *sample_input.args), dict(sample_input.kwargs), place)
            for place, sample_input in enumerate(info.sample_inputs("cpu", kind, requires_grad=False))
        ]
    small = [sample for sample in candidates if _size(sample) <= _LARGEST]
    if count is None or count >= len(small):
        return small
    return [small[i * (len(small) - 1) // max(count - 1, 1)] for i in range(count)]


def is_pointwise(operator: str) -> bool:
    """Whether each element of the result comes from one element of each argument."""
    packet = getattr(torch.ops.aten, table()[operator].aten_name, None)
    overloads = [] if packet is None else [getattr(packet, name) for name in packet.overloads()]
    return any(torch.Tag.pointwise in overload.tags for overload in overloads)


def refused_samples(operator: str) -> list[Sample]:
    """Calls that torch documents to be errors, where it says so in its table."""
    info = table()[operator]
    if info.error_inputs_func is None:
        return []
    with seeded():
        errors = list(info.error_inputs("cpu"))
    sample_inputs = [error.sample_input for error in errors]
    return [
        Sample(operator, "error", info.op, (sample.input, *sample.args), dict(sample.kwargs), place)
        for place, sample in enumerate(sample_inputs)
    ]


@contextmanager
def seeded() -> Iterator[None]:
    """Random numbers of all three generators from one seed, without what torch warns of; states are put back."""
    states = random.getstate(), np.random.get_state()
    random.seed(_SEED)
    np.random.seed(_SEED)
    try:
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some samples are made with operators that torch is about to drop
            torch.manual_seed(_SEED)
            yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])


def _size(sample: Sample) -> int:
    leaves = pytree.tree_leaves((sample.args, sample.kwargs))
    return max((leaf.numel() for leaf in leaves if isinstance(leaf, torch.Tensor)), default=0)


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone() if tensor.layout is torch.strided else tensor


def _shown(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_shown, value))}]"
    return str(value)
