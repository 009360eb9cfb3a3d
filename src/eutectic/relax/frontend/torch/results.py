"""The results of an exported program as data of the runtime.

How an output is made is decided once, from the exported program: a new tensor, an argument passed
through, a view of an argument or of another output (repeated on the real tensor), or a constant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import getitem
from typing import Any, Final

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from eutectic.relax.frontend.torch.as_exported import FunctionalProgram
from eutectic.relax.frontend.torch.exported_program import changed_buffers, is_number_of_data, is_tensor_node
from eutectic.relax.frontend.torch.formulas import typed
from eutectic.relax.frontend.torch.trees import tree_from
from eutectic.runtime.results import Counted, Fixed, Fresh, Number, Recipe, Results, Shared
from eutectic.runtime.views import TorchName, View
from eutectic.support.deep import deep


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Operators whose result shares memory with their first argument, always or (second list) when nothing changes.
_VIEWS: Final = _names("""
    alias chunk detach diagonal expand expand_as movedim mT narrow numpy_T permute select slice split
    split_with_sizes squeeze swapaxes swapdims t tensor_split transpose unbind unfold unflatten unsqueeze view view_as
""")
_SOMETIMES: Final = _names("contiguous dropout feature_dropout flatten ravel reshape to type_as")
# Views by the shape of another tensor -> those by sizes that are the same.
_BY_SHAPE: Final = {"expand_as": "expand", "view_as": "reshape"}
# Operators of the functional program whose result may be their argument, unchanged or under another shape.
_PASSING: Final = (
    _VIEWS
    | _SOMETIMES
    | _names("""
    _reshape_copy _to_copy _unsafe_view broadcast_to cat clone concat constant_pad_nd copy flip index index_copy
    index_put lift_fresh lift_fresh_copy narrow_copy native_dropout pad positive pow repeat roll scatter sgn sign
    slice_scatter tile
""")
)


def results_of(program: ExportedProgram, functional: FunctionalProgram) -> Results:
    """How the outputs of a program are made.

    Args:
        program: The program as exported, with views and in-place operators.
        functional: The same program after decomposition, from which `main` was made.
    """
    inputs = _input_places(program)
    state = {name: len(inputs) + place for place, name in enumerate(changed_buffers(functional))}
    changed = tuple({**state, **inputs}[name] for name in _mutations(functional))
    originals = [node for node, is_user in _outputs(program) if is_user]
    decomposed = [node for node, is_user in _outputs(functional) if is_user]
    recipes = _plan(originals, decomposed, len(changed), inputs)
    return Results(tree_from(program.call_spec.out_spec), tuple(recipes), changed)


def _plan(originals: Sequence[Any], decomposed: Sequence[Any], place: int, inputs: Mapping[str, int]) -> list[Recipe]:
    """A recipe per output; `place` is the first result that is not a new value of an input."""
    paths = [_path(node) if is_tensor_node(node) else None for node in originals]
    owners = {path.root: i for i, path in reversed(list(enumerate(paths))) if path is not None and not path.steps}
    recipes: list[Recipe] = []
    taken: set[fx.Node] = set()
    for i, (node, path) in enumerate(zip(decomposed, paths, strict=True)):
        if is_number_of_data(node):
            recipes.append(Number(place))
            place += 1
            continue
        if not is_tensor_node(node):
            recipes.append(_number(node))
            continue
        shared = _shared(i, path, owners, inputs) if path is not None else None
        if shared is None:
            origin = origin_of(node)
            recipes.append(Fresh(place, copies=origin.op == "placeholder" or origin in taken))
            taken.add(origin)
        else:
            recipes.append(shared)
        place += 1
    return recipes


def _number(node: Any) -> Recipe:
    """The recipe of an output that is no tensor, and that is known from the arguments."""
    value = node.meta["val"] if isinstance(node, fx.Node) else node
    return Counted(typed(value)) if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)) else Fixed(value)


def _shared(i: int, path: _Path, owners: Mapping[fx.Node, int], inputs: Mapping[str, int]) -> Recipe | None:
    """The recipe of an output that aliases an argument or another output, else None."""
    if not path.is_certain:
        return None
    views = tuple(map(_view, path.steps))
    if path.root.name in inputs:
        return Shared(inputs[path.root.name], True, views)
    owner = owners.get(path.root)
    if owner is None or owner >= i:
        return None
    return Shared(owner, False, views)


def _view(node: fx.Node) -> View:
    """A view as data."""
    if _family(node) in _BY_SHAPE:
        return View(_BY_SHAPE[_family(node)], "default", (list(node.meta["val"].shape),), {})
    if _family(node) == "ravel":
        return View("reshape", "default", ([-1],), {})
    args, kwargs = tuple(map(_operand, node.args[1:])), {name: _operand(arg) for name, arg in node.kwargs.items()}
    family, overload = _family(node), str(node.target).rpartition(".")[2]
    if family == "view" and overload == "default":
        family = "reshape"  # the tensor of a call may have strides that a view cannot follow
    return View(family, "" if family == "getitem" else overload, args, kwargs)


@deep
def _operand(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_operand(item) for item in value]
    if isinstance(value, (torch.dtype, torch.memory_format, torch.layout)):
        return TorchName(type(value).__name__, str(value).removeprefix("torch."))
    return TorchName("device", str(value)) if isinstance(value, torch.device) else value


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
        if _passes(node):
            pass
        elif _converts(node):
            break
        elif family in _VIEWS or family in _SOMETIMES or family == "getitem":
            steps.append(node)
            copies_sometimes |= family in _SOMETIMES
        elif not _is_inplace(node):
            break
        node = node.args[0]
    # A root that gives several results itself: they are not views of one tensor.
    is_list = bool(steps) and steps[-1].target is getitem
    operands: list[fx.Node] = []
    for step in steps:
        if not _has_known_shape(step):
            fx.node.map_arg((step.args[1:], step.kwargs), operands.append)
    certain = not operands and not is_list and not (copies_sometimes and _is_written(node))
    return _Path(node, tuple(reversed(steps)), certain)


def _has_known_shape(node: fx.Node) -> bool:
    """Whether a view follows the shape of another tensor, and that shape is the same in each call."""
    return _family(node) in _BY_SHAPE and all(isinstance(size, int) for size in node.meta["val"].shape)


def _passes(node: fx.Node) -> bool:
    """Whether an operator gives back its argument itself."""
    if _family(node) == "real":
        return not _argument(node).is_complex()
    if _family(node) in ("dropout", "feature_dropout"):
        return not (node.args[2] and node.args[1])
    return _family(node) == "to" and not _converts(node) and _given(node, "memory_format") is None


def _argument(node: fx.Node) -> torch.Tensor:
    """The example value of the first operand."""
    before: Any = node.args[0]
    value: torch.Tensor = before.meta["val"]
    return value


def _converts(node: fx.Node) -> bool:
    """Whether a conversion always makes a new tensor."""
    if _family(node) not in ("to", "type_as"):
        return False
    return bool(_given(node, "copy")) or _argument(node).dtype != node.meta["val"].dtype


def _given(node: fx.Node, name: str) -> Any:
    """An operand by its name in the schema; None when it is not given."""
    target: Any = node.target
    names = [argument.name for argument in target._schema.arguments]
    return dict(zip(names, node.args, strict=False)).get(name, node.kwargs.get(name))


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


def origin_of(node: fx.Node) -> fx.Node:
    """The node of the functional program whose memory an output might be."""
    while node.op == "call_function" and (_family(node) in _PASSING or node.target is getitem):
        inputs = node.all_input_nodes
        if not inputs:
            break
        node = inputs[0]
    return node


def _outputs(program: FunctionalProgram) -> list[tuple[Any, bool]]:
    output = next(node for node in program.graph.nodes if node.op == "output")
    kinds = [spec.kind for spec in program.graph_signature.output_specs]
    return [(node, kind is OutputKind.USER_OUTPUT) for node, kind in zip(output.args[0], kinds, strict=True)]


def _mutations(program: FunctionalProgram) -> list[str]:
    """Names of the buffers and inputs whose new values come first among the results."""
    specs = program.graph_signature.output_specs
    kinds = (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION)
    return [str(spec.target) for spec in specs if spec.kind in kinds]


def _input_places(program: ExportedProgram) -> dict[str, int]:
    specs = [spec for spec in program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]
    return {spec.arg.name: place for place, spec in enumerate(specs)}
