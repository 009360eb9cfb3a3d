"""Numbers times powers of two, taken apart so that no power on the way is zero or infinite.

Torch's own rule for `ldexp` multiplies by the power in the dtype of the result, which has no room for most of those
that its kernel takes: the largest number times `2 ** -200` is zero by the rule, and infinity is NaN.
"""

from __future__ import annotations

from typing import Any, Final

import torch

_BEYOND: Final = 2200  # no float64 stays finite and other than zero by more
_BEYOND_NARROW: Final = 400  # no float32
_ONE_FACTOR: Final = 1022  # powers that are normal numbers of float64


def ldexp(x: torch.Tensor, exponent: torch.Tensor) -> Any:
    """`x * 2 ** exponent`, rounded once.

    Args:
        x: Any shape; a real dtype.
        exponent: A shape that broadcasts; a real dtype; floats are powers of two in the dtype of the result.

    Returns:
        The shapes broadcast; the dtype of the product, the default float where both are integers. Not implemented,
        which leaves the operator whole, for complex numbers.
    """
    if exponent.is_floating_point():  # its kernel, too, multiplies by a power that may be zero or infinite
        return x * torch.pow(2.0, exponent)
    dtype = torch.result_type(x, exponent)
    if dtype.is_complex:
        return NotImplemented
    dtype = dtype if dtype.is_floating_point else torch.get_default_dtype()
    wide, powers = x.to(torch.float64), exponent.to(torch.float64)
    if dtype != torch.float64:
        return (wide * torch.pow(2.0, powers.clamp(-_BEYOND_NARROW, _BEYOND_NARROW))).to(dtype)
    powers = powers.clamp(-_BEYOND, _BEYOND)
    # What is normal at the end is so after two thirds of the way, so that only the last factor rounds.
    third = torch.where(powers.abs() <= _ONE_FACTOR, torch.zeros_like(powers), (powers / 3).trunc())
    step = torch.pow(2.0, third)
    return wide * step * step * torch.pow(2.0, powers - 2 * third)
