"""Programs that were read: whether all they refer to is there, before anything of them is loaded."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from math import prod
from typing import Any, Final

from eutectic.runtime.arguments import TensorArgument
from eutectic.runtime.encoding import damaged
from eutectic.runtime.instructions import (
    Check,
    Evaluate,
    Filled,
    HostCall,
    Instruction,
    Literal,
    Put,
    Reshape,
    RunLibrary,
    RunNative,
    RunProgram,
    Take,
)
from eutectic.runtime.native_code import NativeCode
from eutectic.runtime.params import AnyParam, ScalarParam, ShapeParam, TensorParam, TupleParam
from eutectic.runtime.program import Program
from eutectic.runtime.results import Fresh, Number, Shared
from eutectic.runtime.signature import ArraySignature, ModelSignature
from eutectic.runtime.sizes import Size, SizeExpr
from eutectic.runtime.team import MOST_THREADS
from eutectic.runtime.trees import Leaf, Tree
from eutectic.support.deep import deep

MOST_SLOTS: Final = 1 << 24
LARGEST_BYTES: Final = 1 << 47  # what a process can address
_PARAMS: Final = (AnyParam, ScalarParam, ShapeParam, TensorParam, TupleParam)


@deep
def check_program(program: Program) -> None:
    """Refuse a program that refers to slots or parts that it does not have.

    Raises:
        LoadError: says which part is wrong.
    """
    if not len(program.params) <= program.slot_count <= MOST_SLOTS:
        raise damaged(f"a program of {len(program.params)} parameters has {program.slot_count} slots")
    for param in program.params:
        _check_param(param)
    if not all(isinstance(slot, int) for slot in program.constants):
        raise damaged("a constant has no slot")
    slots = range(program.slot_count)
    _check_slots(program.constants, slots, "a constant")
    known = {*range(len(program.params)), *program.constants}
    symbols = {name for param in program.params for name in _symbols_of(param)}
    for step in program.instructions:
        symbols.update(_symbols_of(step.want) if isinstance(step, Check) else ())
        _check_symbols(step, symbols)
        written, name = list(_written(step)), f"instruction {str(step.name)[:40]}"
        _check_slots(written, slots, name)
        _check_slots(_read(step), known, name)
        known.update(written)
        _check_parts(step)
    _check_slots((*program.results, *program.copied), known, "a result")
    if program.otherwise is not None:
        check_program(program.otherwise)


@deep
def _check_param(param: Any) -> None:
    """Refuse what is no parameter, or has a shape of another rank."""
    if not isinstance(param, _PARAMS):
        raise damaged("a parameter is of another kind")
    sizes = param.shape if isinstance(param, TensorParam) else param.sizes if isinstance(param, ShapeParam) else None
    if sizes is not None and isinstance(param, (TensorParam, ShapeParam)) and len(sizes) != param.rank:
        raise damaged(f"parameter {param.name[:40]} has {len(sizes)} sizes, and rank {param.rank}")
    for field in param.fields if isinstance(param, TupleParam) else ():
        _check_param(field)


@deep
def _symbols_of(param: Any) -> set[str]:
    """Names of the symbolic sizes that a parameter may bind."""
    match param:
        case TensorParam():
            sizes = param.shape or ()
        case ShapeParam():
            sizes = param.sizes or ()
        case ScalarParam():
            sizes = (param.size,) if param.size is not None else ()
        case TupleParam():
            return {name for field in param.fields for name in _symbols_of(field)}
        case _:
            sizes = ()
    return {size for size in sizes if isinstance(size, str)}


def _check_symbols(step: Instruction, known: set[str]) -> None:
    """Refuse sizes of results that nothing gives."""
    match step:
        case Filled():
            sizes = [*_literal_sizes(step.inputs), *(size for shape, _ in step.outputs for size in shape)]
        case HostCall():
            sizes = _literal_sizes(step.operands)
        case Reshape():
            sizes = [*step.shape]
        case Evaluate():
            sizes = [step.size]
        case _:
            sizes = []
    unknown = sorted(set().union(*map(_symbols_in, sizes)) - known)
    if unknown:
        raise damaged(f"instruction {str(step.name)[:40]} needs the size {unknown[0][:40]}, which nothing gives")


@deep
def _literal_sizes(operand: Any) -> list[Any]:
    """The sizes in shapes among operands."""
    if isinstance(operand, Literal):
        return list(operand.value) if isinstance(operand.value, tuple) else []
    return [size for part in operand for size in _literal_sizes(part)] if isinstance(operand, tuple) else []


@deep
def _symbols_in(size: Size) -> set[str]:
    if isinstance(size, SizeExpr):
        return set().union(*map(_symbols_in, size.parts))
    if not isinstance(size, (int, str)):
        raise damaged(f"a size is a {type(size).__name__}")
    return {size} if isinstance(size, str) else set()


def _check_slots(used: Iterable[int], slots: Container[int], what: str) -> None:
    for slot in used:
        if slot not in slots:
            raise damaged(f"{what} refers to slot {slot}, which does not exist or is empty then")


def _written(step: Instruction) -> Iterator[int]:
    match step:
        case Filled():
            if len(step.slots) != len(step.outputs):
                raise damaged(
                    f"instruction {step.name[:40]} has {len(step.outputs)} results for {len(step.slots)} slots"
                )
            for shape, dtype in step.outputs:
                _check_shape(shape, dtype.itemsize)
            yield from step.slots
        case Check() | Evaluate() | HostCall() | Put() | Reshape() | Take():
            yield step.slot
        case _:
            raise damaged(f"a {type(step).__name__} is no instruction")


def _check_shape(shape: Sequence[Size], itemsize: int) -> None:
    """Refuse a shape with sizes that no memory has; those that depend on arguments are checked in a call."""
    sizes = [size for size in shape if isinstance(size, int)]
    if min(sizes, default=0) < 0 or prod(sizes) * itemsize > LARGEST_BYTES:
        raise damaged(f"a result has shape {shape}")


def _read(step: Instruction) -> Iterator[int]:
    match step:
        case Filled():
            yield from _slots_of(step.inputs)
        case HostCall():
            yield from _slots_of(step.operands)
        case Put() | Reshape() | Check():
            yield from _slots_of(step.source)
        case Take():
            yield from _slots_of(step.whole)


@deep
def _slots_of(operand: Any) -> list[int]:
    if isinstance(operand, tuple):
        return [slot for part in operand for slot in _slots_of(part)]
    if isinstance(operand, Literal):
        return []
    if type(operand) is not int:
        raise damaged(f"an operand is a {type(operand).__name__}")
    return [operand]


def _check_parts(step: Instruction) -> None:
    match step:
        case RunNative():
            _check_code(step.code)
        case RunProgram():
            check_program(step.program)
        case Check():
            _check_param(step.want)


def _check_code(code: NativeCode) -> None:
    if not 1 <= code.threads <= MOST_THREADS:
        raise damaged(f"native code for {code.threads} threads")
    if len(code.workspaces) != len(code.libraries) or min(code.workspaces, default=0) < 0:
        raise damaged(f"native code with {len(code.workspaces)} workspaces for {len(code.libraries)} libraries")


def check_signature(signature: ModelSignature | ArraySignature, program: Program) -> None:
    """Refuse a signature that does not fit to a program.

    Raises:
        LoadError: says which part is wrong.
    """
    if isinstance(signature, ArraySignature):
        takes, gives = len(signature.names), _leaves(signature.result)
        if (takes, gives) != (len(program.params), len(program.results)):
            raise damaged(f"the signature takes {takes} and gives {gives} arrays, the program others")
        return
    arguments, results = signature.arguments, signature.results
    count = len(arguments.leaves) + len(signature.state)
    tensors = [leaf for leaf in (*arguments.leaves, *signature.state) if isinstance(leaf, TensorArgument)]
    if any(len(leaf.shape) != len(leaf.written) for leaf in tensors):
        raise damaged("an argument of the signature has sizes that are not written")
    if len(arguments.names) != len(arguments.trees) or sum(map(_leaves, arguments.trees)) != len(arguments.leaves):
        raise damaged("the arguments of the signature do not fit to their names")
    if len(tensors) != len(program.params) or _leaves(results.tree) != len(results.recipes):
        raise damaged("the signature has other arguments or results than the program")
    places = [*results.changed]
    for number, recipe in enumerate(results.recipes):
        if isinstance(recipe, (Fresh, Number)) and recipe.index not in range(len(program.results)):
            raise damaged(f"result {number} is number {recipe.index} of {len(program.results)}")
        if isinstance(recipe, Shared) and recipe.of_input:
            places.append(recipe.place)
        elif isinstance(recipe, Shared) and recipe.place not in range(number):
            raise damaged(f"result {number} is a view of a later one")
    if not all(place in range(count) for place in places):
        raise damaged(f"a result refers to an argument that is none of {count}")


@deep
def _leaves(tree: Tree) -> int:
    """How many values a tree has."""
    return 1 if isinstance(tree, Leaf) else sum(map(_leaves, tree.children))


@deep
def features_of(program: Program) -> frozenset[str]:
    """What the processor must have, by LLVM's names, for all native code of a program."""
    needed: set[str] = set(features_of(program.otherwise)) if program.otherwise is not None else set()
    for step in program.instructions:
        if isinstance(step, RunNative):
            needed.update(step.code.features)
        elif isinstance(step, RunProgram):
            needed.update(features_of(step.program))
    return frozenset(needed)


@deep
def libraries_of(program: Program) -> frozenset[str]:
    """Names of the libraries whose kernels a program calls."""
    names: set[str] = set()
    for step in program.instructions:
        if isinstance(step, RunNative):
            names.update(kernel.library for kernel in step.code.libraries)
        elif isinstance(step, RunLibrary):
            names.add(step.kernel.library)
        elif isinstance(step, RunProgram):
            names.update(libraries_of(step.program))
    return frozenset(names)


@deep
def threads_of(program: Program) -> int | None:
    """Threads of a call of the program's native code; None when it has none."""
    codes = [step.code.threads for step in program.instructions if isinstance(step, RunNative)]
    inner = [threads_of(step.program) for step in program.instructions if isinstance(step, RunProgram)]
    return max([*codes, *(count for count in inner if count is not None)], default=None)
