"""All converters: importing this module fills the table."""

from eutectic.relax.frontend.torch import (
    ops_combine,
    ops_conv,
    ops_create,
    ops_elementwise,
    ops_index,
    ops_matmul,
    ops_nn,
    ops_order,
    ops_pool,
    ops_recurrent,
    ops_reduce,
    ops_scatter,
    ops_shape,
)
from eutectic.relax.frontend.torch.table import TABLE

FAMILIES = (
    ops_combine,
    ops_conv,
    ops_create,
    ops_elementwise,
    ops_index,
    ops_matmul,
    ops_nn,
    ops_order,
    ops_pool,
    ops_recurrent,
    ops_reduce,
    ops_scatter,
    ops_shape,
)

__all__ = ["FAMILIES", "TABLE"]
