"""Programs that can be read as they were exported, which saves tracing them once more for their functional form.

That is the case when converters exist for all operators, and when what is written in place is seen by nobody under
another name: the operator's functional form is read instead, and what reads the tensor later reads its result.
Anything that is not certainly so is left to torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import getitem
from typing import Any, Final, Protocol

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature

from eutectic.relax.frontend.torch.ops import TABLE

# Operators that torch defines by others, but that stay as they are in the functional form; their results are new
# memory. Further ones are left to torch.
_WHOLE: Final = frozenset({
    *(f"aten.conv{n}d.default" for n in (1, 2, 3)),
    *(f"aten.max_pool{n}d.default" for n in (1, 2, 3)),
    "aten.adaptive_avg_pool1d.default",
    "aten.adaptive_avg_pool2d.default",
    "aten.group_norm.default",
    "aten.gru.input",
    "aten.layer_norm.default",
    "aten.linear.default",
    "aten.log_softmax.int",
    "aten.lstm.input",
    "aten.matmul.default",
    "aten.pad.default",
    "aten.rnn_relu.input",
    "aten.rnn_tanh.input",
    "aten.scaled_dot_product_attention.default",
    "aten.softmax.int",
})  # fmt: skip
# Operators that the functional form has under another name, and whose converters give the same as for that one.
_RENAMED: Final = frozenset({
    *(f"aten.__{name}__.{kind}" for name in ("and", "or", "xor") for kind in ("Tensor", "Scalar")),
    *(f"aten.{name}.other" for name in ("max", "min", "to")),
    *(f"aten.movedim.{kind}" for kind in ("int", "intlist")),
    *(f"aten.{name}2d.vec" for name in ("_upsample_nearest_exact", "upsample_bilinear", "upsample_nearest")),
    *(f"aten.where.{kind}" for kind in ("Scalar", "ScalarOther", "ScalarSelf")),
    "aten.broadcast_to.default",
    "aten.chunk.default",
    "aten.clip.default",
    "aten.concat.default",
    "aten.contiguous.default",
    "aten.diff.default",
    "aten.dropout.default",
    "aten.expand_as.default",
    "aten.flatten.using_ints",
    "aten.mT.default",
    "aten.narrow.default",
    "aten.numpy_T.default",
    "aten.relu6.default",
    "aten.reshape.default",
    "aten.reshape_as.default",
    "aten.rms_norm.default",
    "aten.split.sizes",
    "aten.square.default",
    "aten.swapaxes.default",
    "aten.swapdims.default",
    "aten.tile.default",
    "aten.to.device",
    "aten.to.dtype",
    "aten.to.dtype_layout",
    "aten.true_divide.Tensor",
    "aten.type_as.default",
    "aten.unflatten.int",
    "aten.view_as.default",
})  # fmt: skip
_PASSED: Final = "aten.detach_.default"  # says that it writes, but gives what it takes as it is
_FRESH: Final = _WHOLE | {"aten.batch_norm.default"}  # composites whose results are new memory
# Sizes, and checks that torch inserts for itself.
_CHECKS: Final = frozenset({
    "_guards_fn",
    "aten._assert_scalar.default",
    "aten._assert_tensor_metadata.default",
    "aten.sym_size.int",
})  # fmt: skip


class FunctionalProgram(Protocol):
    """What is read of a program: torch's own, or one that was made functional here."""

    @property
    def graph(self) -> fx.Graph:
        """Its nodes."""
        ...

    @property
    def graph_signature(self) -> ExportGraphSignature:
        """What its inputs and outputs are."""
        ...

    @property
    def range_constraints(self) -> Any:
        """Ranges of the sizes that vary."""
        ...

    @property
    def state_dict(self) -> dict[str, Any]:
        """Parameters and buffers by name."""
        ...

    @property
    def constants(self) -> dict[str, Any]:
        """Other tensors by name."""
        ...


@dataclass(frozen=True, eq=False)
class Rewritten:
    """A program whose graph was made functional; its nodes have the names that they had."""

    graph: fx.Graph
    graph_signature: ExportGraphSignature
    range_constraints: Any
    state_dict: dict[str, Any]
    constants: dict[str, Any]


def as_exported(program: ExportedProgram) -> FunctionalProgram | None:
    """The program, or a copy in which no operator writes in place; None when torch has to make it functional."""
    if not all(map(_is_readable, program.graph.nodes)):
        return None
    if not any(map(written, program.graph.nodes)):
        return program
    graph = _Functional(program.graph).graph()
    if graph is None:
        return None
    signature, ranges = program.graph_signature, program.range_constraints
    return Rewritten(graph, signature, ranges, program.state_dict, program.constants)


def _is_readable(node: fx.Node) -> bool:
    """Whether a converter gives for a node what it would give for the node's functional form."""
    target, name = node.target, str(node.target)
    if node.op in ("placeholder", "output") or target is getitem or name in _CHECKS:
        return True
    if node.op != "call_function":
        return False
    if not isinstance(target, torch._ops.OpOverload):
        return getattr(target, "__module__", "") == "_operator" and not isinstance(node.meta.get("val"), torch.Tensor)
    if written(node):
        return _without_writing(node) is not None
    if name == "aten.batch_norm.default":
        return not node.args[5]  # in training it writes to its statistics, which its schema does not say
    if is_composite(target):
        return name in _WHOLE or name in _RENAMED
    return name in TABLE


def is_composite(target: torch._ops.OpOverload) -> bool:
    """Whether torch defines an operator by others, so that its schema need not say what its results alias."""
    name = target._schema.name + (f".{target._overloadname}" if target._overloadname != "default" else "")
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd"))


def makes_new_memory(target: torch._ops.OpOverload) -> bool:
    """Whether the results of a composite operator are certainly new memory."""
    return str(target) in _FRESH


def written(node: fx.Node) -> list[Any]:
    """The arguments that an operator writes to."""
    schema = getattr(node.target, "_schema", None)
    if schema is None or str(node.target) == _PASSED:
        return []
    values = {argument.name: value for argument, value in zip(schema.arguments, node.args, strict=False)}
    values.update(node.kwargs)
    return [
        values.get(item.name) for item in schema.arguments if item.alias_info is not None and item.alias_info.is_write
    ]


def _without_writing(node: fx.Node) -> torch._ops.OpOverload | None:
    """The operator that computes, element by element, what that of a node writes to its first argument."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return None
    namespace, _, name = target._schema.name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), name.removesuffix("_"), None)
    functional = getattr(packet, target._overloadname, None)
    if not isinstance(functional, torch._ops.OpOverload) or str(functional) not in TABLE or not name.endswith("_"):
        return None
    if torch.Tag.pointwise not in functional.tags or is_composite(functional):
        return None
    ours, theirs = target._schema.arguments, functional._schema.arguments
    same = [(a.name, str(a.type)) for a in ours] == [(a.name, str(a.type)) for a in theirs]
    writes = [place for place, item in enumerate(ours) if item.alias_info is not None]
    return functional if same and writes == [0] else None


class _Functional:
    """Makes a graph functional.

    A tensor is known by the node that made it, also when it is written to or passed on; a view is a tensor of its own,
    with the memory of another.
    """

    def __init__(self, graph: fx.Graph) -> None:
        self._nodes = list(graph.nodes)
        places = {node: place for place, node in enumerate(self._nodes)}
        self._last = {node: max((places[user] for user in node.users), default=-1) for node in self._nodes}
        self._tensor: dict[fx.Node, fx.Node] = {}
        self._memory: dict[fx.Node, frozenset[fx.Node]] = {}  # of a tensor: the nodes that may have made it
        self._sharing: dict[fx.Node, list[fx.Node]] = {}  # the nodes that may give memory that a node made
        self._current: dict[fx.Node, fx.Node] = {}  # the node of the copy that has a tensor's present value

    def graph(self) -> fx.Graph | None:
        """The copy; None when somebody may see a write under another name."""
        copy = fx.Graph()
        for place, node in enumerate(self._nodes):
            targets = written(node)
            same = targets[0] if targets else passed(node)
            tensor = self._tensor[node] = node if same is None else self._tensor[same]
            if targets and not self._is_private(tensor, place):
                return None
            if tensor is node:
                self._memory[node] = self._aliased(node)
            for source in self._memory[tensor]:
                self._sharing.setdefault(source, []).append(node)
            copied = copy.node_copy(node, lambda read: self._current[self._tensor[read]])
            if targets:
                functional = _without_writing(node)
                if functional is None or not _keeps_dtype(node, functional):
                    return None
                copied.target = functional
            self._current[tensor] = copied
        return copy

    def _is_private(self, tensor: fx.Node, place: int) -> bool:
        """Whether a write changes new memory that nothing later reads under another name."""
        if self._memory[tensor] != {tensor} or tensor.op != "call_function":
            return False
        others = [node for node in self._sharing[tensor] if self._tensor[node] is not tensor]
        return all(self._last[node] < place for node in others)

    def _aliased(self, node: fx.Node) -> frozenset[fx.Node]:
        """The nodes whose memory a result may be."""
        sources = node.all_input_nodes if _may_alias(node) else []
        return frozenset[fx.Node]().union(*(self._memory[self._tensor[item]] for item in sources)) or frozenset({node})


def passed(node: fx.Node) -> fx.Node | None:
    """The argument that a node gives back as it is; None when it makes something of it."""
    is_dropout = str(node.target) == "aten.dropout.default"
    if str(node.target) != _PASSED and (not is_dropout or (node.args[2] and node.args[1])):
        return None
    argument = node.args[0]
    return argument if isinstance(argument, fx.Node) else None


def _may_alias(node: fx.Node) -> bool:
    if node.op != "call_function" or node.target is getitem:
        return True
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    if is_composite(node.target):
        return not makes_new_memory(node.target)
    return any(item.alias_info is not None for item in node.target._schema.returns)


def _keeps_dtype(node: fx.Node, functional: torch._ops.OpOverload) -> bool:
    """Whether the functional form gives the dtype of the tensor that is written to; asked of torch, on one element."""

    def element(read: fx.Node) -> Any:
        value = read.meta.get("val")
        if not isinstance(value, torch.Tensor):
            raise TypeError  # a number that varies: its dtype follows other rules
        return torch.empty((1,) * value.ndim, dtype=value.dtype, device="meta")

    try:
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), element)
        result = functional(*args, **kwargs)
    except (TypeError, RuntimeError):
        return False
    return bool(result.dtype == node.meta["val"].dtype)
