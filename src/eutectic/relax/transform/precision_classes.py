"""What `ToMixedPrecision` does with each operator: which ones it narrows, and which follow what they read.

Reference: the classes are those of TVM's `relax.transform.ToMixedPrecision`; the operators in them follow what
`torch.autocast` does with those of torch, where it has an opinion.
"""

from __future__ import annotations

from typing import Final, Literal

PrecisionClass = Literal["always", "follow", "never"]

_FOLLOW: Final[dict[str, tuple[str, ...]]] = {
    "moves elements": (
        "broadcast_to", "concat", "expand_dims", "flatten", "flip", "gather_elements", "layout_transform", "nn.pad",
        "permute_dims", "repeat", "reshape", "split", "squeeze", "stack", "strided_slice", "take", "tile", "where",
    ),
    "chooses elements": (
        "abs", "clip", "max", "maximum", "min", "minimum", "negative", "nn.adaptive_max_pool1d",
        "nn.adaptive_max_pool2d", "nn.adaptive_max_pool3d", "nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d",
        "nn.relu",
    ),
    "rounds once, from operands of the result's size": (
        "add", "divide", "multiply", "nn.elu", "nn.gelu", "nn.gelu_tanh", "nn.hardsigmoid", "nn.hardswish",
        "nn.leakyrelu", "nn.mish", "nn.prelu", "nn.selu", "nn.silu", "sigmoid", "subtract", "tanh",
    ),
    "is a mean, which is added up in float32 and rounded once": (
        "mean", "nn.adaptive_avg_pool1d", "nn.adaptive_avg_pool2d", "nn.adaptive_avg_pool3d", "nn.avg_pool1d",
        "nn.avg_pool2d", "nn.avg_pool3d",
    ),
}  # fmt: skip

FOLLOW: Final = frozenset(f"relax.{name}" for names in _FOLLOW.values() for name in names)
"""Operators that are computed in what they read."""

ALWAYS: Final = frozenset(
    ("relax.matmul", *(f"relax.nn.conv{n}d{suffix}" for n in (1, 2, 3) for suffix in ("", "_transpose")))
)
"""Operators whose operands are narrowed: sums of products, which processors have instructions for."""


def precision_class(op: str) -> PrecisionClass:
    """The class of an operator.

    `always`: its operands are narrowed. `follow`: it is narrow when all that it reads is. `never`: it stays float32,
    as exponentials, logarithms, powers, sums, norms and softmax would magnify what narrow operands have lost; so does
    every operator that nobody thought of.

    Args:
        op: Its name, such as `relax.matmul`.
    """
    if op in ALWAYS:
        return "always"
    return "follow" if op in FOLLOW else "never"
