"""Attention: of few queries, as in decoding, keys are read as they are; many queries make tiles."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.tir.schedule.rules.processors import Vectors
from torch.nn.functional import scaled_dot_product_attention

import eutectic
from eutectic import relax, te, topi
from eutectic.relax import op
from eutectic.relax.op.nn import attention_tiles
from eutectic.relax.op.nn.attention_tiles import tile_of
from eutectic.testing.graphs import assert_same_results, graph
from eutectic.tir.block import BlockRealize
from eutectic.tir.buffer import Buffer
from eutectic.tir.schedule.rules.cpu import schedule_by_rules
from eutectic.tir.stmt import parts_of


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


# ---- in tiles of queries


class SelfAttention(torch.nn.Module):
    """Heads out of one row of features, as encoders have them; the transpositions of torch's layout cancel."""

    def __init__(self, heads: int, is_causal: bool = False) -> None:
        super().__init__()
        self.heads, self.is_causal = heads, is_causal

    def forward(self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """(b, s, n * h), three times."""
        q, k, v = (x.unflatten(-1, (self.heads, -1)).transpose(1, 2) for x in (query, keys, values))
        return scaled_dot_product_attention(q, k, v, is_causal=self.is_causal).transpose(1, 2).flatten(2)


def check_self_attention(
    queries: int, keys: int, *, causal: bool = False, dtype: torch.dtype = torch.float32
) -> eutectic.CompiledModel:
    torch.manual_seed(queries)
    args = [torch.randn(2, count, 4 * 24).to(dtype) for count in (queries, keys, keys)]
    model = SelfAttention(4, causal)
    want = model(*(x.double() for x in args))
    fast = eutectic.compile(model, args, target="llvm", threads=2)
    assert (fast(*args) - want).abs().max() <= (1e-5 if dtype == torch.float32 else 2e-2) * want.abs().max()
    return fast


def programs(fast: eutectic.CompiledModel) -> list[str]:
    return [group.name for group in fast.report.plan.groups if group.kind == "kernel"]


@pytest.mark.parametrize(("queries", "keys"), [(16, 5), (17, 17), (33, 64), (47, 47), (128, 128), (197, 197)])
def test_many_queries(queries: int, keys: int):
    assert "attention" in programs(check_self_attention(queries, keys))


@pytest.mark.parametrize("queries", [16, 50])
def test_causal(queries: int):
    assert "attention" in programs(check_self_attention(queries, queries, causal=True))


@pytest.mark.parametrize(("queries", "keys", "kernels"), [(255, 255, 1), (256, 256, 2), (300, 340, 2), (900, 900, 6)])
def test_keys_that_nobody_sees(queries: int, keys: int, kernels: int):
    """With a causal mask, early queries have kernels that do not read the keys of late ones."""
    fast = check_self_attention(queries, keys, causal=True)
    assert sum(name.startswith("attention") for name in programs(fast)) == kernels


def test_a_window_of_keys(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(attention_tiles, "_FEWEST_OF_A_PART", 16)
    options = {"causal_mask": "BottomRight", "window_size": 5}
    mod = graph({"q": (1, 34, 2, 4)}, lambda bb, q: op.nn.attention(q, q, q, **options))
    legal = relax.transform.LegalizeOps()(mod)
    assert_same_results(mod, legal, exact=False)
    sizes = {int(stage.shape[3]) for f in legal.functions.values() for stage in scores_of(f)}
    assert sizes == {16, 18 + 4}


def scores_of(func: object) -> list[Buffer]:
    """The scores in a kernel of attention: `(b, n, tiles, keys, tile)`."""
    body = getattr(func, "body", None)
    buffers = body.block.alloc_buffers if isinstance(body, BlockRealize) else ()
    return [buffer for buffer in buffers if buffer.name == "scores"]


def test_narrow_floats():
    assert any("attention" in name for name in programs(check_self_attention(40, 40, dtype=torch.bfloat16)))


def test_few_queries_make_no_tile():
    assert "attention" not in programs(check_self_attention(15, 40))


def test_shared_heads():
    class Shared(torch.nn.Module):
        def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return scaled_dot_product_attention(q, k, v, enable_gqa=True)

    torch.manual_seed(0)
    args = [torch.randn(2, heads, 36, 16) for heads in (6, 2, 2)]
    fast = eutectic.compile(Shared(), args, target="llvm")
    want = Shared()(*(x.double() for x in args))
    assert "attention" in programs(fast)
    assert (fast(*args) - want).abs().max() < 1e-5 * want.abs().max()


def test_no_operand_is_transposed_twice():
    """One copy each of keys, values and the result: those of torch's layout and of the operator's cancel."""
    assert len(programs(check_self_attention(128, 128))) == 4


@pytest.mark.parametrize(
    ("queries", "keys", "dtype", "tile"),
    [
        (128, 128, "float32", 32),
        (197, 197, "float32", 32),
        (16, 100, "float32", 16),
        (33, 33, "float32", 16),
        (128, 5000, "float32", 16),
        (128, 5000, "float64", None),
        (128, 20_000, "float32", None),
        (15, 128, "float32", None),
    ],
)
def test_queries_of_a_tile(queries: int, keys: int, dtype: str, tile: int | None):
    assert tile_of(queries, keys, 64, dtype) == tile


@pytest.mark.parametrize("keys", [4000, 4060, 4100, 8000, 8150])
def test_what_is_lowered_in_tiles_keeps_no_more_than_a_thread_may(keys: int):
    tile = tile_of(128, keys, 64, "float32")
    assert tile is not None
    shapes = ((1, 128, 4, 64), (1, 4, keys, 64), (1, 4, keys, 64))
    tensors = [te.placeholder(shape) for shape in shapes]
    func = te.create_prim_func([*tensors, topi.nn.attention_in_tiles(*tensors, tile, 0.1)])
    (nest,) = parts_of(schedule_by_rules(func, Vectors()).func.body.block.body)
    assert nest.kind == "parallel"


def test_without_keys_everything_is_zero():
    args = [torch.randn(1, 20, 2, 8), torch.randn(1, 0, 2, 8), torch.randn(1, 0, 2, 8)]
    mod = graph(dict(zip("qkv", (tuple(x.shape) for x in args), strict=True)), lambda bb, *x: op.nn.attention(*x))
    vm = relax.VirtualMachine(relax.build(mod, "llvm"))
    np.testing.assert_array_equal(vm["main"](*(x.numpy() for x in args)).numpy(), np.zeros((1, 20, 2, 8)))


# ---- masks


class Masked(torch.nn.Module):
    """Attention with a mask of truth values, or of numbers that are added to the scores."""

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return scaled_dot_product_attention(q, k, v, mask)


def masked(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> np.ndarray:
    """By the definition, in float64: zeros for queries that see nothing."""
    q, k, v, mask = (x.numpy().astype("float64") if x.dtype != torch.bool else x.numpy() for x in (q, k, v, mask))
    bias = np.where(mask, 0.0, -np.inf) if mask.dtype == bool else mask
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]) + bias
    powers = np.exp(scores - np.maximum(scores.max(-1, keepdims=True), -1e300))
    return powers @ v / np.maximum(powers.sum(-1, keepdims=True), 1e-300)


@pytest.mark.parametrize("shape", [(2, 3, 40, 37), (2, 1, 1, 37), (1, 3, 40, 1), (40, 37), (2, 1, 40, 37)])
@pytest.mark.parametrize("kind", ["truth", "numbers"])
def test_masks(shape: tuple[int, ...], kind: str):
    torch.manual_seed(len(shape))
    q, k, v = torch.randn(2, 3, 40, 16), torch.randn(2, 3, 37, 16), torch.randn(2, 3, 37, 8)
    seen = torch.rand(shape) < 0.7
    if len(shape) > 1:
        seen[..., -1, :] = False  # a query, or all, that see nothing
    mask = seen if kind == "truth" else torch.where(seen, torch.randn(shape), -torch.inf)
    fast = eutectic.compile(Masked(), (q, k, v, mask), target="llvm", threads=2)
    assert "attention" in programs(fast)
    np.testing.assert_allclose(fast(q, k, v, mask), masked(q, k, v, mask), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("queries", [1, 3, 9])
def test_masks_of_few_queries(queries: int):
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 3, queries, 16), torch.randn(2, 3, 37, 16), torch.randn(2, 3, 37, 8)
    mask = torch.rand(2, 1, queries, 37) < 0.5
    mask[:, :, 0] = False
    fast = eutectic.compile(Masked(), (q, k, v, mask), target="llvm")
    np.testing.assert_allclose(fast(q, k, v, mask), masked(q, k, v, mask), rtol=1e-5, atol=1e-5)


# ---- spelt out


class Spelt(torch.nn.Module):
    """As `SelfAttention`, with products and a softmax."""

    def __init__(self, heads: int, hidden: float | None) -> None:
        super().__init__()
        self.heads, self.hidden = heads, hidden

    def forward(self, rows: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(b, s, n * h), and which keys the queries of a sequence do not see or what is added."""
        q, k, v = (x.unflatten(-1, (self.heads, -1)).transpose(1, 2) for x in (rows, rows * 0.9, rows + 0.1))
        scores = q @ k.transpose(-2, -1) / (q.shape[-1] ** 0.5)
        scores = scores + mask if self.hidden is None else scores.masked_fill(mask, self.hidden)
        return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


@pytest.mark.parametrize("hidden", [None, -1e9, float("-inf")])
def test_spelt_out(hidden: float | None):
    torch.manual_seed(1)
    mask = torch.rand(2, 1, 1, 260) > 0.6
    mask[1] = True
    args = [torch.randn(2, 260, 4 * 24), torch.where(mask, -np.inf, 0.0) if hidden is None else mask]
    model = Spelt(4, hidden)
    fast = eutectic.compile(model, args, target="llvm", threads=2)
    want = model(*(x.double() if x.is_floating_point() else x for x in args))
    assert "attention" in programs(fast)
    torch.testing.assert_close(fast(*args).double(), want, rtol=1e-5, atol=1e-5, equal_nan=True)
    assert want[1].isnan().all() == (hidden != -1e9)


def test_spelt_out_of_any_length():
    class Plain(torch.nn.Module):
        def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return (torch.einsum("bihd,bjhd->bhij", q, k) * 0.2).softmax(-1) @ v

    def inputs(queries: int, keys: int) -> list[torch.Tensor]:
        torch.manual_seed(queries)
        return [torch.randn(shape) for shape in ((1, queries, 2, 16), (1, keys, 2, 16), (1, 2, keys, 16))]

    keys = torch.export.Dim("keys", max=512)
    shapes = {"q": {1: torch.export.Dim("queries", max=512)}, "k": {1: keys}, "v": {2: keys}}
    fast = eutectic.compile(Plain(), inputs(32, 32), dynamic_shapes=shapes, target="llvm")
    assert "attention" in programs(fast)
    for sizes in ((32, 32), (1, 1), (2, 300), (17, 5), (300, 40)):
        args = inputs(*sizes)
        torch.testing.assert_close(fast(*args).double(), Plain()(*(x.double() for x in args)), rtol=1e-5, atol=1e-5)
