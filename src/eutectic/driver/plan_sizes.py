"""Plans of models whose sizes vary: their bytes and operations, at sizes that are given.

Sizes are kept as the text that scripts have, such as `(n + 1) // 2`. The text comes from files, too, so nothing but
arithmetic of integers is evaluated.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from eutectic.driver.plan import GroupRecord, OperatorRecord, PlanRecord, Size, SizeRecord, TensorRecord
from eutectic.support.deep import deep

_BINARY: Final[Mapping[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_CALLS: Final[Mapping[str, Callable[..., int]]] = {
    "max": max,
    "min": min,
    "floordiv": operator.floordiv,
    "floormod": operator.mod,
    "int32": int,
    "int64": int,
}
_LONGEST: Final = 4096  # characters of a size that is evaluated


def at_sizes(plan: PlanRecord, sizes: Mapping[str, int]) -> PlanRecord:
    """A plan whose symbolic sizes have values, as far as these are known.

    Args:
        plan: The plan.
        sizes: Values by name.
    """
    groups = tuple(_group(group, sizes) for group in plan.groups)
    return replace(plan, groups=groups, sizes=size_records(sizes))


def size_records(sizes: Mapping[str, int]) -> tuple[SizeRecord, ...]:
    """Values by name as records, in the order of the names."""
    return tuple(SizeRecord(name, value) for name, value in sorted(sizes.items()))


def has_symbols(plan: PlanRecord) -> bool:
    """Whether a size in a plan is symbolic."""
    tensors = (tensor for group in plan.groups for tensor in (*group.inputs, *group.results))
    return any(isinstance(size, str) for tensor in tensors for size in tensor.shape)


def value_of(text: str, sizes: Mapping[str, int]) -> int | None:
    """The value of a size that is written as text; None where a name in it has none, or it is no arithmetic.

    Args:
        text: Sums, products, quotients, largest and least of numbers and names.
        sizes: Values by name.
    """
    try:
        return _value(ast.parse(text, mode="eval").body, sizes) if len(text) <= _LONGEST else None
    except (ArithmeticError, LookupError, RecursionError, SyntaxError, TypeError, ValueError):
        return None


@deep
def _value(tree: ast.expr, sizes: Mapping[str, int]) -> int:
    match tree:
        case ast.Constant(value=int(value)):
            return value
        case ast.Name(id=name):
            return sizes[name]
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_value(inner, sizes)
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](_value(left, sizes), _value(right, sizes))
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=args, keywords=[]):
            return _CALLS[name](*[_value(arg, sizes) for arg in args])
        case _:
            raise ValueError(f"{type(tree).__name__} is no arithmetic of sizes")


def _group(group: GroupRecord, sizes: Mapping[str, int]) -> GroupRecord:
    operators = tuple(_operator(record, sizes) for record in group.operators)
    return replace(
        group,
        operators=operators,
        inputs=_tensors(group.inputs, sizes),
        results=_tensors(group.results, sizes),
        flops=_flops(group, operators, sizes),
    )


def _flops(group: GroupRecord, operators: tuple[OperatorRecord, ...], sizes: Mapping[str, int]) -> int | None:
    """Operations of a group: as counted in its tensor program, else of its operators."""
    counted = value_of(group.work, sizes) if group.work else None
    varies = group.work or any(record.work for record in operators)
    if counted is not None or not varies:
        return group.flops if counted is None else counted
    parts = [record.flops for record in operators]
    return None if None in parts else sum(part for part in parts if part is not None)


def _operator(record: OperatorRecord, sizes: Mapping[str, int]) -> OperatorRecord:
    flops = value_of(record.work, sizes) if record.work else record.flops
    return replace(record, reads=_tensors(record.reads, sizes), results=_tensors(record.results, sizes), flops=flops)


def _tensors(tensors: tuple[TensorRecord, ...], sizes: Mapping[str, int]) -> tuple[TensorRecord, ...]:
    return tuple(_tensor(tensor, sizes) for tensor in tensors)


def _tensor(tensor: TensorRecord, sizes: Mapping[str, int]) -> TensorRecord:
    def value(size: Size) -> int | None:
        return size if isinstance(size, int) else value_of(size, sizes)

    values = tuple(map(value, tensor.shape))
    known = tuple(size for size in values if size is not None)
    is_symbolic = any(isinstance(size, str) for size in tensor.shape)
    return replace(tensor, at=known if len(known) == len(values) else ()) if is_symbolic else tensor
