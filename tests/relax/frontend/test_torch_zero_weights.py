"""Weights of zero beside infinities and NaN, places that are no numbers, and rows that see nothing: as torch has it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.relax.frontend.torch_compare import Imported, check, equal, rand, together
from torch.nn.functional import scaled_dot_product_attention as attention

import eutectic
from eutectic.testing.eager import module

NAN, INF = float("nan"), float("inf")
flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu


def spoilt(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Numbers, among them infinities and NaN that are no neighbours."""
    x = rand(*shape, dtype=dtype)
    x.view(-1)[:: x.numel() // 4] = torch.tensor([INF, -INF, NAN, INF, -INF])[
        : len(range(0, x.numel(), x.numel() // 4))
    ]
    return x


def compiled(function: Callable[..., Any], *args: torch.Tensor, **options: Any) -> Any:
    """What compiled code gives, after comparing it with eager; nothing is left to torch."""
    net = module(function)
    model = eutectic.compile(net, args, target="llvm", fallback="error", **options)
    got = model(*args)
    equal(got, net(*args))
    return got


# ---- images at computed places


def sampled(mode: str) -> dict[str, Callable[..., torch.Tensor]]:
    def one(padding: str, align: bool) -> Callable[..., torch.Tensor]:
        return lambda x, grid: F.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=align)

    choices = product(("zeros", "border", "reflection"), (False, True))
    return {f"{padding}, {align}": one(padding, align) for padding, align in choices}


def places(*values: float) -> torch.Tensor:
    """All pairs of some places."""
    along = torch.tensor(values)
    return torch.stack(torch.meshgrid(along, along, indexing="ij"), -1)[None]


ODD = places(NAN, INF, -INF, 1e30, -1e30, 3e9, -3e9, 300.25, -1.0, 0.0, 0.3, 1.0, 1.2)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_places_that_are_no_numbers_or_huge(mode: str):
    check(together(sampled(mode)), rand(1, 2, 4, 5), ODD)


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_pixels_that_are_no_numbers(mode: str):
    """At their own places their neighbours have weights of zero."""
    middles = places(*((2 * k + 1) / 4 - 1 for k in range(4)))
    check(together(sampled(mode)), spoilt(1, 2, 4, 4), torch.cat([middles, places(-1.0, -0.4, 0.2, 1.0)], 1))


def test_sampling_in_compiled_code():
    fns = {key: f for key, f in sampled("bilinear").items() if key in ("zeros, False", "reflection, True")}
    compiled(together(fns), rand(1, 2, 4, 5), ODD)


def test_one_row_is_reflected_onto_itself():
    check(sampled("bilinear")["reflection, True"], rand(1, 1, 1, 4), ODD)


# ---- interpolation


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize(
    ("mode", "old", "new"),
    [
        ("linear", (9,), [(13,), (18,), (9,), (4,)]),
        ("bilinear", (6, 7), [(12, 14), (6, 7), (6, 14), (12, 7), (3, 4), (6, 1)]),
        ("trilinear", (3, 4, 5), [(6, 8, 10), (3, 4, 5), (3, 8, 5), (2, 2, 3)]),
    ],
)
def test_interpolation_beside_infinities(mode: str, old: tuple[int, ...], new: list[tuple[int, ...]], align: bool):
    def one(size: tuple[int, ...]) -> Callable[[torch.Tensor], torch.Tensor]:
        return lambda x: F.interpolate(x, size, mode=mode, align_corners=align)

    functions = together({str(size): one(size) for size in new})
    compiled(functions, spoilt(1, 3, *old))
    check(functions, spoilt(1, 3, *old, dtype=torch.float64))


@pytest.mark.filterwarnings("ignore::eutectic.EutecticAdvice")
@pytest.mark.parametrize("mode", ["linear", "bilinear"])
def test_sizes_that_vary_may_be_the_same(mode: str):
    """Along such an axis an element has no neighbour."""
    rank, n = (
        (1, torch.export.Dim("n", min=4, max=40)) if mode == "linear" else (2, torch.export.Dim("m", min=4, max=40))
    )
    net = module(lambda x: F.interpolate(x, (13,) * rank, mode=mode))
    args = [spoilt(1, 2, *(size,) * rank) for size in (9, 13)]
    model = eutectic.compile(net, (args[0],), dynamic_shapes=(({2 + k: n for k in range(rank)},),), target="llvm")
    for x in args:
        equal(model(x), net(x))


def test_a_size_that_grows_varies_with_its_size():
    net = module(lambda x: F.interpolate(x, scale_factor=2.0, mode="linear"))
    n = torch.export.Dim("n", min=4, max=40)
    model = eutectic.compile(net, (rand(1, 2, 9),), dynamic_shapes=(({2: n},),), target="llvm", fallback="error")
    for size in (9, 11):
        equal(model(spoilt(1, 2, size)), net(spoilt(1, 2, size)))


# ---- attention


def heads(*lengths: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    return [rand(1, 2, length, 8, dtype=dtype, seed=k) for k, length in enumerate(lengths)]


def masks(queries: int, keys: int, dtype: torch.dtype) -> list[torch.Tensor]:
    """The second query sees nothing, the third all but the first key."""
    seen = torch.ones(queries, keys, dtype=torch.bool)
    seen[1], seen[2, 0] = False, False
    return [seen, torch.zeros(queries, keys, dtype=dtype).masked_fill(~seen, -INF)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("queries", [3, 4, 20])
def test_a_query_that_sees_nothing(queries: int, dtype: torch.dtype):
    """Its weights are zeros, unless its scores are NaN: NaN among values stays, as does that of queries and keys."""
    q, k, v = heads(queries, 5, 5, dtype=dtype)
    for mask in masks(queries, 5, dtype):
        model = eutectic.compile(module(lambda *x: attention(*x)), (q, k, v, mask), target="llvm")
        for operand, value in product((0, 1, 2), (1.0, NAN, INF)):
            args = [q.clone(), k.clone(), v.clone()]
            args[operand][:, 0, 1, 2] = value
            want = attention(*args, mask)
            equal(model(*args, mask).isnan(), want.isnan())
            equal(model(*args, mask), want, 4e-2 if dtype is torch.bfloat16 else None)


def test_without_heads_masks_are_added():
    q, k, v = (x[0] for x in heads(4, 5, 5))
    k[0, 1] = NAN
    for mask in masks(4, 5, torch.float32):
        check(attention, q, k, v, mask)
    check(lambda q, k, v: attention(q, k, v, is_causal=True), q, k, v)


def test_sums_of_attention():
    """A query that sees nothing has 0."""
    q, k, v = heads(4, 5, 5)
    compiled(lambda q, k, v: flash(q, k, v)[1], q, k, v)
    compiled(lambda q, k, v: flash(q, k, v, is_causal=True, scale=0.3), k, q, v[:, :, :4])
    compiled(lambda q, k, v, mask: flash(q, k, v, attn_mask=mask), q, k, v, masks(4, 5, torch.float32)[1])
    wide = [x.bfloat16() for x in (q, k, v)]
    equal(Imported(torch.export.export(module(lambda *x: flash(*x)[1]), (*wide,)))(*wide), flash(*wide)[1])


# ---- products times zero


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
@pytest.mark.parametrize(
    ("operator", "shapes"),
    [
        (torch.addmm, ((3, 5), (3, 4), (4, 5))),
        (torch.addmm, ((5,), (3, 4), (4, 5))),
        (torch.baddbmm, ((2, 3, 5), (2, 3, 4), (2, 4, 5))),
        (torch.addbmm, ((5,), (2, 3, 4), (2, 4, 5))),
        (torch.addmv, ((3,), (3, 4), (4,))),
        (torch.addr, ((3, 5), (3,), (5,))),
    ],
)
def test_what_is_taken_times_zero(operator: Any, shapes: tuple[tuple[int, ...], ...], dtype: torch.dtype):
    """Nothing is left of a summand, also no NaN, and of most products of 32 bits or more."""

    def scaled(beta: int, alpha: int) -> Callable[..., torch.Tensor]:
        return lambda *x: operator(*x, beta=beta, alpha=alpha)

    args = [(rand(*shape, seed=k) * 3).to(dtype) for k, shape in enumerate(shapes)]
    for place, value in enumerate((NAN, INF, NAN) if dtype.is_floating_point else ()):
        args[place].view(-1)[place] = value
    check(together({f"{b}, {a}": scaled(b, a) for b, a in product((0, 1, 2), repeat=2)}), *args, tolerance=4e-2)


# ---- bags


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("with_end", [False, True])
def test_offsets_lie_among_the_rows(mode: str, with_end: bool):
    bags = lambda w, i, o: F.embedding_bag(i, w, o, mode=mode, include_last_offset=with_end)  # noqa: E731
    table, rows = rand(10, 3), torch.tensor([1, 2, 3, 4])
    model = eutectic.compile(module(bags), (table, rows, torch.tensor([0, 2])), target="llvm")
    equal(model(table, rows, torch.tensor([0, 4])), bags(table, rows, torch.tensor([0, 4])))
    for offsets in ([0, 5], [0, 9], [-1, 2], [1, 2]):
        with pytest.raises(eutectic.EutecticError, match="outside of its buffer"):
            model(table, rows, torch.tensor(offsets))
        with pytest.raises(RuntimeError, match="offsets"):
            bags(table, rows, torch.tensor(offsets))
