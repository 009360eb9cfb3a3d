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


def kernel_records(
    operators: IRModule, programs: IRModule, groups: IRModule, kernels: IRModule, entry: str = "main"
) -> tuple[RegionRecord, ...]:
    """The kernels of our own that a function calls, in order of execution, as one region.

    Args:
        operators: The module before its operators became tensor programs.
        programs: The module after `LegalizeOps`.
        groups: The module after `FuseOps`, before `FuseTIR`.
        kernels: The module in the end, in which reshapes that move nothing call no kernel.
        entry: The function.
    """
    op_of = _operators_of_programs(operators, programs, entry)
    called = {found_.name_hint for b in walk_bindings(kernels[entry]) if (found_ := _callee(b.value)) is not None}
    found = []
    for binding in walk_bindings(groups[entry]):
        call = binding.value
        callee = _callee(call)
        if callee is None or callee not in groups or callee.name_hint not in called:
            continue
        function = groups[callee]
        inner = [b.value for b in walk_bindings(function)] if isinstance(function, Function) else [call]
        names = [found_ for found_ in map(_callee, inner) if found_ is not None]
        ops = tuple(op_of.get(name.name_hint, name.name_hint) for name in names)
        modules, sources = _places(c.span for c in inner)
        found.append(CompositeRecord(f"llvm.{_plain_name(callee.name_hint)}", ops, callee.name_hint, modules, sources))
    return (RegionRecord(entry, "llvm", tuple(found)),) if found else ()


def _operators_of_programs(operators: IRModule, programs: IRModule, entry: str) -> dict[str, str]:
    """The operator that each tensor program computes, by the program's name."""
    names = {b.var: _operator(b.value) for b in walk_bindings(operators[entry])}
    out: dict[str, str] = {}
    for binding in walk_bindings(programs[entry]):
        callee = _callee(binding.value)
        op = names.get(binding.var)
        if callee is not None and op:
            out.setdefault(callee.name_hint, op)
    return out


def _operator(value: object) -> str:
    """The name of the operator that is called; empty when it is something else."""
    is_call = isinstance(value, Call) and isinstance(value.op, Op) and not value.op.name.startswith("relax.call_")
    return str(getattr(getattr(value, "op", None), "name", "")) if is_call else ""


def _callee(value: object) -> GlobalVar | None:
    """The function that a binding calls: a graph function, or a tensor program through `call_tir`."""
    if not isinstance(value, Call):
        return None
    if isinstance(value.op, GlobalVar):
        return value.op
    is_program = getattr(value.op, "name", "") == "relax.call_tir"
    first: object = value.args[0] if is_program else None
    return first if isinstance(first, GlobalVar) else None


def _plain_name(name: str) -> str:
    """A kernel's name without the numbers that make it unique, and without the note that it is fused."""
    parts = name.removeprefix("fused_").split("_")
    return "_".join(part.rstrip("0123456789") for part in parts)
