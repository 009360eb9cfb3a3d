"""Runs of bindings as native code of our own: which bindings make a run, and the instruction for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eutectic.backend.llvm.entry import Bounds
from eutectic.backend.llvm.graph import Segment, is_native, plan_segment
from eutectic.backend.llvm.kernels import Built, build_kernel
from eutectic.backend.llvm.machine import machine_of
from eutectic.backend.llvm.plan import Plan
from eutectic.backend.llvm.pool import available_threads
from eutectic.backend.llvm.program import Program
from eutectic.ir.module import IRModule
from eutectic.ir.op import Op
from eutectic.ir.prim_expr import Var as ScalarVar
from eutectic.relax.analysis.uses import used_vars
from eutectic.relax.expr import Call, Function, Var
from eutectic.relax.struct_info import TensorStructInfo, TupleStructInfo
from eutectic.target import Target
from eutectic.tir.function import PrimFunc
from eutectic.tir.transform.check_bounds import check_bounds


@dataclass
class NativeCode:
    """How bindings become native code.

    Attributes:
        target: What the code is for.
        threads: Threads of a call; None takes what is available.
        one_by_one: Whether each binding becomes a function of its own, so that it can be timed.
        built: Kernels made so far.
        plans: Plans made so far.
        names: Names of tensor programs in their modules.
    """

    target: Target
    threads: int | None = None
    one_by_one: bool = False
    built: dict[PrimFunc, Built] = field(default_factory=dict)
    plans: list[Plan] = field(default_factory=list)
    names: dict[PrimFunc, str] = field(default_factory=dict)

    def kernel(self, func: PrimFunc) -> Built:
        """The kernel of a tensor program, made once."""
        if func not in self.built:
            name = self.names.get(func, "")
            self.built[func] = build_kernel(check_bounds(func, name), machine_of(self.target), name)
        return self.built[func]

    def segment(
        self,
        name: str,
        bindings: Sequence[Any],
        needed: Sequence[Var],
        mod: IRModule,
        bounds: Mapping[ScalarVar, Bounds],
    ) -> tuple[Segment, NativeRegion]:
        """A run of bindings, compiled and loaded."""
        threads = available_threads(self.threads)
        self.names.update({func: gv.name_hint for gv, func in mod.functions_items() if isinstance(func, PrimFunc)})
        segment = plan_segment(name, bindings, needed, mod, self.kernel, threads)
        self.plans.append(segment.plan)
        program = Program(segment.plan, segment.arrays, machine_of(self.target), threads=threads, bounds=bounds)
        return segment, NativeRegion(program)


class NativeRegion:
    """A loaded run of bindings; called with arrays and the sizes that no array tells."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.direct = program.function.raw

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[np.ndarray[Any, Any]]) -> None:
        """Fill `outputs`."""
        tensors = [value for value in inputs if isinstance(value, np.ndarray)]
        sizes = [size for value in inputs if not isinstance(value, np.ndarray) for size in value]
        self.program.function(*tensors, *outputs, *sizes)


def runs(function: Function, mod: IRModule, one_by_one: bool) -> Iterator[tuple[bool, list[Any]]]:
    """The bindings of a function in order, in runs that are native or not."""
    found: list[Any] = []
    for block in function.body.blocks:
        for binding in block.bindings:
            if not is_native(binding, mod) or _renames_other(binding):
                if found:
                    yield _has_kernel(found), found
                    found = []
                yield False, [binding]
                continue
            found.append(binding)
            if one_by_one and _is_kernel(binding):
                yield True, found
                found = []
    if found:
        yield _has_kernel(found), found


def _renames_other(binding: Any) -> bool:
    """Whether a binding gives a name to a parameter that is neither a tensor nor a tuple."""
    return isinstance(binding.value, Var) and not isinstance(
        binding.value.struct_info, (TensorStructInfo, TupleStructInfo)
    )


def _is_kernel(binding: Any) -> bool:
    value = binding.value
    return isinstance(value, Call) and isinstance(value.op, Op) and value.op.name == "relax.call_tir"


def _has_kernel(bindings: Sequence[Any]) -> bool:
    return any(map(_is_kernel, bindings))


def needed_outside(bindings: Sequence[Any], function: Function) -> list[Var]:
    """Variables bound by a run that other bindings, or the result, read."""
    inside = {binding.var for binding in bindings}
    own = {id(binding) for binding in bindings}
    read: set[Var] = set()
    for block in function.body.blocks:
        for binding in block.bindings:
            if id(binding) not in own:
                read.update(var for var in used_vars(binding.value) if var in inside)
    read.update(var for var in used_vars(function.body.body) if var in inside)
    return [binding.var for binding in bindings if binding.var in read]
