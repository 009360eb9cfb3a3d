"""What computes each place of a batch by itself gives for pieces of the batch the pieces of the result."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import tests.relax.op.cases_elementwise
import tests.relax.op.cases_nn
import tests.relax.op.cases_places
import tests.relax.op.cases_quantized
import tests.relax.op.cases_shape  # noqa: F401  # the modules register their cases when imported
from hypothesis import given
from hypothesis import strategies as st
from tests.relax.op.oracle import CASES, Feeds, evaluate

from eutectic.ir.node import replace
from eutectic.relax import op
from eutectic.relax.base import ShapeExpr
from eutectic.relax.expr import Call, Tuple, Var
from eutectic.relax.op.registry import all_ops, has_trait
from eutectic.relax.op.separable import is_separable
from eutectic.relax.struct_info import tensor


def separable() -> list[str]:
    said = {name for name, found in all_ops().items() if found.separable_fn is not None}
    return sorted(said | {name for name in CASES if has_trait(name, "pointwise")})


def operands(call: Call) -> list[Var]:
    fields = [field for arg in call.args for field in (arg.fields if isinstance(arg, Tuple) else (arg,))]
    return [field for field in fields if isinstance(field, Var)]


def of_one(call: Call) -> Call:
    """A call of a view, whose shape is that of one place of the batch."""
    shapes = [arg for arg in call.args if isinstance(arg, ShapeExpr)]
    if not has_trait(call, "view") or not shapes:
        return call
    return replace(call, args=(call.args[0], ShapeExpr((1, *shapes[0].values[1:]))))


def fields(value: object) -> list[np.ndarray]:
    return list(value) if isinstance(value, tuple) else [value]


@pytest.mark.parametrize("name", separable())
@given(data=st.data())
def test_pieces_are_pieces_of_the_whole(name: str, data: st.DataObject):
    call = CASES[name](feeds := Feeds(data.draw)).call
    tensors = operands(call)
    sizes = [feeds.values[var].shape[:1] for var in tensors]
    for flags in product([False, True], repeat=len(tensors)):
        cut = {size for size, flag in zip(sizes, flags, strict=True) if flag}
        if len(tensors) > 3 or len(cut) != 1 or cut == {()} or not is_separable(call, flags):
            continue
        whole, (count,) = fields(evaluate(call, feeds.values)), cut.pop()
        for place in range(count):
            batched = {var for var, flag in zip(tensors, flags, strict=True) if flag}
            part = {var: x[place : place + 1] if var in batched else x for var, x in feeds.values.items()}
            for got, want in zip(fields(evaluate(of_one(call), part)), whole, strict=True):
                expected = want[place : place + 1].astype(np.float64)
                np.testing.assert_allclose(got.astype(np.float64), expected, rtol=1e-2, atol=1e-2, equal_nan=True)


def var(*shape: int) -> Var:
    return Var("x", tensor(shape, "float32"))


X, ROWS = var(4, 6, 5, 5), var(4, 6)
YES = {
    "convolution": op.nn.conv2d(X, var(8, 6, 3, 3)),
    "transposed convolution": op.nn.conv2d_transpose(X, var(6, 8, 3, 3)),
    "pooling": op.nn.max_pool2d(X, 2),
    "adaptive pooling": op.nn.adaptive_avg_pool2d(X, 1),
    "what broadcasts along it": op.add(X, var(6, 1, 1)),
    "other axes become one": op.reshape(X, (4, 150)),
    "a sum over others": op.mean(X, [2, 3]),
    "rows by a matrix": op.matmul(ROWS, var(6, 3)),
    "softmax of others": op.nn.softmax(ROWS, -1),
    "pieces of channels": op.split(X, 2, 1),
    "a part of the rows": op.strided_slice(X, [2], [1], [4]),
    "others change places": op.permute_dims(X, [0, 2, 3, 1]),
    "images of another size": op.image.resize2d(X, (9, 9)),
    "points of channels": op.nn.pixel_shuffle(var(4, 8, 5, 5), 2),
    "a norm of channels": op.nn.group_norm(X, var(6), var(6), 2, 1, [2, 3]),
    "a norm of rows": op.nn.layer_norm(ROWS, var(6), var(6), [-1]),
    "zeros around images": op.nn.pad(X, [0, 0, 0, 0, 1, 1, 1, 1]),
}
NO = {
    "a batch that is not first": op.nn.conv2d(var(5, 5, 4, 6), var(8, 6, 3, 3), data_layout="HWNC"),
    "the batch is a part of an axis": op.reshape(X, (2, 2, 150)),
    "the batch becomes longer": op.nn.pad(X, [1, 0, 0, 0, 0, 0, 0, 0]),
    "a sum over it": op.sum(X, [0]),
    "a sum over all": op.sum(X),
    "a norm along it": op.nn.layer_norm(ROWS, var(4, 6), var(4, 6), [0, 1]),
    "softmax along it": op.nn.softmax(ROWS, 0),
    "pieces of it": op.split(X, 2, 0),
    "a part of it": op.strided_slice(X, [0], [1], [4]),
    "another axis first": op.permute_dims(X, [1, 0, 2, 3]),
    "all axes of one place go": op.squeeze(var(4, 1, 6)),
    "a running sum along it": op.cumsum(X, 0),
    "backwards": op.flip(X, 0),
}


@pytest.mark.parametrize("name", YES)
def test_separable(name: str):
    assert is_separable(YES[name], [True, *[False] * (len(operands(YES[name])) - 1)])


@pytest.mark.parametrize("name", NO)
def test_not_separable(name: str):
    assert not is_separable(NO[name], [True, *[False] * (len(operands(NO[name])) - 1)])


def test_weights_are_no_batch():
    assert not is_separable(YES["convolution"], [True, True])
    assert not is_separable(op.add(ROWS, var(4, 6, 4, 6)), [True, False])
    assert not is_separable(op.add(ROWS, var(4, 6)), [True, False])
    assert is_separable(op.add(ROWS, var(4, 6)), [True, True])
    assert not is_separable(op.concat([ROWS, ROWS], 1), [True, False])
    assert not is_separable(YES["convolution"], [False, False])


def test_attention():
    tokens, one = var(2, 5, 3, 4), var(1, 3, 5, 5)
    assert is_separable(op.nn.attention(tokens, tokens, tokens), [True] * 3)
    assert not is_separable(op.nn.attention(tokens, tokens, tokens), [True, True, False])
    assert is_separable(op.nn.attention(tokens, tokens, tokens, one), [True, True, True, False])
    assert not is_separable(op.nn.attention(tokens, tokens, tokens, var(2, 3, 5, 5)), [True, True, True, False])
