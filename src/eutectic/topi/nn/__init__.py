"""Operators of neural networks; names as in `tvm.topi.nn`."""

from eutectic.support.door import open_doors
from eutectic.support.lazy import lazy
from eutectic.topi.nn.activation import (
    elu,
    gelu,
    gelu_tanh,
    hardsigmoid,
    hardswish,
    leaky_relu,
    prelu,
    relu,
    selu,
    silu,
    softplus,
)
from eutectic.topi.nn.attention import causal_mask, sequence_mask, without_empty_sequences
from eutectic.topi.nn.attention_tiles import attention_in_tiles, rows_in_tiles
from eutectic.topi.nn.channel_norm import group_norm_in_blocks
from eutectic.topi.nn.conv import (
    conv1d,
    conv1d_transpose,
    conv2d,
    conv2d_transpose,
    conv3d,
    conv3d_transpose,
)
from eutectic.topi.nn.conv_blocked import conv2d_nchwc, conv3d_ncdhwc
from eutectic.topi.nn.dense_pack import dense_pack
from eutectic.topi.nn.depth_to_space import depth_to_space
from eutectic.topi.nn.im2col import im2col
from eutectic.topi.nn.inverted_residual import inverted_residual
from eutectic.topi.nn.matmul import batch_matmul, dense, matmul
from eutectic.topi.nn.norm import (
    batch_norm_inference,
    batch_norm_training,
    group_norm,
    instance_norm,
    layer_norm,
    rms_norm,
)
from eutectic.topi.nn.pad import pad, pad_from
from eutectic.topi.nn.pool import adaptive_pool, global_pool, pool1d, pool2d, pool3d
from eutectic.topi.nn.recurrent import recurrent
from eutectic.topi.nn.softmax import log_softmax, softmax
from eutectic.topi.nn.space_to_batch import batch_to_space, space_to_batch
from eutectic.topi.nn.winograd import conv2d_winograd, conv3d_winograd

__all__ = [
    "adaptive_pool",
    "attention_in_tiles",
    "batch_matmul",
    "batch_norm_inference",
    "batch_norm_training",
    "batch_to_space",
    "causal_mask",
    "conv1d",
    "conv1d_transpose",
    "conv2d",
    "conv2d_nchwc",
    "conv2d_transpose",
    "conv2d_winograd",
    "conv3d",
    "conv3d_ncdhwc",
    "conv3d_transpose",
    "conv3d_winograd",
    "dense",
    "dense_pack",
    "depth_to_space",
    "elu",
    "gelu",
    "gelu_tanh",
    "global_pool",
    "group_norm",
    "group_norm_in_blocks",
    "hardsigmoid",
    "hardswish",
    "im2col",
    "instance_norm",
    "inverted_residual",
    "layer_norm",
    "leaky_relu",
    "log_softmax",
    "matmul",
    "pad",
    "pad_from",
    "pool1d",
    "pool2d",
    "pool3d",
    "prelu",
    "recurrent",
    "relu",
    "rms_norm",
    "rows_in_tiles",
    "selu",
    "sequence_mask",
    "silu",
    "softmax",
    "softplus",
    "space_to_batch",
    "without_empty_sequences",
]

open_doors(globals())
lazy(globals())
