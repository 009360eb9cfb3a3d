"""What torch itself refuses to compute: operators that have no kernel for a dtype, or not for a number.

`torch.export` follows an operator by rules about shapes and dtypes that are more generous than the kernels of
the CPU: it exports powers of bools and remainders by a literal zero, which eager raises on. Where that may be,
torch is asked: the operator runs on a few elements, zeros and ones, and what raises on both raises in eager too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any, Final

import torch
from torch import fx

from eutectic.relax.frontend.torch.table import key_of
from eutectic.relax.frontend.torch.unsupported import Unsupported

_COMPLETE: Final = (torch.float32, torch.float64)  # dtypes that every kernel has
_ELEMENTS: Final = 4096  # up to which operators run on the shapes of the model
_SHORT: Final = 8  # what longer axes are cut to beyond
# How torch says that dtypes or a literal divisor are the matter, not the shapes or values that it is asked with.
_CERTAIN: Final = ("not implemented for", "does not support", "not supported for", "dtype", "ZeroDivisionError")

# Of these torch computes bytes in fixed point, with weights rounded in ways that differ between processors.
_FIXED_POINT: Final = ("aten.upsample_bicubic2d", "aten._upsample_bicubic2d_aa", "aten._upsample_bilinear2d_aa")

IN_FIXED_POINT: Final = "torch rounds weights of bytes in ways of its own: interpolate float32, and round that"

Fill = Callable[..., torch.Tensor]
Autocast = tuple[Any, ...]  # the arguments of torch.autocast: device, dtype, whether it is enabled, and keeps casts


def autocasts(root: fx.GraphModule) -> Mapping[fx.GraphModule, Autocast]:
    """The graphs inside of an exported one that torch runs under autocast, with the innermost one around each."""
    found: dict[fx.GraphModule, Autocast] = {}
    waiting = [root]
    while waiting:
        module = waiting.pop()
        held = {node: getattr(module, str(node.target), None) for node in module.graph.nodes if node.op == "get_attr"}
        inside = {node: part for node, part in held.items() if isinstance(part, fx.GraphModule)}
        if module in found:
            found.update(dict.fromkeys(inside.values(), found[module]))
        for node in module.graph.nodes:
            if str(node.target) == "wrap_with_autocast":
                found[inside[node.args[4]]] = tuple(node.args[:4])
        waiting.extend(inside.values())
    return found


class Kernels:
    """Asks torch about the operators of exported graphs, about each kind of call once."""

    def __init__(self) -> None:
        self._said: dict[str, str | None] = {}

    def refuse(
        self,
        graph: fx.Graph,
        custom: Collection[str] = (),
        *,
        leaves_to_torch: bool = False,
        autocast: Autocast | None = None,
    ) -> None:
        """Refuse graphs with operators that eager cannot run.

        Args:
            graph: A graph as torch exported it.
            custom: Keys of converters given by the user, whose operators mean what these say.
            leaves_to_torch: Whether torch runs what only it can compute.
            autocast: What the graph runs under, as `autocasts` says.

        Raises:
            UnsupportedOperatorError: lists the operators, with what torch says.
        """
        missing = Unsupported()
        for node in graph.nodes:
            if key_of(str(node.target), custom) is not None:
                continue
            if is_in_fixed_point(node):
                if not leaves_to_torch:
                    missing.add(node, IN_FIXED_POINT)
                continue
            said = self._refusal(node, autocast) if _is_doubtful(node) else None
            if said is not None:
                missing.add(node, f"torch cannot compute it on a CPU: {said}")
        missing.raise_if_any()

    def _refusal(self, node: fx.Node, autocast: Autocast | None) -> str | None:
        key = repr((node.target, fx.node.map_arg((node.args, node.kwargs), _described), autocast))
        if key not in self._said:
            with torch.autocast(*autocast) if autocast else nullcontext():
                self._said[key] = _asked(node)
        return self._said[key]


def _described(node: fx.Node) -> Any:
    value = node.meta.get("val")
    return (str(value.dtype), tuple(value.shape)) if isinstance(value, torch.Tensor) else str(value)


def is_in_fixed_point(node: fx.Node) -> bool:
    """Whether an operator interpolates bytes."""
    if not str(node.target).startswith(_FIXED_POINT):
        return False
    return any(getattr(other.meta.get("val"), "dtype", None) is torch.uint8 for other in node.all_input_nodes)


def _is_doubtful(node: fx.Node) -> bool:
    """Whether an operator takes tensors of several dtypes, or of one that kernels may lack; not where it is random."""
    if not isinstance(node.target, torch._ops.OpOverload) or node.target.namespace != "aten":
        return False
    if torch.Tag.nondeterministic_seeded in node.target.tags:
        return False
    tensors = [value for other in node.all_input_nodes if (value := other.meta.get("val")) is not None]
    if not tensors or not all(isinstance(value, torch.Tensor) for value in tensors):
        return False
    dtypes = {value.dtype for value in tensors}
    return len(dtypes) > 1 or not dtypes.issubset(_COMPLETE)


def _asked(node: fx.Node) -> str | None:
    """The first line of what torch says on zeros and on ones; None when one of them works, or it does not count."""
    pointwise = torch.Tag.pointwise in node.target.tags  # type: ignore[union-attr]  # asked of operators only
    sizes = [other.meta["val"].numel() for other in node.all_input_nodes]
    whole = all(isinstance(size, int) for size in sizes) and sum(sizes) <= _ELEMENTS
    shape = _one if pointwise else _same if whole else _cut
    said = [_error(node, fill, shape) for fill in (torch.zeros, torch.ones)]
    if None in said:
        return None
    return said[0] if pointwise or any(words in str(said[0]) for words in _CERTAIN) else None


def _error(node: fx.Node, fill: Fill, shape: Callable[[torch.Tensor], tuple[int, ...]]) -> str | None:
    filled = partial(_filled, fill=fill, shape=shape)
    target: Any = node.target
    try:
        with torch.no_grad():
            target(*fx.node.map_arg(node.args, filled), **fx.node.map_arg(node.kwargs, filled))
    except Exception as error:  # whatever it raises is what the user would see
        return next(iter(str(error).splitlines()), type(error).__name__)
    return None


def _filled(node: fx.Node, fill: Fill, shape: Callable[[torch.Tensor], tuple[int, ...]]) -> torch.Tensor:
    value = node.meta["val"]
    return fill(shape(value), dtype=value.dtype)


def _one(value: torch.Tensor) -> tuple[int, ...]:
    return (1,) * value.dim()


def _same(value: torch.Tensor) -> tuple[int, ...]:
    return tuple(value.shape)


def _cut(value: torch.Tensor) -> tuple[int, ...]:
    sizes: tuple[Any, ...] = tuple(value.shape)  # a size that varies is no int, whatever torch's types say
    return tuple(min(size, _SHORT) if isinstance(size, int) else _SHORT for size in sizes)
