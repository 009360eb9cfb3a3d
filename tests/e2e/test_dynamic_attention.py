"""Attention over sequences whose lengths vary: one kernel, masks of all kinds, and any length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import eutectic

LENGTHS = (1, 2, 3, 15, 16, 17, 33, 100, 256)
QUERIES = torch.export.Dim("queries", max=512)
KEYS = torch.export.Dim("keys", min=1, max=512)


class Attention(nn.Module):
    def __init__(self, *, is_causal: bool = False) -> None:
        super().__init__()
        self.is_causal = is_causal

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=self.is_causal)


def operands(queries: int, keys: int) -> list[Tensor]:
    torch.manual_seed(queries + keys)
    return [torch.randn(2, 3, queries, 16), torch.randn(2, 3, keys, 16), torch.randn(2, 3, keys, 24)]


def check(
    model: nn.Module, shapes: Any, make: Callable[..., Sequence[Tensor]], sizes: Sequence[Sequence[int]]
) -> eutectic.CompiledModel:
    compiled = eutectic.compile(model.eval(), tuple(make(*sizes[0])), dynamic_shapes=shapes, target="llvm")
    assert not any("refused" in line or " host " in line for line in str(compiled.explain(measure=False)).splitlines())
    for size in sizes:
        inputs = make(*size)
        want = model(*(x.double() if x.is_floating_point() else x for x in inputs))
        got = compiled(*inputs)
        torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-5)
    return compiled


def is_in_tiles(compiled: eutectic.CompiledModel) -> bool:
    """Whether scores are used up tile by tile, in one kernel."""
    return any("attention" in item.op for group in compiled.report.plan.groups for item in group.operators)


SELF = {"q": {2: QUERIES}, "k": {2: QUERIES}, "v": {2: QUERIES}}


@pytest.mark.parametrize("is_causal", [False, True])
def test_any_length(is_causal: bool):
    sizes = [(64, 64), *((n, n) for n in LENGTHS), *([] if is_causal else [(0, 0)])]
    compiled = check(Attention(is_causal=is_causal), SELF, operands, sizes)
    assert is_in_tiles(compiled)


def test_other_lengths_of_queries_and_keys():
    shapes = {"q": {2: QUERIES}, "k": {2: KEYS}, "v": {2: KEYS}}
    check(Attention(), shapes, operands, [(64, 32), (1, 1), (2, 1), (5, 77), (33, 256), (17, 31), (0, 3)])


def test_one_query():
    shapes = {"q": None, "k": {2: KEYS}, "v": {2: KEYS}}
    check(Attention(), shapes, operands, [(1, 64), (1, 1), (1, 2), (1, 33), (1, 300)])


def test_a_mask_of_keys():
    shapes = {**SELF, "mask": {3: QUERIES}}
    check(
        Attention(),
        shapes,
        lambda n: [*operands(n, n), torch.randn(2, 1, 1, n)],
        [(64,), *((n,) for n in LENGTHS)],
    )


@pytest.mark.slow
@pytest.mark.parametrize("is_bool", [False, True])
def test_a_mask_of_scores(is_bool: bool):
    def inputs(n: int) -> list[Tensor]:
        drawn = torch.randn(2, 1, n, n)
        return [*operands(n, n), drawn > -0.5 if is_bool else drawn]

    shapes = {**SELF, "mask": {2: QUERIES, 3: QUERIES}}
    assert is_in_tiles(check(Attention(), shapes, inputs, [(64,), *((n,) for n in LENGTHS), (0,)]))


def test_a_term_of_each_head():
    def inputs(queries: int, keys: int) -> list[Tensor]:
        return [*operands(queries, keys), torch.randn(1, 3, queries, keys)]

    shapes = {"q": {2: QUERIES}, "k": {2: KEYS}, "v": {2: KEYS}, "mask": {2: QUERIES, 3: KEYS}}
    assert is_in_tiles(check(Attention(), shapes, inputs, [(64, 32), (1, 1), (5, 77), (33, 256), (17, 31), (0, 3)]))
