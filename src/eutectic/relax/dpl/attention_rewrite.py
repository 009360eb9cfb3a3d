"""Attention that a program spells out as products and a softmax, and its replacement by one operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from eutectic.arith import prove_equal
from eutectic.relax.base import Expr
from eutectic.relax.dpl.constructors import is_const, is_op, wildcard
from eutectic.relax.dpl.pattern import DFPattern
from eutectic.relax.expr import Call, Constant
from eutectic.relax.op.nn.attention import attention
from eutectic.relax.op.reshape import reshape
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.support.errors import PatternError

Matches: TypeAlias = Mapping[DFPattern, Expr]
Rewriter: TypeAlias = Callable[[Call, Matches], Expr]

LAYOUTS = ("BSNH", "BSH")


@dataclass(frozen=True)
class _Operand:
    """A query, key or value: the tensor as attention takes it, and the steps that the program does with it.

    Attributes:
        tensor: The operand, `(b, s, n, h)` or `(b, s, h)`.
        swapped: Heads moved before the sequence; None in the layout without heads.
        merged: Batch and heads made one axis; None likewise.
        last: The last two axes swapped, for keys; else None.
        repeated: Heads repeated for queries that share them; else None.
    """

    tensor: DFPattern
    swapped: DFPattern | None
    merged: DFPattern | None
    last: DFPattern | None
    repeated: DFPattern | None

    @property
    def out(self) -> DFPattern:
        """What enters the matrix product."""
        return self.last or self.merged or self.repeated or self.tensor


def _operand(layout: str, is_key: bool, repeat: bool) -> _Operand:
    tensor: DFPattern = wildcard()
    repeated = is_op("relax.repeat")(tensor) if repeat else None
    out, swapped, merged = repeated or tensor, None, None
    if layout == "BSNH":
        swapped = is_op("relax.permute_dims")(out)
        out = merged = is_op("relax.reshape")(swapped, wildcard())
    last = is_op("relax.permute_dims")(out) if is_key else None
    return _Operand(tensor, swapped, merged, last, repeated)


def make_attention_rewrite_pattern(
    qkv_layout: str, out_layout: str, with_bias: bool, with_cast: bool, with_kv_repeat: bool = False
) -> tuple[DFPattern, Rewriter]:
    """Attention that is spelt out, and a rewriter to the operator `nn.attention`.

    Args:
        qkv_layout: `BSNH`: query, key and value are `(b, s, n, h)`, swapped and reshaped to `(b * n, s, h)`.
            `BSH`: they are `(b, s, h)`, one head.
        out_layout: The same of the result.
        with_bias: Whether something of the shape of the scores is added to them.
        with_cast: Whether the softmax runs in float32, between two casts.
        with_kv_repeat: Whether heads of keys and values are repeated (axis 2); `BSNH` only.

    Returns:
        The pattern and a function (original call, matches) that gives the replacement, or the
        original when axes or sizes are not those of attention.

    Raises:
        PatternError: an unknown or impossible layout.
    """
    if qkv_layout not in LAYOUTS or out_layout not in LAYOUTS:
        raise PatternError(f"unknown layouts {qkv_layout!r}, {out_layout!r}", help=f"each is one of {LAYOUTS}")
    if with_kv_repeat and qkv_layout != "BSNH":
        raise PatternError("heads are repeated in the layout BSNH only")
    query = _operand(qkv_layout, False, False)
    key, value = _operand(qkv_layout, True, with_kv_repeat), _operand(qkv_layout, False, with_kv_repeat)
    unfused = _Unfused(query, key, value, with_bias, with_cast, out_layout)
    return unfused.pattern, unfused.rewrite


class _Unfused:
    """The pattern of spelt-out attention and what its matches become."""

    def __init__(
        self, query: _Operand, key: _Operand, value: _Operand, with_bias: bool, with_cast: bool, out_layout: str
    ) -> None:
        self.operands = (query, key, value)
        scores: DFPattern = is_op("relax.matmul")(query.out, key.out)
        self.divisor, self.factor = is_const(), is_const()
        scaled = is_op("relax.divide")(scores, self.divisor) | is_op("relax.multiply")(scores, self.factor) | scores
        self.bias = wildcard() if with_bias else None
        out: DFPattern = scaled if self.bias is None else is_op("relax.add")(scaled, self.bias)
        if with_cast:
            out = is_op("relax.astype")(out).has_dtype("float32")
        self.softmax = is_op("relax.nn.softmax")(out)
        self.weights: DFPattern = is_op("relax.astype")(self.softmax) if with_cast else self.softmax
        out = is_op("relax.matmul")(self.weights, value.out)
        self.split: DFPattern | None = None
        self.swapped: DFPattern | None = None
        if out_layout == "BSNH":
            self.split = is_op("relax.reshape")(out, wildcard())
            out = self.swapped = is_op("relax.permute_dims")(self.split)
        self.pattern = out

    def rewrite(self, original: Call, matches: Matches) -> Expr:
        """One call of the operator, or `original`."""
        scale = self._scale(matches)
        if scale is None or not self._is_attention(matches):
            return original
        query, key, value = (self._four_axes(matches[operand.tensor]) for operand in self.operands)
        if query is None or key is None or value is None:
            return original
        bias = None if self.bias is None else self._bias(matches[self.bias], query, key)
        if self.bias is not None and bias is None:
            return original
        replacement: Expr = attention(query, key, value, bias, scale, span=original.span)
        wanted = original.struct_info
        if isinstance(wanted, TensorStructInfo) and wanted.ndim == 3 and wanted.shape is not None:
            replacement = reshape(replacement, wanted.shape, span=original.span)
        return replacement if replacement.struct_info == wanted else original

    def _scale(self, matches: Matches) -> float | None:
        """The factor of the scores; None when it is not one number."""
        for pattern, inverted in ((self.divisor, True), (self.factor, False)):
            value = matches.get(pattern)
            if value is None:
                continue
            if not isinstance(value, Constant) or value.data.size != 1 or value.data.ndim > 3:
                return None
            number = float(value.data.reshape(()))
            return (1 / number if number else None) if inverted else number
        return 1.0

    def _is_attention(self, matches: Matches) -> bool:
        """Whether axes and reshapes are those of attention."""
        softmax, scores = matches[self.softmax], _info(matches[self.softmax])
        last = softmax.attrs["axis"] if isinstance(softmax, Call) and softmax.attrs is not None else None
        if scores is None or scores.ndim != 3 or last not in (-1, 2):
            return False
        if not all(self._keeps_meaning(operand, matches) for operand in self.operands):
            return False
        return self.swapped is None or (_axes(matches[self.swapped]) == (0, 2, 1, 3) and self._splits_back(matches))

    def _keeps_meaning(self, operand: _Operand, matches: Matches) -> bool:
        if operand.last is not None and _axes(matches[operand.last]) not in ((0, 2, 1),):
            return False
        if operand.repeated is not None:
            call = matches[operand.repeated]
            if not isinstance(call, Call) or call.attrs is None or call.attrs["axis"] not in (2, -2):
                return False
        if operand.swapped is None or operand.merged is None:
            return True
        before, after = _info(matches[operand.swapped]), _info(matches[operand.merged])
        if _axes(matches[operand.swapped]) != (0, 2, 1, 3) or before is None or after is None:
            return False
        if before.dims is None or after.dims is None or (before.ndim, after.ndim) != (4, 3):
            return False
        return all(prove_equal(a, b) for a, b in zip(before.dims[2:], after.dims[1:], strict=True))

    def _splits_back(self, matches: Matches) -> bool:
        """Whether the result's heads are those of the query."""
        assert self.split is not None
        split, query = _info(matches[self.split]), _info(matches[self.operands[0].tensor])
        if split is None or query is None or split.dims is None or query.dims is None or split.ndim != 4:
            return False
        heads = query.dims[2] if query.ndim == 4 else None
        same_heads = prove_equal(split.dims[1], heads) if heads is not None else str(split.dims[1]) == "1"
        return prove_equal(split.dims[0], query.dims[0]) and bool(same_heads)

    def _four_axes(self, operand: Expr) -> Expr | None:
        """An operand as `(b, s, n, h)`; one head is an axis of size 1."""
        info = _info(operand)
        if info is None or info.dims is None:
            return None
        if info.ndim == 4:
            return operand
        b, s, h = info.dims
        return reshape(operand, (b, s, 1, h))

    def _bias(self, bias: Expr, query: Expr, key: Expr) -> Expr | None:
        """A bias of the shape of the merged scores, with batch and heads apart."""
        info, left, right = _info(bias), _info(query), _info(key)
        if info is None or info.dims is None or info.ndim != 3 or left is None or right is None:
            return None
        (b, s, n, _), t = left.dims or (), (right.dims or ())[1]
        if not all(prove_equal(a, wanted) for a, wanted in zip(info.dims, (b * n, s, t), strict=True)):
            return None
        return reshape(bias, (b, n, s, t))


def _info(value: Any) -> TensorStructInfo | None:
    info = getattr(value, "struct_info", None)
    return info if isinstance(info, TensorStructInfo) else None


def _axes(value: Expr) -> tuple[int, ...] | None:
    """The order of the axes of a permutation."""
    info = _info(value)
    axes = value.attrs["axes"] if isinstance(value, Call) and value.attrs is not None else None
    if info is None:
        return None
    return tuple(reversed(range(info.ndim))) if axes is None else tuple(axis % info.ndim for axis in axes)
