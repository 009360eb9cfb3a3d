"""What FuseOps says about its groups: which bindings became one, and for every read between two of them why not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from eutectic.ir.module import GlobalVar
from eutectic.relax.analysis.op_pattern import OpPatternKind as Kind
from eutectic.relax.dpl.near_miss import op_name
from eutectic.relax.dpl.remarks import FusionRemark, Member
from eutectic.relax.expr import (
    Binding,
    Call,
    DataflowBlock,
    ExternFunc,
    TupleGetItem,
    Var,
    VarBinding,
    describe_size,
)
from eutectic.relax.op.map_batch import MAP_BATCH
from eutectic.relax.op.registry import has_trait
from eutectic.relax.transform.fusion_groups import FusionNode, Obstacle, Partition

PASS: Final = "FuseOps"
_KINDS: Final = {
    Kind.ELEMWISE: "works element by element",
    Kind.BROADCAST: "repeats elements",
    Kind.INJECTIVE: "takes elements from other places",
    Kind.COMM_REDUCE: "is a reduction",
    Kind.OUT_ELEMWISE_FUSABLE: "reads each element several times",
    Kind.OPAQUE: "is opaque",
}


def binding_name(binding: Binding) -> str:
    """What a binding calls, and its variable: `matmul (lv3)`."""
    return f"{callee_name(binding.value)} ({binding.var.name_hint})"


def callee_name(value: Any) -> str:
    """What a value calls: an operator, a tensor program, a function of a library; of others their kind."""
    first = value.args[0] if isinstance(value, Call) and value.args and has_trait(value, "calls") else None
    if isinstance(first, GlobalVar):
        return first.name_hint
    if isinstance(first, ExternFunc):
        return first.global_symbol
    return op_name(value) if isinstance(value, Call) else type(value).__name__


def fused_remark(bindings: Sequence[Binding], function: str) -> FusionRemark:
    """Bindings that became a function.

    Args:
        bindings: In program order; the last has the result.
        function: Its name.
    """
    calls = [b for b in bindings if isinstance(b.value, Call)]
    members = tuple(Member(callee_name(b.value), b.value.span) for b in calls)
    sink = bindings[-1]
    return FusionRemark(
        "fused",
        PASS,
        members[-1].op,
        sink.var.name_hint,
        members=members,
        span=sink.value.span,
        function=function,
        bound=tuple(b.var for b in bindings),
    )


class EdgeReasons:
    """Remarks about the reads of a block that are not within a group.

    Args:
        block: The block.
        nodes: Its bindings, as `partition` took them.
        partition: What that found.
        max_depth: Largest number of bindings in a group.
    """

    def __init__(self, block: DataflowBlock, nodes: Sequence[FusionNode], partition: Partition, max_depth: int) -> None:
        self._bindings, self._nodes, self._max_depth = block.bindings, nodes, max_depth
        self._obstacles = partition.obstacles
        self._group_of = {i: number for number, group in enumerate(partition.groups) for i in group}

    def remarks(self) -> Iterator[FusionRemark]:
        """One for each pair of bindings of which one reads the other; fields and other names stand for the values."""
        for source, binding in enumerate(self._bindings):
            if _is_field(binding):
                continue
            for end, reader in self._crossings(source):
                yield self._remark(source, end, reader)

    def _crossings(self, source: int) -> Iterator[tuple[int, int]]:
        """Where reads of a value leave its group: the binding that is read there, and the reader."""
        todo = [source]
        while todo:
            end = todo.pop()
            for reader in self._nodes[end].readers:
                if not self._computes(reader):
                    continue
                if _is_field(self._bindings[reader]):
                    todo.append(reader)
                elif not self._together(source, reader):
                    yield end, reader

    def _computes(self, number: int) -> bool:
        """Whether a binding is more than a result, or a tuple of them."""
        return not self._nodes[number].gathers

    def _together(self, a: int, b: int) -> bool:
        return a in self._group_of and self._group_of.get(a) == self._group_of.get(b)

    def _remark(self, source: int, end: int, reader: int) -> FusionRemark:
        obstacle = self._obstacles.get(source) or self._obstacles.get(end) or Obstacle("opaque", source)
        value, user = self._bindings[source], self._bindings[reader]
        return FusionRemark(
            "missed",
            PASS,
            callee_name(user.value),
            user.var.name_hint,
            self._sentence(obstacle, source, reader),
            span=user.value.span,
            operand=value.var.name_hint,
            constraint=obstacle.rule,
            expected=_EXPECTED.get(obstacle.rule, "").format(most=self._max_depth),
            actual=_KINDS[self._nodes[obstacle.at].kind],
            variables=(value.var.name_hint, user.var.name_hint),
            readers=tuple(self._bindings[i].var.name_hint for i in self._nodes[end].readers),
            operand_span=value.value.span,
            bound=(value.var, user.var),
        )

    def _sentence(self, obstacle: Obstacle, source: int, reader: int) -> str:
        what = _SENTENCES[obstacle.rule](self, obstacle.at, source, reader)
        if obstacle.at in (source, reader) or obstacle.rule in ("several readers", "group size"):
            return what
        return f"{what}; all that reads {self.name(source)}, {self.name(reader)} too, would have to be in its kernel"

    def name(self, number: int) -> str:
        """A binding for people."""
        return binding_name(self._bindings[number])

    def output(self, at: int, source: int, reader: int) -> str:
        """It is read outside."""
        return (
            f"{self.name(source)} is a result of its block (of the model, or read by a block that follows), and a "
            f"kernel has one result: {self.name(reader)} reads it from memory"
        )

    def opaque(self, at: int, source: int, reader: int) -> str:
        """It is no program that can be joined."""
        other = reader if at == source else source
        value = self._bindings[at].value
        if isinstance(value, Var):
            name = self._bindings[at].var.name_hint
            return (
                f"{self.name(reader)} reads {self.name(source)} by another name, {name}, which FuseOps does not follow"
            )
        return f"{self.name(at)} {self._opaque_kind(at)}, so {self.name(other)} cannot be in one kernel with it"

    def _opaque_kind(self, at: int) -> str:
        value = self._bindings[at].value
        if not isinstance(self._bindings[at], VarBinding):
            return "checks sizes when the model runs"
        if not isinstance(value, Call):
            return "is no call"
        name = op_name(value)
        if name == "relax.call_dps_packed":
            return "is computed by a library"
        if name == MAP_BATCH:
            return "is computed for one piece of a batch after the other"
        if has_trait(value, "calls"):
            return "is a program whose accesses to memory are not understood (fusion kind opaque)"
        return "is an operator that runs outside of kernels"

    def several(self, at: int, source: int, reader: int) -> str:
        """Readers that end in different places."""
        names = [self.name(i) for i in self._nodes[at].readers]
        listed = f"{', '.join(names[:-1])} and {names[-1]}"
        return f"{self.name(source)} is read by {listed}, which do not end in one value; a kernel has one result"

    def reduction(self, at: int, source: int, reader: int) -> str:
        """Nothing is behind a reduction."""
        return (
            f"{self.name(source)} is a reduction, whose elements are complete only after its last step: its kernel "
            f"ends there, and {self.name(reader)}, which {self._does(reader)}, begins another"
        )

    def epilogue_kind(self, at: int, source: int, reader: int) -> str:
        """What cannot be behind a matmul."""
        return (
            f"the kernel of {self.name(source)} can only go on element by element, and {self.name(at)} {self._does(at)}"
        )

    def epilogue_shape(self, at: int, source: int, reader: int) -> str:
        """Another shape behind a matmul."""
        return (
            f"the kernel of {self.name(source)} can only go on element by element in its shape {self._shape(source)}, "
            f"and {self.name(at)} has shape {self._shape(at)}"
        )

    def move_kind(self, at: int, source: int, reader: int) -> str:
        """What a move cannot be put in front of."""
        return (
            f"{self.name(source)} {self._does(source)}, and {self.name(at)} {self._does(at)}: in front of such a "
            "program only plain copies, or values of its own shape, are put that nobody else reads"
        )

    def producer_kind(self, at: int, source: int, reader: int) -> str:
        """What nothing can be computed in front of."""
        return (
            f"{self.name(at)} {self._does(at)}: {self.name(source)} would be computed again for each time that an "
            "element is taken"
        )

    def size(self, at: int, source: int, reader: int) -> str:
        """Too many."""
        return (
            f"with {self.name(reader)} the group of {self.name(source)} would have more than {self._max_depth} calls, "
            "the limit relax.FuseOps.max_depth"
        )

    def _does(self, number: int) -> str:
        return _KINDS[self._nodes[number].kind]

    def _shape(self, number: int) -> str:
        shape = self._nodes[number].shape
        return "unknown" if shape is None else f"({', '.join(map(describe_size, shape))})"


def _is_field(binding: Binding) -> bool:
    """Whether a binding gives a part of a value, or all of it, another name."""
    return isinstance(binding, VarBinding) and isinstance(binding.value, (TupleGetItem, Var))


_SENTENCES: Final[dict[str, Callable[[EdgeReasons, int, int, int], str]]] = {
    "output": EdgeReasons.output,
    "opaque": EdgeReasons.opaque,
    "several readers": EdgeReasons.several,
    "reduction": EdgeReasons.reduction,
    "epilogue kind": EdgeReasons.epilogue_kind,
    "epilogue shape": EdgeReasons.epilogue_shape,
    "move kind": EdgeReasons.move_kind,
    "producer kind": EdgeReasons.producer_kind,
    "group size": EdgeReasons.size,
}
_EXPECTED: Final = {
    "output": "a value that only its group reads",
    "opaque": "a tensor program of blocks",
    "several readers": "readers that all lead to one value",
    "reduction": "anything but a reduction",
    "epilogue kind": "a program that works element by element",
    "epilogue shape": "a program of the same shape",
    "move kind": "a program that works element by element, repeats or moves elements",
    "producer kind": "a program that takes each element once",
    "group size": "at most {most} calls",
}
