"""Operators that give back memory of their input although their schema says that their result is new.

torch believes the schema when it makes a program functional: what is written in place to the one is then missing in the
other. Where a program writes in place, such operators are shown to torch as what they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch import fx
from torch.export import ExportedProgram

from eutectic.relax.frontend.torch.as_exported import is_composite, makes_new_memory, passed, written
from eutectic.relax.frontend.torch.symbols import example_size
from eutectic.support.errors import FrontendError

_ALIAS: Final = torch.ops.aten.alias.default


def refuse_hidden_aliases(program: ExportedProgram) -> None:
    """Refuse what gives back its input by a schema that cannot be mended, where the program writes in place.

    Raises:
        FrontendError: names the operator.
    """
    if not _writes(program):
        return
    for node in _calls(program):
        if str(node.target) == "aten.native_dropout.default" and not (node.args[2] and node.args[1]):
            raise FrontendError(
                "aten.native_dropout.default gives back its input in inference, and the model writes in place: who "
                "sees the write is not part of the exported program",
                help="call torch.nn.functional.dropout, or leave out the write in place",
            )


def whole_no_more(program: ExportedProgram) -> Mapping[Any, Any]:
    """Decompositions of the composite operators that torch would keep whole as if their results were new memory."""
    targets = dict.fromkeys(node.target for node in _calls(program) if _hides_alias(node)) if _writes(program) else {}
    if not targets:
        return {}
    known = torch.export.default_decompositions()
    return {target: known[target] for target in targets if target in known}


@contextmanager
def passing_as_aliases(program: ExportedProgram) -> Iterator[None]:
    """Call operators that give back their input `alias` for a while, which is what they do."""
    kept = [(node, node.target, node.args) for node in _calls(program) if passed(node) is not None]
    for node, _, args in kept:
        node.target, node.args = _ALIAS, args[:1]
    try:
        yield
    finally:
        for node, target, args in kept:
            node.target, node.args = target, args


def _calls(program: ExportedProgram) -> list[fx.Node]:
    graphs = [module.graph for module in program.graph_module.modules() if isinstance(module, fx.GraphModule)]
    return [node for graph in graphs for node in graph.nodes if node.op == "call_function"]


def _writes(program: ExportedProgram) -> bool:
    return any(map(written, _calls(program)))


def _hides_alias(node: fx.Node) -> bool:
    """Whether a composite operator gives back memory of an argument; asked of torch, without elements."""
    target: Any = node.target
    if not isinstance(target, torch._ops.OpOverload) or not is_composite(target) or makes_new_memory(target):
        return False
    if any(item.alias_info is not None for item in target._schema.arguments):
        return False
    if not any("Tensor" in str(item.type) for item in target._schema.returns):
        return False  # a number has no memory
    arguments: list[Any] = []

    def empty(read: fx.Node) -> Any:
        value = read.meta.get("val")
        if not isinstance(value, torch.Tensor):
            raise TypeError  # a number that varies
        sizes, steps = ([*map(example_size, numbers)] for numbers in (value.shape, value.stride()))
        tensor = torch.empty_strided(sizes, steps, dtype=value.dtype, device="meta")
        arguments.append(tensor)
        return tensor

    try:
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), empty)
        results = torch.utils._pytree.tree_leaves(target(*args, **kwargs))
    except Exception:  # whatever it is that it does not take: taken apart it is right in any case
        return True
    memory = {tensor.untyped_storage()._cdata for tensor in arguments}
    return any(isinstance(result, torch.Tensor) and result.untyped_storage()._cdata in memory for result in results)
