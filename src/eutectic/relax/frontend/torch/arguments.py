"""The arguments of an exported program as data of the runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export import graph_signature as signatures
from torch.utils import _pytree as pytree

from eutectic.ir.dtype import to_numpy
from eutectic.relax.frontend.torch.axes_with_elements import ranges_of
from eutectic.relax.frontend.torch.complex_parts import is_of_parts
from eutectic.relax.frontend.torch.dtypes import dtype_name
from eutectic.relax.frontend.torch.formulas import formula
from eutectic.relax.frontend.torch.symbols import finite
from eutectic.relax.frontend.torch.trees import children_of, tree_from
from eutectic.runtime.arguments import Argument, Arguments, FixedArgument, TensorArgument
from eutectic.runtime.sizes import line_of


def arguments_of(program: ExportedProgram) -> Arguments:
    """What a program takes, and how errors call it."""
    spec = program.call_spec.in_spec
    positional, keywords = children_of(spec)
    users = _user_inputs(program)
    names = _names(program, positional.num_children, list(keywords.context or []))
    labels, ranges = _leaf_names(spec, names, len(users)), ranges_of(program)
    leaves = [_leaf(node, name, program, ranges) for node, name in zip(users, labels, strict=True)]
    trees = [tree_from(child) for part in (positional, keywords) for child in children_of(part)]
    return Arguments(names, tuple(trees), positional.num_children, tuple(leaves))


def state_of(program: ExportedProgram, changed: Sequence[str]) -> tuple[TensorArgument, ...]:
    """The buffers that a program reads and writes, as arguments that the caller does not see.

    Args:
        program: The program.
        changed: Names of the buffers.
    """
    by_name = {spec.target: spec.arg.name for spec in program.graph_signature.input_specs}
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    ranges = ranges_of(program)
    return tuple(tensor_argument(nodes[by_name[name]], name, ranges) for name in changed)


def _names(program: ExportedProgram, count: int, keywords: list[str]) -> tuple[str, ...]:
    signature = program.module_call_graph[0].signature
    known = getattr(signature, "forward_arg_names", None) if signature is not None else None
    names = list(known) if known else [node.name for node in _user_inputs(program)]
    return (*(names[place] if place < len(names) else str(place) for place in range(count)), *keywords)


def _leaf_names(spec: Any, names: tuple[str, ...], count: int) -> list[str]:
    """What errors call each leaf: the argument, and the way to the leaf in it."""
    tree = pytree.tree_unflatten(list(range(count)), spec)
    labels = []
    path: Any
    for path, _ in pytree.tree_flatten_with_path(tree)[0]:
        where, key, *rest = path
        name = names[key.idx] if where.idx == 0 else str(key.key)
        labels.append(name + pytree.keystr(tuple(rest)))
    return labels


def _user_inputs(program: ExportedProgram) -> list[fx.Node]:
    by_name = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    specs = program.graph_signature.input_specs
    return [by_name[spec.arg.name] for spec in specs if spec.kind is signatures.InputKind.USER_INPUT]


def _leaf(node: fx.Node, name: str, program: ExportedProgram, ranges: Mapping[Any, Any]) -> Argument:
    spec = next(s for s in program.graph_signature.input_specs if s.arg.name == node.name)
    if not isinstance(spec.arg, signatures.TensorArgument):
        return FixedArgument(name, getattr(spec.arg, "value", None))
    return tensor_argument(node, name, ranges)


def tensor_argument(node: fx.Node, name: str, ranges_of: Mapping[Any, Any]) -> TensorArgument:
    """A placeholder as an argument.

    Args:
        node: The placeholder.
        name: What errors call it.
        ranges_of: Ranges of the sizes that vary, by symbol.
    """
    value = node.meta["val"]
    exact = [size.node.expr if isinstance(size, torch.SymInt) else size for size in value.shape]
    shape: tuple[Any, ...] = tuple(size if isinstance(size, int) else formula(size) for size in exact)
    known = {str(symbol): bounds for symbol, bounds in ranges_of.items()}
    lines = [line for line in map(line_of, shape) if line is not None]
    symbols = dict.fromkeys(line.symbol for line in lines if line.symbol in known)
    ranges = {symbol: (finite(known[symbol].lower), finite(known[symbol].upper)) for symbol in symbols}
    is_complex = is_of_parts(value)
    dtype = np.dtype(str(value.dtype)[6:]) if is_complex else to_numpy(dtype_name(value.dtype, f"input {name}"))
    return TensorArgument(name, dtype, shape, tuple(map(str, exact)), ranges)
