"""Operators of neural networks; names as in `tvm.topi.nn`."""

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
from eutectic.topi.nn.conv import (
    conv1d,
    conv1d_transpose,
    conv2d,
    conv2d_transpose,
    conv3d,
    conv3d_transpose,
)
from eutectic.topi.nn.matmul import batch_matmul, dense, matmul
from eutectic.topi.nn.norm import batch_norm_inference, group_norm, layer_norm
from eutectic.topi.nn.pad import pad
from eutectic.topi.nn.pool import adaptive_pool, global_pool, pool1d, pool2d, pool3d
from eutectic.topi.nn.softmax import log_softmax, softmax

__all__ = [
    "adaptive_pool",
    "batch_matmul",
    "batch_norm_inference",
    "conv1d",
    "conv1d_transpose",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "conv3d_transpose",
    "dense",
    "elu",
    "gelu",
    "gelu_tanh",
    "global_pool",
    "group_norm",
    "hardsigmoid",
    "hardswish",
    "layer_norm",
    "leaky_relu",
    "log_softmax",
    "matmul",
    "pad",
    "pool1d",
    "pool2d",
    "pool3d",
    "prelu",
    "relu",
    "selu",
    "silu",
    "softmax",
    "softplus",
]
