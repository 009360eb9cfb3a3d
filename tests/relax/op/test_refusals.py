"""Wrong calls of operators are refused with a sentence that names what disagrees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from eutectic.relax import op
from eutectic.relax.base import ShapeExpr
from eutectic.relax.expr import Call, Constant, PrimValue, Tuple, Var
from eutectic.relax.op import image, nn
from eutectic.relax.op.registry import infer_call, op_def
from eutectic.relax.struct_info import ShapeStructInfo, TensorStructInfo
from eutectic.support.errors import CallError, TypeInferenceError


def t(*shape: int, dtype: str = "float32") -> Var:
    return Var("x", TensorStructInfo(ShapeExpr(shape), dtype))


def i(*shape: int) -> Var:
    return t(*shape, dtype="int64")


def b(*shape: int) -> Var:
    return t(*shape, dtype="bool")


SHAPE = Var("s", ShapeStructInfo(ndim=2))
Q = (2, 3, 4, 5)
IN_BLOCKS = (t(1, 2, 5, 5, 4), t(8), t(8))
WINDOWS = (t(2, 3, 3, 2), t(2, 2), t(1, 2, 2, 4))

REFUSED: list[tuple[Callable[[], Any], str]] = [
    # element-wise
    (lambda: op.exp(i(2)), "exp needs a float dtype, got int64"),
    (lambda: op.abs(b(2)), "abs needs a number dtype, got bool"),
    (lambda: op.bitwise_not(t(2)), "bitwise_not needs an integer dtype, got float32"),
    (lambda: op.exp(SHAPE), "argument 0 of exp must be a tensor"),
    (lambda: op.add(t(2), i(2)), "Binary operators must have the same datatype for both operands: add got float32 and"),
    (lambda: op.add(t(2, 3), t(2)), "add cannot broadcast (2, 3) and (2,): 3 against 2"),
    (lambda: op.add(t(2), SHAPE), "argument 1 of add must be a tensor"),
    (lambda: op.subtract(b(2), b(2)), "subtract is defined for numbers, not for bool"),
    (lambda: op.bitwise_and(t(2), t(2)), "bitwise_and is defined for integers or bool, not for float32"),
    (lambda: op.left_shift(b(2), b(2)), "left_shift is defined for integers, not for bool"),
    (lambda: op.log_add_exp(i(2), i(2)), "log_add_exp is defined for floats, not for int64"),
    (lambda: op.clip(t(2), t(), 1), "min of clip must be a scalar"),
    (lambda: op.clip(i(2), 0.5, 1), "min of clip is 0.5, which int64 cannot hold"),
    (lambda: op.clip(t(2, dtype="int8"), 300, 400), "min of clip is 300, which int8 cannot hold"),
    (lambda: op.clip(b(2), 0, 1), "clip is defined for numbers, not for bool"),
    (lambda: op.where(t(2), t(2), t(2)), "the condition of where must be bool, got float32"),
    (lambda: op.where(b(2), t(2), i(2)), "where of float32 and int64"),
    (lambda: op.where(b(3), t(2), t(2)), "where cannot broadcast (3,) and (2,) and (2,): 3 against 2"),
    (lambda: op.ewise_fma(t(2), t(3), t(2)), "ewise_fma needs equal shapes, got (2,) and (3,)"),
    (lambda: op.ewise_fma(t(2), t(2, 1), t(2)), "ewise_fma needs equal shapes, got (2,) and (2, 1)"),
    (lambda: op.ewise_fma(t(2), i(2), t(2)), "ewise_fma of float32 and int64"),
    (lambda: op.checked(t(2), t(2), ""), "the condition of checked must be bool, got float32"),
    (lambda: op.checked(t(2), b(3, 2), ""), "a condition of (3, 2) does not broadcast to (2,)"),
    (lambda: op.astype(t(2), "float31"), "unknown dtype 'float31'"),
    (lambda: op.astype(t(2), "void"), "astype needs a dtype"),
    (lambda: op.matmul(t(2, 2), t(2, 2), "f32"), "unknown dtype 'f32'"),
    (lambda: op.full((2,), 1, "double"), "unknown dtype 'double'"),
    (lambda: i(2) + 0.5, "int64 cannot hold 0.5"),
    (lambda: t(2, dtype="uint8") * 300, "uint8 cannot hold 300"),
    (lambda: b(2) + 2, "bool cannot hold 2"),
    # shapes
    (lambda: op.reshape(t(2, 3), (4, 2)), "reshape of (2, 3) to (4, 2): 6 elements against 8"),
    (lambda: op.reshape(t(2, 3), (4, -1)), "reshape of (2, 3) to (4, -1): 6 elements do not divide by 4"),
    (lambda: op.reshape(t(2, 3), (-1, -1)), "reshape to (-1, -1): only one size may be -1"),
    (lambda: op.reshape(t(2, 3), (-2, 3)), "reshape to (-2, 3): sizes must not be below -1"),
    (lambda: op.reshape(t(2, 3), (2, 3, 0)), "reshape to (2, 3, 0): there is no axis 2 to copy in (2, 3)"),
    (lambda: op.reshape(t(0, 3), (0, -1)), "0 elements do not divide by 0"),
    (lambda: op.reshape(t(2), t(2)), "argument 1 of reshape must be a shape"),
    (lambda: op.reshape(Var("u", TensorStructInfo(None)), (-1,)), "reshape to (-1,) needs the shape of the input"),
    (lambda: op.expand_dims(t(2), 3), "axis 3 of expand_dims is out of range for a tensor with 2 axes"),
    (lambda: op.expand_dims(t(2), (0, -3)), "expand_dims got the same axis twice: [0, -3]"),
    (lambda: op.squeeze(t(2, 1), 0), "squeeze of axis 0 of (2, 1), which has size 2"),
    (lambda: op.permute_dims(t(2, 3), (0,)), "permute_dims got 1 axes for a tensor with 2"),
    (lambda: op.permute_dims(t(2, 3), (0, 0)), "permute_dims got the same axis twice: [0, 0]"),
    (lambda: op.broadcast_to(t(2, 3), (2, 4)), "broadcast_to of (2, 3) to (2, 4)"),
    (lambda: op.broadcast_to(t(2, 3), (3,)), "broadcast_to of (2, 3) to (3,)"),
    (lambda: op.broadcast_to(t(2), t(2)), "argument 1 of broadcast_to must be a shape"),
    (lambda: op.concat(t(2)), "argument 0 of concat must be a tuple of tensors"),
    (lambda: op.concat([]), "concat needs at least one tensor, and only tensors"),
    (lambda: op.concat([t(2), i(2)]), "concat of different dtypes: float32, int64"),
    (lambda: op.concat([t(2), t(2, 1)]), "concat of tensors with different numbers of axes: (2,) and (2, 1)"),
    (lambda: op.concat([t(2, 3), t(2, 4)]), "concat of (2, 3) and (2, 4): axis 1 differs"),
    (lambda: op.stack([t(2), t(3)]), "stack of (2,) and (3,): axis 0 differs"),
    (lambda: op.split(t(4), 0), "split into 0 sections"),
    (lambda: op.split(t(2), 5), "split of 2 elements into 5 sections"),
    (lambda: op.split(t(4), (3, 1)), "split at [3, 1]: cuts must not decrease or be negative"),
    (lambda: op.stack([t(2)], 2), "axis 2 of stack is out of range for a tensor with 2 axes"),
    (lambda: op.repeat(t(2), -1), "repeats must be at least 0, got [-1]"),
    (lambda: op.tile(t(2), (-1,)), "tile with negative repeats [-1]"),
    (lambda: op.flip(t(2), 1), "axis 1 of flip is out of range"),
    (lambda: op.flip(t(), 0), "axis 0 of flip is out of range for a tensor with 0 axes"),
    (lambda: op.flip(t(2), 0.5), "axis must be an integer, got 0.5"),
    # picking
    (lambda: op.take(t(2), t(2)), "indices of take must be integers, got float32"),
    (lambda: op.take(t(2, 3), i(2)), "take without an axis of (2, 3)"),
    (lambda: op.take(t(2), i(2), mode="slow"), "take has no mode 'slow'"),
    (lambda: op.take(i(2), i(2), mode="nan"), "take with mode nan of int64, which has no NaN"),
    (lambda: op.gather_elements(t(2, 3), i(3, 3), 1), "gather_elements from (2, 3) with indices (3, 3)"),
    (lambda: op.gather_elements(t(2, 3), i(2)), "gather_elements from (2, 3) with indices (2,)"),
    (lambda: op.gather_elements(t(2), t(2)), "indices of gather_elements must be integers, got float32"),
    (lambda: op.strided_slice(t(2), [0], [0], [1], [0]), "strided_slice with a step of zero"),
    (lambda: op.strided_slice(t(2), [0], [0, 1], [1]), "strided_slice got 1 axes, 2 begins, 1 ends, 1 strides"),
    (lambda: op.strided_slice(t(2), [0], [t()], [1]), "begin of strided_slice must be integers or scalars"),
    # reductions and scans
    (lambda: op.mean(i(2)), "mean needs a float dtype, got int64"),
    (lambda: op.sum(b(2)), "sum needs numbers, got bool"),
    (lambda: op.sum(t(2), (0, -1)), "sum got the same axis twice: [0, -1]"),
    (lambda: op.max(t(0, 3), 0), "max of (0, 3) over axes [0] has no elements to choose from"),
    (lambda: op.argmax(t(2), 1), "axis 1 of argmax is out of range for a tensor with 1 axes"),
    (lambda: op.argmin(t(0)), "argmin of (0,) over axes [0] has no elements"),
    (lambda: op.cumsum(b(2)), "cumsum is defined for numbers, not for bool"),
    (lambda: op.cumsum(t(2), 1), "axis 1 of cumsum is out of range"),
    # making
    (lambda: op.zeros((2,), ""), "zeros and ones need a dtype"),
    (lambda: op.zeros(t(2), "float32"), "argument 0 of zeros must be a shape"),
    (lambda: op.full((2,), t(2)), "the value of full must have no axes, got (2,)"),
    (lambda: op.arange(0, 3, 0), "arange with a step of zero"),
    (lambda: op.arange(t()), "start, end and step of arange must be scalars"),
    (lambda: op.tril(t(2)), "tril needs two axes, got (2,)"),
    (lambda: op.triu(t(2, 2), t()), "the diagonal of triu must be a scalar"),
    (lambda: op.tensor_to_shape(t(2)), "tensor_to_shape needs one axis of int64, got (2,) of float32"),
    (lambda: op.shape_to_tensor(t(2)), "argument 0 of shape_to_tensor must be a shape"),
    # products
    (lambda: op.matmul(t(2, 3), t(2, 3)), "matmul of (2, 3) with (2, 3) contracts 3 with 2"),
    (lambda: op.matmul(t(2, 3), i(3, 2)), "matmul of float32 with int64"),
    (lambda: op.matmul(b(2, 3), b(3, 2)), "matmul is not defined for bool"),
    (lambda: op.matmul(t(), t(3, 2)), "matmul needs at least one axis on both sides"),
    (lambda: op.matmul(t(2, 2, 3), t(3, 3, 2)), "matmul cannot broadcast (2,) and (3,): 2 against 3"),
    (lambda: op.linear(t(2, 3), t(4, 2)), "matmul of (2, 3) with (2, 4) contracts 3 with 2"),
    (lambda: op.einsum([t(2, 3)], "ij,jk->ik"), "einsum 'ij,jk->ik' needs a tuple of 2 tensors"),
    (lambda: op.einsum([t(2, 3)], "i...->i"), "einsum cannot read 'i...->i'"),
    (lambda: op.einsum([t(2, 3)], "ij->k"), "einsum 'ij->k': the result has a letter that no operand has"),
    (lambda: op.einsum([t(2, 3)], "i->i"), "einsum 'i->i': 'i' names 1 axes of (2, 3)"),
    (lambda: op.einsum([t(2), t(3)], "i,i->i"), "einsum 'i,i->i': i is 2 and 3"),
    (lambda: op.einsum([t(2), i(2)], "i,i->i"), "einsum of float32 and int64"),
    # convolutions
    (lambda: nn.conv2d(t(1, 3, 8), t(4, 3, 3, 3)), "nn.conv2d needs data with 4 axes, got 3: (1, 3, 8)"),
    (lambda: nn.conv2d(t(1, 3, 8, 8), t(4, 3, 3)), "nn.conv2d needs weight with 4 axes, got 3: (4, 3, 3)"),
    (lambda: nn.conv2d(t(1, 3, 8, 8), t(4, 2, 3, 3)), "nn.conv2d of 3 channels with weights for 2 times 1 groups"),
    (lambda: nn.conv2d(t(1, 4, 8, 8), t(3, 2, 3, 3), groups=2), "3 output channels do not divide into 2 groups"),
    (lambda: nn.conv2d(t(1, 3, 2, 8), t(4, 3, 3, 3)), "no window of 3 fits 2; the size would be 0"),
    (lambda: nn.conv2d(t(1, 3, 8, 8), i(4, 3, 3, 3)), "nn.conv2d of float32 data with int64 weights"),
    (lambda: nn.conv2d(b(1, 3, 8, 8), b(4, 3, 3, 3)), "nn.conv2d is not defined for bool"),
    (lambda: nn.conv2d_winograd(t(1, 3, 8, 8), t(4, 3, 3, 3)), "needs weights (m + 2, m + 2, o / b, c / v, v, b)"),
    (
        lambda: nn.conv2d_winograd(t(1, 4, 8, 8), t(6, 6, 1, 1, 2, 4)),
        "conv2d_winograd of 4 channels with weights for 2",
    ),
    (lambda: nn.conv2d_winograd(t(1, 2, 8), t(6, 6, 1, 1, 2, 4)), "needs data with the axes of NCHW, got (1, 2, 8)"),
    (lambda: nn.conv2d_winograd(t(1, 2, 2, 8), t(4, 4, 1, 1, 2, 4)), "no window of 3 fits 2; the size would be 0"),
    (lambda: nn.conv2d_winograd(i(1, 2, 8, 8), t(4, 4, 1, 1, 2, 4)), "both are float32 or float64"),
    (
        lambda: nn.conv2d_winograd(t(1, 1, 8, 8, 4), t(4, 4, 1, 2, 2, 4), data_layout="NCHW4c"),
        "in layout NCHW4c with weights for 2 channels at a time",
    ),
    (
        lambda: nn.conv3d_winograd(t(1, 2, 4, 8, 8), t(6, 6, 1, 1, 2, 4)),
        "needs weights (m + 2, m + 2, o / b, k, c / v, v, b)",
    ),
    (lambda: nn.conv3d_winograd(t(1, 2, 2, 8, 8), t(4, 4, 1, 3, 1, 2, 4)), "no window of 3 fits 2; the size"),
    (
        lambda: nn.conv3d_winograd(t(1, 2, 4, 8, 8), t(4, 4, 1, 3, 1, 2, 4), out_layout="NCDHW4c"),
        "in layout NCDHW4c with weights for 2 channels at a time",
    ),
    (lambda: nn.conv3d(t(1, 2, 4, 8, 8), t(2, 2, 1, 3, 3, 4), 1, 1, 1, 1, "NCDHW", "OIDHW4o", "NDHWC"), "the blocks"),
    (lambda: nn.dense_pack(t(2, 6), t(2, 5, 4), 8), "nn.dense_pack of (2, 6) with (2, 5, 4) contracts 6 with 5"),
    (lambda: nn.dense_pack(t(2, 5), t(2, 5, 4), 9), "to 9 columns with weights (2, 5, 4) of 8 columns"),
    (lambda: nn.dense_pack(t(2, 5), t(5, 4), 4), "takes data with an axis, and weights (panels, k, p)"),
    (lambda: nn.dense_pack(t(2, 5), i(2, 5, 4), 8), "nn.dense_pack of float32 with int64"),
    (lambda: nn.dense_pack(i(2, 5), t(2, 5, 4), 8), "expected float32 with float32, float16 or bfloat16, or float64"),
    (
        lambda: nn.inverted_residual(t(1, 6, 8, 8), *WINDOWS, filters=4),
        "nn.inverted_residual of (1, 6, 8, 8), (2, 3, 3, 2), (2, 2), (1, 2, 2, 4) to 4 channels: the sizes do not go",
    ),
    (lambda: nn.inverted_residual(t(1, 4, 8), *WINDOWS, filters=4), "of (1, 4, 8), (2, 3, 3, 2)"),
    (lambda: nn.inverted_residual(t(1, 4, 8, 8), *WINDOWS, filters=5), "to 5 channels: the sizes do not go together"),
    (lambda: nn.inverted_residual(i(1, 4, 8, 8), *WINDOWS, filters=4), "all are float32, or all float64"),
    (lambda: nn.inverted_residual(t(1, 4, 2, 8), *WINDOWS, filters=4), "no window of 3 fits 2; the size would be 0"),
    (
        lambda: nn.inverted_residual(t(1, 3, 8, 8), *WINDOWS, t(2, 3, 2), filters=4),
        "first convolution, or none of the two",
    ),
    (lambda: nn.inverted_residual(t(1, 3, 8, 8), *WINDOWS, t(2, 4, 2), t(2, 2), filters=4), "do not go together"),
    (lambda: nn.inverted_residual(t(1, 4, 8, 8), *WINDOWS, filters=4, activation="tanh"), "no activation 'tanh'"),
    (lambda: nn.depth_to_space(t(1, 6, 2, 2), 2), "nn.depth_to_space: 6 channels do not divide into 4 points"),
    (lambda: nn.depth_to_space(t(1, 8, 2), 2), "nn.depth_to_space needs data with 4 axes, got 3: (1, 8, 2)"),
    (lambda: nn.depth_to_space(t(1, 8, 2, 2), 2, 2), "spatial size 0 of the result would be 0"),
    (lambda: nn.depth_to_space(t(1, 8, 2, 2), (2, 2, 2)), "block_shape has 3 values for 2 spatial axes"),
    (lambda: nn.depth_to_space(t(1, 8), 2, layout="NC"), "layout 'NC' has 0 spatial axes, expected 1 to 3"),
    (lambda: nn.depth_to_space([t(1, 2, 2, 2)] * 3, 2), "to blocks of 4 points needs a tensor for each, got 3"),
    (lambda: nn.space_to_batch(t(1, 4, 5, 6), 2), "nn.space_to_batch: 5 points do not divide into blocks of 2"),
    (lambda: nn.space_to_batch(t(1, 4, 6), 2), "nn.space_to_batch needs data with 4 axes, got 3: (1, 4, 6)"),
    (lambda: nn.space_to_batch(t(1, 4, 6, 6), (2, 2, 2)), "block_shape has 3 values for 2 spatial axes"),
    (lambda: nn.batch_to_space(t(6, 4, 5, 6), 2), "nn.batch_to_space: 6 images do not divide into 4 points of a block"),
    (lambda: nn.batch_to_space(t(4, 4, 2, 2), 2, 2), "spatial size 0 of the result would be 0"),
    (
        lambda: nn.depth_to_space([t(1, 2, 2), t(1, 3, 2)], 2, layout="NCW"),
        "of (1, 2, 2) float32 and (1, 3, 2) float32: the tensors of all points have one shape and dtype",
    ),
    (lambda: nn.conv2d(t(1, 3, 8, 8), t(4, 3, 3, 3), strides=0), "strides must be at least 1, got [0]"),
    (lambda: nn.conv2d(t(1, 3, 8, 8), t(4, 3, 3, 3), padding=(1, 2, 3)), "padding has 3 values for 2 spatial axes"),
    (lambda: nn.conv2d(t(1, 3, 8, 8), t(4, 3, 3, 3), padding=-1), "padding must not be negative, got [-1]"),
    (lambda: nn.conv2d(t(1, 3, 8, 8), t(4, 3, 3, 3), dilation=(1, 1, 1)), "dilation has 3 values for 2 spatial axes"),
    (lambda: nn.conv2d(t(1, 3, 8, 8), t(4, 3, 3, 3), data_layout="NCHH"), "data_layout 'NCHH' is not an order"),
    (lambda: nn.conv1d_transpose(t(1, 3, 8), t(2, 3, 3)), "nn.conv1d_transpose of 3 channels with weights for 2"),
    (lambda: nn.conv1d_transpose(t(1, 3, 8), t(3, 3, 3), groups=2), "3 input channels do not divide into 2 groups"),
    (lambda: nn.conv1d_transpose(t(1, 3, 1), t(3, 3, 1), padding=1), "spatial size 0 of the result would be -1"),
    (
        lambda: nn.conv1d_transpose(t(1, 3, 8), t(3, 3, 3), output_padding=1),
        "output_padding 1 must be below the stride",
    ),
    # pooling
    (lambda: nn.max_pool2d(t(1, 3, 8)), "nn.max_pool2d needs data with 4 axes, got 3: (1, 3, 8)"),
    (lambda: nn.max_pool2d(b(1, 3, 8, 8)), "nn.max_pool2d needs numbers, got bool"),
    (lambda: nn.avg_pool2d(i(1, 3, 8, 8)), "nn.avg_pool2d needs a float dtype, got int64"),
    (lambda: nn.max_pool1d(t(1, 3, 2), 3), "no window of 3 fits 2; the size would be 0"),
    (lambda: nn.adaptive_avg_pool1d(i(1, 3, 2), 1), "nn.adaptive_avg_pool1d needs a float dtype, got int64"),
    (lambda: nn.adaptive_max_pool1d(t(1, 3, 0), 1), "nn.adaptive_max_pool1d of (1, 3, 0), which has no elements"),
    # activations and normalisations
    (lambda: nn.relu(b(2)), "nn.relu is defined for numbers, not for bool"),
    (lambda: nn.gelu(i(2)), "nn.gelu needs a float dtype, got int64"),
    (lambda: nn.leakyrelu(i(2)), "nn.leakyrelu needs a float dtype, got int64"),
    (lambda: nn.softplus(t(2), 0), "softplus with beta 0"),
    (lambda: nn.softmax(t(2), 1), "axis 1 of nn.softmax is out of range"),
    (lambda: nn.prelu(t(2, 3), t(2)), "prelu of (2, 3) along axis 1 with slopes (2,)"),
    (lambda: nn.prelu(t(2, 3), t(3, 1)), "the slopes of prelu need one axis, got (3, 1)"),
    (lambda: nn.prelu(t(2, 3), t(3, dtype="float64")), "prelu of float32 with slopes of float64"),
    (lambda: nn.batch_norm(t(2, 3), t(3), t(3), t(3), t(2), 1), "nn.batch_norm of (2, 3) along [1] with a parameter"),
    (lambda: nn.batch_norm(i(2, 3), t(3), t(3), t(3), t(3), 1), "nn.batch_norm needs a float dtype, got int64"),
    (
        lambda: nn.layer_norm(t(2, 3), t(3), t(3), (0, 1)),
        "nn.layer_norm of (2, 3) along [0, 1] with a parameter of (3,)",
    ),
    (
        lambda: nn.layer_norm(t(2, 3), t(3, dtype="float64"), t(3), 1),
        "nn.layer_norm of operands of float32 and float64",
    ),
    (lambda: nn.group_norm(t(2, 3, 4), t(3), t(3), 2, 1, 2), "group_norm: 3 channels do not divide into 2 groups"),
    (lambda: nn.instance_norm(t(2, 3, 4), t(3), t(3), 1, (1, 2)), "nn.instance_norm lists the channel axis 1 among"),
    (lambda: nn.group_norm(*IN_BLOCKS, 2, 1, (2, 3), layout="NCHW4w"), "nn.group_norm in layout NCHW4w"),
    (lambda: nn.group_norm(*IN_BLOCKS, 2, 1, (2, 3), layout="NCHW"), "nn.group_norm in layout NCHW of (1, 2, 5, 5, 4)"),
    (lambda: nn.group_norm(*IN_BLOCKS, 2, 1, 2, layout="NCHW4c"), "in layout NCHW4c of channels along axis 1, over"),
    (lambda: nn.group_norm(*IN_BLOCKS, 3, 1, (2, 3), layout="NCHW4c"), "8 channels do not divide into 3 groups"),
    (lambda: nn.instance_norm(*IN_BLOCKS[:2], t(4), 1, (2, 3), layout="NCHW4c"), "of (1, 8, 5, 5) along [1] with a"),
    (lambda: nn.rms_norm(t(2, 3), t(2)), "nn.rms_norm of (2, 3) along [1] with a parameter of (2,)"),
    (lambda: nn.dropout(t(2), 1.5), "dropout with rate 1.5"),
    (lambda: nn.pad(t(2), (1,)), "nn.pad got 1 widths for (2,)"),
    (lambda: nn.pad(t(2), (1, 1), pad_mode="mirror"), "pad has no mode 'mirror'"),
    (lambda: nn.pad(t(2), (-1, 0), pad_mode="reflect"), "pad with mode reflect cannot cut off: [-1, 0]"),
    (
        lambda: nn.pad(t(2), (2, 0), pad_mode="reflect"),
        "nn.pad with mode reflect cannot make 2 elements from an axis of",
    ),
    (lambda: nn.pad(t(2), (-2, -1)), "size of axis 0 of the result would be -1"),
    (lambda: nn.attention(t(*Q), t(*Q), t(2, 3, 4)), "nn.attention needs four axes everywhere"),
    (lambda: nn.attention(t(*Q), t(2, 3, 3, 5), t(*Q)), "sizes disagree"),
    (lambda: nn.attention(t(*Q), t(*Q), i(*Q)), "nn.attention of float32 and float32 and int64"),
    (lambda: nn.attention(t(*Q), t(*Q), t(*Q), t(2, 4, 3, 2)), "the bias (2, 4, 3, 2) does not broadcast"),
    (lambda: nn.masked_attention(t(*Q), t(*Q), t(*Q), t(2, 4, 3, 2)), "the mask (2, 4, 3, 2) does not broadcast"),
    (lambda: nn.masked_attention(t(*Q), t(*Q), t(*Q), i(2, 4, 3, 3)), "float32 and float32 and float32 and int64"),
    (lambda: nn.attention(t(*Q), t(*Q), t(*Q), causal_mask="Left"), "attention has no causal mask 'Left'"),
    (lambda: nn.attention(t(*Q), t(*Q), t(*Q), window_size=2), "attention with a window needs the causal mask"),
    (lambda: nn.im2col(t(2, 3, 4), 2), "im2col needs four axes, got (2, 3, 4)"),
    (lambda: nn.im2col(t(1, 2, 3, 4), (4, 1)), "nn.im2col: number of windows would be 0"),
    (lambda: nn.im2col(t(1, 2, 3, 4), 0), "kernel must be at least 1, got [0]"),
    (lambda: nn.rnn(i(2, 3, 4), i(3, 4), i(4, 4)), "nn.rnn needs a float dtype, got int64"),
    (lambda: nn.rnn(t(2, 3, 4), i(3, 4), t(4, 4)), "nn.rnn of several dtypes"),
    (lambda: nn.rnn(t(2, 3, 4), t(3, 4), t(4, 4), "gelu"), "rnn has no activation 'gelu'"),
    (lambda: nn.gru(t(2, 3, 12), t(3, 4), t(12, 4), t(1, 4)), "argument 3 of nn.gru has 2 axes instead of 1"),
    (
        lambda: nn.lstm(t(2, 3, 16), t(3, 4), t(3, 5), t(16, 4)),
        "argument 2 of nn.lstm has shape (3, 5), which does not",
    ),
    (lambda: nn.lstm(t(2, 3, 12), t(3, 4), t(3, 4), t(16, 4)), "argument 0 of nn.lstm has shape (2, 3, 12)"),
    (lambda: nn.gru(t(2, 3, 12), t(3, 4), t(12, 5), t(4)), "does not go with 3 sequences and 4 units"),
    (lambda: image.resize2d(i(1, 3, 4, 4), 2), "resize2d with method linear needs a float dtype, got int64"),
    (lambda: image.resize2d(t(1, 3, 4, 4), 2, method="cubic"), "resize2d does not know 'cubic'"),
    (lambda: image.resize2d(t(1, 3, 4, 4), (2, 2, 2)), "the size of resize2d must be a shape of two values"),
    (lambda: image.resize2d(t(1, 3, 4, 4), (2, 0)), "a size is zero"),
    (lambda: image.grid_sample(t(1, 3, 4, 4), t(1, 2, 5, 5), "cubic"), "grid_sample does not know 'cubic'"),
    (
        lambda: image.grid_sample(t(1, 3, 4, 4), t(1, 5, 5, 2)),
        "of (1, 3, 4, 4) at (1, 5, 5, 2): a grid is (n, 2, rows, columns)",
    ),
    (lambda: image.grid_sample(i(1, 3, 4, 4), t(1, 2, 5, 5)), "of int64 at float32: both are floats"),
    (lambda: image.grid_sample(t(1, 3, 4, 4), t(2, 2, 5, 5)), "of (1, 3, 4, 4) at (2, 2, 5, 5)"),
    (lambda: image.resize2d(t(1, 3, 4, 4), 2, roi=(0, 0, 1, 1)), "resize2d with a region of interest"),
    # calls
    (lambda: op.call_dps_packed("f", [t(2)], ["float32"]), "the result's struct info must be StructInfo, got str"),
    (lambda: op.call_tir_inplace(Var("f"), [t(2)], [1], t(2).struct_info), "with indices [1] for 1 arguments"),
]


@pytest.mark.parametrize(("build", "message"), REFUSED, ids=[message[:60] for _, message in REFUSED])
def test_wrong_calls_are_refused(build: Callable[[], Any], message: str):
    with pytest.raises(TypeInferenceError) as error:
        build()
    assert message in error.value.message
    assert error.value.at is not None, "the error shows the line that made the call"


def test_the_number_of_arguments_is_checked():
    definition = op_def("relax.add")
    assert definition is not None
    with pytest.raises(TypeInferenceError, match="add takes 2 arguments, got 1"):
        infer_call(Call(definition.op, (t(2),)))


def test_missing_attributes_are_refused():
    definition = op_def("relax.matmul")
    assert definition is not None
    with pytest.raises(TypeInferenceError, match="matmul needs MatmulAttrs, got NoneType"):
        infer_call(Call(definition.op, (t(2, 2), t(2, 2))))


def test_a_call_without_stated_result_is_refused():
    definition = op_def("relax.call_dps_packed")
    assert definition is not None
    with pytest.raises(TypeInferenceError, match="call_dps_packed needs the struct info of its result"):
        infer_call(Call(definition.op, (t(2), Tuple(()))))


def test_an_error_names_types_and_the_next_step():
    with pytest.raises(TypeInferenceError) as error:
        op.matmul(t(8, 64), t(32, 64))
    text = str(error.value)
    assert 'argument 0 has type R.Tensor((8, 64), "float32")' in text
    assert "= help: transpose one side with permute_dims" in text


RUN_TIME: list[tuple[Call, tuple[Any, ...], str]] = [
    (op.take(t(3), i(2)), (np.zeros(3), np.array([0, -1])), "take: index -1 is out of range for an axis of size 3"),
    (op.take(t(3), i(1)), (np.zeros(3), np.array([3])), "take: index 3 is out of range"),
    (op.gather_elements(t(3), i(1)), (np.zeros(3), np.array([-4])), "gather_elements: index -4 is out of range"),
    (op.divide(i(1), i(1)), (np.array([1]), np.array([0])), "integer division by zero"),
    (op.floor_mod(i(1), i(1)), (np.array([1]), np.array([0])), "integer division by zero"),
    (op.left_shift(i(1), i(1)), (np.array([1]), np.array([-1])), "shift by a negative count"),
    (op.checked(t(2), b(), "too large"), (np.zeros(2), np.array(False)), "too large"),
]


@pytest.mark.parametrize(("call", "args", "message"), RUN_TIME, ids=[message for _, _, message in RUN_TIME])
def test_wrong_values_are_refused_at_run_time(call: Call, args: tuple[Any, ...], message: str):
    definition = op_def(call.op)
    assert definition is not None
    assert definition.reference_fn is not None
    with pytest.raises(CallError) as error:
        definition.reference_fn(call.attrs, *args)
    assert message in error.value.message


def test_constants_and_scalars_stand_as_operands():
    assert isinstance(op.add(t(2), 1.5).args[1], Constant)
    assert isinstance(op.clip(t(2), 0, 6).args[2], PrimValue)
