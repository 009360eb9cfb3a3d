"""From a lowered module to an executable: slots for variables, instructions for bindings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from eutectic.backend.plan import Bounds
from eutectic.backend.size_data import size_data
from eutectic.driver.host_calls import operator_call, packed_function, packed_results, place_of
from eutectic.driver.libraries import Libraries
from eutectic.driver.native import NativeBuilder, needed_outside, runs
from eutectic.driver.parameters import Sizes, Unpacked, bound, parameter, unpack, value_check
from eutectic.ir.dtype import to_numpy
from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.op import Op
from eutectic.ir.prim_expr import FloatImm, IntImm, PrimExpr
from eutectic.ir.prim_expr import Var as ScalarVar
from eutectic.relax.analysis.uses import used_vars, walk_bindings
from eutectic.relax.base import ShapeExpr, StructInfo
from eutectic.relax.expr import (
    Call,
    Constant,
    DataTypeImm,
    ExternFunc,
    Function,
    If,
    MatchCast,
    PrimValue,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from eutectic.relax.interpret import Interpreter
from eutectic.relax.op.registry import has_trait
from eutectic.relax.struct_info import TensorStructInfo, TupleStructInfo
from eutectic.relax.struct_info_relations import free_symbolic_vars, leaf_infos
from eutectic.runtime.executable import Executable
from eutectic.runtime.instructions import (
    CallHost,
    Check,
    Evaluate,
    Filled,
    Instruction,
    Literal,
    Operand,
    Put,
    Reshape,
    RunLibrary,
    RunNative,
    RunProgram,
    Take,
)
from eutectic.runtime.params import Param
from eutectic.runtime.program import Program
from eutectic.runtime.sizes import Size
from eutectic.support.deep import deep
from eutectic.support.errors import CodegenError
from eutectic.support.registry import get_global_func


def link(
    mod: IRModule,
    libraries: Libraries | None = None,
    name: str = "main",
    native: NativeBuilder | None = None,
    other_code: Callable[[], IRModule] | None = None,
) -> Executable:
    """An executable of one function.

    Args:
        mod: Module after `RunCodegen`.
        libraries: The kernels of libraries that it calls.
        name: The function.
        native: How tensor programs become native code; None interprets them.
        other_code: Makes a module, lowered for no library, for calls with values that fast code would lose. None for a
            module of which only libraries lose any: then regions are computed without them.

    Raises:
        CodegenError: the function takes something that is not a tensor, or calls a kernel that is not there.
    """
    known = libraries or Libraries()
    program = program_of(mod, known, name, native)
    kept = known.shelf.put(mod)
    known.strip()

    def otherwise() -> Executable:
        if other_code is not None:
            return Executable(program_of(other_code(), Libraries(), name, native), known.loading)
        return Executable(program_of(kept.module, known, name, native, by_reference=True), known.loading)

    return Executable(program, known.loading, otherwise if known.kernels or other_code is not None else None)


def program_of(
    mod: IRModule, libraries: Libraries, name: str, native: NativeBuilder | None, *, by_reference: bool = False
) -> Program:
    """One function as data.

    Args:
        mod: Module after `RunCodegen`.
        libraries: The kernels of libraries that it calls.
        name: The function.
        native: How tensor programs become native code; None interprets them.
        by_reference: Whether what libraries compute is computed without them.
    """
    function = mod[name]
    if not isinstance(function, Function):
        raise CodegenError(f"{name} is a {type(function).__name__}; only graph functions are linked")
    linker = _Linker(mod, libraries, function, native, by_reference)
    return linker.interpreted(name) if _has_control_flow(function) else linker.run()


def _has_control_flow(function: Function) -> bool:
    """Whether a function has values that are not straight-line code: conditionals, closures."""
    return any(isinstance(binding.value, (If, Function)) for binding in walk_bindings(function))


@dataclass
class _Linker:
    mod: IRModule
    libraries: Libraries
    function: Function
    native: NativeBuilder | None
    by_reference: bool
    slots: dict[Var, int] = field(default_factory=dict)
    constants: dict[int, Any] = field(default_factory=dict)
    constant_slots: dict[int, int] = field(default_factory=dict)
    instructions: list[Instruction] = field(default_factory=list)
    symbols: dict[ScalarVar, str] = field(default_factory=dict)
    shared: set[int] = field(default_factory=set)  # slots that may share memory with a constant
    tuples: dict[Var, Operand] = field(default_factory=dict)  # variables that need no slot of their own
    unpacked: dict[Var, Unpacked] = field(default_factory=dict)  # tuples that native code reads
    count: int = 0

    def interpreted(self, name: str) -> Program:
        """A program that interprets the function as a whole; kernels of libraries are still called."""
        self.name_symbols()
        params = [self.param(param) for param in self.function.params]
        whole = self.new_slot()
        run = partial(self.interpreter().run, name)
        self.instructions.append(CallHost(name, run, tuple(range(len(params))), whole))
        results = self.results_of(whole, self.function.ret_struct_info)
        return self.program(params, results, results)

    def interpreter(self) -> Interpreter:
        """An interpreter whose external functions are kernels of libraries."""

        def external(symbol: str, args: Sequence[Any], infos: Sequence[StructInfo]) -> Any:
            if self.by_reference and symbol in self.libraries:
                return Interpreter(IRModule({symbol: self.libraries.function(symbol)})).run(symbol, *args)
            outputs = [np.empty(_static(info), to_numpy(info.dtype)) for info in tensor_infos(infos)]
            inputs = [np.ascontiguousarray(x) if isinstance(x, np.ndarray) else x for x in args]
            self.libraries.loaded(symbol)(inputs, outputs)
            return outputs[0] if len(outputs) == 1 else tuple(outputs)

        return Interpreter(self.mod, external)

    def program(self, params: Sequence[Param], results: Sequence[int], copied: Sequence[int]) -> Program:
        """What was linked."""
        steps = tuple(self.instructions)
        return Program(tuple(params), steps, self.count, self.constants, tuple(results), tuple(copied))

    def run(self) -> Program:
        self.name_symbols()
        params = [self.param(param) for param in self.function.params]
        callable_natively = {} if self.by_reference else self.libraries.native()
        for is_native, bindings in runs(self.function, self.mod, callable_natively):
            if is_native and self.native is not None:
                self.segment(self.native, bindings)
                continue
            for binding in bindings:
                if isinstance(binding, MatchCast):
                    self.match_cast(binding)
                else:
                    self.bind(binding.var, binding.value)
        body = self.function.body.body
        results = self.results_of(self.operand(body), body.struct_info)
        results = [slot if results.index(slot) == i else self.copy_of(slot) for i, slot in enumerate(results)]
        copied = [slot for slot in results if slot in self.shared or slot in self.constants]
        return self.program(params, results, copied)

    @deep
    def results_of(self, value: Operand, info: StructInfo | None) -> list[int]:
        """Slots of the tensors of a result, nested tuples flattened."""
        if not isinstance(info, TupleStructInfo):
            return [self.value_slot(value) if isinstance(value, Literal) else self.as_slot(value, "result")]
        parts = value if isinstance(value, tuple) else tuple(self.get_item(value, i) for i in range(len(info.fields)))
        return [slot for part, inner in zip(parts, info.fields, strict=True) for slot in self.results_of(part, inner)]

    def copy_of(self, slot: int) -> int:
        """A slot with a copy: a value that is returned twice is two arrays, as each belongs to the caller."""
        fresh = self.new_slot()
        self.instructions.append(Put(slot, fresh, copies=True, name="copy"))
        return fresh

    def value_slot(self, value: Literal) -> int:
        """A slot with a number or a shape."""
        fresh = self.new_slot()
        self.instructions.append(Put(value, fresh))
        return fresh

    def name_symbols(self) -> None:
        """Symbolic sizes are known to the runtime by name; equal names get numbers."""
        taken: dict[str, int] = {}
        for var in free_symbolic_vars(self.function):
            number = taken.get(var.name, 0)
            taken[var.name] = number + 1
            self.symbols[var] = f"{var.name}_{number}" if number else var.name

    def new_slot(self) -> int:
        self.count += 1
        return self.count - 1

    def param(self, param: Var) -> Param:
        self.slots[param] = self.new_slot()
        limits = Sizes(self.size, self.symbols, self.limits("lower"), self.limits("upper"))
        return parameter(param.name_hint, param.struct_info, limits)

    def unpack(self, var: Var) -> tuple[VarBinding, ...]:
        """Bindings that make a tuple of variables for its tensors, which are slots."""
        if var not in self.unpacked:
            unpacked = self.unpacked[var] = unpack(var)
            for part, path in unpacked.parts:
                value = self.operand(var)
                for index in path:
                    value = value[index] if isinstance(value, tuple) else self.get_item(value, index)
                self.tuples[part] = value
        return self.unpacked[var].bindings

    def limits(self, which: str) -> Mapping[str, Any]:
        """Least or largest values of symbolic sizes, by name."""
        return self.function.attr(f"tir_var_{which}_bound") or {}

    def size(self, value: PrimExpr) -> Size:
        return size_data(value, self.symbols)

    def bind(self, var: Var, value: Any) -> None:
        """Give a variable its value: an alias, a field, or the result of an instruction."""
        match value:
            case Call():
                self.call(var, value)
            case _:
                self.tuples[var] = self.operand(value)

    @deep
    def operand(self, expr: Any) -> Operand:
        match expr:
            case Var():
                return self.tuples[expr] if expr in self.tuples else self.slots[expr]
            case Constant():
                return self.constant(expr)
            case Tuple():
                return tuple(self.operand(item) for item in expr.fields)
            case TupleGetItem():
                whole = self.operand(expr.tuple_value)
                return whole[expr.index] if isinstance(whole, tuple) else self.get_item(whole, expr.index)
            case ShapeExpr():
                return Literal(tuple(map(self.size, expr.values)))
            case PrimValue():
                return self.scalar(expr.value)
            case StringImm() | DataTypeImm():
                return Literal(expr.value)
            case GlobalVar() if expr in self.mod:
                return Literal(partial(self.interpreter().run, expr.name_hint))
            case ExternFunc():
                return Literal(packed_function(expr.global_symbol))
            case _:
                raise CodegenError(f"{type(expr).__name__} cannot be an operand")

    def scalar(self, value: PrimExpr) -> Operand:
        if isinstance(value, FloatImm):
            return Literal(value.value)
        if isinstance(value, IntImm):
            return Literal(bool(value.value) if value.dtype == "bool" else value.value)
        slot = self.new_slot()
        self.instructions.append(Evaluate(self.size(value), slot))
        return slot

    def constant(self, expr: Constant) -> int:
        if id(expr) not in self.constant_slots:
            slot = self.constant_slots[id(expr)] = self.new_slot()
            self.constants[slot] = expr.data
        return self.constant_slots[id(expr)]

    def get_item(self, whole: Operand, index: int) -> int:
        slot = self.new_slot()
        self.share(slot, whole)
        self.instructions.append(Take(whole, index, slot))
        return slot

    def share(self, slot: int, *operands: Operand) -> None:
        """Note that a slot may share memory with a constant when one of the operands does."""
        if any(o in self.shared or o in self.constants for o in _slots_in(operands)):
            self.shared.add(slot)

    def as_slot(self, operand: Operand, what: str) -> int:
        if isinstance(operand, int):
            return operand
        raise CodegenError(f"the {what} is not a tensor")

    def call(self, var: Var, call: Call) -> None:
        op = call.op
        if isinstance(op, Op) and op.name == "relax.call_dps_packed":
            self.region(var, call)
            return
        operands = tuple(self.operand(arg) for arg in call.args)
        slot = self.slots[var] = self.new_slot()
        shape = self.shape_of_view(var, call)
        if shape is not None:
            self.instructions.append(Reshape(op.name, operands[0], shape, slot))
            return
        if isinstance(op, Op):
            self.share(slot, *operands)
            self.instructions.append(operator_call(call, operands, slot))
        elif isinstance(op, GlobalVar):
            if op not in self.mod:
                raise CodegenError(f"{var.name_hint} calls {op.name_hint}, which the module does not have")
            self.shared.add(slot)  # it may return a constant
            run = partial(self.interpreter().run, op.name_hint)
            self.instructions.append(CallHost(op.name_hint, run, operands, slot, *place_of(call)))
        elif isinstance(op, ExternFunc):
            function = packed_function(op.global_symbol)
            self.instructions.append(CallHost(op.global_symbol, function, operands, slot, *place_of(call)))
        else:
            raise CodegenError(f"{var.name_hint}: a call of a {type(op).__name__} cannot be linked")

    def shape_of_view(self, var: Var, call: Call) -> tuple[Size, ...] | None:
        """The shape under which an operator gives the elements of its first operand; None for other operators."""
        info = var.struct_info
        if not isinstance(call.op, Op) or not has_trait(call.op.name, "view"):
            return None
        return self.output(info)[0] if isinstance(info, TensorStructInfo) and info.dims is not None else None

    def region(self, var: Var, call: Call) -> None:
        target = call.args[0]
        assert isinstance(target, ExternFunc)
        symbol = target.global_symbol
        inputs = self.operand(call.args[1])
        infos = tuple(self.output(info) for info in tensor_infos(call.sinfo_args))
        slots = tuple(self.new_slot() for _ in infos)
        operands = inputs if isinstance(inputs, tuple) else (inputs,)
        if symbol not in self.libraries and get_global_func(symbol, allow_missing=True) is not None:
            self.registered(symbol, call, operands, slots)
        elif self.by_reference:
            self.reference(symbol, operands, infos, slots)
        else:
            kernel = self.libraries.kernel(symbol)
            self.instructions.append(RunLibrary(symbol, operands, infos, slots, kernel))
        if len(slots) == 1 and not isinstance(var.struct_info, TupleStructInfo):
            self.slots[var] = slots[0]
        else:
            self.tuples[var] = slots

    def registered(self, symbol: str, call: Call, operands: tuple[Operand, ...], slots: tuple[int, ...]) -> None:
        """Call a function that is registered under a name, with memory for its results."""
        sizes = tuple((_static(info), to_numpy(info.dtype)) for info in tensor_infos(call.sinfo_args))
        whole = self.new_slot()
        run = partial(packed_results, symbol, sizes)
        self.instructions.append(CallHost(symbol, run, operands, whole, *place_of(call)))
        self.instructions.extend(Take(whole, index, slot) for index, slot in enumerate(slots))

    def reference(self, symbol: str, operands: tuple[Operand, ...], infos: Any, slots: tuple[int, ...]) -> None:
        """Compute what a library would compute, without it."""
        function = self.libraries.function(symbol)
        program = self.libraries.reference(function)
        if program is not None:
            self.instructions.append(RunProgram(symbol, operands, infos, slots, program))
            return
        whole = self.new_slot()
        run = partial(Interpreter(IRModule({symbol: function})).run, symbol)
        self.instructions.append(CallHost(symbol, run, operands, whole))
        for index, slot in enumerate(slots):
            step = Put(whole, slot) if len(slots) == 1 else Take(whole, index, slot)
            self.instructions.append(step)

    def segment(self, native: NativeBuilder, bindings: Sequence[Any]) -> None:
        """A run of bindings as one call of native code."""
        number = sum(isinstance(item, Filled) for item in self.instructions)
        name = f"{self.function.attr('global_symbol') or 'main'}_{number}"
        needed = needed_outside(bindings, self.function)
        symbol = "".join(c if c.isascii() and c.isalnum() else "_" for c in name)
        own = {binding.var for binding in bindings}
        read = dict.fromkeys(var for binding in bindings for var in used_vars(binding.value) if var not in own)
        tuples = [var for var in read if isinstance(var.struct_info, TupleStructInfo)]
        made_before = [binding for var in tuples for binding in self.unpack(var)]
        segment, code = native.segment(
            symbol, [*made_before, *bindings], needed, self.mod, self.bounds(), self.libraries
        )
        inputs: list[Operand] = [self.operand(var) for var in segment.inputs]
        inputs.append(Literal(tuple(map(self.size, segment.symbols))))
        if varying := [size for sizes in segment.plan.varying for size in sizes]:
            inputs.append(Literal(tuple(map(self.size, varying))))
        outputs = tuple((tuple(map(self.size, t.dims)), to_numpy(t.dtype)) for t in segment.plan.outputs)
        slots = tuple(self.new_slot() for _ in outputs)
        self.instructions.append(RunNative(name, tuple(inputs), outputs, slots, code))
        for var in needed:
            slot_of = {path: slot for (bound, path), slot in zip(segment.outputs, slots, strict=True) if bound is var}
            if () in slot_of:
                self.slots[var] = slot_of[()]
            else:
                self.tuples[var] = _tuple_of(var.struct_info, slot_of, ())

    def bounds(self) -> dict[ScalarVar, Bounds]:
        """Ranges of symbolic sizes."""
        low, high = self.limits("lower"), self.limits("upper")
        return {var: Bounds(bound(low, var.name) or 0, bound(high, var.name)) for var in self.symbols}

    def output(self, info: TensorStructInfo) -> tuple[tuple[Size, ...], np.dtype[Any]]:
        if info.dims is None:
            raise CodegenError("an external function has a result of unknown shape")
        return tuple(map(self.size, info.dims)), to_numpy(info.dtype)

    def match_cast(self, binding: MatchCast) -> None:
        value = self.operand(binding.value)
        what = f"value of {binding.var.name_hint}"
        source = self.value_slot(value) if isinstance(value, Literal) else self.as_slot(value, what)
        slot = self.slots[binding.var] = self.new_slot()
        self.share(slot, source)
        limits = Sizes(self.size, self.symbols, {}, {})
        want = value_check(binding.var.name_hint, binding.struct_info, limits)
        self.instructions.append(Check("match_cast", source, slot, want))


@deep
def _tuple_of(info: Any, slots: Mapping[tuple[int, ...], int], path: tuple[int, ...]) -> Operand:
    """The slots of a tuple's tensors, nested like the tuple."""
    if path in slots:
        return slots[path]
    return tuple(_tuple_of(part, slots, (*path, i)) for i, part in enumerate(info.fields))


def tensor_infos(infos: Sequence[StructInfo]) -> list[TensorStructInfo]:
    """The tensors among the results of an external function, tuples flattened."""
    leaves = leaf_infos(infos)
    for info in leaves:
        if not isinstance(info, TensorStructInfo):
            raise CodegenError(f"an external function has a result of kind {type(info).__name__}")
    return [info for info in leaves if isinstance(info, TensorStructInfo)]


def _static(info: TensorStructInfo) -> tuple[int, ...]:
    if info.static_shape is None:
        raise CodegenError("an external function has a result of unknown shape")
    return info.static_shape


@deep
def _slots_in(operands: Sequence[Operand]) -> list[int]:
    out: list[int] = []
    for operand in operands:
        if isinstance(operand, int):
            out.append(operand)
        elif isinstance(operand, tuple):
            out += _slots_in(operand)
    return out
