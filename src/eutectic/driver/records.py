"""From lowered modules and fusion remarks to a `CompileReport`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from eutectic.driver.report import CompositeRecord, RegionRecord, UnfusedRecord
from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.op import Op
from eutectic.ir.span import Span
from eutectic.relax.analysis.uses import walk_bindings
from eutectic.relax.dpl.remarks import FusionRemark
from eutectic.relax.expr import Call, Function, Var


def region_records(mod: IRModule, entry: str = "main") -> tuple[RegionRecord, ...]:
    """Regions that a function calls, in order of execution.

    Args:
        mod: Module after `MergeCompositeFunctions`, before `RunCodegen`.
        entry: The function.
    """
    found = []
    for binding in walk_bindings(mod[entry]):
        call = binding.value
        callee = mod.get(call.op) if isinstance(call, Call) and isinstance(call.op, GlobalVar) else None
        if isinstance(callee, Function) and callee.attr("Codegen"):
            symbol = str(callee.attr("global_symbol"))
            found.append(RegionRecord(symbol, str(callee.attr("Codegen")), _composites(callee, symbol)))
    return tuple(found)


def _composites(region: Function, symbol: str) -> tuple[CompositeRecord, ...]:
    local = {b.var: b.value for b in walk_bindings(region) if isinstance(b.value, Function)}
    out = []
    for binding in walk_bindings(region):
        call = binding.value
        if isinstance(call, Call) and isinstance(call.op, Var) and call.op in local:
            composite = local[call.op]
            calls = [b.value for b in walk_bindings(composite) if isinstance(b.value, Call)]
            modules, sources = _places(c.span for c in calls)
            ops = tuple(c.op.name for c in calls if isinstance(c.op, Op))
            out.append(CompositeRecord(str(composite.attr("Composite")), ops, symbol, modules, sources))
    return tuple(out)


def _places(spans: Iterable[Span | None]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    known = [span for span in spans if span is not None]
    modules = dict.fromkeys(span.module for span in known if span.module)
    sources = dict.fromkeys(f"{span.file}:{span.line}" for span in known if span.file)
    return tuple(modules), tuple(sources)


def unfused_records(
    mod: IRModule, remarks: Sequence[FusionRemark], backend: str, entry: str = "main"
) -> tuple[UnfusedRecord, ...]:
    """Operators of a function that are in no region, each with the best known reason."""
    reasons: dict[str, str] = {}
    for remark in remarks:
        if remark.kind == "missed":
            reasons.setdefault(remark.variable, f"{remark.pattern}: {remark.reason}")
    out = []
    for binding in walk_bindings(mod[entry]):
        call = binding.value
        if not (isinstance(call, Call) and isinstance(call.op, Op)) or call.op.name.startswith("relax.call_"):
            continue
        reason = reasons.get(binding.var.name_hint, f"no pattern of {backend} takes {call.op.name}")
        modules, sources = _places([call.span])
        out.append(
            UnfusedRecord(call.op.name, binding.var.name_hint, "".join(modules[:1]), "".join(sources[:1]), reason)
        )
    return tuple(out)


def kernel_records(before: IRModule, after: IRModule, entry: str = "main") -> tuple[RegionRecord, ...]:
    """The kernels of our own that a function calls, in order of execution, as one region.

    Args:
        before: The module of operators.
        after: The same module as kernels.
        entry: The function.
    """
    del before
    found = []
    for binding in walk_bindings(after[entry]):
        call = binding.value
        if not (isinstance(call, Call) and isinstance(call.op, Op) and call.op.name == "relax.call_tir"):
            continue
        callee = call.args[0]
        assert isinstance(callee, GlobalVar)
        program = after[callee]
        ops = tuple(str(name) for name in program.attr("ops") or ())
        modules, sources = _places([call.span])
        found.append(CompositeRecord(f"llvm.{_plain_name(callee.name_hint)}", ops, callee.name_hint, modules, sources))
    return (RegionRecord(entry, "llvm", tuple(found)),) if found else ()


def _plain_name(name: str) -> str:
    """A kernel's name without the numbers that make it unique."""
    return "_".join(part.rstrip("0123456789") if not part.isdigit() else part for part in name.split("_")).strip("_")
