"""Blocks of transformers with random weights: a BERT-base encoder layer, and a GPT-2 block that decodes one token."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from eutectic.testing.models.entry import Built, ModelEntry
from eutectic.testing.models.seeding import example, seeded

WIDTH, HEADS, HIDDEN = 768, 12, 3072
TOKENS = 128  # that the encoder sees
CACHED = 64  # tokens whose keys and values the decoder is handed


def _split(x: torch.Tensor) -> torch.Tensor:
    """From `(n, tokens, WIDTH)` to `(n, HEADS, tokens, WIDTH / HEADS)`."""
    return x.reshape(*x.shape[:2], HEADS, WIDTH // HEADS).transpose(1, 2)


def _join(x: torch.Tensor) -> torch.Tensor:
    """The way back of `_split`."""
    return x.transpose(1, 2).flatten(2)


def _randomise(model: nn.Module) -> None:
    """Give layer norms a scale and a shift: fresh ones have 1 and 0, with which leaving them out proves nothing."""
    for norm in (m for m in model.modules() if isinstance(m, nn.LayerNorm)):
        nn.init.uniform_(norm.weight, 0.5, 1.5)
        nn.init.normal_(norm.bias, 0.0, 0.1)


class EncoderLayer(nn.Module):
    """Self-attention and a perceptron with GELU, a layer norm after each sum (Devlin et al., 2018)."""

    def __init__(self) -> None:
        """Make the layer with random weights."""
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.attention_norm = nn.LayerNorm(WIDTH, eps=1e-12)
        self.widen = nn.Linear(WIDTH, HIDDEN)
        self.gelu = nn.GELU()
        self.narrow = nn.Linear(HIDDEN, WIDTH)
        self.norm = nn.LayerNorm(WIDTH, eps=1e-12)
        _randomise(self)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map `(n, tokens, 768)` to the same shape."""
        mixed = scaled_dot_product_attention(_split(self.query(x)), _split(self.key(x)), _split(self.value(x)))
        x = self.attention_norm(x + self.output(_join(mixed)))
        out: torch.Tensor = self.norm(x + self.narrow(self.gelu(self.widen(x))))
        return out


class DecoderBlock(nn.Module):
    """A layer norm before attention and before the perceptron with the tanh form of GELU (Radford et al., 2019)."""

    def __init__(self) -> None:
        """Make the block with random weights."""
        super().__init__()
        self.ln_1 = nn.LayerNorm(WIDTH)
        self.c_attn = nn.Linear(WIDTH, 3 * WIDTH)
        self.c_proj = nn.Linear(WIDTH, WIDTH)
        self.ln_2 = nn.LayerNorm(WIDTH)
        self.c_fc = nn.Linear(WIDTH, HIDDEN)
        self.gelu = nn.GELU(approximate="tanh")
        self.mlp_proj = nn.Linear(HIDDEN, WIDTH)
        _randomise(self)

    def forward(self, x: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Decode one token after those whose keys and values are known.

        Args:
            x: `(n, 1, 768)`.
            keys: Of the tokens before, `(n, 12, tokens, 64)`.
            values: The same shape.

        Returns:
            `(n, 1, 768)`. The longer keys and values are not returned: networks of the registry have one output.
        """
        query, key, value = map(_split, self.c_attn(self.ln_1(x)).chunk(3, dim=-1))
        keys, values = torch.cat([keys, key], dim=2), torch.cat([values, value], dim=2)
        x = x + self.c_proj(_join(scaled_dot_product_attention(query, keys, values)))
        out: torch.Tensor = x + self.mlp_proj(self.gelu(self.c_fc(self.ln_2(x))))
        return out


def _encoder() -> Built:
    return seeded(EncoderLayer), (example(1, TOKENS, WIDTH),)


def _decoder() -> Built:
    cache = (1, HEADS, CACHED, WIDTH // HEADS)
    return seeded(DecoderBlock), (example(1, 1, WIDTH), example(*cache, seed=2), example(*cache, seed=3))


ENTRIES = (
    ModelEntry("bert_layer", "BERT-base encoder layer, 128 tokens", _encoder, "random"),
    ModelEntry("gpt2_block", "GPT-2 block, 1 token after 64", _decoder, "random"),
)
