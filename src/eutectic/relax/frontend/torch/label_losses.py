"""Losses of rows that values chose, taken apart before torch does: its own rules ask whether there are any rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

_MEAN, _SUM = 1, 2  # reductions
_MOST_AXES: Final = 2  # torch's own rules take more

Rule = Callable[..., Any]


def label_losses(program: ExportedProgram) -> Mapping[Any, Rule]:
    """Rules for the losses of a program that read rows whose number only values decide; none for other programs."""
    found = {node.target for node in program.graph.nodes if node.target in _LOSSES and _is_of_values(node)}
    return _LOSSES if found else {}


def _is_of_values(node: torch.fx.Node) -> bool:
    values = [other.meta.get("val") for other in node.all_input_nodes]
    return any(isinstance(value, torch.Tensor) and free_unbacked_symbols(value) for value in values)


def nll_loss(
    x: torch.Tensor,
    labels: torch.Tensor,
    weight: torch.Tensor | None = None,
    reduction: int = _MEAN,
    ignore_index: int = -100,
) -> Any:
    """The negative log likelihood of labels.

    Args:
        x: `(n, classes)` or `(classes,)`, logarithms of probabilities.
        labels: `(n,)` or `()`, int64.
        weight: `(classes,)`, dtype of `x`.
        reduction: 0 none, 1 the weighted mean, 2 the sum.
        ignore_index: The label of rows that do not count.

    Returns:
        `(n,)` or `()`. Not implemented, which leaves it to torch, for more axes.
    """
    if x.dim() > _MOST_AXES:
        return NotImplemented
    return torch.ops.aten.nll_loss_forward.default(x, labels, weight, reduction, ignore_index)[0]


def cross_entropy(
    x: torch.Tensor,
    labels: torch.Tensor,
    weight: torch.Tensor | None = None,
    reduction: int = _MEAN,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Any:
    """The cross entropy of labels, some of which may be given to all classes alike.

    Args:
        x: `(n, classes)` or `(classes,)`, logits.
        labels: `(n,)` or `()`, int64.
        weight: As for `nll_loss`.
        reduction: As for `nll_loss`.
        ignore_index: As for `nll_loss`.
        label_smoothing: The part of each label that all classes share.

    Returns:
        As for `nll_loss`; not implemented for probabilities in place of labels, too.
    """
    if x.dim() > _MOST_AXES or labels.is_floating_point():
        return NotImplemented
    logs = torch.log_softmax(x, x.dim() - 1)
    loss = nll_loss(logs, labels, weight, reduction, ignore_index)
    if not label_smoothing:
        return loss
    counted = labels != ignore_index
    shared = _of_all_classes(logs, labels, weight, reduction, counted) * (label_smoothing / logs.shape[-1])
    return loss * (1 - label_smoothing) + shared


def _of_all_classes(
    logs: torch.Tensor, labels: torch.Tensor, weight: torch.Tensor | None, reduction: int, counted: torch.Tensor
) -> torch.Tensor:
    """The sum of the losses that each class has as a label, over which a weighted mean is that of the labels."""
    each = -(logs if weight is None else logs * weight).sum(-1)
    each = torch.where(counted, each, torch.zeros_like(each))
    if reduction == _SUM:
        return each.sum()
    if reduction != _MEAN:
        return each
    if weight is None:
        return each.sum() / counted.sum()
    of_labels = weight[torch.where(counted, labels, torch.zeros_like(labels))]
    return each.sum() / torch.where(counted, of_labels, torch.zeros_like(of_labels)).sum()


_LOSSES: Final[Mapping[Any, Rule]] = {
    torch.ops.aten.nll_loss_nd.default: nll_loss,
    torch.ops.aten.cross_entropy_loss.default: cross_entropy,
}
