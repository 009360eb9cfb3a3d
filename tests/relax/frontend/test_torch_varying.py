"""Operators along axes whose sizes vary: compiled for all sizes at once, with what eager gives at each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import eutectic
from eutectic.support.errors import CallError

Make = Callable[[int], tuple[torch.Tensor, ...]]
SYM_INT: Any = torch.sym_int
SIZES = (5, 1, 2, 8, 33)


class Called(nn.Module):
    def __init__(self, functions: Sequence[Callable[..., Any]]) -> None:
        super().__init__()
        self.functions = functions

    def forward(self, *args: torch.Tensor) -> Any:
        return [function(*args) for function in self.functions]


def varying(
    functions: Sequence[Callable[..., Any]], make: Make, axes: Sequence[Any], least: int = 1, factor: int = 1
) -> Any:
    """Functions of the same arguments compiled together, after they gave what eager gives at all sizes.

    Args:
        functions: Of what `make` gives.
        make: Arguments for a size.
        axes: For each argument the axes that have the size.
        least: The smallest size.
        factor: What the axes have for each of it.
    """
    model, dim = Called(functions).eval(), torch.export.Dim("n", min=least, max=100)
    shapes = tuple(dict.fromkeys(each, dim if factor == 1 else factor * dim) for each in axes)
    torch.manual_seed(0)
    fast = eutectic.compile(model, make(max(SIZES[0], least)), dynamic_shapes=(shapes,), threads=1, fallback="error")
    assert not fast.report.host_operators
    for size in SIZES:
        args = make(max(size, least))
        torch.testing.assert_close(fast(*args), model(*args), rtol=1e-5, atol=1e-5, equal_nan=True)
    return fast


def rows(n: int, *more: int) -> torch.Tensor:
    return torch.randn(n, *more)


def places(limit: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, limit, shape)


def test_rows_are_combined_along_an_axis_that_varies():
    fast = varying(
        [
            lambda x, i, s: x.index_add(0, i, s),
            lambda x, i, s: x.index_add(0, i, s, alpha=3),
            lambda x, i, s: torch.zeros_like(x).scatter_add(0, i[:, None].expand(-1, 4), s),
            lambda x, i, s: x.index_put((i,), s, accumulate=True),
            lambda x, i, s: x.index_put((-1 - i,), s, accumulate=True),
            *[lambda x, i, s, r=r: x.index_reduce(0, i, s, r) for r in ("prod", "amax", "amin", "mean")],
        ],
        lambda n: (rows(n, 4), places(n, 7), rows(7, 4)),
        ([0], [], []),
    )
    with pytest.raises(CallError, match="outside"):
        fast(rows(3, 4), torch.full((7,), 3), rows(7, 4))


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("axis", [0, 1])
def test_elements_are_combined_along_an_axis_that_varies(axis: int, include_self: bool):
    def function(reduce: str) -> Callable[..., torch.Tensor]:
        return lambda x, i, s: x.scatter_reduce(axis, i, s, reduce, include_self=include_self)

    varying(
        [function(reduce) for reduce in ("sum", "prod", "mean", "amax", "amin")],
        lambda n: (rows(n, n), places(n, n, n), rows(n, n)),
        ([0, 1],) * 3,
    )


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("include_self", [True, False])
def test_reductions_of_other_dtypes(dtype: torch.dtype, include_self: bool):
    x, i, s = places(9, 5, 3).to(dtype), places(5, 6, 3), places(4, 6, 3).to(dtype)
    for reduce in ("sum", "prod", "mean", "amax", "amin"):

        def function(x: Any, i: Any, s: Any, reduce: str = reduce) -> torch.Tensor:
            return x.scatter_reduce(0, i, s, reduce, include_self=include_self)

        fast = eutectic.compile(Called([function]), (x, i, s), threads=1, fallback="error")
        torch.testing.assert_close(fast(x, i, s), [function(x, i, s)])


def test_elements_are_replaced_along_an_axis_that_varies():
    varying(
        [
            lambda x, i, s: x.scatter(0, i[:, None].expand(-1, 4), s),
            lambda x, i, s: x.scatter(0, i[:, None], 2.5),
            lambda x, i, s: x.scatter(0, i[:, None], 2.5, reduce="add"),
            lambda x, i, s: x.index_copy(0, i, s),
            lambda x, i, s: x.index_fill(0, i[:1], 7.0),
            lambda x, i, s: x.index_put((i,), s),
            lambda x, i, s: x.index_put((x > 0,), torch.tensor(2.0), accumulate=True),
            lambda x, i, s: x.masked_scatter(x > 0, s),
            lambda x, i, s: x.masked_scatter(x[:, :1] > 0, s),
        ],
        lambda n: (rows(n, 4), torch.randperm(n), rows(n, 4)),
        ([0], [0], [0]),
    )


def test_a_mask_that_chooses_more_than_there_is_is_an_error():
    fast = varying([lambda x, s: x.masked_scatter(x > 0, s)], lambda n: (rows(n, 4), rows(40, 4)), ([0], []))
    with pytest.raises(CallError, match="outside"):
        fast(torch.ones(60, 4), rows(40, 4))


@pytest.mark.filterwarnings("ignore:.*degrees of freedom is <= 0")
def test_variances_are_corrected_by_a_number_of_elements_that_varies():
    varying(
        [
            lambda x: x.std(0),
            lambda x: x.var(0, correction=2),
            lambda x: x.var(),
            lambda x: torch.std_mean(x, (0, 1)),
            lambda x: x.double().var(0).float(),
        ],
        lambda n: (rows(n, 4),),
        ([0],),
    )


def test_rolls_repeats_windows_and_diagonals():
    varying(
        [
            lambda x: x.roll(1, 0),
            lambda x: x.roll((-2, 1), (0, 1)),
            lambda x: x.roll(3),
            lambda x: x.roll(x.shape[0] // 2, 0),
            lambda x: x[:1].repeat(x.shape[0], 2),
            lambda x: x.repeat(2, x.shape[0], 1),
            lambda x: x.unfold(0, 3, 1),
            lambda x: x.unfold(0, 2, 2),
            lambda x: x.diagonal(),
            lambda x: x.diagonal(1),
            lambda x: x.diagonal(-1),
        ],
        lambda n: (rows(n, 4),),
        ([0],),
        least=6,
    )


def test_slices_are_assigned():
    def assign(x: torch.Tensor) -> torch.Tensor:
        x = x.clone()
        x[1:] = x[:-1] * 2
        x[::2] = 0
        x[-1] = x[0]
        x[1 : x.shape[0] - 1, 1] += 1
        x[-2:, 2] = 9
        return x

    varying([assign], lambda n: (rows(n, 4),), ([0],), least=4)


def test_widths_of_padding_that_vary():
    varying(
        [
            lambda x: F.pad(x, (0, 0, 0, (4 - x.shape[0] % 4) % 4)),
            lambda x: F.pad(x, (0, 0, x.shape[0] - 1, 0), value=2.5),
            lambda x: F.pad(x, (1, -1, 1, 40 - x.shape[0])),
        ],
        lambda n: (rows(n, 4),),
        ([0],),
        least=2,
    )


def test_numbers_made_of_sizes():
    varying(
        [
            lambda x: torch.eye(x.shape[0]),
            lambda x: torch.eye(x.shape[0], 3, dtype=torch.int64),
            lambda x: torch.linspace(-x.shape[0], x.shape[0], 7),
            lambda x: torch.linspace(0, x.shape[0], 5, dtype=torch.int64),
            lambda x: torch.arange(x.shape[0] - 1, -1, -1),
            lambda x: torch.arange(0, x.shape[0], dtype=torch.float32) / x.shape[0],
            lambda x: torch.arange(0, x.shape[0], 0.5),
        ],
        lambda n: (rows(n, 4),),
        ([0],),
    )


@pytest.mark.parametrize("size", [2, 3, (5, 2), (None, 3)])
def test_adaptive_pools_of_an_image_whose_height_varies(size: Any):
    varying(
        [
            lambda x: F.adaptive_avg_pool2d(x, size),
            lambda x: F.adaptive_avg_pool2d(x[0], size),
            *(
                []
                if None in [size, *(size if isinstance(size, tuple) else ())]
                else [lambda x: F.adaptive_max_pool2d(x, size)]
            ),
        ],
        lambda n: (rows(2, 3, n, 7),),
        ([2],),
    )


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear"])
def test_images_are_scaled_by_a_whole_number(mode: str):
    varying(
        [
            lambda x: F.interpolate(x, scale_factor=2, mode=mode),
            lambda x: F.interpolate(x, scale_factor=(3, 1), mode=mode),
        ],
        lambda n: (rows(2, 3, n, 7),),
        ([2],),
    )


def test_sizes_that_are_rounded_fractions_of_others():
    varying(
        [
            lambda x: x.new_ones(SYM_INT(x.shape[0] * 1.5)),
            lambda x: x.new_ones(SYM_INT(x.shape[0] * 0.4)),
            lambda x: x.new_ones(SYM_INT(x.shape[0] / 3)),
            lambda x: F.interpolate(x[None, None], scale_factor=(0.5, 1), mode="bilinear", align_corners=True),
        ],
        lambda n: (rows(n, 4),),
        ([0],),
        least=6,
    )


def test_a_causal_mask_of_a_sequence_that_varies():
    varying(
        [
            lambda q, k: F.scaled_dot_product_attention(q, k, k, is_causal=True),
            lambda q, k: F.scaled_dot_product_attention(k, q, q, is_causal=True),
        ],
        lambda n: (rows(2, 2, n, 8), rows(2, 2, 6, 8)),
        ([2], []),
    )


def test_sums_of_sizes_are_the_same_in_any_order():
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        places = torch.cat((torch.arange(y.shape[0]), torch.arange(x.shape[0])))
        return torch.zeros(99).scatter_add(0, places, torch.ones(x.shape[0] + y.shape[0]))

    dims = torch.export.Dim("n", max=40), torch.export.Dim("m", max=40)
    fast = eutectic.compile(
        Called([function]), (rows(3), rows(5)), dynamic_shapes=(({0: dims[0]}, {0: dims[1]}),), fallback="error"
    )
    for n, m in ((3, 5), (1, 7), (40, 2)):
        assert torch.equal(fast(rows(n), rows(m))[0], function(rows(n), rows(m)))


def test_slices_between_sizes():
    varying(
        [
            lambda x: x[: x.shape[0] // 2],
            lambda x: x[x.shape[0] // 2 :],
            lambda x: x[1:] - x[:-1],
            lambda x: x[1:-1] + x[-2],
            lambda x: torch.diff(x, dim=0),
            lambda x: x[x.shape[0] // 2],
            lambda x: x.split([2, x.shape[0] - 2]),
            lambda x: x.split([x.shape[0] // 2, x.shape[0] - x.shape[0] // 2]),
            lambda x: x.tensor_split((2,)),
            lambda x: x.flatten().cumsum(0),
        ],
        lambda n: (rows(2 * n, 4),),
        ([0],),
        least=2,
        factor=2,
    )


def test_halves_and_thirds():
    functions = [
        lambda x: x.split([x.shape[0] // 2, x.shape[0] - x.shape[0] // 2]),
        lambda x: torch.cat(x.split([x.shape[0] // 3, x.shape[0] // 3, x.shape[0] - x.shape[0] // 3 * 2])[::-1]),
        lambda x: (y := torch.cat((x, x[1:]))).split([y.shape[0] // 2, y.shape[0] - y.shape[0] // 2]),
        lambda x: (y := x[::2]).split([y.shape[0] // 2, y.shape[0] - y.shape[0] // 2]),
        lambda x: (y := x.reshape(-1)).split([y.shape[0] // 2, y.shape[0] - y.shape[0] // 2])[1],
    ]
    model, some = Called(functions).eval(), torch.export.Dim.AUTO(min=4, max=100)  # with a name torch wants even sizes
    fast = eutectic.compile(model, (rows(9, 3),), dynamic_shapes=(({0: some},),), fallback="error")
    assert not fast.report.host_operators
    for size in (9, 4, 5, 6, 31, 100):
        x = rows(size, 3)
        torch.testing.assert_close(fast(x), model(x))


def test_a_slice_that_torch_takes_for_longer_than_it_is_reads_nothing_outside():
    """It takes no size that varies for one."""
    fast = eutectic.compile(
        Called([lambda x: x[:2] * 2]), (rows(5, 4),), dynamic_shapes=(({0: torch.export.Dim("n", min=1)},),)
    )
    with pytest.raises(CallError, match="must have size 2 on axis 0, got 1"):
        fast(rows(1, 4))


def test_an_axis_of_a_multiple_gives_the_size():
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        half = F.max_pool2d(x, 2)
        return F.interpolate(half, scale_factor=2) + x, half.flatten(2)

    side = torch.export.Dim("side", min=2, max=8)
    fast = eutectic.compile(
        Called([function]), (rows(1, 3, 8, 6),), dynamic_shapes=(({2: 2 * side, 3: 2 * side - 2},),), fallback="error"
    )
    assert not fast.report.host_operators
    for n in (4, 2, 3, 8):
        x = rows(1, 3, 2 * n, 2 * n - 2)
        torch.testing.assert_close(fast(x), [function(x)])
    for sizes in ((7, 6), (2, 2), (18, 16)):
        with pytest.raises(CallError, match="a size from 4 to 16, a multiple of 2, on axis 2"):
            fast(rows(1, 3, *sizes))
    with pytest.raises(CallError, match=r"must have size 4 .* on axis 3, got 6"):
        fast(rows(1, 3, 6, 6))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
def test_fractions_computed_from_sizes(dtype: torch.dtype):
    functions: list[Callable[..., Any]] = [
        lambda x: x / x.shape[0] ** 0.5,
        lambda x: x * (1 / x.shape[0]),
        lambda x: x + (x.shape[0] - 1) / 2,
        lambda x: 2.5 * x.shape[0] - x,
        lambda x: x.to(torch.float32) / (x.shape[0] / 3 + 0.5),
    ]
    dim = torch.export.Dim("n", min=1, max=99)
    example = ((rows(5, 4) * 9).to(dtype),)
    fast = eutectic.compile(Called(functions), example, dynamic_shapes=(({0: dim},),), threads=1, fallback="error")
    for size in SIZES:
        x = (rows(size, 4) * 9).to(dtype)
        torch.testing.assert_close(fast(x), [function(x) for function in functions])


LARGEST: dict[str, Callable[[torch.Tensor], Any]] = {
    "amax": lambda x: x.amax(1, keepdim=True),
    "argmin": lambda x: x.argmin(-1),
    "max and its place": lambda x: x.max(1),
    "of all": lambda x: x.min(),
    "place in all": lambda x: x.argmax(),
    "both": lambda x: x.aminmax(dim=1),
}


@pytest.mark.parametrize("name", LARGEST)
def test_there_is_no_largest_of_none(name: str):
    """An axis of no elements was reduced to the start of the search: -inf, and the largest int64 as a place."""
    function = LARGEST[name]
    axes = {0: torch.export.Dim("m", min=0), 1: torch.export.Dim("n", min=0)}
    fast = eutectic.compile(Called([function]), (rows(3, 4),), dynamic_shapes=((axes,),))
    for x in (rows(2, 1), rows(5, 3), *([] if "all" in name else [rows(0, 2)])):
        torch.testing.assert_close(fast(x), [function(x)])
    with pytest.raises(CallError, match="a size at least 1 on axis 1, got 0"):
        fast(rows(2, 0))
