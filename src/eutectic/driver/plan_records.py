"""From the modules and remarks of a compilation to its `PlanRecord`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from eutectic.backend.kernel import Built
from eutectic.driver.mapped import bindings_of, bindings_with_times
from eutectic.driver.plan import (
    BoundaryRecord,
    GroupRecord,
    MissRecord,
    OperatorRecord,
    PlanRecord,
    operator_label,
)
from eutectic.driver.plan_reasons import Edge, edge_reason
from eutectic.driver.plan_tensors import amount, operands, operator_record, tensors_of
from eutectic.driver.records import Stages, callee_of, plain_name
from eutectic.ir.module import IRModule
from eutectic.ir.op import Op
from eutectic.ir.prim_expr import PrimExpr
from eutectic.ir.prim_expr import Var as ScalarVar
from eutectic.relax.analysis.concat_pattern import JOINED, are_joined
from eutectic.relax.analysis.uses import used_vars, walk_bindings
from eutectic.relax.base import Expr, ShapeExpr
from eutectic.relax.dpl.remarks import FusionRemark
from eutectic.relax.expr import Binding, Call, ExternFunc, Function, Tuple, TupleGetItem, Var
from eutectic.relax.op.registry import has_trait
from eutectic.relax.struct_info import TensorStructInfo, TupleStructInfo
from eutectic.relax.transform.composite import composite_calls
from eutectic.relax.transform.fusion_reasons import PASS, callee_name
from eutectic.relax.transform.tir_calls import passed_by
from eutectic.tir.access import substitute
from eutectic.tir.analysis.flops import work_of
from eutectic.tir.function import PrimFunc

_NAMED: Final = re.compile(r"\w+ \(\w+\)")
Place = tuple[int, int]  # number of a group, and of an operator in it


def plan_record(
    stages: Stages, remarks: Sequence[Any], generator: str, made: Mapping[str, Built], entry: str = "main"
) -> PlanRecord:
    """The plan of a function.

    Args:
        stages: The module on its way.
        remarks: What the passes said.
        generator: Whose kernels those of our own are.
        made: Kernels, by the names of their tensor programs.
        entry: The function.
    """
    said = [remark for remark in remarks if isinstance(remark, FusionRemark)]
    builder = _Builder(_Graphs(stages, entry), said, generator, made)
    for binding, times in bindings_with_times(stages.calls, entry):
        builder.add(binding, times)
    misses = tuple(builder.misses())
    return PlanRecord(tuple(builder.groups), tuple(builder.boundaries(misses)), misses)


class _Graphs:
    """The graph as operators, as programs before they were grouped, and as kernels."""

    def __init__(self, stages: Stages, entry: str) -> None:
        self.kernels: IRModule = stages.calls
        bound = bindings_of(stages.operators, entry)
        self.operators = {b.var: b.value for b in bound if isinstance(b.value, Call) and _is_operator(b.value)}
        self.were_fused = stages.were_fused
        self.programs = {b.var: b.value for b in bindings_of(stages.ungrouped, entry)}
        self.regions = {
            str(function.attr("global_symbol")): function
            for mod in stages.outlined
            for _, function in mod.functions_items()
            if isinstance(function, Function) and function.attr("Codegen")
        }
        self.part_of: dict[Var, str] = {}
        parts: list[Var] = []
        for var in self.programs:
            if var in self.operators:
                self.part_of.update(dict.fromkeys(parts, self.operators[var].op.name))
                parts = []
            elif isinstance(self.programs[var], Call):
                parts.append(var)

    def origin(self, var: Var) -> Var:
        """The variable that another one is a name of."""
        while isinstance(value := self.programs.get(var), Var):
            var = value
        return var

    def operator(self, var: Var, call: Call) -> OperatorRecord:
        """What a call computes, as the operator that it was.

        Args:
            var: What it is bound to.
            call: The call, for the case that nothing is known of it.
        """
        value = self.operators.get(var)
        if value is not None:
            return operator_record(var, value, value.op.name)
        program = self.programs.get(var, call)
        program = program if isinstance(program, Call) else call
        return operator_record(var, program, callee_name(program), self.part_of.get(var, ""))


@dataclass
class _Builder:
    """Groups as far as they are known.

    Attributes:
        graphs: The graph at its stages.
        remarks: What fusion said.
        generator: Whose kernels those of our own are.
        made: Kernels, by the names of their tensor programs.
        groups: In the order of execution.
        owner: For each variable the place of the operator whose result it is.
        fields: For a tuple, and for the result of a region, what each field is.
    """

    graphs: _Graphs
    remarks: Sequence[FusionRemark]
    generator: str
    made: Mapping[str, Built]
    groups: list[GroupRecord] = field(default_factory=list)
    owner: dict[Var, Place] = field(default_factory=dict)
    fields: dict[Var, Sequence[Expr]] = field(default_factory=dict)
    _read_at: dict[tuple[int, int], tuple[Var, Var | None]] = field(default_factory=dict)
    _labels: dict[str, str] = field(default_factory=dict)
    _counted: dict[str, int | PrimExpr] = field(default_factory=dict)
    _times: int = 1

    def __post_init__(self) -> None:
        fused = [remark for remark in self.remarks if remark.pattern == PASS and remark.kind == "fused"]
        self._members = {remark.bound[-1]: remark.bound for remark in fused if remark.bound}

    def add(self, binding: Binding, times: int = 1) -> None:
        """Take a binding of the graph of kernels, which a call computes so often."""
        value, self._times = binding.value, times
        if not isinstance(value, Call):
            self._rename(binding.var, value)
        elif (symbol := _extern(value)) in self.graphs.regions:
            self._add_region(binding.var, value, self.graphs.regions[symbol])
        else:
            self._add_call(binding.var, value)

    def _rename(self, var: Var, value: Expr) -> None:
        """A field of a tuple, a tuple, or another name."""
        if isinstance(value, Tuple):
            self.fields[var] = value.fields
        source = value.tuple_value if isinstance(value, TupleGetItem) else value
        if isinstance(value, TupleGetItem) and source in self.fields:
            source = self.fields[source][value.index]
        place = self.place(source) if isinstance(source, Var) else None
        if place is not None:
            self.owner[var] = place

    def place(self, var: Var) -> Place | None:
        """Where a value is made; None for inputs."""
        place = self.owner.get(var)
        return place if place is not None else self.owner.get(self.graphs.origin(var))

    def _add_call(self, var: Var, call: Call) -> None:
        """A kernel of ours, a view, or what runs in Python."""
        members = self._members.get(var) or self._members.get(self.graphs.origin(var)) or (var,)
        calls = [m for m in members if isinstance(self.graphs.programs.get(m, call), Call)]
        operators = tuple(self.graphs.operator(self.graphs.origin(member), call) for member in calls)
        self._put(self._group(call, operators, tuple(tensors_of(var.name_hint, var.struct_info))), call)
        number = len(self.groups) - 1
        self.owner.update({member: (number, min(i, len(operators) - 1)) for i, member in enumerate(calls)})
        self.owner.update({m: (number, len(operators) - 1) for m in (*members, var) if m not in self.owner})

    def _group(self, call: Call, operators: tuple[OperatorRecord, ...], results: tuple[Any, ...]) -> GroupRecord:
        inputs = tuple(operands(call))
        program = self._program(call)
        if program is not None:
            name, func = program
            flops, work = amount(self._work(name, func, call))
            built = self.made.get(name)
            return GroupRecord(
                "kernel",
                self.generator,
                name,
                plain_name(name),
                operators,
                inputs,
                results,
                flops=flops,
                trace=() if built is None else built.trace,
                chosen=() if built is None else built.chosen,
                work=work,
            )
        if _costs_nothing(call):
            return GroupRecord("view", "", operators[0].op, "view", operators, inputs, results, (), 0)
        note = _why_in_python(call)
        flops = _sum(operator.flops for operator in operators)
        return GroupRecord("host", "host", callee_name(call), "host", operators, inputs, results, (), flops, note=note)

    def _program(self, call: Call) -> tuple[str, PrimFunc] | None:
        callee = callee_of(call)
        func = self.graphs.kernels.get(callee) if callee is not None else None
        return (callee.name_hint, func) if callee is not None and isinstance(func, PrimFunc) else None

    def _work(self, name: str, func: PrimFunc, call: Call) -> int | PrimExpr:
        """Operations of a program, counted once for each; of sizes that vary as an expression of the graph's."""
        if name not in self._counted:
            self._counted[name] = work_of(func)
        counted = self._counted[name]
        return substitute(counted, _sizes_of_call(func, call)) if isinstance(counted, PrimExpr) else counted

    def _add_region(self, var: Var, call: Call, region: Function) -> None:
        """The composites of a call of a library, each as a group."""
        args = passed_by(call)
        passed = dict(zip(region.params, args, strict=False))
        backend, symbol = str(region.attr("Codegen")), str(region.attr("global_symbol"))
        for inner, use, composite in composite_calls(region):
            bound = [(b.var, b.value) for b in walk_bindings(composite) if isinstance(b.value, Call)]
            operators = tuple(operator_record(v, value, callee_name(value)) for v, value in bound)
            outer = Call(use.op, tuple(passed.get(arg, arg) if isinstance(arg, Var) else arg for arg in use.args))
            constants = tuple(tensor for operator in operators for tensor in operator.reads if tensor.constant)
            group = GroupRecord(
                "library",
                backend,
                symbol,
                str(composite.attr("Composite")),
                operators,
                (*operands(outer), *constants),
                tuple(tensors_of(operators[-1].variable, inner.struct_info)),
                flops=_sum(operator.flops for operator in operators),
                region=symbol,
            )
            self._put(group, outer)
            self.owner[inner] = (len(self.groups) - 1, len(operators) - 1)
        result = region.body.body
        parts = list(result.fields) if isinstance(result, Tuple) else [result]
        self._give(var, [self._inner(part, region) for part in parts])

    def _inner(self, part: Expr, region: Function) -> Var:
        """The variable of a region that one of its results is."""
        assert isinstance(part, Var)  # graphs are in A-normal form
        value = {b.var: b.value for b in walk_bindings(region)}.get(part)
        return value if isinstance(value, Var) else part

    def _give(self, var: Var, parts: Sequence[Var]) -> None:
        self.fields[var] = parts
        place = self.owner.get(parts[-1])
        if place is not None:
            self.owner[var] = place

    def _put(self, group: GroupRecord, call: Call) -> None:
        """Append a group that a call is; note what it reads."""
        number = len(self.groups)
        reads: dict[int, None] = {}
        for var in used_vars(call):
            place = self.place(var)
            if place is not None and place[0] != number:
                reads[place[0]] = None
                self._read_at.setdefault((place[0], number), (var, None))
        flops = None if group.flops is None else group.flops * self._times
        self.groups.append(replace(group, reads=tuple(reads), flops=flops, times=self._times))

    # ---- what keeps groups apart

    def misses(self) -> Iterator[MissRecord]:
        """Patterns that nearly matched; of one reason at one operator the first."""
        names = {o.variable: i for i, g in enumerate(self.groups) for o in g.operators if not o.part_of}
        seen: set[tuple[str, str]] = set()
        for remark in self.remarks:
            key = (remark.variable, remark.reason)
            if remark.kind != "missed" or not remark.pattern or remark.pattern in (PASS, "FuseTIR") or key in seen:
                continue
            seen.add(key)
            if remark.variable in names:
                yield MissRecord(
                    names[remark.variable],
                    remark.pattern,
                    remark.root,
                    remark.variable,
                    remark.constraint,
                    str(remark.reason) + (f" (read by {', '.join(remark.readers)})" if remark.readers else ""),
                    remark.expected,
                    remark.actual,
                )

    def boundaries(self, misses: Sequence[MissRecord]) -> Iterator[BoundaryRecord]:
        """Why each group and those that read it are not one."""
        said: dict[tuple[int, int], FusionRemark] = {}
        for note in self.remarks:
            if note.pattern == PASS and note.kind == "missed" and len(note.bound) == 2:
                made, read = (self.place(var) for var in note.bound)
                if made is not None and read is not None:
                    said.setdefault((made[0], read[0]), note)
        for number, group in enumerate(self.groups):
            for source in group.reads:
                value, user = self._ends(source, number, said.get((source, number)))
                remark = said.get((source, number))
                edge = Edge(self.groups, source, number, value, user, misses, remark, self.graphs.were_fused)
                rule, reason = edge_reason(edge)
                yield BoundaryRecord(source, number, value, user, rule, self._with_operators(reason))

    def _with_operators(self, text: str) -> str:
        """A sentence with operators where it has the tensor programs that compute them."""
        if not self._labels:
            operators = self.graphs.operators
            bound = self.graphs.programs.items()
            programs = {var: value for var, value in bound if var in operators and isinstance(value, Call)}
            self._labels = {
                f"{callee_name(value)} ({var.name_hint})": operator_label(operators[var].op.name, var.name_hint)
                for var, value in programs.items()
            }
        return _NAMED.sub(lambda match: self._labels.get(match.group(), match.group()), text)

    def _ends(self, source: int, reader: int, remark: FusionRemark | None) -> tuple[int, int]:
        """The operators at both ends of a read."""
        var = self._read_at[source, reader][0]
        value = (self.place(var) or (source, 0))[1]
        user = self.place(remark.bound[1]) if remark is not None else None
        if user is not None and self.groups[reader].kind == "kernel":
            return value, user[1]
        names = {var.name_hint, self.groups[source].operators[value].variable}
        readers = [i for i, o in enumerate(self.groups[reader].operators) if names & {t.name for t in o.reads}]
        return value, readers[0] if readers else 0


def _is_operator(call: Call) -> bool:
    return isinstance(call.op, Op) and not has_trait(call, "calls")


def _extern(call: Call) -> str:
    """The external function that a call calls; empty when it calls none."""
    first = call.args[0] if call.args and has_trait(call, "calls") else None
    return first.global_symbol if isinstance(first, ExternFunc) else ""


def _why_in_python(call: Call) -> str:
    """Why no kernel computes a call."""
    if not _is_operator(call):
        return "it is a function of the graph that became no tensor program"
    if _has_unknown_shape(call):
        return "the size of its result depends on the data"
    return "the operator has no tensor program"


def _costs_nothing(call: Call) -> bool:
    """Whether native code does nothing for a call: other shapes of a tensor, and tensors that are computed in place."""
    if isinstance(call.op, Op) and call.op.name == JOINED:
        return are_joined(call)
    return has_trait(call, "view") and not _has_unknown_shape(call)


def _has_unknown_shape(call: Call) -> bool:
    info = call.struct_info
    return isinstance(info, TensorStructInfo) and info.dims is None


def _sizes_of_call(func: PrimFunc, call: Call) -> dict[ScalarVar, PrimExpr]:
    """What the sizes of a tensor program are in the graph, of those that an axis has by itself or that are passed."""
    args = passed_by(call)
    result = call.struct_info
    infos = [*(arg.struct_info for arg in args), *(result.fields if isinstance(result, TupleStructInfo) else [result])]
    buffers = [func.buffer_map[param] for param in func.params if param in func.buffer_map]
    sizes: dict[ScalarVar, PrimExpr] = {}
    for buffer, info in zip(buffers, infos, strict=False):
        for size, value in zip(buffer.shape, (isinstance(info, TensorStructInfo) and info.dims) or (), strict=False):
            if isinstance(size, ScalarVar):
                sizes.setdefault(size, value)
    numbers = [param for param in func.params if param not in func.buffer_map]
    passed = call.args[2] if len(call.args) > 2 else None
    if isinstance(passed, ShapeExpr):
        sizes.update(zip(numbers, passed.values, strict=False))
    return sizes


def _sum(parts: Iterable[int | None]) -> int | None:
    values = list(parts)
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
