"""FuseTIR: make one tensor program of each group that FuseOps made."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.node import children
from eutectic.ir.prim_expr import PrimExpr
from eutectic.ir.prim_expr import Var as ScalarVar
from eutectic.ir.transform import Pass, PassContext
from eutectic.ir.visit import post_order
from eutectic.relax.analysis.uses import all_global_vars
from eutectic.relax.base import Expr, ShapeExpr, StructInfo
from eutectic.relax.dpl.remarks import FusionRemark
from eutectic.relax.expr import Call, Function, Tuple, TupleGetItem
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.op.call_packed import call_tir
from eutectic.relax.struct_info import TensorStructInfo, TupleStructInfo
from eutectic.relax.struct_info_relations import bind_sizes, substitute_info
from eutectic.relax.transform.fused_program import FusedProgram, fuse_program
from eutectic.support.errors import EutecticAdvice
from eutectic.tir.function import PrimFunc


@dataclass(frozen=True)
class FuseTIR(Pass):
    """Turn each function with the attribute `Primitive` into one tensor program of the same name.

    The bodies of the programs that it calls follow one another, with the values in between in buffers of
    the root block; nothing is inlined. Sizes that no buffer of the program has become integer parameters.
    A function for which that cannot be done stays as it is, and an `EutecticAdvice` says why; so does a public one
    that nothing in the module calls. Programs that nobody calls any more are removed. A public function becomes a
    public program.

    before:                                     after:
        gv = fused_add_relu(x, y)                   gv = call_tir(fused_add_relu, (x, y))

        def fused_add_relu(x, y):  # Primitive      def fused_add_relu(x, y, compute):
            lv = call_tir(add, (x, y))                  T_add_intermediate = T.alloc_buffer(...)
            gv = call_tir(relu, (lv,))                  ...

    Reference: TVM `relax.transform.FuseTIR`; differs in that it leaves alone what it cannot fuse, and
    that sizes without a buffer are passed.
    """

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Make the programs, then call them."""
        wanted = {
            gv.name_hint: f
            for gv, f in mod.functions_items()
            if isinstance(f, Function) and f.attr("Primitive") and not f.attr("Composite") and not f.attr("Codegen")
        }
        programs: dict[str, FusedProgram] = {}
        uses = _uses(mod, wanted)
        for name, function in wanted.items():
            program = _program(name, function, mod, uses[name])
            if isinstance(program, str):
                _advise(name, program, ctx)
            else:
                programs[name] = program
        return _with_programs(mod, programs) if programs else mod


def _program(name: str, function: Function, mod: IRModule, uses: list[Call | None]) -> FusedProgram | str:
    """The program of a function, or the reason why it stays a function."""
    symbol = function.attr("global_symbol")
    if symbol is not None and not uses:
        return "it is public and nothing in the module calls it, so it is there for callers outside"
    program = fuse_program(function, mod)
    if isinstance(program, str):
        return program
    if symbol is not None:
        program = replace(program, func=program.func.with_attr("global_symbol", symbol))
    for call in uses:
        if call is None:
            return f"{name} is used as a value, not only called"
        try:
            _results(function, call)
            _sizes(function, call, program)
        except KeyError:
            return "a size that it needs is not known where it is called"
    return program


def _uses(mod: IRModule, names: Mapping[str, Function]) -> dict[str, list[Call | None]]:
    """Calls of functions; None stands for any other use."""
    uses: dict[str, list[Call | None]] = {name: [] for name in names}
    for _, function in mod.functions_items():
        for item in post_order(function):
            for child in children(item):
                if isinstance(child, GlobalVar) and child.name_hint in names:
                    uses[child.name_hint].append(item if isinstance(item, Call) and item.op is child else None)
    return uses


def _bound(function: Function, call: Call) -> dict[ScalarVar, PrimExpr]:
    """The caller's sizes for those of a function's parameters."""
    bound: dict[ScalarVar, PrimExpr] = {}
    for param, arg in zip(function.params, call.args, strict=True):
        if param.struct_info is not None and arg.struct_info is not None:
            bind_sizes(param.struct_info, arg.struct_info, bound)
    return bound


def _sizes(function: Function, call: Call, program: FusedProgram) -> ShapeExpr | None:
    """The integers that a program is given; KeyError when one is not known."""
    bound = _bound(function, call)
    sizes = tuple(bound[var] for var in program.tir_vars)
    return ShapeExpr(sizes) if sizes else None


def _results(function: Function, call: Call) -> StructInfo | list[StructInfo]:
    """Struct info of what a call gives; KeyError when a shape is not known."""
    derived = substitute_info(function.ret_struct_info, _bound(function, call)) if function.ret_struct_info else None
    for info in (call.struct_info, derived):
        parts = list(info.fields) if isinstance(info, TupleStructInfo) else [info]
        if all(isinstance(part, TensorStructInfo) and part.dims is not None for part in parts):
            return parts if isinstance(info, TupleStructInfo) else parts[0]  # type: ignore[return-value]  # tensors, as was just checked
    raise KeyError("a result's shape is not known")


def _advise(name: str, why: str, ctx: PassContext) -> None:
    warnings.warn(f"FuseTIR leaves {name} a graph function: {why}", EutecticAdvice, stacklevel=2)
    if ctx.collect_remarks:
        ctx.remarks.append(FusionRemark("missed", "FuseTIR", name, name, why, function=name))


def _with_programs(mod: IRModule, programs: Mapping[str, FusedProgram]) -> IRModule:
    """A module in which programs stand for functions, without programs that are not called any more."""
    targets = {name: GlobalVar(name, struct_info=program.func.struct_info) for name, program in programs.items()}
    out = mod.clone()
    calls = _Calls(mod, programs, targets)
    for gv, function in mod.functions_items():
        if gv.name_hint in programs:
            out[targets[gv.name_hint]] = programs[gv.name_hint].func
        elif isinstance(function, Function):
            out[gv] = calls.visit_expr(function)
    kept = {gv.name_hint for _, function in out.functions_items() for gv in all_global_vars(function)}  # type: ignore[arg-type]  # any node has global variables below it
    for name in sorted(set().union(*(program.callees for program in programs.values())) - kept):
        if isinstance(out.get(name), PrimFunc) and out[name].attr("global_symbol") is None:
            del out[name]
    return out


class _Calls(PyExprMutator):
    """Calls programs in place of functions."""

    def __init__(self, mod: IRModule, programs: Mapping[str, FusedProgram], targets: Mapping[str, GlobalVar]) -> None:
        super().__init__(mod)
        self._mod, self._programs, self._targets = mod, programs, targets

    def visit_call_(self, call: Call) -> Expr:
        """A `call_tir` where a function became a program."""
        name = call.op.name_hint if isinstance(call.op, GlobalVar) else ""
        program = self._programs.get(name)
        if program is None:
            return super().visit_call_(call)
        function = self._mod[name]
        args = [self._field(self.visit_expr(call.args[number]), path) for number, *path in program.inputs]
        sizes, results = _sizes(function, call, program), _results(function, call)
        return call_tir(self._targets[name], Tuple(tuple(args)), results, sizes, span=call.span)

    def _field(self, value: Any, path: list[int]) -> Expr:
        """A tensor within an argument."""
        for index in path:
            value = value.fields[index] if isinstance(value, Tuple) else self.builder_.emit(TupleGetItem(value, index))
        return value  # type: ignore[no-any-return]  # fields of graph values are graph values
