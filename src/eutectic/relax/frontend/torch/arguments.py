"""The arguments of a call: checked against the exported program, and turned into arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import sympy  # type: ignore[import-untyped]  # it ships no types
import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, TensorArgument
from torch.utils import _pytree as pytree

from eutectic.ir.dtype import to_numpy
from eutectic.relax.frontend.torch.dtypes import dtype_name
from eutectic.relax.frontend.torch.symbols import finite
from eutectic.support.deep import deep
from eutectic.support.errors import CallError
from eutectic.support.plain_memory import as_array
from eutectic.support.shown import shown
from eutectic.support.spelling import did_you_mean

_SHOWN: Final = 6  # items of a container in a message
Size: TypeAlias = int | sympy.Expr
Sizes: TypeAlias = dict[sympy.Expr, int]


@dataclass(frozen=True, slots=True)
class Number:
    """An argument that the export fixed: a number, text or None.

    Attributes:
        name: What errors call it.
        value: The value of the example.
    """

    name: str
    value: Any

    def check(self, given: Any) -> None:
        """Refuse another value.

        Raises:
            CallError: names both values.
        """
        if type(given) is type(self.value) and (given == self.value or given is self.value):
            return
        raise CallError(
            f"argument {self.name} is {shown(given)}, but the model was compiled for {shown(self.value)}",
            notes=["numbers, text and None are part of the compiled program"],
            help=f"compile the model again with {self.name}={shown(given)}, or pass it as a tensor",
        )


@dataclass(frozen=True, slots=True)
class TensorInput:
    """A tensor argument.

    Attributes:
        name: What errors call it.
        dtype: Its dtype by our name.
        shape: Sizes, or expressions of symbols.
        ranges: Least and largest value per symbol, as far as limited.
    """

    name: str
    dtype: str
    shape: tuple[Size, ...]
    ranges: Mapping[sympy.Expr, tuple[int | None, int | None]]

    def array(self, value: Any, sizes: Sizes) -> npt.NDArray[Any]:
        """The argument as a C-contiguous array; shares its memory when it is contiguous.

        Args:
            value: What the caller gave.
            sizes: Symbolic sizes bound so far; extended.

        Raises:
            CallError: it does not fit; says what was expected and what was given.
        """
        if not isinstance(value, (np.ndarray, torch.Tensor)):
            raise CallError(
                f"argument {self.name} must be a tensor or a NumPy array, got {type(value).__name__}",
                help=f"expected {self.dtype} of shape {self._text()}; make one with torch.as_tensor",
            )
        found = as_array(value, f"argument {self.name}")
        if not found.dtype.isnative:
            found = found.astype(found.dtype.newbyteorder("="))
        if found.dtype != to_numpy(self.dtype):
            raise CallError(
                f"argument {self.name} must be {self.dtype}, got {found.dtype.name}",
                help=f"convert it to {self.dtype} first, or compile for {found.dtype.name}",
            )
        self._check_shape(found.shape, sizes)
        if found.flags.c_contiguous and found.flags.aligned:
            return found
        return np.array(found, order="C", copy=True)

    def _check_shape(self, given: tuple[int, ...], sizes: Sizes) -> None:
        if len(given) != len(self.shape):
            raise CallError(
                f"argument {self.name} must have {len(self.shape)} axes, got {len(given)}: shape {given}",
                help=f"expected shape {self._text()}; add or remove axes with unsqueeze, squeeze or reshape",
            )
        for axis, (wanted, size) in enumerate(zip(self.shape, given, strict=True)):
            if isinstance(wanted, int):
                if wanted != size:
                    self._refuse_size(axis, str(wanted), given)
            elif wanted.is_Symbol and wanted not in sizes:
                self._check_range(axis, wanted, given)
                sizes[wanted] = size

    def check_expressions(self, given: tuple[int, ...], sizes: Sizes) -> None:
        """Check sizes that follow from others, once all symbols are bound."""
        for axis, (wanted, size) in enumerate(zip(self.shape, given, strict=True)):
            if isinstance(wanted, int):
                continue
            value = sizes[wanted] if wanted in sizes else int(wanted.subs(sizes))
            if value != size:
                self._refuse_size(axis, f"{value} (which is {wanted})", given)

    def _check_range(self, axis: int, symbol: sympy.Expr, given: tuple[int, ...]) -> None:
        low, high = self.ranges.get(symbol, (None, None))
        if (low is not None and given[axis] < low) or (high is not None and given[axis] > high):
            limits = f"at least {low or 0}" if high is None else f"from {low or 0} to {high}"
            raise CallError(
                f"argument {self.name} must have a size {limits} on axis {axis}, got {given[axis]}: shape {given}",
                help="export the model with a wider range for that size, or split the batch",
            )

    def _refuse_size(self, axis: int, wanted: str, given: tuple[int, ...]) -> None:
        raise CallError(
            f"argument {self.name} must have size {wanted} on axis {axis}, got {given[axis]}: shape {given}",
            help=f"expected shape {self._text()}; sizes that vary must be given as dynamic_shapes when compiling",
        )

    def _text(self) -> str:
        return "(" + ", ".join(map(str, self.shape)) + ("," if len(self.shape) == 1 else "") + ")"

    @property
    def static_shape(self) -> tuple[int, ...] | None:
        """Sizes when none of them varies."""
        found = tuple(size for size in self.shape if isinstance(size, int))
        return found if len(found) == len(self.shape) else None


class Arguments:
    """All arguments of a program, in the order of its flattened inputs.

    Attributes:
        leaves: What each flattened argument must be.
    """

    def __init__(self, program: ExportedProgram) -> None:
        self._spec = program.call_spec.in_spec
        signature = program.module_call_graph[0].signature
        names = getattr(signature, "forward_arg_names", None) if signature is not None else None
        positional, keywords = self._spec.children() if hasattr(self._spec, "children") else self._spec.children_specs
        self._count = positional.num_children
        self._keywords: list[str] = list(keywords.context or [])
        nodes = [node for node in program.graph.nodes if node.op == "placeholder"]
        users = _user_inputs(program, nodes)
        self._names = list(names) if names else [node.name for node in users][: self._count] + self._keywords
        self.leaves = [
            _leaf(node, name, program) for node, name in zip(users, self._leaf_names(len(users)), strict=True)
        ]

    def _leaf_names(self, count: int) -> list[str]:
        tree = pytree.tree_unflatten(list(range(count)), self._spec)
        found = []
        path: Any
        for path, _ in pytree.tree_flatten_with_path(tree)[0]:
            where, key, *rest = path
            first = self._names[key.idx] if where.idx == 0 and key.idx < len(self._names) else None
            name = first or (f"argument {key.idx}" if where.idx == 0 else str(key.key))
            found.append(name + pytree.keystr(tuple(rest)))
        return found

    def flatten(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The arguments in the order of the program's inputs, whichever way they were passed.

        Raises:
            CallError: an argument is missing, unknown, given twice or of another structure.
        """
        bound = self._bound(args, kwargs)
        values, spec = pytree.tree_flatten(bound)
        if spec != self._spec:
            for place, name in enumerate([*self._names[: self._count], *self._keywords]):
                self._check_part(place, name, bound)
            raise CallError("the arguments do not have the structure of the example inputs")
        return values

    def _check_part(self, place: int, name: str, bound: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
        tree = pytree.tree_unflatten(list(range(len(self.leaves))), self._spec)
        is_keyword = place >= self._count
        wanted, given = (part[1][name] if is_keyword else part[0][place] for part in (tree, bound))
        if pytree.tree_structure(wanted) != pytree.tree_structure(given):
            raise CallError(
                f"argument {name} has another structure than the example: expected {_shape_of_tree(wanted)}, "
                f"got {_shape_of_tree(given)}",
                help="pass the same containers with the same keys and lengths as when compiling",
            )

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        rest = dict(kwargs)
        takes = self._all_names()
        unknown = [name for name in rest if name not in takes]
        if unknown:
            near = did_you_mean(unknown[0], takes)
            raise CallError(
                f"argument {unknown[0]} is unknown: the model takes {', '.join(takes) or 'none'}",
                help=near
                or f"it was compiled for {', '.join(takes) or 'no arguments'}; other names of forward were not given",
            )
        values = list(args[: self._count])
        for name in self._names[len(values) : self._count]:
            if name not in rest:
                raise CallError(f"argument {name} is missing", help=f"the model takes {', '.join(self._all_names())}")
            values.append(rest.pop(name))
        for name, value in zip(self._keywords, args[self._count :], strict=False):
            if name in rest:
                raise CallError(f"argument {name} is given twice")
            rest[name] = value
        if len(args) > self._count + len(self._keywords):
            most = self._count + len(self._keywords)
            raise CallError(
                f"the model takes {most} argument{'' if most == 1 else 's'}, got {len(args)}",
                help=f"they are {', '.join(self._all_names()) or 'none'}, as when compiling",
            )
        for name in self._keywords:
            if name not in rest:
                raise CallError(f"argument {name} is missing", help=f"the model takes {', '.join(self._all_names())}")
        for name in rest:
            if name not in self._keywords:
                raise CallError(f"argument {name} is given twice", help=f"the model takes {', '.join(takes)}")
        return tuple(values), {name: rest[name] for name in self._keywords}

    def _all_names(self) -> list[str]:
        return [*self._names[: self._count], *self._keywords]

    def arrays(self, values: Sequence[Any]) -> tuple[list[npt.NDArray[Any]], Sizes]:
        """Arrays of the tensor arguments, and the symbolic sizes that they define.

        Raises:
            CallError: an argument does not fit.
        """
        sizes: Sizes = {}
        found = []
        for leaf, value in zip(self.leaves, values, strict=True):
            if isinstance(leaf, Number):
                leaf.check(value)
            else:
                found.append(leaf.array(value, sizes))
        if sizes:
            tensors = (leaf for leaf in self.leaves if isinstance(leaf, TensorInput))
            for leaf, array in zip(tensors, found, strict=True):
                leaf.check_expressions(array.shape, sizes)
        return found, sizes

    def lone_tensor(self) -> TensorInput | None:
        """The only argument, when it is a plain positional tensor of fixed shape."""
        if self._keywords or self._count != 1 or len(self.leaves) != 1:
            return None
        leaf = self.leaves[0]
        return leaf if isinstance(leaf, TensorInput) and leaf.static_shape is not None else None


def _user_inputs(program: ExportedProgram, nodes: Sequence[fx.Node]) -> list[fx.Node]:
    by_name = {node.name: node for node in nodes}
    specs = program.graph_signature.input_specs
    return [by_name[spec.arg.name] for spec in specs if spec.kind is InputKind.USER_INPUT]


def _leaf(node: fx.Node, name: str, program: ExportedProgram) -> Number | TensorInput:
    spec = next(s for s in program.graph_signature.input_specs if s.arg.name == node.name)
    if not isinstance(spec.arg, TensorArgument):
        return Number(name, getattr(spec.arg, "value", None))
    value = node.meta["val"]
    shape = tuple(size.node.expr if isinstance(size, torch.SymInt) else int(size) for size in value.shape)
    ranges = {symbol: (finite(r.lower), finite(r.upper)) for symbol, r in program.range_constraints.items()}
    return TensorInput(name, dtype_name(value.dtype, f"input {name}"), _plain_sizes(shape), ranges)


def _plain_sizes(shape: tuple[Any, ...]) -> tuple[Size, ...]:
    return tuple(int(size) if isinstance(size, int) or size.is_Integer else size for size in shape)


@deep
def _shape_of_tree(tree: Any) -> str:
    """The containers of a value, without its tensors; the first of many."""
    if isinstance(tree, dict):
        entries = [f"{shown(key)}: {_shape_of_tree(item)}" for key, item in list(tree.items())[:_SHOWN]]
        return "{" + ", ".join(entries) + _more(len(tree)) + "}"
    if isinstance(tree, (list, tuple)):
        inner = ", ".join(map(_shape_of_tree, tree[:_SHOWN])) + _more(len(tree))
        if hasattr(tree, "_fields"):
            return f"{type(tree).__name__}({inner})"
        return f"[{inner}]" if isinstance(tree, list) else f"({inner})"
    return "value" if pytree.tree_structure(tree) == pytree.tree_structure(0) else type(tree).__name__


def _more(count: int) -> str:
    return f", and {count - _SHOWN} more" if count > _SHOWN else ""
