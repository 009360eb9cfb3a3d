"""`RegionSpec`: the neutral description of a region, with a JSON form.

Whoever builds a region decides whether the library's numerics are good enough:
`algorithms.py` has them for element-wise functions, each measured.

A maximum pool loses NaN, and gives the lowest finite number for a window of
-inf only; average pools keep NaN. Binary `max` and `min` lose a NaN on the left
side, or on the right where the left side is broadcast (they are swapped then).
Binary `add`, `sub`, `mul` and `div` follow IEEE.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from eutectic.backend.dnnl.algorithms import SPECIALS_AS_TORCH, SPECIALS_KEPT
from eutectic.backend.dnnl.steps import (
    PARAMETERS,
    Binary,
    Cast,
    Convolution,
    Eltwise,
    Json,
    Matmul,
    Pool,
    PostBinary,
    PostEltwise,
    PostOp,
    Step,
    TensorSpec,
    exactly,
    operands,
    post_ops,
    put_sizes,
    refuse,
    step_from_json,
    step_to_json,
    tensor_from_json,
    tensor_to_json,
)
from eutectic.backend.dnnl.validate import check_region

__all__ = [
    "PARAMETERS",
    "SPECIALS_AS_TORCH",
    "SPECIALS_KEPT",
    "Binary",
    "Cast",
    "Convolution",
    "Eltwise",
    "Matmul",
    "Pool",
    "PostBinary",
    "PostEltwise",
    "PostOp",
    "RegionSpec",
    "Step",
    "TensorSpec",
    "operands",
    "post_ops",
]

_FIELDS: Final = ("symbol", "inputs", "constants", "steps", "outputs", "source")


@dataclass(frozen=True, slots=True)
class RegionSpec:
    """A piece of a graph that oneDNN computes in one call.

    Where sizes vary from call to call, it has sizes of the runtime in place of numbers: then it can only be written,
    and is checked when it is read with numbers.

    Attributes:
        symbol: Name of the region in its module.
        inputs: Tensors given at every call, in the order of the arguments.
        constants: Tensors given once, when the region is compiled.
        steps: In an order in which every operand is known before it is read.
        outputs: Names of the results, in the order they are returned. A name may
            come twice, or be that of an input or constant: it is then copied.
        source: Where the region comes from, for profiles and errors.

    Raises:
        CodegenError: names, shapes or parameters do not fit together.
    """

    symbol: str
    inputs: tuple[TensorSpec, ...]
    constants: tuple[TensorSpec, ...]
    steps: tuple[Step, ...]
    outputs: tuple[str, ...]
    source: str = ""

    def __post_init__(self) -> None:
        if not self.varies:
            check_region(self.inputs, self.constants, self.steps, self.outputs)

    @property
    def varies(self) -> bool:
        """Whether some extent is not a number; the extents of the steps follow from those of the tensors."""
        return any(not isinstance(extent, int) for tensor in self.tensors().values() for extent in tensor.shape)

    def tensors(self) -> dict[str, TensorSpec]:
        """Every tensor of the region by name, in order of definition."""
        return {t.name: t for t in (*self.inputs, *self.constants, *(step.dst for step in self.steps))}

    def to_json(self) -> Json:
        """The region as data that `json.dumps` accepts."""
        return {
            "symbol": self.symbol,
            "inputs": [tensor_to_json(t) for t in self.inputs],
            "constants": [tensor_to_json(t) for t in self.constants],
            "steps": [step_to_json(step) for step in self.steps],
            "outputs": list(self.outputs),
            "source": self.source,
        }

    @classmethod
    def from_json(cls, data: Any, sizes: Mapping[str, int] | None = None) -> RegionSpec:
        """Inverse of `to_json`, for data from outside.

        Args:
            data: What was written.
            sizes: Values of the sizes that vary, by name.

        Raises:
            CodegenError: the data has other fields or types, or describes no valid region.
        """
        data = put_sizes(data, sizes or {})
        if not isinstance(data, dict) or set(data) != set(_FIELDS):
            raise refuse(f"a region is described by an object with the fields {', '.join(_FIELDS)}")
        try:
            lists = {name: exactly(list, data[name]) for name in ("inputs", "constants", "steps", "outputs")}
            texts = [exactly(str, data["symbol"]), exactly(str, data["source"])]
            outputs = tuple(exactly(str, name) for name in lists["outputs"])
        except TypeError as error:
            raise refuse(f"a field of the region should be of type {error}") from error
        return cls(
            texts[0],
            tuple(tensor_from_json(t) for t in lists["inputs"]),
            tuple(tensor_from_json(t) for t in lists["constants"]),
            tuple(step_from_json(s) for s in lists["steps"]),
            outputs,
            texts[1],
        )
