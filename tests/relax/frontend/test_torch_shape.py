"""Views, joins, cuts, indexing and padding: values and shapes as in eager, over all kinds of axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.relax.frontend.torch_compare import check, imported, rand
from torch.nn import functional as F

from eutectic.support.errors import CallError

CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "view": (lambda x: x.view(6, -1), (rand(2, 3, 4),)),
    "reshape_of_transposed": (lambda x: x.transpose(0, 2).reshape(-1), (rand(2, 3, 4),)),
    "flatten": (lambda x: (x.flatten(), x.flatten(1), x.flatten(0, 1)), (rand(2, 3, 4),)),
    "unflatten": (lambda x: x.unflatten(1, (2, 3)), (rand(2, 6),)),
    "view_of_no_elements": (lambda x: (x.view(0, 7), x.reshape(4, 0), x.view(0, 0)), (rand(0, 4),)),
    "unsqueeze": (lambda x: (x.unsqueeze(0), x.unsqueeze(-1), x[None, :, None]), (rand(2, 3),)),
    "squeeze": (lambda x: (x.squeeze(), x.squeeze(0), x.squeeze(1), x.squeeze((0, 2))), (rand(1, 3, 1),)),
    "permute": (lambda x: (x.permute(2, 0, 1), x.permute(-1, 0, -2)), (rand(2, 3, 4),)),
    "transpose": (lambda x: (x.transpose(0, -1), x.t() if x.dim() == 2 else x.mT), (rand(2, 3, 4),)),
    "t": (lambda x: (x.t(), x.T, x.mT, x.swapaxes(0, 1)), (rand(2, 3),)),
    "movedim": (lambda x: (x.movedim(0, 2), x.movedim((0, 1), (2, 0))), (rand(2, 3, 4),)),
    "expand": (lambda x: (x.expand(4, 3), x.expand(2, -1, 3), x.expand(1, 3)), (rand(1, 3),)),
    "expand_as": (lambda x, y: x.expand_as(y), (rand(3), rand(2, 3))),
    "repeat": (lambda x: (x.repeat(2, 1), x.repeat(2, 2, 3), torch.tile(x, (2,))), (rand(2, 3),)),
    "cat": (lambda x, y: (torch.cat([x, y]), torch.cat([x, y], -1), torch.cat([x])), (rand(2, 3), rand(2, 3))),
    "cat_promotes": (lambda x, y: torch.cat([x, y]), (rand(2), rand(3, dtype=torch.float64))),
    "cat_of_an_empty_one": (lambda x, y: torch.cat([x, y]), (rand(2, 3), rand(0))),
    "stack": (lambda x, y: (torch.stack([x, y]), torch.stack([x, y], -1), torch.hstack([x, y])), (rand(2), rand(2))),
    "split": (lambda x: (x.split(2, 1), x.split([1, 4], 1), x.chunk(3, 1)), (rand(2, 5),)),
    "split_in_one": (lambda x: x.split(9, 1)[0] + 1, (rand(2, 5),)),
    "tensor_split": (lambda x: (x.tensor_split(3, 1), x.tensor_split((1, 3), 1)), (rand(2, 5),)),
    "unbind": (lambda x: (x.unbind(), x.unbind(-1)), (rand(2, 3),)),
    "select": (lambda x: (x[0], x[-1], x[:, 1], x[..., -2], x.select(1, -1)), (rand(3, 4),)),
    "slice": (lambda x: (x[1:], x[:-1], x[-2:], x[1:3, ::2], x[5:], x[-9:2], x[2:1], x[:99], x[1::3]), (rand(5, 4),)),
    "narrow": (lambda x: (x.narrow(0, 1, 2), x.narrow(1, -2, 2)), (rand(4, 3),)),
    "flip": (lambda x: (x.flip(0), x.flip(0, 1), x.flip(-1)), (rand(3, 4),)),
    "roll": (lambda x: (x.roll(1, 0), x.roll(-1, 1), x.roll((1, 2), (0, 1)), x.roll(5), x.roll(0, 0)), (rand(3, 4),)),
    "pixel_shuffle": (
        lambda x: (F.pixel_shuffle(x, 2), F.pixel_unshuffle(F.pixel_shuffle(x, 2), 2)),
        (rand(2, 8, 3, 2),),
    ),
    "channel_shuffle": (lambda x: F.channel_shuffle(x, 2), (rand(1, 6, 2, 2),)),
    "meshgrid": (lambda x, y: torch.meshgrid(x, y, indexing="ij"), (rand(2), rand(3))),
    "meshgrid_xy": (lambda x, y: torch.meshgrid(x, y, indexing="xy"), (rand(2), rand(3))),
    "diff": (lambda x: (x.diff(), x.diff(dim=0), x.diff(n=2)), (rand(3, 4),)),
    "no_axes": (lambda x: (x.view(1), x.expand(3), x.reshape(1, 1), x.unsqueeze(0), x.squeeze()), (rand(),)),
    "tril": (lambda x: (x.tril(), x.triu(), x.tril(1), x.triu(-1)), (rand(3, 4),)),
    "slice_assignment": (lambda x, y: _assign(x, y), (rand(4, 5), rand(2))),
    "masked_assignment": (lambda x: _assign_mask(x), (rand(4, 5),)),
    "pad": (lambda x: (F.pad(x, (1, 2)), F.pad(x, (1, 0, 2, 1), value=3.5), F.pad(x, (-1, 1, 0, -1))), (rand(3, 4),)),
    "pad_modes": (
        lambda x: tuple(F.pad(x, (1, 2, 2, 1), mode=mode) for mode in ("reflect", "replicate", "circular")),
        (rand(1, 2, 4, 5),),
    ),
    "pad_integers": (lambda x: F.pad(x, (1, 1), value=7), (rand(3, dtype=torch.int64),)),
    "index": (lambda x, i: (x[i], x[:, i], x[i, i], x[i, :, i]), (rand(5, 4, 6), torch.tensor([0, 3, -1, -4]))),
    "index_broadcast": (
        lambda x, i, j: (x[i, j], x[:, i, j]),
        (rand(5, 6, 7), torch.tensor([[0], [-1]]), torch.tensor([1, 2, 0])),
    ),
    "index_by_list": (lambda x: (x[[0, 2, -1]], x[:, [1, 1]]), (rand(3, 4),)),
    "index_select": (lambda x, i: (x.index_select(0, i), x.index_select(-1, i)), (rand(3, 4), torch.tensor([2, 0]))),
    "gather": (lambda x, i: (x.gather(0, i), x.gather(1, i)), (rand(3, 4), torch.tensor([[0, 2], [1, 1]]))),
    "embedding": (lambda i, w: F.embedding(i, w, padding_idx=0), (torch.tensor([[0, 3], [1, 1]]), rand(4, 5))),
    "clone": (lambda x: (x.clone(), x.contiguous() + 1, x.detach() * 2), (rand(3, 4),)),
}


def _assign(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = x.clone()
    out[1] = 5.0
    out[:, 1:3] = y
    out[2, 3] = 1.0
    out[-1:] += 10
    return out


def _assign_mask(x: torch.Tensor) -> torch.Tensor:
    out = x.clone()
    out[0].relu_()
    out[:, 0].mul_(2).add_(1)
    return out


@pytest.mark.parametrize("name", CASES)
def test_as_in_eager(name: str):
    function, args = CASES[name]
    check(function, *args)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.bfloat16, torch.float16, torch.uint8])
def test_moving_elements_of_any_dtype(dtype: torch.dtype):
    def function(x: torch.Tensor) -> Any:
        return x.t(), x[1:], torch.cat([x, x], 1), x.repeat(2, 1), x.flip(0), x.unsqueeze(0), x[:, 1], x.roll(1, 0)

    check(function, rand(3, 4, dtype=dtype))


@settings(max_examples=20)
@given(st.integers(0, 6), st.integers(-9, 9), st.one_of(st.none(), st.integers(-9, 9)), st.integers(1, 4))
def test_slices(size: int, begin: int, end: int | None, step: int):
    check(lambda x: x[:, begin:end:step] + 0, rand(2, size))


@settings(max_examples=12)
@given(st.integers(-3, 3), st.integers(-3, 3), st.integers(0, 3), st.integers(0, 3))
def test_pads(left: int, right: int, top: int, bottom: int):
    check(lambda x: F.pad(x, (left, right, top, bottom), value=2.0), rand(2, 7, 7))


@pytest.mark.parametrize("bad", [4, -5])
def test_an_index_outside_is_refused_when_called(bad: int):
    model = imported(lambda x, i: (x[i], x[i, i]), (rand(4, 4), torch.tensor([0, 1])))
    with pytest.raises(CallError, match="out of range"):
        model(rand(4, 4), torch.tensor([0, bad]))


def test_an_index_outside_a_table_is_refused_when_called():
    model = imported(lambda w, i: F.embedding(i, w), (rand(4, 4), torch.tensor([0, 1])))
    for bad in (4, -1):
        with pytest.raises(CallError, match="out of range"):
            model(rand(4, 4), torch.tensor([0, bad]))


def test_no_view_costs_nothing():
    model = imported(lambda x: x.view(2, 3).permute(0, 1).expand(2, 3)[:].contiguous() + 1, (rand(2, 3),))
    assert model.operators == ["add"]


def test_assignment_to_every_second_element():
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = x.clone()
        out[::2] = 0
        out[:, 1::3] = y
        return out

    check(function, rand(6, 7), rand(2))


def test_windows_and_diagonals():
    check(
        lambda x: (x.unfold(1, 2, 1), x.unfold(0, 3, 2), x.diagonal(), x.diagonal(1), x.diagonal(-1, 1, 0)), rand(4, 5)
    )
    check(lambda x: (x.diagonal(0, 1, 2), F.unfold(x[None], 2)), rand(3, 4, 5))
