"""Regions under autocast: operators of several dtypes, which torch has no kernels for outside of them."""

from __future__ import annotations

import pytest
import torch
from tests.relax.frontend.torch_compare import check, rand

from eutectic.support.errors import UnsupportedOperatorError


def _mixed(x: torch.Tensor) -> list[torch.Tensor]:
    with torch.autocast("cpu", torch.bfloat16):
        y = x @ x.T
        z = torch.addmm(y, y, x[:, :3])
        with torch.no_grad():
            return [y, z, y @ x, torch.bmm(y[None], x[None])]


def _turned_off_inside(x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        y = x @ x.T
        with torch.autocast("cpu", enabled=False):
            return y @ x


def test_products_of_several_dtypes():
    check(_mixed, rand(3, 4), tolerance=2e-2)


def test_where_it_is_turned_off_torch_has_no_such_product():
    x = rand(3, 4)
    with pytest.raises(RuntimeError, match="same dtype"):
        _turned_off_inside(x)
    with pytest.raises(UnsupportedOperatorError, match=r"aten\.matmul"):
        check(_turned_off_inside, x)
