"""relax.einsum: sums of products of tensors, written with a letter per axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eutectic import topi
from eutectic.ir.attrs import Attrs
from eutectic.ir.dtype import is_float
from eutectic.ir.node import node
from eutectic.ir.prim_expr import PrimExpr
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call
from eutectic.relax.op.lowering import lower
from eutectic.relax.op.numerics import Array, cast, dtype_of, widen
from eutectic.relax.op.registry import attrs_of, call, define_op, refuse
from eutectic.relax.op.shapes import differ, dims_text, is_one, reject, size_text, tensor_info
from eutectic.relax.struct_info import TensorStructInfo, TupleStructInfo
from eutectic.te import Tensor

_einsum = define_op("relax.einsum", arity=1, fusion="out_fusible")


@node("relax.attrs.EinsumAttrs")
class EinsumAttrs(Attrs):
    """Letters of the operands' axes, and after `->` those of the result's."""

    subscripts: str


def einsum(operands: Expr | Sequence[Expr], subscripts: str, *, span: Any = None) -> Call:
    """Products of elements whose axes share letters, summed over the letters that the result lacks.

    Args:
        operands: Tensors of one dtype.
        subscripts: A group of letters per operand, separated by commas, and optionally `->` and
            the letters of the result; without it these are the letters that occur once, sorted.
        span: Python source of the call, for errors.

    Returns:
        One axis per letter of the result.

    Raises:
        TypeInferenceError: malformed subscripts, another number of operands or axes, different
            dtypes, or sizes that differ under one letter.

    Reference: TVM relax.einsum; numpy.einsum without ellipsis.
    """
    text = subscripts.replace(" ", "")
    inputs, arrow, output = text.partition("->")
    letters = inputs.replace(",", "")
    if not all(letter.isascii() and letter.isalpha() for letter in letters + output) or len(set(output)) != len(output):
        reject(f"einsum cannot read {subscripts!r}", help='write it like "ij,jk->ik"')
    if arrow and not set(output) <= set(letters):
        reject(f"einsum {subscripts!r}: the result has a letter that no operand has")
    return call(_einsum, operands, attrs=EinsumAttrs(text), span=span)


def _output(inputs: str, arrow: str, output: str) -> str:
    letters = inputs.replace(",", "")
    return output if arrow else "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))


@_einsum.infer
def _infer(c: Call) -> TensorStructInfo:
    info, text = c.args[0].struct_info, attrs_of(c, EinsumAttrs).subscripts
    operands = info.fields if isinstance(info, TupleStructInfo) else ()
    tensors = [item for item in operands if isinstance(item, TensorStructInfo)]
    inputs, arrow, output = text.partition("->")
    groups = inputs.split(",")
    if len(tensors) != len(operands) or len(tensors) != len(groups):
        refuse(c, f"einsum {text!r} needs a tuple of {len(groups)} tensors")
    if len({item.dtype for item in tensors}) > 1:
        refuse(c, f"einsum of {' and '.join(item.dtype for item in tensors)}", help="cast with astype")
    result = _output(inputs, arrow, output)
    sizes: dict[str, PrimExpr] = {}
    for group, item in zip(groups, tensors, strict=True):
        if item.ndim not in (-1, len(group)):
            refuse(c, f"einsum {text!r}: {group!r} names {len(group)} axes of {dims_text(item.dims)}")
        for letter, size in zip(group, item.dims or (), strict=False):
            seen = sizes.get(letter)
            if seen is not None and differ(seen, size) and not is_one(seen) and not is_one(size):
                refuse(c, f"einsum {text!r}: {letter} is {size_text(seen)} and {size_text(size)}")
            if seen is None or is_one(seen):
                sizes[letter] = size
    if any(item.dims is None for item in tensors):
        return tensor_info(None, tensors[0].dtype, len(result))
    return tensor_info([sizes[letter] for letter in result], tensors[0].dtype)


@_einsum.reference
def _reference(attrs: EinsumAttrs, operands: Sequence[Array]) -> Array:
    dtype = dtype_of(operands[0])
    inputs, arrow, output = attrs.subscripts.partition("->")
    text = f"{inputs}->{_output(inputs, arrow, output)}"
    return cast(np.einsum(text, *map(widen, operands), optimize=is_float(dtype)), dtype)


def _program(operands: Sequence[Tensor], subscripts: str) -> Tensor:
    return topi.einsum(subscripts, *operands)


lower(_einsum, _program, name="einsum", options=lambda attrs: {"subscripts": attrs.subscripts})
