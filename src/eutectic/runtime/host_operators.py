"""Operators that a program runs in Python without the compiler: by name, with attributes as data.

They are what is left where a shape is known only once it was computed. Their meaning is that of the references in the
operators' definitions, with which a test compares them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np

from eutectic.support.eager_call import eager_call

Array: TypeAlias = np.ndarray[Any, Any]
Attrs: TypeAlias = Mapping[str, Any]
HostOperator: TypeAlias = Callable[..., Any]
"""Takes the attributes and the operands: arrays, numbers, and tuples of these."""


LEFT_TO_TORCH: Final = "relax.call_eager"


def _binary(compute: Callable[[Array, Array], Array]) -> HostOperator:
    """An operator of two operands of one dtype, of which one may be a number."""

    def run(attrs: Attrs, a: Any, b: Any) -> Array:
        dtype = a.dtype if isinstance(a, np.ndarray) else b.dtype
        return compute(np.asarray(a, dtype), np.asarray(b, dtype))

    return run


def _wide(x: Array) -> Array:
    """Floats of 16 bits as float32: NumPy's maximum of them treats signed zeros otherwise than of wider ones."""
    return x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind not in "iu" else x


HOST_OPERATORS: Final[Mapping[str, HostOperator]] = {
    "relax.shape_of": lambda attrs, x: x.shape,
    "relax.tensor_to_shape": lambda attrs, x: tuple(int(size) for size in x),
    "relax.shape_to_tensor": lambda attrs, shape: np.array(shape, np.int64),
    "relax.reshape": lambda attrs, x, shape: x.reshape(shape),
    "relax.flatten": lambda attrs, x: x.reshape(-1),
    "relax.expand_dims": lambda attrs, x: np.expand_dims(x, attrs["axis"]),
    "relax.squeeze": lambda attrs, x: np.squeeze(x, attrs["axis"]),
    "relax.permute_dims": lambda attrs, x: np.transpose(x, attrs["axes"]),
    "relax.broadcast_to": lambda attrs, x, shape: np.broadcast_to(x, shape),
    "relax.concat": lambda attrs, tensors: np.concatenate(tensors, axis=attrs["axis"]),
    "relax.add": _binary(np.add),
    "relax.subtract": _binary(np.subtract),
    "relax.multiply": _binary(np.multiply),
    LEFT_TO_TORCH: lambda attrs, operands, sizes: eager_call(
        attrs["operator"], attrs["arguments"], attrs["results"], operands, sizes
    ),
    "relax.nn.relu": lambda attrs, x: np.maximum(_wide(x), _wide(np.zeros((), x.dtype))).astype(x.dtype),
}


def run_host_operator(name: str, attrs: Attrs, operands: tuple[Any, ...]) -> Any:
    """The result of an operator: arrays are C-contiguous and share no memory with an operand."""
    with np.errstate(all="ignore"):  # IEEE results are what is asked for
        result = HOST_OPERATORS[name](attrs, *operands)
    return np.array(result, order="C", copy=True) if isinstance(result, np.ndarray) else result
