"""The results of a call: arrays put back into the user's structure, aliasing what eager's results alias.

How an output is made is decided once, from the exported program: a new tensor, an argument passed
through, a view of an argument or of another output (repeated on the real tensor), or a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import getitem
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from eutectic.relax.frontend.torch.arguments import Sizes
from eutectic.relax.frontend.torch.dtypes import to_array, to_tensor
from eutectic.relax.frontend.torch.exported_program import is_tensor_node


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Operators whose result shares memory with their first argument, always or (second list) when nothing changes.
_VIEWS: Final = _names("""
    alias chunk detach diagonal expand expand_as movedim mT narrow numpy_T permute select slice split
    split_with_sizes squeeze swapaxes swapdims t tensor_split transpose unbind unfold unflatten unsqueeze view view_as
""")
_SOMETIMES: Final = _names("contiguous dropout feature_dropout flatten reshape to type_as")
# Operators of the functional program whose result may be their argument, unchanged or under another shape.
_PASSING: Final = (
    _VIEWS
    | _SOMETIMES
    | _names("""
    _reshape_copy _to_copy _unsafe_view broadcast_to cat clone concat constant_pad_nd copy flip index lift_fresh
    lift_fresh_copy native_dropout pad positive pow repeat roll sgn sign slice_scatter tile
""")
)


@dataclass
class _Call:
    """One call while its results are made."""

    results: Sequence[npt.NDArray[Any]]
    leaves: Sequence[Any]
    is_array: bool
    sizes: Sizes
    made: list[Any] = field(default_factory=list)


Recipe: TypeAlias = Callable[[_Call], Any]


class Results:
    """How the outputs of a program are made.

    Args:
        program: The program as exported, with views and in-place operators.
        functional: The same program after decomposition, from which `main` was made.
    """

    def __init__(self, program: ExportedProgram, functional: ExportedProgram) -> None:
        self._spec = program.call_spec.out_spec
        self._inputs = _input_places(program)
        self._mutated = _mutations(functional)
        originals = [node for node, is_user in _outputs(program) if is_user]
        decomposed = [node for node, is_user in _outputs(functional) if is_user]
        self._recipes = self._plan(originals, decomposed, len(self._mutated))
        self.needs_sizes = any(isinstance(node, fx.Node) and not is_tensor_node(node) for node in decomposed)
        plain = [recipe for recipe in self._recipes if isinstance(recipe, Fresh) and not recipe.copies]
        self.is_lone = len(plain) == len(self._recipes) == 1 and not self._mutated and self._spec.is_leaf()

    def _plan(self, originals: Sequence[Any], decomposed: Sequence[Any], place: int) -> list[Recipe]:
        """A recipe per output; `place` is the first result that is not a new value of an input."""
        paths = [_path(node) if is_tensor_node(node) else None for node in originals]
        owners = {path.root: i for i, path in reversed(list(enumerate(paths))) if path is not None and not path.steps}
        recipes: list[Recipe] = []
        taken: set[fx.Node] = set()
        for i, (node, path) in enumerate(zip(decomposed, paths, strict=True)):
            if not is_tensor_node(node):
                recipes.append(_Constant(node) if not isinstance(node, fx.Node) else _Size(node))
                continue
            shared = self._shared(i, path, owners) if path is not None else None
            if shared is None:
                origin = _origin(node)
                shared = Fresh(place, copies=origin.op == "placeholder" or origin in taken)
                taken.add(origin)
            recipes.append(shared)
            place += 1
        return recipes

    def _shared(self, i: int, path: _Path, owners: dict[fx.Node, int]) -> Recipe | None:
        """The recipe of an output that aliases an argument or another output, else None."""
        if not path.is_certain:
            return None
        if path.root.name in self._inputs:
            return _Replay(self._inputs[path.root.name], True, path.steps)
        owner = owners.get(path.root)
        if owner is None or owner == i or (owner > i and path.steps):
            return None
        return _Replay(owner, False, path.steps) if owner < i else None

    def build(self, results: Sequence[npt.NDArray[Any]], leaves: Sequence[Any], sizes: Sizes, is_array: bool) -> Any:
        """The results in the structure that eager returns; new values of mutated arguments are written back."""
        call = _Call(results, leaves, is_array, sizes)
        for result, name in zip(results, self._mutated, strict=False):
            _write(leaves[self._inputs[name]], result)
        for recipe in self._recipes:
            call.made.append(recipe(call))
        return torch.utils._pytree.tree_unflatten(call.made, self._spec)

    @property
    def mutates(self) -> bool:
        """Whether a call changes its arguments."""
        return bool(self._mutated)


@dataclass(frozen=True)
class Fresh:
    """A result of the compiled function; copied when it might be the memory of something else."""

    index: int
    copies: bool

    def __call__(self, call: _Call) -> Any:
        """The result as the caller's kind of tensor."""
        array = call.results[self.index]
        array = array.copy() if self.copies else array
        return array if call.is_array else to_tensor(array)


@dataclass(frozen=True)
class _Constant:
    """A number, text or None that the export fixed."""

    value: Any

    def __call__(self, call: _Call) -> Any:
        return self.value


@dataclass(frozen=True)
class _Size:
    """A number that depends on the sizes of the arguments."""

    node: fx.Node

    def __call__(self, call: _Call) -> Any:
        value = self.node.meta["val"]
        if isinstance(value, (bool, int, float)):
            return value
        found = value.node.expr.subs(call.sizes)
        if found.is_Boolean:
            return bool(found)
        return int(found) if isinstance(value, torch.SymInt) else float(found)


@dataclass(frozen=True)
class _Replay:
    """An argument or another output, with view operators repeated on it; what cannot be viewed is copied."""

    place: int
    of_input: bool
    steps: tuple[fx.Node, ...]

    def __call__(self, call: _Call) -> Any:
        base = call.leaves[self.place] if self.of_input else call.made[self.place]
        if not self.steps:
            return base
        value: Any = to_tensor(base) if isinstance(base, np.ndarray) else base
        for node in self.steps:
            target: Any = torch.ops.aten.reshape.default if _family(node) == "view" else node.target
            value = target(value, *node.args[1:], **node.kwargs)
        return to_array(value) if call.is_array else value


@dataclass(frozen=True)
class _Path:
    """Where an output's memory comes from.

    Attributes:
        root: The node that made the memory.
        steps: View operators from there to the output, first to last.
        is_certain: Whether repeating them gives what eager gives.
    """

    root: fx.Node
    steps: tuple[fx.Node, ...]
    is_certain: bool


def _family(node: fx.Node) -> str:
    target = node.target
    if target is getitem:
        return "getitem"
    return str(target).split(".")[1] if str(target).startswith("aten.") else ""


def _is_inplace(node: fx.Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    if schema is None or not schema.arguments or not schema.returns:
        return False
    alias = schema.arguments[0].alias_info
    return alias is not None and alias.is_write


def _path(node: fx.Node) -> _Path:
    """Follow an output back through views and in-place operators of the program as exported."""
    steps: list[fx.Node] = []
    copies_sometimes = False
    while node.op == "call_function" and node.args and isinstance(node.args[0], fx.Node):
        family = _family(node)
        if family in _VIEWS or family in _SOMETIMES or family == "getitem":
            steps.append(node)
            copies_sometimes |= family in _SOMETIMES
        elif not _is_inplace(node):
            break
        node = node.args[0]
    # A root that gives several results itself: they are not views of one tensor.
    is_list = bool(steps) and steps[-1].target is getitem
    operands = [arg for step in steps for arg in step.all_input_nodes[1:]]
    certain = not operands and not is_list and not (copies_sometimes and _is_written(node))
    return _Path(node, tuple(reversed(steps)), certain)


def _is_written(root: fx.Node) -> bool:
    """Whether an in-place operator writes to the memory of a node."""
    return any(
        _is_inplace(node) and _path_root(node) is root for node in root.graph.nodes if node.op == "call_function"
    )


def _path_root(node: fx.Node) -> fx.Node:
    while node.op == "call_function" and node.args and isinstance(node.args[0], fx.Node):
        if not (_is_inplace(node) or _family(node) in _VIEWS | _SOMETIMES | {"getitem"}):
            break
        node = node.args[0]
    return node


def _origin(node: fx.Node) -> fx.Node:
    """The node of the functional program whose memory an output might be."""
    while node.op == "call_function" and (_family(node) in _PASSING or node.target is getitem):
        inputs = node.all_input_nodes
        if not inputs:
            break
        node = inputs[0]
    return node


def _outputs(program: ExportedProgram) -> list[tuple[Any, bool]]:
    output = next(node for node in program.graph.nodes if node.op == "output")
    kinds = [spec.kind for spec in program.graph_signature.output_specs]
    return [(node, kind is OutputKind.USER_OUTPUT) for node, kind in zip(output.args[0], kinds, strict=True)]


def _mutations(program: ExportedProgram) -> list[str]:
    """Names of the inputs whose new values come first among the results."""
    specs = program.graph_signature.output_specs
    return [str(spec.target) for spec in specs if spec.kind is OutputKind.USER_INPUT_MUTATION]


def _input_places(program: ExportedProgram) -> dict[str, int]:
    specs = [spec for spec in program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]
    return {spec.arg.name: place for place, spec in enumerate(specs)}


def _write(target: Any, value: npt.NDArray[Any]) -> None:
    if isinstance(target, np.ndarray):
        np.copyto(target, value)
        return
    with torch.no_grad():
        target.copy_(to_tensor(value))
