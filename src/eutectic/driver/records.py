"""From lowered modules and fusion remarks to a `CompileReport`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from eutectic.backend.contract import BackendRemark
from eutectic.driver.mapped import bindings_of
from eutectic.driver.report import CompositeRecord, RegionRecord, UnfusedRecord
from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.op import Op
from eutectic.ir.span import Span
from eutectic.ir.transform import PassRecord
from eutectic.relax.analysis.uses import used_vars, walk_bindings, walk_calls
from eutectic.relax.dpl.remarks import FusionRemark
from eutectic.relax.expr import Call, Function, Var
from eutectic.relax.op.registry import has_trait
from eutectic.relax.transform.composite import composite_calls
from eutectic.target import Target

_OWN: Final = ("FuseOps", "FuseTIR")  # remarks about kernels of ours, not about what a library would take


class Stages:
    """The module at the points of its way that a report is about, found by the passes that ran.

    Args:
        records: What the passes left.
        kernels: The module after the last.

    Attributes:
        outlined: Modules with regions for libraries, before these were lowered; one for each `RunCodegen`.
        operators: What libraries left, before it became tensor programs.
        programs: The module of tensor programs.
        ungrouped: These before those that become one kernel were found.
        were_fused: Whether `FuseOps` was run.
        groups: With the programs that become one kernel in functions of their own.
        calls: The module in the end, before its tensor programs were given other shapes of what they read.
        kernels: The module in the end.
    """

    def __init__(self, records: Sequence[PassRecord], kernels: IRModule) -> None:
        last = {record.name: record for record in records}
        lowering = [last[name] for name in ("DecomposeOpsForInference", "LegalizeOps") if name in last]
        self.outlined = [record.before for record in records if record.name == "RunCodegen" and record.changed]
        self.operators = lowering[0].before if lowering else kernels
        self.programs = lowering[-1].after if lowering else kernels
        self.ungrouped = last["FuseOps"].before if "FuseOps" in last else self.programs
        self.were_fused = "FuseOps" in last
        self.groups = last["FuseTIR"].before if "FuseTIR" in last else kernels
        self.calls = last["JoinVaryingAxes"].before if "JoinVaryingAxes" in last else kernels
        self.kernels = kernels

    @property
    def partitioned(self) -> IRModule:
        """The graph with its regions, before code was generated."""
        return self.outlined[-1] if self.outlined else self.operators


def declined(remarks: Iterable[Any]) -> Iterator[BackendRemark]:
    """What was said by backends that did not take a model."""
    return (remark for remark in remarks if isinstance(remark, BackendRemark) and remark.kind == "declined")


def region_records(stages: Stages, target: Target, entry: str = "main") -> tuple[RegionRecord, ...]:
    """Regions of libraries, then the kernels of our own as one region; each in order of execution.

    Args:
        stages: The module on its way.
        target: What it was compiled for; the code generator of its kind made the kernels.
        entry: The function.
    """
    of_libraries = [record for mod in stages.outlined for record in library_records(mod, entry)]
    return (*of_libraries, *kernel_records(stages, target.kind.name, entry))


def library_records(mod: IRModule, entry: str = "main") -> tuple[RegionRecord, ...]:
    """Regions that a function calls, in order of execution.

    Args:
        mod: Module after `MergeCompositeFunctions`, before `RunCodegen`.
        entry: The function.
    """
    regions = []
    for binding in bindings_of(mod, entry):
        call = binding.value
        callee = mod.get(call.op) if isinstance(call, Call) and isinstance(call.op, GlobalVar) else None
        if isinstance(callee, Function) and callee.attr("Codegen"):
            symbol = str(callee.attr("global_symbol"))
            regions.append(RegionRecord(symbol, str(callee.attr("Codegen")), _composites(callee, symbol)))
    return tuple(regions)


def _composites(region: Function, symbol: str) -> tuple[CompositeRecord, ...]:
    out = []
    for _, _, composite in composite_calls(region):
        calls = list(walk_calls(composite))
        modules, sources = _places(c.span for c in calls)
        ops = tuple(c.op.name for c in calls if isinstance(c.op, Op))
        out.append(CompositeRecord(str(composite.attr("Composite")), ops, symbol, modules, sources))
    return tuple(out)


def _places(spans: Iterable[Span | None]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    known = [span for outer in spans if outer is not None for span in outer.all]
    modules = dict.fromkeys(span.module for span in known if span.module)
    sources = dict.fromkeys(f"{span.file}:{span.line}" for span in known if span.file)
    return tuple(modules), tuple(sources)


def unfused_records(stages: Stages, remarks: Sequence[Any], entry: str = "main") -> tuple[UnfusedRecord, ...]:
    """Operators of a function that no library took, each with the best known reason; none if no library was asked.

    Args:
        stages: The module on its way.
        remarks: What the passes said.
        entry: The function.
    """
    asked = [remark for remark in remarks if isinstance(remark, BackendRemark) and remark.kind == "taken"]
    if not asked:
        return ()
    reasons: dict[str, str] = {}
    for remark in remarks:
        if isinstance(remark, FusionRemark) and remark.kind == "missed" and remark.pattern not in _OWN:
            reasons.setdefault(remark.variable, f"{remark.pattern}: {remark.reason}")
    names = " or ".join(dict.fromkeys(remark.backend for remark in asked))
    out = []
    ours: set[Var] = set()  # what only our kernels compute, and what is fused into it
    for binding in bindings_of(stages.operators, entry):
        call = binding.value
        if not (isinstance(call, Call) and (op := _operator(call))):
            continue
        if has_trait(call, "generated") or (has_trait(call, "pointwise") and not ours.isdisjoint(used_vars(call))):
            ours.add(binding.var)
            continue
        reason = reasons.get(binding.var.name_hint, f"no pattern of {names} takes {op}")
        modules, sources = _places([call.span])
        out.append(UnfusedRecord(op, binding.var.name_hint, "".join(modules[:1]), "".join(sources[:1]), reason))
    return tuple(out)


def kernel_records(stages: Stages, generator: str, entry: str = "main") -> tuple[RegionRecord, ...]:
    """The kernels of our own that a function calls, in order of execution, as one region.

    Reshapes that move nothing call no kernel in the end.

    Args:
        stages: The module on its way.
        generator: Whose kernels they are.
        entry: The function.
    """
    op_of = _operators_of_programs(stages.operators, stages.programs, entry)
    last = bindings_of(stages.calls, entry)
    called = {var.name_hint for b in last if (var := callee_of(b.value)) is not None}
    groups = stages.groups
    composites = []
    for binding in bindings_of(groups, entry):
        call = binding.value
        callee = callee_of(call)
        if callee is None or callee not in groups or callee.name_hint not in called:
            continue
        function = groups[callee]
        inner = [b.value for b in walk_bindings(function)] if isinstance(function, Function) else [call]
        names = [var for var in map(callee_of, inner) if var is not None]
        ops = tuple(op_of.get(name.name_hint, name.name_hint) for name in names)
        modules, sources = _places(c.span for c in inner)
        plain = plain_name(callee.name_hint)
        composites.append(CompositeRecord(f"{generator}.{plain}", ops, callee.name_hint, modules, sources))
    return (RegionRecord(entry, generator, tuple(composites)),) if composites else ()


def _operators_of_programs(operators: IRModule, programs: IRModule, entry: str) -> dict[str, str]:
    """The operator that each tensor program computes, by the program's name."""
    names = {b.var: _operator(b.value) for b in bindings_of(operators, entry)}
    out: dict[str, str] = {}
    for binding in bindings_of(programs, entry):
        callee = callee_of(binding.value)
        op = names.get(binding.var)
        if callee is not None and op:
            out.setdefault(callee.name_hint, op)
    return out


def _operator(value: object) -> str:
    """The name of the operator that is called; empty when it is something else."""
    is_call = isinstance(value, Call) and isinstance(value.op, Op) and not has_trait(value, "calls")
    return str(getattr(getattr(value, "op", None), "name", "")) if is_call else ""


def callee_of(value: object) -> GlobalVar | None:
    """The function that a binding calls: a graph function, or a tensor program through `call_tir`."""
    if not isinstance(value, Call):
        return None
    if isinstance(value.op, GlobalVar):
        return value.op
    is_program = getattr(value.op, "name", "") == "relax.call_tir"
    first: object = value.args[0] if is_program else None
    return first if isinstance(first, GlobalVar) else None


def plain_name(name: str) -> str:
    """A kernel's name without the numbers that make it unique, and without the note that it is fused."""
    parts = name.removeprefix("fused_").split("_")
    return "_".join(part.rstrip("0123456789") for part in parts)
