"""The table from operators of torch to converters, and what a converter sees: `Context`.

A converter is a small function `convert(ctx, *arguments, **options)`. Arguments are those of
the operator's schema, in order and with defaults filled in; tensors are graph values, sizes
are ints or scalar expressions. It returns the graph value that stands for the result, or a list
with one entry per result (`None` for a result that cannot be had). The model file is `ops_nn.py`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import torch
from torch import fx

from eutectic.ir.prim_expr import PrimExpr
from eutectic.ir.span import Span
from eutectic.relax.block_builder import BlockBuilder
from eutectic.relax.frontend.core import ConversionContext, Converters
from eutectic.relax.frontend.torch.dtypes import dtype_name
from eutectic.relax.frontend.torch.symbols import Symbols
from eutectic.support.deep import deep

TABLE: Final = Converters()
"""Converters by names such as `aten.relu.default`."""

converts = TABLE.converts


def key_of(name: str, known: Collection[str]) -> str | None:
    """The entry of `known` that means an operator: `aten.relu.default`, `relu.default`, `aten.relu` or `relu`."""
    base, _, overload = name.rpartition(".")
    short = base.rpartition(".")[2]
    return next((key for key in (name, f"{short}.{overload}", base, short) if key and key in known), None)


class Context(ConversionContext):
    """What a converter may ask and do while one node is converted.

    Attributes:
        node: The node of the exported graph.
        span: Where it comes from in the user's program.
        block_builder: Receives the bindings.
        env: Graph values of the nodes converted so far.
        symbols: Symbolic sizes.
    """

    def __init__(
        self, node: fx.Node, span: Span | None, block_builder: BlockBuilder, env: dict[fx.Node, Any], symbols: Symbols
    ) -> None:
        super().__init__(span, block_builder)
        self.node, self.env, self.symbols = node, env, symbols

    # ---- what torch says about the result

    @property
    def value(self) -> Any:
        """The example result of torch: a tensor without data, or a list of them."""
        return self.node.meta.get("val")

    def result(self, index: int | None = None) -> torch.Tensor:
        """The example result, or one of several."""
        value = self.value if index is None else self.value[index]
        assert isinstance(value, torch.Tensor)
        return value

    @property
    def out_dtype(self) -> str:
        """Dtype of the (first) result as torch promotes it: the truth."""
        value = self.value
        return dtype_name((value if isinstance(value, torch.Tensor) else value[0]).dtype, str(self.node.target))

    @property
    def out_shape(self) -> tuple[PrimExpr, ...]:
        """Sizes of the result."""
        return self.symbols.shape(self.result().shape)

    def result_type(self, *operands: Any) -> str:
        """The dtype that torch computes in for operands given as in the node's arguments."""
        values = [self.example(operand) for operand in operands]
        return dtype_name(torch.result_type(values[0], values[1]), str(self.node.target))

    def example(self, operand: Any) -> Any:
        """The example value of an argument of the node; numbers stand for themselves."""
        value = operand.meta.get("val") if isinstance(operand, fx.Node) else operand
        if isinstance(value, torch.SymInt):
            return 1
        if isinstance(value, torch.SymFloat):
            return 1.0
        if isinstance(value, torch.SymBool):
            self.refuse("it uses a number that depends on a size")
        return value

    # ---- for converters given by users

    def retrieve_args(self, node: fx.Node) -> list[Any]:
        """The positional arguments of a node as graph values."""
        return [self.lookup(arg) for arg in node.args]

    @deep
    def lookup(self, arg: Any) -> Any:
        """An argument of a node with nodes replaced by their graph values, inside lists too."""
        if isinstance(arg, fx.Node):
            return self.env[arg]
        if isinstance(arg, (list, tuple)):
            return [self.lookup(item) for item in arg]
        return arg


def axis_of(axis: int, ndim: int) -> int:
    """`axis` counted from zero; tensors without axes count as having one."""
    return int(axis) % max(ndim, 1)
