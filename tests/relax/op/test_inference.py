"""Inference with symbolic and unknown shapes: what can be shown is stated, the rest stays unknown."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.relax.op.oracle import symbolic, unknown

from eutectic.arith import prove_equal
from eutectic.ir.prim_expr import Var, as_prim, evaluate
from eutectic.relax import expr as rx
from eutectic.relax import op
from eutectic.relax.base import ShapeExpr, ShapeStructInfo
from eutectic.relax.op import image, nn
from eutectic.relax.struct_info import TensorStructInfo, TupleStructInfo

n, m = Var("n", "int64"), Var("m", "int64")
X = symbolic(n, 4)
IMAGE = symbolic(n, 3, 8, m)
W = symbolic(6, 3, 3, 3)
C3 = [symbolic(3) for _ in range(4)]

KNOWN: list[tuple[rx.Call, tuple[Any, ...]]] = [
    (op.exp(X), (n, 4)),
    (op.add(X, symbolic(1, 4)), (n, 4)),
    (op.add(X, symbolic(n, 1)), (n, 4)),
    (op.add(symbolic(n + m), symbolic(m + n)), (m + n,)),
    (op.where(symbolic(n, 1, dtype="bool"), X, X), (n, 4)),
    (op.ewise_fma(X, unknown(2), X), (n, 4)),
    (op.clip(X, 0, 6), (n, 4)),
    (op.reshape(X, (-1,)), (n * 4,)),
    (op.reshape(X, (2, -1)), (2, n * 2)),
    (op.reshape(X, (0, 2, 2)), (n, 2, 2)),
    (op.reshape(X, (4, n)), (4, n)),
    (op.flatten(X), (n * 4,)),
    (op.expand_dims(X, (0, -1)), (1, n, 4, 1)),
    (op.squeeze(symbolic(n, 1), 1), (n,)),
    (op.squeeze(X, 0), (4,)),
    (op.permute_dims(X), (4, n)),
    (op.broadcast_to(symbolic(1, 4), (n, 4)), (n, 4)),
    (op.concat([X, symbolic(m, 4)]), (n + m, 4)),
    (op.stack([X, X], 1), (n, 2, 4)),
    (op.repeat(X, 3, 0), (n * 3, 4)),
    (op.tile(X, (2, 1, 3)), (2, n, 12)),
    (op.take(X, symbolic(m, 2, dtype="int64"), 1), (n, m, 2)),
    (op.gather_elements(X, symbolic(m, 4, dtype="int64")), (m, 4)),
    (op.strided_slice(X, [1], [1], [3]), (n, 2)),
    (op.strided_slice(X, [0], [0], [n]), None),
    (op.strided_slice(X, [0], [0], [n], assume_inbound=True), (n, 4)),
    (op.strided_slice(X, [0], [0], [2**31 - 1]), (n, 4)),
    (op.sum(X, 1), (n,)),
    (op.mean(X, 0, keepdims=True), (1, 4)),
    (op.argmax(X, 1), (n,)),
    (op.cumsum(X), (n * 4,)),
    (op.full((n, 2), 1.0), (n, 2)),
    (op.arange(n), (n,)),
    (op.tril(X), (n, 4)),
    (op.matmul(X, symbolic(4, m)), (n, m)),
    (op.matmul(symbolic(n, 2, 4), symbolic(4)), (n, 2)),
    (op.linear(X, symbolic(m, 4), symbolic(m)), (n, m)),
    (op.einsum([X, symbolic(4, m)], "ij,jk->ki"), (m, n)),
    (nn.conv2d(IMAGE, W, padding=1), (n, 6, 8, m)),
    (nn.conv2d(IMAGE, W, strides=2), (n, 6, 3, (m - 3) // 2 + 1)),
    (nn.conv2d_transpose(IMAGE, symbolic(3, 6, 2, 2), strides=2), (n, 6, 16, m * 2)),
    (nn.max_pool2d(IMAGE, 2, 2), (n, 3, 4, (m - 2) // 2 + 1)),
    (nn.adaptive_avg_pool2d(IMAGE, (1, 1)), (n, 3, 1, 1)),
    (nn.relu(X), (n, 4)),
    (nn.softmax(X), (n, 4)),
    (nn.prelu(X, symbolic(4)), (n, 4)),
    (nn.layer_norm(X, symbolic(4), symbolic(4), -1), (n, 4)),
    (nn.group_norm(IMAGE, C3[0], C3[1], 3, 1, (2, 3)), (n, 3, 8, m)),
    (nn.pad(X, (1, 2, 0, 3)), (n + 3, 7)),
    (nn.attention(symbolic(n, m, 2, 4), symbolic(n, m, 2, 4), symbolic(n, m, 2, 5)), (n, m, 2, 5)),
    (nn.im2col(IMAGE, 3, 1, 1), (n, 27, 8 * m)),
    (image.resize2d(IMAGE, (m, 5)), (n, 3, m, 5)),
]


@pytest.mark.parametrize(("call", "want"), KNOWN, ids=[f"{i}-{call.op.name}" for i, (call, _) in enumerate(KNOWN)])
def test_symbolic_sizes_pass_through(call: rx.Call, want: tuple[Any, ...] | None):
    info = call.struct_info
    assert isinstance(info, TensorStructInfo)
    if want is None:
        assert info.dims is None
        return
    assert info.dims is not None
    assert len(info.dims) == len(want)
    for got, size in zip(info.dims, want, strict=True):
        assert prove_equal(got, as_prim(size)), (got, size)


U2, U4 = unknown(2), unknown(4)
RANKS: list[tuple[rx.Call, int]] = [
    (op.add(X, symbolic(m, 4)), 2),
    (op.add(X, symbolic(3, 4)), 2),
    (op.exp(unknown()), -1),
    (op.add(unknown(), X), -1),
    (op.add(U2, X), 2),
    (op.flatten(unknown()), 1),
    (op.expand_dims(U2, 0), 3),
    (op.squeeze(X), -1),
    (op.squeeze(U2, 0), 1),
    (op.permute_dims(unknown(), (1, 0)), 2),
    (op.concat([X, U2]), 2),
    (op.stack([X, U2]), 3),
    (op.take(U2, symbolic(3, 3, dtype="int64"), 0), 3),
    (op.strided_slice(X, [0], [3], [0], [-1]), 2),
    (op.sum(U2, 0), 1),
    (op.sum(unknown()), 0),
    (op.matmul(U2, X), 2),
    (op.matmul(unknown(3), unknown(1)), 2),
    (op.matmul(unknown(1), unknown(1)), 0),
    (op.einsum([U2, U2], "ij,jk->k"), 1),
    (nn.conv2d(unknown(), W), 4),
    (nn.max_pool2d(U4, 2), 4),
    (nn.adaptive_avg_pool2d(U4, 1), 4),
    (nn.pad(U2, (1, 1, 1, 1)), 2),
    (nn.attention(U4, U4, U4), 4),
    (image.resize2d(U4, 3), 4),
    (op.reshape(X, rx.Var("s", ShapeStructInfo(ndim=3))), 3),
    (op.full(rx.Var("s", ShapeStructInfo(ndim=3)), 1), 3),
    (op.broadcast_to(X, rx.Var("s", ShapeStructInfo(ndim=3))), 3),
]


@pytest.mark.parametrize(("call", "ndim"), RANKS, ids=[f"{i}-{call.op.name}" for i, (call, _) in enumerate(RANKS)])
def test_the_rank_is_known_when_the_sizes_are_not(call: rx.Call, ndim: int):
    info = call.struct_info
    assert isinstance(info, TensorStructInfo)
    assert info.ndim == ndim
    assert info.dims is None or ndim == 0


def test_unknown_dtypes_propagate():
    nothing = unknown(2, dtype="")
    for call in (op.exp(nothing), op.add(nothing, X), op.matmul(nothing, X), nn.relu(nothing), op.sum(nothing)):
        assert isinstance(call.struct_info, TensorStructInfo)
        assert call.struct_info.dtype == ""
    less = op.less(nothing, nothing).struct_info
    assert isinstance(less, TensorStructInfo)
    assert less.dtype == "bool"


def test_tuples_have_one_field_per_result():
    pieces = op.split(X, 2, 0).struct_info
    assert isinstance(pieces, TupleStructInfo)
    assert len(pieces.fields) == 2
    norm = nn.batch_norm(IMAGE, *C3, axis=1).struct_info
    assert isinstance(norm, TupleStructInfo)
    assert norm.fields == (IMAGE.struct_info, C3[0].struct_info, C3[0].struct_info)


def test_a_shape_variable_stays_the_shape():
    shape = rx.Var("s", ShapeStructInfo(ndim=2))
    x = rx.Var("x", TensorStructInfo(shape, "float32"))
    for call in (op.exp(x), op.add(x, x)):
        assert isinstance(call.struct_info, TensorStructInfo)
        assert call.struct_info.shape is shape


def test_arguments_without_struct_info_leave_the_call_untyped():
    assert op.exp(rx.Var("x")).struct_info is None


def test_same_symbolic_reshape_is_accepted_whatever_the_order():
    assert op.reshape(symbolic(n, m), (m, n)).struct_info is not None


@given(st.integers(1, 30), st.integers(1, 4), st.integers(1, 4), st.integers(0, 2), st.integers(1, 2))
def test_symbolic_windows_agree_with_static_ones(size: int, kernel: int, stride: int, pad: int, dilation: int):
    if size + 2 * pad < dilation * (kernel - 1) + 1:
        return

    def out(width: Any) -> Any:
        x, w = symbolic(1, 1, width), symbolic(1, 1, kernel)
        info = nn.conv1d(x, w, stride, pad, dilation).struct_info
        assert isinstance(info, TensorStructInfo)
        assert info.dims is not None
        return info.dims[2]

    assert evaluate(out(n), {n: size}) == evaluate(out(size), {})


@given(st.integers(0, 9), st.integers(-12, 12), st.integers(-12, 12), st.integers(1, 3))
def test_symbolic_slices_agree_with_static_ones(size: int, begin: int, end: int, step: int):
    info = op.strided_slice(symbolic(n), [0], [begin], [end], [step]).struct_info
    assert isinstance(info, TensorStructInfo)
    assert info.dims is not None
    assert evaluate(info.dims[0], {n: size}) == len(range(size)[begin:end:step])


def test_shapes_as_values():
    info = op.shape_of(X).struct_info
    assert isinstance(info, ShapeStructInfo)
    assert info.values == ShapeExpr((n, 4)).values
    rank = op.tensor_to_shape(symbolic(3, dtype="int64")).struct_info
    assert isinstance(rank, ShapeStructInfo)
    assert rank.ndim == 3


RECURRENT: list[tuple[rx.Call, int, tuple[Any, ...]]] = [
    (nn.lstm(symbolic(m, n, 20), symbolic(n, 5), symbolic(n, 5), symbolic(20, 5)), 2, (n, 5)),
    (nn.gru(symbolic(m, n, 15), symbolic(n, 5), symbolic(15, 5), symbolic(5)), 1, (n, 5)),
    (nn.rnn(symbolic(m, 2, 5), unknown(2), symbolic(5, 5)), 1, (2, None)),
]


@pytest.mark.parametrize(("call", "states", "want"), RECURRENT, ids=[call.op.name for call, _, _ in RECURRENT])
def test_recurrent_layers_give_all_hidden_states_and_the_last(call: rx.Call, states: int, want: tuple[Any, ...]):
    info = call.struct_info
    assert isinstance(info, TupleStructInfo)
    first, *others = info.fields
    assert [field.ndim for field in info.fields] == [3, *[2] * states]
    if None in want:
        assert first.dims is None
        return
    assert all(map(prove_equal, first.dims, map(as_prim, (m, *want))))
    assert all(prove_equal(*pair) for field in others for pair in zip(field.dims, map(as_prim, want), strict=True))
