"""State of models that are read from data: arrays that calls read and write, by the names of the model's buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from eutectic.runtime.arguments import TensorArgument
from eutectic.runtime.encoding import damaged
from eutectic.runtime.signature import ModelSignature, Signature
from eutectic.support.errors import CallError, LoadError
from eutectic.support.plain_memory import as_array, is_torch
from eutectic.support.spelling import did_you_mean

Array: TypeAlias = np.ndarray[Any, Any]


class State:
    """Arrays of one model; called, it gives them.

    Args:
        values: What they begin as; copied.
    """

    def __init__(self, values: Sequence[Array]) -> None:
        self._arrays = [np.array(value, order="C", copy=True) for value in values]

    def __call__(self) -> list[Array]:
        """The arrays, in the order of the signature."""
        return self._arrays


def buffers_of(signature: Signature) -> tuple[TensorArgument, ...]:
    """What is known of the state that a signature passes on."""
    return signature.state if isinstance(signature, ModelSignature) else ()


def named_state(buffers: Sequence[TensorArgument], values: Sequence[Any]) -> dict[str, Array]:
    """State by name, as arrays that share its memory.

    Args:
        buffers: What is known of it.
        values: Arrays, or tensors of torch.

    Raises:
        LoadError: the torch module has lost one.
    """
    named = {}
    for buffer, value in zip(buffers, values, strict=True):
        if value is None:
            raise LoadError(f"the module has no buffer {buffer.name} any more", help="compile the model again")
        named[buffer.name] = as_array(value, f"buffer {buffer.name}")
    return named


def overwrite(state: Mapping[str, Array], values: Mapping[str, Any]) -> None:
    """Give state new values; nothing is written when one of them does not fit.

    Args:
        state: Arrays by name, which are written to.
        values: Arrays, or tensors of torch, of the same names, dtypes and shapes.

    Raises:
        CallError: a name is missing or unknown, or a value does not fit; says what was expected and what was given.
    """
    for name in (*values, *state):
        if name not in state:
            raise CallError(
                f"the model has no buffer {name}; it has {', '.join(state)}", help=did_you_mean(name, state)
            )
        if name not in values:
            raise CallError(f"buffer {name} is missing", help="pass a value for each buffer in state_dict()")
    fresh = {name: _checked(name, value, state[name]) for name, value in values.items()}
    for name, value in fresh.items():
        np.copyto(state[name], value)


def _checked(name: str, value: Any, like: Array) -> Array:
    if not isinstance(value, np.ndarray) and not is_torch(value):
        raise CallError(f"buffer {name} must be a tensor or a NumPy array, got {type(value).__name__}")
    array = as_array(value, f"buffer {name}")
    if (array.dtype, array.shape) != (like.dtype, like.shape):
        raise CallError(
            f"buffer {name} is {like.dtype.name}{list(like.shape)}, got {array.dtype.name}{list(array.shape)}",
            help="convert it first, or compile the model for that",
        )
    return array.copy()  # or a value that is another buffer's memory would be overwritten before it is read


def check_state(signature: Signature, values: Sequence[Any]) -> None:
    """Refuse state that does not fit to a signature.

    Raises:
        LoadError: says which part is wrong.
    """
    buffers = buffers_of(signature)
    if len(values) != len(buffers):
        raise damaged(f"it has {len(values)} values for {len(buffers)} buffers")
    for buffer, value in zip(buffers, values, strict=True):
        if not isinstance(value, np.ndarray) or value.dtype != buffer.dtype or value.ndim != len(buffer.shape):
            raise damaged(f"the value of buffer {buffer.name[:40]} is another kind of array")
        if any(isinstance(size, int) and size != real for size, real in zip(buffer.shape, value.shape, strict=True)):
            raise damaged(f"buffer {buffer.name[:40]} has shape {value.shape}")
