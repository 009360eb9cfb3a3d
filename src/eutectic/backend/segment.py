"""From bindings of a graph to a plan: which of them native code can run, and what they read and fill."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeGuard

import numpy as np

from eutectic.arith import simplify
from eutectic.backend.agreements import Agreement, agreement_of_view, agreements
from eutectic.backend.kernel import Built
from eutectic.backend.plan import LIBRARY_BYTES, CopyStep, KernelStep, LibraryStep, Plan, Tensor, place
from eutectic.ir.dtype import item_bytes
from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.op import Op
from eutectic.ir.prim_expr import IntImm, PrimExpr, mul
from eutectic.ir.prim_expr import Var as ScalarVar
from eutectic.relax.analysis.concat_pattern import JOINED, are_joined
from eutectic.relax.analysis.uses import is_call_of, walk_bindings
from eutectic.relax.base import ShapeExpr
from eutectic.relax.expr import Call, Constant, ExternFunc, Function, PrimValue, Tuple, TupleGetItem, Var, VarBinding
from eutectic.relax.op.map_batch import MAP_BATCH, pieces
from eutectic.relax.op.registry import has_trait
from eutectic.relax.struct_info import ObjectStructInfo, TensorStructInfo, TupleStructInfo
from eutectic.relax.struct_info_relations import free_symbolic_vars, leaf_infos, substitute
from eutectic.runtime.library import NativeInterface
from eutectic.support.deep import deep
from eutectic.support.errors import CodegenError
from eutectic.tir.function import PrimFunc

Value: TypeAlias = "Tensor | tuple[Value, ...] | PrimExpr | tuple[PrimExpr, ...]"
Compile: TypeAlias = Callable[[PrimFunc], Built]


@deep
def is_native(binding: Any, mod: IRModule, libraries: Mapping[str, NativeInterface]) -> bool:
    """Whether native code can run a binding: a call of a tensor program or a library, a view, or what costs nothing."""
    if not isinstance(binding, VarBinding):
        return False
    value = binding.value
    if any(map(_is_kept, _read_as_they_are(value))):
        return False
    match value:
        case Var() | Constant() | ShapeExpr() | PrimValue():
            return True
        case Tuple():
            return all(isinstance(part, (Var, Constant, ShapeExpr, PrimValue)) for part in value.fields)
        case TupleGetItem():
            return isinstance(value.tuple_value, Var)
        case Call():
            return _is_native_call(value, mod, libraries)
        case _:
            return False


def _read_as_they_are(value: Any) -> Sequence[Any]:
    """What an expression gives another name or place, and does not compute with."""
    match value:
        case Tuple():
            return value.fields
        case TupleGetItem():
            return (value.tuple_value,)
        case _:
            return (value,) if isinstance(value, Var) else ()


def _is_kept(value: Any) -> bool:
    """Whether a value is, or has, one that only the program around native code holds, such as one that torch made."""
    infos = () if value.struct_info is None else leaf_infos((value.struct_info,))
    return any(isinstance(info, ObjectStructInfo) for info in infos)


@deep
def _is_native_call(call: Call, mod: IRModule, libraries: Mapping[str, NativeInterface]) -> bool:
    if not isinstance(call.op, Op):
        return False
    if has_trait(call, "view"):
        infos = (call.args[0].struct_info, call.struct_info)
        return all(_known(info) for info in infos)
    results = leaf_infos(call.sinfo_args)
    if call.op.name == JOINED:
        return are_joined(call)
    if call.op.name == MAP_BATCH:
        function = mapped_function(call, mod)
        return function is not None and all(is_native(inner, mod, libraries) for inner in walk_bindings(function))
    if call.op.name == "relax.call_dps_packed":
        return _symbol(call) in libraries and all(map(_known, results))
    if call.op.name != "relax.call_tir":
        return False
    callee = call.args[0]
    return isinstance(callee, GlobalVar) and isinstance(mod.get(callee), PrimFunc) and all(map(_known, results))


def mapped_function(value: Any, mod: IRModule) -> Function | None:
    """The function that a call of `map_batch` calls for each piece; None for everything else."""
    callee = value.args[0] if is_call_of(value, MAP_BATCH) else None
    function = mod.get(callee) if isinstance(callee, GlobalVar) else None
    return function if isinstance(function, Function) else None


def _symbol(call: Call) -> str:
    """Name of the external function that is called; empty when it is none."""
    target = call.args[0]
    return target.global_symbol if isinstance(target, ExternFunc) else ""


def _known(info: Any) -> TypeGuard[TensorStructInfo]:
    return isinstance(info, TensorStructInfo) and info.dims is not None and bool(info.dtype)


@dataclass
class Segment:
    """A run of bindings as a plan.

    Attributes:
        plan: What it does.
        inputs: Variables that are read and were bound before.
        outputs: Variables that it binds for others, one per output of the plan; with the path into a tuple.
        arrays: Values of the plan's constants.
        symbols: The sizes that are passed as integers.
    """

    plan: Plan
    inputs: tuple[Var, ...]
    outputs: tuple[tuple[Var, tuple[int, ...]], ...]
    arrays: tuple[np.ndarray[Any, Any], ...]

    @property
    def symbols(self) -> tuple[ScalarVar, ...]:
        """Symbolic sizes that no input defines."""
        return tuple(self.plan.symbols)


def plan_segment(
    name: str,
    bindings: Sequence[VarBinding],
    needed: Sequence[Var],
    mod: IRModule,
    compile_kernel: Compile,
    libraries: Mapping[str, NativeInterface],
    threads: int = 1,
) -> Segment:
    """The plan of a run of bindings that `is_native` accepts.

    Args:
        name: Of the native function.
        bindings: What to do, in order.
        needed: Variables bound here that others read, in the order of the outputs; a tuple gives one output
            per tensor in it.
        mod: Where the tensor programs are.
        compile_kernel: Makes a kernel of a tensor program.
        libraries: Kernels of libraries, by the name by which the graph calls them.
        threads: The most threads that a call will use.

    Raises:
        CodegenError: a shape is not known, or a kernel cannot be compiled.
    """
    return _Planner(name, mod, compile_kernel, libraries, threads).run(bindings, needed)


@dataclass
class _Planner:
    name: str
    mod: IRModule
    compile_kernel: Compile
    libraries: Mapping[str, NativeInterface]
    threads: int
    called: list[str] = field(default_factory=list)  # libraries, by number
    varying: list[tuple[PrimExpr, ...]] = field(default_factory=list)  # sizes of each of them
    values: dict[Var, Value] = field(default_factory=dict)
    views: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)  # a view and whose memory it is
    inputs: dict[Var, Tensor] = field(default_factory=dict)
    constants: dict[int, tuple[Constant, Tensor]] = field(default_factory=dict)
    steps: list[Any] = field(default_factory=list)
    agreements: list[Agreement] = field(default_factory=list)

    def run(self, bindings: Sequence[VarBinding], needed: Sequence[Var]) -> Segment:
        for binding in bindings:
            self.values[binding.var] = self._value(binding.var, binding.value)
        plan = Plan(self.name)
        outputs: list[tuple[Var, tuple[int, ...]]] = []
        for var in needed:
            for path, tensor in _leaves(self.values[var]):
                plan.outputs.append(self._output(tensor, len(plan.outputs), plan))
                outputs.append((var, path))
        plan.inputs = list(self.inputs.values())
        plan.constants = [tensor for _, tensor in self.constants.values()]
        plan.steps = [self._settled(step) for step in self.steps]
        plan.libraries, plan.varying = self.called, self.varying
        plan.agreements = self.agreements
        plan.symbols = self._free_symbols(plan)
        place(plan)
        arrays = tuple(constant.data for constant, _ in self.constants.values())
        return Segment(plan, tuple(self.inputs), tuple(outputs), arrays)

    # ---- values

    @deep
    def _value(self, var: Var | None, expr: Any) -> Value:
        match expr:
            case Var():
                return self._variable(expr)
            case Constant():
                return self._constant(expr)
            case Tuple():
                return tuple(self._value(None, part) for part in expr.fields)
            case TupleGetItem():
                whole = self._value(None, expr.tuple_value)
                assert isinstance(whole, tuple)
                return whole[expr.index]
            case ShapeExpr():
                return tuple(expr.values)
            case PrimValue():
                return expr.value
            case Call():
                return self._call(var, expr)
            case _:
                raise CodegenError(f"{type(expr).__name__} cannot be compiled")

    def _variable(self, var: Var) -> Value:
        if var not in self.values:
            info = var.struct_info
            if not isinstance(info, TensorStructInfo) or info.dims is None or not info.dtype:
                raise CodegenError(f"{var.name_hint} is not a tensor of known shape")
            tensor = Tensor(var.name_hint, info.dtype, tuple(info.dims), "input", len(self.inputs))
            self.inputs[var] = self.values[var] = tensor
        return self.values[var]

    def _constant(self, constant: Constant) -> Tensor:
        known = self.constants.get(id(constant))
        if known is None:
            info = constant.struct_info
            assert isinstance(info, TensorStructInfo)
            sizes = tuple(IntImm("int64", size) for size in constant.data.shape)
            tensor = Tensor("constant", info.dtype, sizes, "constant", len(self.constants))
            known = self.constants[id(constant)] = (constant, tensor)
        return known[1]

    def _call(self, var: Var | None, call: Call) -> Value:
        name = var.name_hint if var is not None else "value"
        if has_trait(call, "view"):
            source = self._value(None, call.args[0])
            info = call.struct_info
            assert isinstance(source, Tensor)
            assert isinstance(info, TensorStructInfo)
            assert info.dims is not None
            view = Tensor(name, info.dtype, tuple(info.dims), source.home, source.number)
            self.agreements += agreement_of_view(name, source.elements, view.elements)
            self.views[id(view)] = (view, self._owner(source))
            return view
        if call.op.name == JOINED:
            return self._joined(name, call)
        if call.op.name == MAP_BATCH:
            return self._mapped(name, call)
        return self._library(name, call) if call.op.name == "relax.call_dps_packed" else self._kernel(name, call)

    def _joined(self, name: str, call: Call) -> Tensor:
        """Tensors one after another in memory: each is computed where it lies there, or copied to there."""
        parts, info = self._value(None, call.args[0]), call.struct_info
        assert isinstance(parts, tuple)
        assert isinstance(info, TensorStructInfo)
        whole = Tensor(name, info.dtype, tuple(info.dims or ()), "arena")
        start = 0
        for part in parts:
            assert isinstance(part, Tensor)
            start = self._put(part, whole, start)
        return whole

    def _put(self, part: Tensor, whole: Tensor, start: int) -> int:
        """Have a tensor be a part of another one, from some byte on; gives where it ends there."""
        owner = self._owner(part)
        if owner.home != "arena" or owner.inside is not None:  # its memory is another one
            owner = Tensor(part.name, part.dtype, part.dims, "arena")
            self.steps.append(CopyStep(part, owner))
        owner.inside, owner.start = whole, start
        return start + _exact_bytes(part)

    def _mapped(self, name: str, call: Call) -> Value:
        """The steps of a function for each piece of a batch, in the memory of the whole batch at both ends."""
        function = mapped_function(call, self.mod)
        batched, others = (self._value(None, arg) for arg in call.args[1:])
        assert function is not None
        assert isinstance(batched, tuple)
        assert isinstance(others, tuple)
        count, results = pieces(call), self._results(name, call)
        ends = [0] * len(results)
        for number in range(count):
            parts = [self._piece(whole, number, count) for whole in batched]
            self.values.update(zip(function.params, (*parts, *others), strict=True))
            for binding in walk_bindings(function):
                self.values[binding.var] = self._value(binding.var, binding.value)
            given = [tensor for _, tensor in _leaves(self._value(None, function.body.body))]
            ends = [self._put(*place) for place in zip(given, results, ends, strict=True)]
        return self._shaped(call, results)

    def _piece(self, whole: Value, number: int, count: int) -> Tensor:
        """One of so many pieces of a tensor along its first axis, in its memory."""
        assert isinstance(whole, Tensor)
        size, owner = whole.dims[0], self._owner(whole)
        assert isinstance(size, IntImm)
        dims = (IntImm("int64", size.value // count), *whole.dims[1:])
        start = number * (_exact_bytes(whole) // count)
        return Tensor(whole.name, whole.dtype, dims, owner.home, owner.number, inside=owner, start=start)

    def _library(self, name: str, call: Call) -> Value:
        symbol = _symbol(call)
        native = self.libraries[symbol]
        argument = self._value(None, call.args[1])
        values = argument if isinstance(argument, tuple) else (argument,)
        operands = [value for value in values if isinstance(value, Tensor)]
        read = [operands[number] for number in native.inputs]
        results = self._results(name, call)
        size = LIBRARY_BYTES if native.workspace_bytes is None else IntImm("int64", native.workspace_bytes)
        spaces = () if native.workspace_bytes == 0 else (Tensor(f"{name}_workspace", "uint8", (size,), "arena"),)
        self.steps.append(LibraryStep(symbol, len(self.called), (*read, *results), len(results), spaces))
        self.called.append(symbol)
        self.varying.append(tuple(_lengths(values[number])[axis] for number, axis in native.sizes))
        return self._shaped(call, results)

    def _results(self, name: str, call: Call) -> list[Tensor]:
        infos = leaf_infos(call.sinfo_args)
        return [Tensor(name, info.dtype, tuple(info.dims or ()), "arena") for info in infos if _known(info)]

    def _shaped(self, call: Call, results: list[Tensor]) -> Value:
        """Results in the structure of the call."""
        single = not isinstance(call.struct_info, TupleStructInfo)
        return results[0] if single else _nest(call.struct_info, iter(results))

    def _owner(self, tensor: Tensor) -> Tensor:
        """The tensor whose memory it is."""
        return self.views[id(tensor)][1] if id(tensor) in self.views else tensor

    def _kernel(self, name: str, call: Call) -> Value:
        callee = call.args[0]
        assert isinstance(callee, GlobalVar)
        func = self.mod[callee]
        assert isinstance(func, PrimFunc)
        argument = self._value(None, call.args[1])
        operands = list(argument) if isinstance(argument, tuple) else [argument]
        results = self._results(name, call)
        extra = call.args[2] if len(call.args) > 2 else None
        scalars = list(extra.values) if isinstance(extra, ShapeExpr) else []
        values: list[Any] = [*operands, *results, *scalars]
        if len(values) != len(func.params):
            raise CodegenError(f"{callee.name_hint} takes {len(func.params)} arguments, got {len(values)}")
        tensors, numbers, sizes = self._arguments(callee.name_hint, func, values)
        built = self.compile_kernel(func)
        missing = [var.name for var in built.shape_vars if var not in sizes]
        if missing:
            raise CodegenError(f"{callee.name_hint}: {', '.join(missing)} is not the size of an argument")
        spaces = [
            self._workspace(name, _substitute(space.bytes, sizes), space.per_thread) for space in built.workspaces
        ]
        shapes = tuple(sizes[var] for var in built.shape_vars)
        self.steps.append(
            KernelStep(callee.name_hint, built, tuple(tensors), len(results), tuple(numbers), shapes, tuple(spaces))
        )
        return self._shaped(call, results)

    def _arguments(
        self, name: str, func: PrimFunc, values: Sequence[Any]
    ) -> tuple[list[Tensor], list[Any], dict[ScalarVar, Any]]:
        """Tensors and numbers that a program is given, and the values of its variables."""
        tensors: list[Tensor] = []
        numbers: list[Any] = []
        sizes: dict[ScalarVar, Any] = {}
        for param, value in zip(func.params, values, strict=True):
            buffer = func.buffer_map.get(param)
            if (buffer is not None) != isinstance(value, Tensor):
                kind = "a number" if buffer is None else "a tensor"
                raise CodegenError(f"{name} takes {kind} as {param.name}, and is given another kind of value")
            if buffer is None:
                numbers.append(value)
                sizes[param] = value
                continue
            tensors.append(value)
            for size, actual in zip(buffer.shape, value.dims, strict=False):
                if isinstance(size, ScalarVar):
                    sizes.setdefault(size, actual)
        descriptions = [(tensor.name, tensor.dtype, tensor.dims) for tensor in tensors]
        self.agreements += agreements(name, func, descriptions, sizes)
        return tensors, numbers, sizes

    def _workspace(self, name: str, size: PrimExpr, per_thread: bool) -> Tensor:
        count = mul(size, self.threads) if per_thread else size
        return Tensor(f"{name}_workspace", "uint8", (count,), "arena")

    # ---- results

    def _output(self, tensor: Tensor, number: int, plan: Plan) -> Tensor:
        """The output that a value goes to: the kernel writes there at once, unless something else has its memory."""
        owner = self._owner(tensor)
        target = Tensor(tensor.name, tensor.dtype, tensor.dims, "output", number)
        if owner.home == "arena" and owner.inside is None:
            owner.home, owner.number = "output", number
        else:
            self.steps.append(CopyStep(tensor, target))
        return target

    def _settled(self, step: Any) -> Any:
        """The step with views replaced by what they are views of."""
        if isinstance(step, CopyStep):
            return CopyStep(self._owner(step.source), step.target)
        return replace(step, tensors=tuple(self._owner(tensor) for tensor in step.tensors))

    def _free_symbols(self, plan: Plan) -> list[ScalarVar]:
        defined = {size for tensor in plan.inputs for size in tensor.dims if isinstance(size, ScalarVar)}
        used: dict[ScalarVar, None] = {}
        for step in plan.steps:
            numbers = [*getattr(step, "scalars", ()), *getattr(step, "shapes", ())]
            sizes = [size for tensor in (*step.tensors, *step.workspaces) for size in tensor.dims]
            for value in (size for size in (*numbers, *sizes) if not isinstance(size, IntImm)):
                used.update(dict.fromkeys(free_symbolic_vars(value)))
        for item in plan.agreements:
            for size in (item.actual, item.wanted):
                used.update(dict.fromkeys(free_symbolic_vars(size)))
        for tensor in (*plan.inputs, *plan.outputs):
            for size in tensor.dims:
                used.update(dict.fromkeys(free_symbolic_vars(size)))
        for size in (size for sizes in plan.varying for size in sizes):
            used.update(dict.fromkeys(free_symbolic_vars(size)))
        return [var for var in used if var not in defined and var not in plan.prepared]


def _exact_bytes(tensor: Tensor) -> int:
    """Bytes of a tensor of known size, not rounded up."""
    elements = tensor.elements
    assert isinstance(elements, IntImm)
    return elements.value * item_bytes(tensor.dtype)


def _lengths(value: Value) -> tuple[PrimExpr, ...]:
    """Sizes of a tensor, or those that a tuple consists of."""
    if isinstance(value, Tensor):
        return value.dims
    assert isinstance(value, tuple)
    return tuple(size for size in value if isinstance(size, PrimExpr))


def _substitute(value: PrimExpr, sizes: Mapping[Any, Any]) -> PrimExpr:
    substituted = substitute(value, dict(sizes))
    assert isinstance(substituted, PrimExpr)
    return simplify(substituted)


@deep
def _nest(info: Any, tensors: Any) -> Value:
    if isinstance(info, TupleStructInfo):
        return tuple(_nest(part, tensors) for part in info.fields)
    tensor: Tensor = next(tensors)
    return tensor


@deep
def _leaves(value: Value, path: tuple[int, ...] = ()) -> list[tuple[tuple[int, ...], Tensor]]:
    """The tensors in a value, each with its path."""
    if isinstance(value, Tensor):
        return [(path, value)]
    if isinstance(value, tuple):
        return [leaf for i, part in enumerate(value) for leaf in _leaves(part, (*path, i))]
    raise CodegenError("a size or a number is not a result that native code gives")
