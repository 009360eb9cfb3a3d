"""What became of every operator of a compiled model: plain data, without nodes, so that any tool can read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from eutectic.driver.plan import PlanRecord, from_tree
from eutectic.runtime.host_operators import LEFT_TO_TORCH
from eutectic.runtime.instructions import CallHost, HostCall, RunProgram
from eutectic.runtime.program import Program
from eutectic.support.deep import deep
from eutectic.support.errors import LoadError
from eutectic.support.registry import register_global_func


@dataclass(frozen=True, slots=True)
class CompositeRecord:
    """Operators that one kernel computes.

    Attributes:
        name: Name of the pattern that matched, such as `dnnl.conv2d_bias_clip`.
        ops: Operator names in the order of execution, such as `relax.nn.conv2d`.
        symbol: The function in the module that the operators were moved into.
        modules: Paths of the user's modules they came from, without repetition.
        sources: `file:line` of the user's code they came from, without repetition.
    """

    name: str
    ops: tuple[str, ...]
    symbol: str
    modules: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RegionRecord:
    """Neighbouring composites that one backend runs.

    Attributes:
        symbol: The external function that the executable calls.
        codegen: The backend that made it, such as `dnnl`.
        composites: What it computes, in the order of execution.
    """

    symbol: str
    codegen: str
    composites: tuple[CompositeRecord, ...]


@dataclass(frozen=True, slots=True)
class UnfusedRecord:
    """An operator that runs on its own.

    Attributes:
        op: Its name.
        variable: The variable in the graph that holds its result.
        module: Path of the user's module it came from; empty when unknown.
        source: `file:line` of the user's code it came from; empty when unknown.
        reason: Why nothing took it, as a sentence.
    """

    op: str
    variable: str
    module: str
    source: str
    reason: str


@dataclass(frozen=True, slots=True)
class HostRecord:
    """An operator that runs in Python.

    Attributes:
        op: Its name.
        module: Path of the user's module it came from; empty when unknown.
        source: `file:line` of the user's code it came from; empty when unknown.
    """

    op: str
    module: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class EagerRecord:
    """An operator that torch runs between compiled parts.

    Attributes:
        op: Its name in torch.
        reason: Why it is not compiled, as a sentence.
        module: Path of the user's module it came from; empty when unknown.
        source: `file:line` of the user's code it came from; empty when unknown.
    """

    op: str
    reason: str
    module: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class CompositeCount:
    """How often one kind of composite occurs.

    Attributes:
        count: Number of composites of that name.
        variants: The different sequences of operators under that name, in order of first appearance.
    """

    count: int
    variants: tuple[tuple[str, ...], ...]

    @property
    def ops(self) -> tuple[str, ...]:
        """The first sequence of operators, usually the only one."""
        return self.variants[0]


@dataclass(frozen=True, slots=True, repr=False)
class CompileReport:
    """What one compilation did; `print` shows a table, so do notebooks.

    Attributes:
        regions: Native call sequences, in the order of execution.
        unfused: Operators outside of every composite, in the order of execution.
        notes: Sentences about the compilation as a whole, such as a kernel library that is missing here.
        seconds: Wall time of the compilation.
        passes: Name and seconds of each step, in the order they ran.
        host_operators: Operators that run in Python, in the order of execution.
        eager_operators: Operators that torch runs, in the order of execution.
        plan: The groups that are executed, and why they are not fewer; what `explain` shows.
    """

    regions: tuple[RegionRecord, ...] = ()
    unfused: tuple[UnfusedRecord, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    passes: tuple[tuple[str, float], ...] = ()
    host_operators: tuple[HostRecord, ...] = ()
    eager_operators: tuple[EagerRecord, ...] = ()
    plan: PlanRecord = field(default_factory=PlanRecord)

    @property
    def composites(self) -> tuple[CompositeRecord, ...]:
        """All composites of all regions, in the order of execution."""
        return tuple(c for region in self.regions for c in region.composites)

    @property
    def convolutions(self) -> int:
        """How many convolutions the model has, fused or not, transposed ones too; several in one operator once."""
        return self.convolutions_fused + sum(_is_convolution(record.op) for record in self.unfused)

    @property
    def convolutions_fused(self) -> int:
        """How many convolutions are inside a composite."""
        return sum(_is_convolution(op) for c in self.composites for op in c.ops)

    def by_composite(self) -> dict[str, CompositeCount]:
        """Count composites by name; the most frequent first, then in order of appearance."""
        ops_of: dict[str, list[tuple[str, ...]]] = {}
        for c in self.composites:
            ops_of.setdefault(c.name, []).append(c.ops)
        counts = {name: CompositeCount(len(ops), tuple(dict.fromkeys(ops))) for name, ops in ops_of.items()}
        return dict(sorted(counts.items(), key=lambda item: -item[1].count))

    def __repr__(self) -> str:
        return f"CompileReport({self._headline})"

    def __str__(self) -> str:
        from eutectic.driver.report_table import report_text  # of rich; reports are read without it

        return report_text(self._headline, self.plan.groups, self._sentences)

    def _repr_html_(self) -> str:
        from eutectic.driver.report_table import report_html  # of rich; reports are read without it

        return report_html(self._headline, self.plan.groups, self._sentences)

    @property
    def _headline(self) -> str:
        operators = sum(len(group.operators) for group in self.plan.groups)
        groups = len(self.plan.groups)
        return f"{operators} operators in {groups} group{'' if groups == 1 else 's'}, compiled in {self.seconds:.2f} s"

    @property
    def _sentences(self) -> list[str]:
        hosts = [
            f"{host.op} runs in Python{f' ({host.source})' if host.source else ''}" for host in self.host_operators
        ]
        why = ["why these are not fewer groups: explain()"] if len(self.plan.groups) > 1 else []
        return [*hosts, *self.notes, *why]

    def to_json(self) -> dict[str, Any]:
        """Everything in the report as a tree that `json.dumps` takes, with the totals beside it."""
        tree: dict[str, Any] = asdict(self)
        tree["passes"] = [{"name": name, "seconds": seconds} for name, seconds in self.passes]
        tree["convolutions"] = self.convolutions
        tree["convolutions_fused"] = self.convolutions_fused
        return tree

    @staticmethod
    def from_json(tree: Mapping[str, Any]) -> CompileReport:
        """Inverse of `to_json`.

        Raises:
            LoadError: it is no such tree.
        """
        try:
            return CompileReport(
                regions=tuple(map(_region, tree["regions"])),
                unfused=tuple(UnfusedRecord(**record) for record in tree["unfused"]),
                notes=tuple(tree["notes"]),
                seconds=tree["seconds"],
                passes=tuple((step["name"], step["seconds"]) for step in tree["passes"]),
                host_operators=tuple(HostRecord(**record) for record in tree["host_operators"]),
                eager_operators=tuple(EagerRecord(**record) for record in tree["eager_operators"]),
                plan=from_tree(PlanRecord, tree["plan"]),
            )
        except (KeyError, TypeError) as error:
            raise LoadError(f"this is no report of a compilation: {error!r}", help="write it with to_json()") from None


@deep
def host_records(program: Program) -> tuple[HostRecord, ...]:
    """The operators of a program that run in Python, without those that torch runs, in the order of execution."""
    records: list[HostRecord] = []
    for step in program.instructions:
        if isinstance(step, (CallHost, HostCall)) and step.name != LEFT_TO_TORCH:
            records.append(HostRecord(step.name, step.module, step.source))
        elif isinstance(step, RunProgram):
            records += host_records(step.program)
    return tuple(records)


def _is_convolution(op: str) -> bool:
    from eutectic.relax.op.registry import is_convolution  # of the compiler; reports are read without it

    return is_convolution(op)


def _region(tree: Mapping[str, Any]) -> RegionRecord:
    return RegionRecord(tree["symbol"], tree["codegen"], tuple(map(_composite, tree["composites"])))


def _composite(tree: Mapping[str, Any]) -> CompositeRecord:
    ops, modules, sources = (tuple(tree[name]) for name in ("ops", "modules", "sources"))
    return CompositeRecord(tree["name"], ops, tree["symbol"], modules, sources)


register_global_func("eutectic.report_from_json", CompileReport.from_json)
