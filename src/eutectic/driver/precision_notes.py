"""Sentences about what was computed in which precision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from eutectic.backend.contract import NARROW, BackendRemark
from eutectic.relax.transform.dense_pack.convert import WeightsRemark
from eutectic.relax.transform.to_mixed_precision import WIDE, PrecisionRemark


def precision_notes(precision: str, remarks: Sequence[Any]) -> Iterator[str]:
    """What became of a wish for a narrow precision, for the notes of a report.

    Args:
        precision: What was asked for; nothing is said of `default` and `strict`.
        remarks: What passes left.
    """
    if precision not in NARROW:
        return
    for remark in remarks:
        if isinstance(remark, BackendRemark) and remark.kind == "wide":
            yield f'precision="{precision}": no operator is narrowed: {remark.reason}'
    weights = Counter(remark.dtype for remark in remarks if isinstance(remark, WeightsRemark))
    for dtype, count in weights.items():
        yield f'precision="{precision}": weights of {count} matmul are {dtype}, products and sums float32'
    said = [remark for remark in remarks if isinstance(remark, PrecisionRemark)]
    narrow = [remark for remark in said if remark.dtype != WIDE]
    if narrow:
        yield f'precision="{precision}": {narrow[0].dtype} in {_counted(remark.op for remark in narrow)}'
    for reason in dict.fromkeys(remark.reason for remark in said if remark.dtype == WIDE):
        ops = _counted(remark.op for remark in said if remark.dtype == WIDE and remark.reason == reason)
        yield f'precision="{precision}": float32 in {ops}: {reason}'


def _counted(ops: Iterable[str]) -> str:
    return ", ".join(f"{count} {op.removeprefix('relax.')}" for op, count in Counter(ops).items())
