"""How far the rounding of places moves an interpolation: its definition in float64, each step moved by a little.

Where an interpolation reads its input is a number that is computed in the dtype of the arithmetic from sizes and scale
factors. A place near `p` is off by about `p * eps`, and the result by that times the slope there, which no change of
the inputs shows. So torch's own definition by smaller operators is computed in float64, and the result of each sum,
difference, product and quotient is multiplied by `1 +- eps` at random. Steps (floor) stay exact.

Reference: D. Stott Parker, "Monte Carlo arithmetic: exploiting randomness in floating-point arithmetic", University of
California, Los Angeles, CSD-970002, 1997.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final

import torch
from torch._decomp import get_decompositions
from torch.utils._python_dispatch import TorchDispatchMode

# Operators of torch's table that weight neighbours of a computed place; those that take the nearest one have steps.
INTERPOLATIONS: Final = frozenset({
    *(f"nn.functional.interpolate/{mode}" for mode in ("linear", "bilinear", "bicubic", "trilinear")),
    "nn.functional.upsample_bilinear",
})  # fmt: skip
# Operators that are several products with a result of their own dtype each.
COMPOSED: Final = frozenset({"nn.functional.multi_head_attention_forward"})
_DEFINED: Final = ("upsample_linear1d", "upsample_bilinear2d", "upsample_bicubic2d", "upsample_trilinear3d")
_ROUNDED: Final = frozenset({"aten::add", "aten::sub", "aten::rsub", "aten::mul", "aten::div"})
_PRODUCTS: Final = frozenset({"aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm"})


class RoundedSteps(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch does not say
    """While it is active, operators on float64 are computed as if each step were rounded.

    Args:
        eps: Largest relative change of the result of a step.
    """

    def __init__(self, eps: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._eps = eps

    def __torch_dispatch__(
        self, func: Any, types: Sequence[Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        definition = _definitions().get(func)
        if definition is not None:
            with self:
                return definition(*args, **(kwargs or {}))
        result = func(*args, **(kwargs or {}))
        is_rounded = isinstance(result, torch.Tensor) and result.dtype is torch.float64
        if not is_rounded or func._schema.name not in _ROUNDED | _PRODUCTS:
            return result
        return result * (1 + self._eps * (2 * torch.rand(result.shape, dtype=result.dtype) - 1))


@cache
def _definitions() -> dict[Any, Callable[..., Any]]:
    """Interpolations by smaller operators, as torch defines them."""
    return dict(get_decompositions([getattr(torch.ops.aten, name).default for name in _DEFINED]))
