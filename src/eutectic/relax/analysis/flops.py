"""How many floating-point operations a call of an operator needs, by the formula of its kind."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Final, TypeAlias

from eutectic.ir.dtype import is_float
from eutectic.ir.op import Op
from eutectic.ir.prim_expr import IntImm, PrimExpr
from eutectic.relax.base import StructInfo
from eutectic.relax.expr import Call
from eutectic.relax.op.registry import Fusion, Trait, has_trait, op_def
from eutectic.relax.struct_info import TensorStructInfo, TupleStructInfo

Amount: TypeAlias = int | PrimExpr
Sizes: TypeAlias = tuple[Amount, ...]
NORMALISED: Final = 5
"""Operations per element of what normalises (softmax, layer_norm): largest or mean, difference, exp or square, sum,
quotient."""


def operator_flops(call: Call) -> int | None:
    """Floating-point operations of a call of an operator; None where a size is symbolic or no formula is known.

    Args:
        call: A call with struct info.
    """
    work = operator_work(call)
    return work if isinstance(work, int) else None


def operator_work(call: Call) -> Amount | None:
    """Floating-point operations of a call of an operator, of symbolic sizes as an expression; None without a formula.

    A multiplication and an addition count one each; so do exp, tanh and the like. Products (matmul, convolution,
    attention) count two per pair of elements, and nothing else of theirs; pooling counts one per element of each
    window, a reduction one per element of its operand, what works element by element one per element of the result;
    moves of elements, and operators on integers, count none.

    Args:
        call: A call with struct info.
    """
    definition = op_def(call.op) if isinstance(call.op, Op) else None
    result = _shape(call.struct_info)
    if definition is None or result is None:
        return None
    if not _computes_floats(call):
        return 0
    formulas = (formula for trait, formula in _PRODUCTS.items() if trait in definition.traits)
    if (formula := next(formulas, None)) is not None:
        return formula(call, result)
    return _BY_FUSION[definition.fusion](call, result)


def _computes_floats(call: Call) -> bool:
    infos = [call.struct_info, *(arg.struct_info for arg in call.args)]
    tensors = [info for info in infos if isinstance(info, TensorStructInfo)]
    return any(is_float(info.dtype) for info in tensors if info.dtype)


def _shape(info: StructInfo | None) -> Sizes | None:
    """The shape of a tensor, or of the first one of a tuple."""
    while isinstance(info, TupleStructInfo) and info.fields:
        info = info.fields[0]
    if not isinstance(info, TensorStructInfo) or info.dims is None:
        return None
    return tuple(size.value if isinstance(size, IntImm) else size for size in info.dims)


def _operand(call: Call, number: int) -> Sizes | None:
    return _shape(call.args[number].struct_info) if len(call.args) > number else None


def _attr(call: Call, name: str) -> Any:
    return None if call.attrs is None else call.attrs.get(name)


def _convolution(call: Call, result: Sizes) -> Amount | None:
    """Two per element of the result and weight that goes into it; of a transposed one, per element of the operand."""
    data, weight, layout = _operand(call, 0), _operand(call, 1), _attr(call, "kernel_layout")
    if data is None or weight is None or layout is None:
        return None
    transposed = has_trait(call, "transposed")
    axis, places = ("I", prod(data)) if transposed else ("O", prod(result))
    letters = [letter for letter in str(layout) if letter.isalpha()]
    channels = prod(size for letter, size in zip(letters, weight, strict=True) if letter.upper() == axis)
    return 2 * places * prod(weight) // channels if channels else 0


def _contraction(call: Call, result: Sizes) -> Amount | None:
    left = _operand(call, 0)
    return None if not left else 2 * prod(result) * left[-1]


def _attention(call: Call, result: Sizes) -> Amount | None:
    """The two products; operands are `(batch, sequence, heads, features)`."""
    query, key, value = (_operand(call, i) for i in range(3))
    if query is None or key is None or value is None or len(query) != 4 or len(key) != 4:
        return None
    batch, length, heads, features = query
    return 2 * batch * heads * length * key[1] * (features + value[-1])


def _per_result(call: Call, result: Sizes) -> Amount | None:
    return prod(result)


def _per_operand(call: Call, result: Sizes) -> Amount | None:
    operand = _operand(call, 0)
    return None if operand is None else prod(operand)


def _windows(call: Call, result: Sizes) -> Amount | None:
    """Pooling: by the size of its windows, or of the operand where every element is in one of them."""
    window = _attr(call, "pool_size")
    if window is not None:
        return prod(result) * prod(int(size) for size in window)
    return None if _attr(call, "output_size") is None else _per_operand(call, result)


def _normalised(call: Call, result: Sizes) -> Amount | None:
    """What gives floats of the shape of its operand normalises, among the layers of networks; else not known."""
    operand = _operand(call, 0)
    same = operand is not None and [*map(str, operand)] == [*map(str, result)]
    is_layer = call.op.name.split(".")[1] == "nn" and same
    return NORMALISED * prod(result) if is_layer else None


_Formula: TypeAlias = Callable[[Call, Sizes], "Amount | None"]
_PRODUCTS: Final[dict[Trait, _Formula]] = {
    "convolution": _convolution,
    "contraction": _contraction,
    "attention": _attention,
}
_BY_FUSION: Final[dict[Fusion, _Formula]] = {
    "elementwise": _per_result,
    "broadcast": _per_result,
    "injective": lambda call, result: 0,
    "reduction": _per_operand,
    "out_fusible": _windows,
    "opaque": _normalised,
}
