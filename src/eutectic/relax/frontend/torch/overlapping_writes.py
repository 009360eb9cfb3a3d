"""Writes in place to tensors of which several elements are one place in memory: refused.

Eager refuses most of them when they run. A functional program has an element of its own for each, so that what the
others would have seen is missing.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from eutectic.relax.frontend.torch.as_exported import written
from eutectic.relax.frontend.torch.spans import excerpt_of
from eutectic.support.errors import FrontendError


def refuse_overlapping_writes(program: ExportedProgram) -> None:
    """Refuse a program that writes to a tensor that overlaps itself.

    Raises:
        FrontendError: names the operator and its line.
    """
    for module in program.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, fx.GraphModule) else ():
            if node.op == "call_function" and any(map(_overlaps, written(node))):
                raise FrontendError(
                    f"{node.target} writes in place to a tensor of which several elements are one place in memory",
                    at=excerpt_of(node),
                    help="write to a copy: x.expand(...).clone(); or to the tensor before it is expanded",
                )


def _overlaps(argument: Any) -> bool:
    """Whether two elements of a tensor are one place, or may be where its strides are interleaved."""
    value = argument.meta.get("val") if isinstance(argument, fx.Node) else None
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return False
    pairs = zip(value.stride(), value.shape, strict=True)
    axes: list[tuple[Any, Any]] = [(step, size) for step, size in pairs if _is_long(size)]  # numbers, or follow sizes
    if any(isinstance(step, int) and step == 0 for step, _ in axes):
        return True
    if not all(isinstance(step, int) and isinstance(size, int) for step, size in axes):
        return False  # strides that follow sizes are those of a tensor that has all its elements
    return _is_interleaved(sorted(axes))


def _is_long(size: Any) -> bool:
    return not isinstance(size, int) or size > 1


def _is_interleaved(axes: list[tuple[int, int]]) -> bool:
    """Whether an axis steps less far than the axes of smaller steps reach together."""
    reach = 0
    for step, size in axes:
        if step <= reach:
            return True
        reach += step * (size - 1)
    return False
