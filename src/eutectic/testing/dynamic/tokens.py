"""Networks of token sequences, put together from parts: positions, attention, masks, norms, feed-forward parts."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Any, Final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from eutectic.testing.dynamic.sized import Sized

WIDTH, HEADS, VOCABULARY, LONGEST = 16, 4, 37, 64

POSITIONS: Final = ("learned", "sinusoidal", "rotary", "alibi", "buckets", "none")
MASKS: Final = ("none", "causal", "window", "padding", "causal and padding")
NORMS: Final = ("layer", "rms", "none")
MLPS: Final = ("gelu", "relu", "gated", "experts", "convolution")
HEADS_OF_KEYS: Final = (4, 2, 1)
RESULTS: Final = ("states", "logits", "mean", "first", "last", "loss")


@dataclass(frozen=True)
class TokenConfig:
    """What a network of tokens is made of.

    Attributes:
        positions: One of `POSITIONS`.
        mask: One of `MASKS`; with padding the network takes a second input.
        norm: One of `NORMS`.
        mlp: One of `MLPS`.
        key_heads: Heads of keys and values, of 4 heads of queries.
        before: Whether norms come before the parts instead of after the sums.
        own_softmax: Whether attention is written out instead of `scaled_dot_product_attention`.
        result: One of `RESULTS`.
        layers: How many.
    """

    positions: str = "learned"
    mask: str = "none"
    norm: str = "layer"
    mlp: str = "gelu"
    key_heads: int = 4
    before: bool = False
    own_softmax: bool = False
    result: str = "states"
    layers: int = 2

    @property
    def has_mask(self) -> bool:
        """Whether the network takes a mask of its tokens."""
        return "padding" in self.mask


def _rotated(x: Tensor, angles: Tensor) -> Tensor:
    """Pairs of features turned by an angle per position. `x`: (batch, heads, length, features)."""
    a, b = x.chunk(2, -1)
    return torch.cat((a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()), -1)


def _buckets(length: Any) -> Tensor:
    """Distances of positions in buckets, the far ones by logarithm."""
    distance = torch.arange(length)[None, :] - torch.arange(length)[:, None]
    near = distance.abs().clamp(max=3)
    far = 4 + (torch.log(distance.abs().clamp(min=1).float() / 4) * 2).clamp(min=0, max=3).long()
    return torch.where(distance.abs() < 4, near, far) + 8 * (distance > 0)


class Norm(nn.Module):
    """A norm of features."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.weight = kind, nn.Parameter(torch.rand(WIDTH) + 0.5)
        self.bias = nn.Parameter(torch.randn(WIDTH) * 0.1)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last axis."""
        if self.kind == "layer":
            return F.layer_norm(x, (WIDTH,), self.weight, self.bias)
        if self.kind == "rms":
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        return x


class Attention(nn.Module):
    """Attention between all positions that a bias allows."""

    def __init__(self, config: TokenConfig) -> None:
        super().__init__()
        self.config, size = config, WIDTH // HEADS
        self.q, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.k, self.v = (nn.Linear(WIDTH, config.key_heads * size) for _ in range(2))

    def heads(self, x: Tensor) -> Tensor:
        """(batch, length, heads * size) as (batch, heads, length, size)."""
        return x.view(x.shape[0], x.shape[1], -1, WIDTH // HEADS).transpose(1, 2)

    def forward(self, x: Tensor, bias: Tensor | None, angles: Tensor | None) -> Any:
        """Attend; `bias` is added to the scores."""
        q, k, v = self.heads(self.q(x)), self.heads(self.k(x)), self.heads(self.v(x))
        if angles is not None:
            q, k = _rotated(q, angles), _rotated(k, angles)
        again = HEADS // self.config.key_heads
        if again > 1:
            k, v = (
                y[:, :, None].expand(-1, -1, again, -1, -1).reshape(y.shape[0], HEADS, y.shape[2], -1) for y in (k, v)
            )
        if self.config.own_softmax:
            scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
            mixed = torch.softmax(scores if bias is None else scores + bias, -1) @ v
        else:
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        return self.out(mixed.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    """What happens to each position alone, or to it and its neighbours."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.wide, self.gate, self.narrow = (
            nn.Linear(WIDTH, 2 * WIDTH),
            nn.Linear(WIDTH, 2 * WIDTH),
            nn.Linear(2 * WIDTH, WIDTH),
        )
        self.choice = nn.Linear(WIDTH, 2)
        self.convolution = nn.Conv1d(WIDTH, WIDTH, 3, padding=1, groups=WIDTH)

    def forward(self, x: Tensor) -> Any:
        """(batch, length, features) to the same."""
        if self.kind == "gated":
            return self.narrow(F.silu(self.gate(x)) * self.wide(x))
        if self.kind == "experts":
            share = torch.softmax(self.choice(x), -1)
            return self.narrow(share[..., :1] * F.gelu(self.wide(x)) + share[..., 1:] * F.relu(self.gate(x)))
        if self.kind == "convolution":
            return self.narrow(F.gelu(self.wide(self.convolution(x.transpose(1, 2)).transpose(1, 2))))
        return self.narrow((F.gelu if self.kind == "gelu" else F.relu)(self.wide(x)))


class Layer(nn.Module):
    """Attention and a feed-forward part, each added to what it reads."""

    def __init__(self, config: TokenConfig) -> None:
        super().__init__()
        self.before = config.before
        self.attention, self.feed = Attention(config), FeedForward(config.mlp)
        self.one, self.two = Norm(config.norm), Norm(config.norm)

    def forward(self, x: Tensor, bias: Tensor | None, angles: Tensor | None) -> Any:
        """(batch, length, features) to the same."""
        if self.before:
            x = x + self.attention(self.one(x), bias, angles)
            return x + self.feed(self.two(x))
        x = self.one(x + self.attention(x, bias, angles))
        return self.two(x + self.feed(x))


class TokenNet(nn.Module):
    """A network of tokens."""

    def __init__(self, config: TokenConfig) -> None:
        super().__init__()
        self.config = config
        self.words = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Embedding(LONGEST, WIDTH)
        self.distances = nn.Embedding(16, HEADS)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Any:
        """Tokens (batch, length), and 1 where they count."""
        length = ids.shape[1]
        x = self.words(ids) + self.added(length)
        bias, angles = self.bias(length, mask), self.angles(length)
        for layer in self.layers:
            x = layer(x, bias, angles)
        return self.result(x, ids, mask)

    def added(self, length: Any) -> Any:
        """What positions add to the words."""
        if self.config.positions == "learned":
            return self.places(torch.arange(length))
        if self.config.positions == "sinusoidal":
            angles = self.turns(length)
            return torch.stack((angles.sin(), angles.cos()), -1).flatten(1)
        return torch.zeros(length, WIDTH)

    def turns(self, length: Any, pairs: int = WIDTH // 2) -> Tensor:
        """Angles (length, pairs)."""
        speed = torch.exp(torch.arange(pairs) * (-math.log(1000.0) / pairs))
        return torch.arange(length)[:, None] * speed

    def angles(self, length: Any) -> Tensor | None:
        """Angles of rotary positions."""
        return self.turns(length, WIDTH // HEADS // 2) if self.config.positions == "rotary" else None

    def bias(self, length: Any, mask: Tensor | None) -> Tensor | None:
        """What is added to scores, (batch or 1, heads or 1, length, length)."""
        parts: list[Tensor] = []
        distance = torch.arange(length)[None, :] - torch.arange(length)[:, None]
        if self.config.positions == "alibi":
            slopes = torch.pow(2.0, -torch.arange(1, HEADS + 1))
            parts.append(-distance.abs() * slopes[:, None, None])
        if self.config.positions == "buckets":
            parts.append(self.distances(_buckets(length)).permute(2, 0, 1))
        if "causal" in self.config.mask:
            parts.append(torch.full((length, length), -1e9).triu(1)[None])
        if self.config.mask == "window":
            parts.append(torch.where(distance.abs() > 3, -1e9, 0.0)[None])
        if mask is not None:
            parts.append((1.0 - mask[:, None, None, :].float()) * -1e9)
        if not parts:
            return None
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total if total.dim() == 4 else total[None]

    def result(self, x: Tensor, ids: Tensor, mask: Tensor | None) -> Any:
        """What the network gives."""
        match self.config.result:
            case "logits":
                return {"logits": self.head(x), "states": x}
            case "mean" if mask is not None:
                weight = mask[..., None].to(x.dtype)
                return (x * weight).sum(1) / weight.sum(1).clamp(min=1e-9)
            case "mean":
                return x.mean(1)
            case "first":
                return torch.tanh(x[:, 0])
            case "last":
                return x[:, -1] @ self.words.weight.t()
            case "loss":
                scores = torch.log_softmax(self.head(x[:, :-1]), -1)
                return -scores.gather(-1, ids[:, 1:, None]).mean()
            case _:
                return x


def token_net(config: TokenConfig) -> Sized:
    """A network of tokens with a batch and a length that vary."""

    def inputs(batch: int, length: int, generator: torch.Generator) -> tuple[Tensor, ...]:
        ids = torch.randint(0, VOCABULARY, (batch, length), generator=generator)
        if not config.has_mask:
            return (ids,)
        counts = torch.randint(1, length + 1, (batch, 1), generator=generator)
        return ids, (torch.arange(length)[None] < counts).long()

    names = ("ids", "mask") if config.has_mask else ("ids",)
    return Sized(
        lambda: TokenNet(config), inputs, ((1, 16), (3, LONGEST)), {name: {0: 0, 1: 1} for name in names}, (3, 7)
    )


def random_token_net(rng: random.Random) -> Sized:
    """A network of tokens with random parts."""
    return token_net(
        TokenConfig(
            positions=rng.choice(POSITIONS),
            mask=rng.choice(MASKS),
            norm=rng.choice(NORMS),
            mlp=rng.choice(MLPS),
            key_heads=rng.choice(HEADS_OF_KEYS),
            before=rng.random() < 0.5,
            own_softmax=rng.random() < 0.5,
            result=rng.choice(RESULTS),
            layers=rng.choice((1, 2)),
        )
    )


# In the style of the network that each is named after.
TOKENS: Final[dict[str, Sized]] = {
    name: token_net(config)
    for name, config in {
        "bert": TokenConfig("learned", "padding", own_softmax=True),
        "distilbert": TokenConfig("learned", "padding", result="first"),
        "sentence encoder": TokenConfig("learned", "padding", result="mean"),
        "transformer encoder": TokenConfig("sinusoidal", mlp="relu"),
        "gpt2": TokenConfig("learned", "causal", before=True, own_softmax=True, result="logits"),
        "gpt_neo": TokenConfig("learned", "window", before=True, result="last"),
        "llama": TokenConfig("rotary", "causal", "rms", "gated", 2, before=True, result="logits"),
        "llama with padding": TokenConfig("rotary", "causal and padding", "rms", "gated", 2, before=True),
        "mistral": TokenConfig("rotary", "window", "rms", "gated", 1, before=True, own_softmax=True),
        "qwen": TokenConfig("rotary", "causal", "rms", "gated", 4, before=True, result="last"),
        "mixtral": TokenConfig("rotary", "causal", "rms", "experts", 2, before=True),
        "gpt_neox": TokenConfig("rotary", "causal", "layer", "gelu", before=True, result="loss"),
        "bloom": TokenConfig("alibi", "causal", before=True, result="logits"),
        "mpt": TokenConfig("alibi", "causal and padding", mlp="relu", before=True),
        "t5 encoder": TokenConfig("buckets", "padding", "rms", "relu", before=True, own_softmax=True),
        "deberta": TokenConfig("buckets", mlp="gelu", result="first"),
        "convbert": TokenConfig("learned", mlp="convolution", result="mean"),
        "no positions": TokenConfig("none", norm="none", layers=1, result="loss"),
    }.items()
}
