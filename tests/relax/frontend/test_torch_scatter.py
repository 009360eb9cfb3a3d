"""Elements written to computed positions: what eager gives, and errors where eager has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import eutectic
from eutectic.support.errors import CallError, UnsupportedOperatorError

torch.manual_seed(0)
X, ROWS = torch.randn(2, 3, 8, 4), torch.randn(2, 3, 2, 4)
PLACES = torch.tensor([5, 1])


class Called(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


def compiled(function: Callable[..., Any], *args: torch.Tensor, **options: Any) -> Any:
    """The function compiled, after it gave what eager gives."""
    model = eutectic.compile(Called(function), args, target="llvm", threads=1, fallback="error", **options)
    want, got = function(*args), model(*args)
    assert got.dtype == want.dtype
    torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)
    return model


def put(*index: Any) -> Callable[..., torch.Tensor]:
    """Assignment to a copy; `None` in the index takes the next argument."""

    def assign(x: torch.Tensor, values: torch.Tensor, *places: torch.Tensor) -> torch.Tensor:
        x, rest = x.clone(), iter(places)
        x[tuple(next(rest) if item is None else item for item in index)] = values
        return x

    return assign


def test_index_copy_takes_the_later_of_two_rows_and_keeps_special_values():
    rows = torch.tensor([float("nan"), float("inf"), -0.0])[None, None, :, None].expand(2, 3, 3, 4).contiguous()
    model = compiled(lambda x, i, s: x.index_copy(2, i, s), X, torch.tensor([7, 0, 7]), rows)
    got = model(X, torch.tensor([1, 1, 1]), rows)
    assert torch.equal(got[:, :, 1].signbit(), torch.ones(2, 3, 4, dtype=torch.bool))


@pytest.mark.parametrize("place", [8, -1])
def test_index_copy_refuses_a_place_outside_as_eager_does(place: int):
    model = compiled(lambda x, i, s: x.index_copy(2, i, s), X, PLACES, ROWS)
    wrong = torch.tensor([place, 0])
    with pytest.raises((IndexError, RuntimeError)):
        X.index_copy(2, wrong, ROWS)
    with pytest.raises(CallError, match="outside"):
        model(X, wrong, ROWS)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool])
def test_index_fill_counts_from_the_end_too(dtype: torch.dtype):
    x, ends = X.to(dtype), torch.tensor([-1, 0, -8])
    compiled(lambda x: x.index_fill(2, torch.tensor([-1]), 9), x)
    compiled(lambda x, i, v: x.index_fill(2, i, v), x, ends, torch.tensor(2.5))
    compiled(lambda x, i: x.clone().index_fill_(-2, i, 2.5), x, ends)
    compiled(lambda x, i: x.index_fill(0, i, 1), torch.tensor(3).to(dtype), torch.tensor(-1))
    compiled(lambda x, i: x.index_fill(1, i, 1), x, torch.tensor([], dtype=torch.int64))
    compiled(lambda x, i: x.index_fill(0, i, 1), torch.zeros(700, 3).to(dtype), torch.randint(-700, 700, (900,)))


@pytest.mark.parametrize("place", [8, -9])
def test_index_fill_refuses_a_place_outside_as_eager_does(place: int):
    model = compiled(lambda x, i: x.index_fill(2, i, 9.0), X, PLACES)
    wrong = torch.tensor([place, 0])
    with pytest.raises((IndexError, RuntimeError)):
        X.index_fill(2, wrong, 9.0)
    with pytest.raises(CallError, match="outside"):
        model(X, wrong)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64, torch.bool])
def test_index_copy_of_other_dtypes_and_without_axes(dtype: torch.dtype):
    compiled(
        lambda x, i, s: x.index_copy(0, i, s),
        torch.ones(4, 2).to(dtype),
        torch.tensor([2]),
        torch.zeros(1, 2).to(dtype),
    )
    compiled(
        lambda x, i, s: x.index_copy(0, i, s), torch.tensor(3).to(dtype), torch.tensor(0), torch.tensor(0).to(dtype)
    )
    compiled(
        lambda x, i, s: x.index_copy(0, i, s),
        torch.ones(4).to(dtype),
        torch.tensor([], dtype=torch.int64),
        torch.zeros(0).to(dtype),
    )


def test_a_cache_of_keys_is_written_in_place_with_any_number_of_positions():
    class Cache(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("keys", torch.zeros(1, 2, 16, 4))

        def forward(self, rows: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
            self.keys.index_copy_(2, places, rows)
            return self.keys.sum(2)

    ours, eager = Cache().eval(), Cache().eval()
    count = torch.export.Dim("count", min=2, max=16)
    example = (torch.randn(1, 2, 5, 4), torch.arange(5))
    model = eutectic.compile(ours, example, dynamic_shapes=({2: count}, {0: count}), target="llvm", fallback="error")
    ours.keys.zero_()
    for first, length in ((0, 5), (5, 2), (7, 3)):
        step = (torch.randn(1, 2, length, 4), torch.arange(first, first + length))
        torch.testing.assert_close(model(*step), eager(*step), rtol=1e-6, atol=1e-6)
        assert torch.equal(ours.keys, eager.keys)


@pytest.mark.parametrize(
    ("assign", "places", "shape"),
    [
        (put(slice(None), slice(None), None), [torch.tensor([5, -1])], (2, 3, 2, 4)),
        (put(slice(None), slice(None), None), [torch.tensor([[5], [0]])], (4,)),
        (put(None, slice(None), None), [torch.tensor([1, 0]), torch.tensor([5, -1])], (2, 3, 4)),
        (put(slice(None), None, None), [torch.tensor([[0], [2]]), torch.tensor([1, 3])], (2, 2, 2, 4)),
        (put(None, None), [torch.tensor([1]), torch.tensor([0, 2])], ()),
    ],
)
def test_assignments_by_positions(assign: Any, places: list[torch.Tensor], shape: tuple[int, ...]):
    compiled(assign, X, torch.randn(shape), *places)


@pytest.mark.parametrize(
    ("assign", "mask", "shape"),
    [
        (put(None), X > 0, ()),
        (put(None), X[:, :, 0, 0] > 0, (8, 4)),
        (put(None), X[:, 0, 0, 0] > 9, (1, 3, 8, 4)),
        (put(slice(None), None), X[0, :, :, 0] > 0, (2, 1, 4)),
        (put(slice(None), None), X[0, :, :, 0] > 0, (4,)),
    ],
)
def test_assignments_by_masks(assign: Any, mask: torch.Tensor, shape: tuple[int, ...]):
    compiled(assign, X, torch.full(shape, float("nan")), mask)


def test_what_depends_on_data_is_refused():
    with pytest.raises(UnsupportedOperatorError, match="which goes where depends on the data"):
        compiled(put(None), X, torch.randn(int((X > 0).sum())), X > 0)
    with pytest.raises(UnsupportedOperatorError, match="maxima of bags of different sizes"):
        compiled(lambda i, w, o: F.embedding_bag(i, w, o, mode="max"), BAGS, TABLE, torch.tensor([0, 3]))


def test_many_places_are_written_one_after_the_other():
    x, rows = torch.zeros(700, 3), torch.randn(900, 3)
    places = torch.randint(0, 700, (900,))
    model = compiled(lambda x, i, v: x.index_copy(0, i, v), x, places, rows)
    with pytest.raises(CallError, match="outside"):
        model(x, places + 700, rows)
    compiled(lambda x, i, v: x.index_copy(1, i, v), torch.zeros(3, 700), places, rows.T.contiguous())
    compiled(lambda x, i, v: x.index_put((i,), v), x, places, rows)
    columns = torch.stack([torch.randperm(700) for _ in range(3)], 1)
    compiled(lambda x, i, v: x.scatter(0, i, v), x, columns, rows)
    compiled(lambda x, i: x.scatter(0, i, 2.5), x, columns)


TWICE = torch.tensor([3, 0, 3, 6, 3])
COMBINED = torch.randn(7, 3), torch.randint(0, 7, (20, 3)), torch.randn(20, 3)
TABLE, BAGS = torch.randn(30, 16), torch.randint(0, 30, (24,))
ADDED = [
    (lambda x, i, s: x.index_add(0, i, s), torch.randn(7, 10), TWICE, torch.randn(5, 10)),
    (lambda x, i, s: x.index_add(1, i, s, alpha=2), torch.randn(2, 7, 33), TWICE, torch.randn(2, 5, 33)),
    (lambda x, i, s: x.index_add(0, i, s), torch.randint(0, 9, (7,)), TWICE, torch.randint(0, 9, (5,))),
    (lambda x, i, s: x.index_add(0, i, s), torch.randn(7, 20).half(), TWICE, torch.randn(5, 20).half()),
    (lambda x, i, s: x.scatter_add(1, i, s), torch.randn(3, 7), torch.randint(0, 7, (2, 20)), torch.randn(3, 22)),
    (lambda x, i, s: x.scatter_add(0, i[:, None].expand(-1, 10), s), torch.randn(7, 10), TWICE, torch.randn(5, 10)),
    (lambda x, i, s: x.index_put((i,), s, accumulate=True), torch.randn(7, 10), TWICE - 7, torch.randn(5, 10)),
    (lambda x, i, s: x.index_put((i, i), s, accumulate=True), torch.randn(7, 7), TWICE, torch.randn(5)),
    *((lambda x, i, s, r=r: x.scatter_reduce(0, i, s, r), *COMBINED) for r in ("sum", "prod", "amax", "amin")),
]


@pytest.mark.parametrize("case", ADDED, ids=range(len(ADDED)))
def test_elements_that_go_to_one_place_are_combined_in_their_order(case: Any):
    function, *args = case
    model = compiled(function, *args)
    for wrong in (args[1] + 14, args[1] - 15):
        with pytest.raises(CallError, match="outside"):
            model(args[0], wrong, args[2])


def test_a_sum_of_many_rows_is_shared_by_threads():
    x, rows, places = torch.randn(500, 64), torch.randn(3000, 64), torch.randint(0, 500, (3000,))
    model = eutectic.compile(Called(lambda x, i, s: x.index_add(0, i, s)), (x, places, rows), threads=2)
    torch.testing.assert_close(model(x, places, rows), x.index_add(0, places, rows), rtol=0, atol=0)


@pytest.mark.parametrize("padding", [None, 3])
@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_bags_of_rows(mode: str, padding: int | None):
    options = {"mode": mode, "padding_idx": padding}
    offsets = torch.tensor([0, 3, 3, 17])
    for function, args in (
        (lambda i, w: F.embedding_bag(i.view(6, 4), w, **options), (BAGS, TABLE)),
        (lambda i, w, o: F.embedding_bag(i, w, o, **options), (BAGS, TABLE, offsets)),
    ):
        model = eutectic.compile(Called(function), args, threads=1, fallback="error")
        torch.testing.assert_close(model(*args), function(*args))
        assert not model.report.host_operators


def test_bags_with_factors_with_an_end_and_of_maxima():
    ends, factors = torch.tensor([0, 3, 3, 20]), torch.randn(24)
    for function, args in (
        (lambda i, w, f: F.embedding_bag(i, w, torch.tensor([0, 7]), mode="sum", per_sample_weights=f), (factors,)),
        (lambda i, w, o: F.embedding_bag(i, w, o, mode="sum", include_last_offset=True), (ends,)),
        (lambda i, w: F.embedding_bag(i.view(6, 4), w, mode="max"), ()),
    ):
        model = eutectic.compile(Called(function), (BAGS, TABLE, *args), threads=1, fallback="error")
        torch.testing.assert_close(model(BAGS, TABLE, *args), function(BAGS, TABLE, *args))


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("shape", [(6, 5), (3, 5), (6, 2), (2, 3)])
def test_scatter_with_fewer_indices_than_positions(dim: int, shape: tuple[int, ...]):
    x, source = torch.randn(6, 5), torch.randn(6, 5)
    most = shape[dim]
    indices = torch.stack([torch.randperm(most)] * (shape[1 - dim % 2]), 1 - dim % 2)
    compiled(lambda x, i, s: x.scatter(dim, i, s), x, indices, source)
    compiled(lambda x, i: x.scatter(dim, i, float("inf")), x, indices)


@pytest.mark.parametrize("right", [False, True])
def test_bucketize_and_searchsorted(right: bool):
    bounds = torch.tensor([float("-inf"), -1.0, 0.0, 0.0, 2.0])
    values = torch.tensor([[float("nan"), 0.0, -0.0, 3.0], [float("-inf"), float("inf"), -1.0, 1.5]])
    compiled(lambda x, b: torch.bucketize(x, b, right=right), values, bounds)
    compiled(
        lambda x, b: torch.searchsorted(b, x, right=right, out_int32=True), values, torch.stack([bounds, bounds + 1])
    )
    order = torch.tensor([3, 1, 0, 2])
    compiled(
        lambda x, b, o: torch.searchsorted(b, x, right=right, sorter=o),
        values[1],
        torch.tensor([0.0, -1.0, 2.0, -3.0]),
        order,
    )
