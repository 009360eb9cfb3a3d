"""The operators at the beginning of a function that compute each place of a batch by itself, and their sizes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from math import isfinite, prod

from eutectic.ir.dtype import item_bytes
from eutectic.ir.op import Op
from eutectic.relax.analysis.uses import operands_of, used_vars
from eutectic.relax.base import Expr, StructInfo
from eutectic.relax.expr import Call, Constant, Function, Tuple, TupleGetItem, Var, VarBinding
from eutectic.relax.op.registry import has_trait, op_def
from eutectic.relax.op.separable import is_separable
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.relax.struct_info_relations import leaf_infos
from eutectic.relax.transform.split_batch.choice import StepSizes
from eutectic.relax.transform.winograd.convert import convolution_sizes


@dataclass(frozen=True)
class Batch:
    """A batch, and what computes each place of it by itself.

    Attributes:
        images: Places along the first axis.
        cut: Parameters of the function that have the batch as their first axis.
        members: Bindings that read these, other parameters, constants, and each other.
    """

    images: int
    cut: tuple[Var, ...]
    members: tuple[VarBinding, ...]

    def first(self, count: int) -> Batch:
        """The same with so many members."""
        return replace(self, members=self.members[:count])


def batch_of(function: Function) -> Batch | None:
    """The batch of a function, by the first size of its first tensor; None where nothing computes with one.

    Args:
        function: Its first block is looked at.
    """
    sizes = {param: _sizes(param.struct_info) for param in function.params}
    images = next((known[0][0] for known in sizes.values() if known and known[0]), 1)
    if images < 2 or not function.body.blocks:
        return None
    cut = tuple(param for param, known in sizes.items() if known and known[0][:1] == (images,))
    batched, others = set(cut), set(function.params).difference(cut)
    members = []
    for binding in function.body.blocks[0].bindings:
        if isinstance(binding, VarBinding) and _is_member(binding, images, batched, others):
            batched.add(binding.var)
            members.append(binding)
    return Batch(images, cut, tuple(members)) if any(isinstance(found.value, Call) for found in members) else None


def _sizes(info: StructInfo | None) -> list[tuple[int, ...]]:
    """Shapes of the tensors of a value; none where one is not known."""
    leaves = leaf_infos((info,)) if info is not None else []
    shapes = [leaf.static_shape if isinstance(leaf, TensorStructInfo) else None for leaf in leaves]
    return [shape for shape in shapes if shape is not None] if None not in shapes else []


def _is_member(binding: VarBinding, images: int, batched: Collection[Var], others: Collection[Var]) -> bool:
    value, shapes = binding.value, _sizes(binding.var.struct_info)
    if not shapes or any(shape[:1] != (images,) for shape in shapes):
        return False
    if any(var not in batched and var not in others for var in used_vars(value)):
        return False
    match value:
        case Call():
            flags = [operand in batched for operand in operands_of(value)]
            return isinstance(value.op, Op) and not has_trait(value, "calls") and is_separable(value, flags)
        case Tuple():
            return all(field in batched for field in value.fields)
        case TupleGetItem():
            return value.tuple_value in batched
        case _:
            return value in batched


def step_sizes(batch: Batch) -> tuple[StepSizes, ...]:
    """What each member reads, writes and computes, in their order."""
    followers = [binding.value for binding in batch.members[1:]]
    ends = [not (isinstance(value, (Tuple, TupleGetItem)) or _is_fused(value)) for value in followers]
    inside = {*batch.cut, *(binding.var for binding in batch.members)}
    return tuple(
        _step(binding, inside, may_end=may_end and isinstance(binding.var.struct_info, TensorStructInfo))
        for binding, may_end in zip(batch.members, [*ends, True], strict=True)
    )


def _step(binding: VarBinding, inside: Collection[Var], *, may_end: bool) -> StepSizes:
    call = binding.value
    if not isinstance(call, Call) or has_trait(call, "view"):
        return StepSizes(0, 0, 0.0, None, may_end)
    operands = list(operands_of(call))
    read = [_bytes(operand) for operand in operands if operand in inside]
    moved = sum(read[1:]) if _is_fused(call) else sum(read) + _bytes(binding.var)
    weights = sum(_bytes(operand) for operand in operands if isinstance(operand, Constant))
    definition = op_def(call.op)
    work = definition.work_fn(call) if definition is not None and definition.work_fn is not None else 0.0
    return StepSizes(moved, weights, work if isfinite(work) else 0.0, convolution_sizes(call, {}), may_end)


def _is_fused(value: Expr) -> bool:
    """Whether a value becomes a part of the kernel before it."""
    return has_trait(value, "pointwise") or has_trait(value, "view")


def _bytes(value: Expr) -> int:
    """Of the tensors of a value, as far as their sizes are known."""
    leaves = leaf_infos((value.struct_info,)) if value.struct_info is not None else []
    infos = [info for info in leaves if isinstance(info, TensorStructInfo) and info.static_shape is not None]
    return sum(prod(info.static_shape or ()) * item_bytes(info.dtype) for info in infos)
