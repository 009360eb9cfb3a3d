"""Constructors of neural-network operators, under the names of `tvm.relax.op.nn`."""

from eutectic.relax.op.nn import activation as _activation
from eutectic.relax.op.nn.activation import *  # noqa: F403 - a new activation is exported where it is defined
from eutectic.relax.op.nn.adaptive_pool import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
)
from eutectic.relax.op.nn.attention import (
    attention,
)
from eutectic.relax.op.nn.attention_bias import (
    attention_bias,
)
from eutectic.relax.op.nn.attention_var_len import (
    attention_var_len,
)
from eutectic.relax.op.nn.channel_norm import group_norm, instance_norm
from eutectic.relax.op.nn.conv import (
    conv1d,
    conv2d,
    conv3d,
)
from eutectic.relax.op.nn.conv_transpose import (
    conv1d_transpose,
    conv2d_transpose,
    conv3d_transpose,
)
from eutectic.relax.op.nn.conv_winograd import (
    conv2d_winograd,
    conv3d_winograd,
)
from eutectic.relax.op.nn.dense_pack import (
    dense_pack,
)
from eutectic.relax.op.nn.depth_to_space import (
    depth_to_space,
)
from eutectic.relax.op.nn.dropout import (
    dropout,
)
from eutectic.relax.op.nn.im2col import (
    im2col,
)
from eutectic.relax.op.nn.inverted_residual import (
    inverted_residual,
)
from eutectic.relax.op.nn.loss import (
    cross_entropy_with_logits,
    nll_loss,
)
from eutectic.relax.op.nn.masked_attention import (
    masked_attention,
)
from eutectic.relax.op.nn.norm import (
    batch_norm,
    layer_norm,
    rms_norm,
)
from eutectic.relax.op.nn.pad import (
    pad,
)
from eutectic.relax.op.nn.pixel_shuffle import (
    batch_flatten,
    pixel_shuffle,
)
from eutectic.relax.op.nn.pool import (
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from eutectic.relax.op.nn.recurrent import (
    gru,
    lstm,
    rnn,
)
from eutectic.relax.op.nn.space_to_batch import (
    batch_to_space,
    space_to_batch,
)
from eutectic.support.door import open_doors
from eutectic.support.lazy import lazy

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "attention",
    "attention_bias",
    "attention_var_len",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_flatten",
    "batch_norm",
    "batch_to_space",
    "conv1d",
    "conv1d_transpose",
    "conv2d",
    "conv2d_transpose",
    "conv2d_winograd",
    "conv3d",
    "conv3d_transpose",
    "conv3d_winograd",
    "cross_entropy_with_logits",
    "dense_pack",
    "depth_to_space",
    "dropout",
    "group_norm",
    "gru",
    "im2col",
    "instance_norm",
    "inverted_residual",
    "layer_norm",
    "lstm",
    "masked_attention",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "nll_loss",
    "pad",
    "pixel_shuffle",
    "rms_norm",
    "rnn",
    "space_to_batch",
    *_activation.__all__,
]

open_doors(globals())
lazy(globals())
