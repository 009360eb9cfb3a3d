"""Attention of few queries, as in decoding: keys are read as they are, and never copied in another order."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

import eutectic


class Attention(torch.nn.Module):
    """Over keys and values of tokens before, and of some new ones."""

    def forward(self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        return scaled_dot_product_attention(query, torch.cat([keys, new], 2), torch.cat([values, new], 2))


def operands(queries: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    torch.manual_seed(queries)
    shapes = [(2, 3, queries, 24), (2, 3, 17, 24), (2, 3, 17, 24), (2, 3, queries, 24)]
    return [torch.randn(shape).to(dtype) for shape in shapes]


def transposed(queries: int) -> bool:
    """Whether a kernel writes keys with tokens last."""
    compiled = eutectic.compile(Attention(), operands(queries), target="llvm")
    programs = dict(compiled.lowered.functions_items())
    shapes = [tuple(map(str, b.shape)) for f in programs.values() for b in getattr(f, "buffer_map", {}).values()]
    return ("2", "3", "24", str(17 + queries)) in shapes


@pytest.mark.parametrize("queries", [1, 2, 4, 5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_values(queries: int, dtype: torch.dtype):
    args = operands(queries, dtype)
    want = Attention()(*(x.double() for x in args))
    got = eutectic.compile(Attention(), args, target="llvm")(*args)
    assert (got - want).abs().max() <= (1e-5 if dtype == torch.float32 else 2e-2) * want.abs().max()


def test_keys_of_few_queries_are_not_transposed():
    assert [transposed(queries) for queries in (1, 4, 5)] == [False, False, True]
