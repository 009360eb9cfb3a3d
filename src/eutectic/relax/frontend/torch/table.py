"""The table from operators of torch to converters, and what a converter sees: `Context`.

A converter is a small function `convert(ctx, *arguments, **options)`. Arguments are those of
the operator's schema, in order and with defaults filled in; tensors are graph values, sizes
are ints or scalar expressions. It returns the graph value that stands for the result, or a list
with one entry per result (`None` for a result that cannot be had). The model file is `ops_nn.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final, NoReturn, Protocol, TypeVar

import numpy as np
import torch
from torch import fx

from eutectic.ir.dtype import to_numpy
from eutectic.ir.prim_expr import IntImm, PrimExpr
from eutectic.ir.span import Span
from eutectic.relax.base import Expr, ShapeExpr
from eutectic.relax.block_builder import BlockBuilder
from eutectic.relax.expr import Call, Constant, TupleGetItem, Var
from eutectic.relax.frontend.torch.dtypes import dtype_name
from eutectic.relax.frontend.torch.symbols import Symbols
from eutectic.relax.op import astype, reshape, shape_to_tensor
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.support.deep import deep

Converter = Callable[..., Any]
C = TypeVar("C", bound=Converter)

TABLE: Final[dict[str, Converter]] = {}


def converts(*names: str) -> Callable[[C], C]:
    """Decorator: enter a converter under operator names such as `aten.relu.default`."""

    def enter(converter: C) -> C:
        for name in names:
            if name in TABLE:
                raise ValueError(f"two converters for {name}")
            TABLE[name] = converter
        return converter

    return enter


def key_of(name: str, known: Collection[str]) -> str | None:
    """The entry of `known` that means an operator: `aten.relu.default`, `relu.default`, `aten.relu` or `relu`."""
    base, _, overload = name.rpartition(".")
    short = base.rpartition(".")[2]
    return next((key for key in (name, f"{short}.{overload}", base, short) if key and key in known), None)


class Refused(Exception):
    """A form of an operator that cannot be imported; collected and reported with all others."""


class Operator(Protocol):
    """A constructor of a graph operator; it takes a span."""

    def __call__(self, *args: Any, span: Span | None = None, **options: Any) -> Call:
        """Build a call."""
        ...


class Context:
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
        self.node, self.span = node, span
        self.block_builder, self.env, self.symbols = block_builder, env, symbols

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
        found = torch.result_type(values[0], values[1])
        return dtype_name(found, str(self.node.target))

    def example(self, operand: Any) -> Any:
        """The example value of an argument of the node; numbers stand for themselves."""
        value = operand.meta.get("val") if isinstance(operand, fx.Node) else operand
        if isinstance(value, torch.SymInt):
            return 1
        if isinstance(value, (torch.SymFloat, torch.SymBool)):
            self.refuse("it uses a number that depends on a size")
        return value

    # ---- building

    def emit(self, value: Expr, name: str = "") -> Var:
        """Bind a value to a new variable."""
        return self.block_builder.emit(value, name)

    def call(self, operator: Callable[..., Call], *args: Any, **options: Any) -> Var:
        """Bind the call of an operator, with the node's span."""
        return self.emit(operator(*args, **options, span=self.span))

    def item(self, value: Expr, index: int) -> Expr:
        """One field of a tuple value, not bound yet."""
        return TupleGetItem(value, index, span=self.span)

    def cast(self, x: Expr, dtype: str) -> Expr:
        """`x` in another dtype; nothing when it has it."""
        return x if dtype_of(x) == dtype else self.call(astype, x, dtype)

    def wide(self, x: Expr) -> Expr:
        """`x` in the dtype that its functions are computed in: no less than float32."""
        return self.cast(x, "float32" if dtype_of(x) in ("float16", "bfloat16") else dtype_of(x))

    def tensor(self, value: Any, dtype: str) -> Expr:
        """A tensor, number or size as a tensor of `dtype`."""
        if isinstance(value, (bool, int, float)):
            return number(value, dtype)
        if isinstance(value, IntImm):
            return number(value.value, dtype)
        if isinstance(value, PrimExpr):
            made = self.call(shape_to_tensor, ShapeExpr((value,)))
            return self.cast(self.call(reshape, made, ()), dtype)
        if not isinstance(value, Expr):
            self.refuse(f"it takes a {type(value).__name__}")
        return self.cast(value, dtype)

    def refuse(self, reason: str) -> NoReturn:
        """Give up on this node; the reason reaches the user."""
        raise Refused(reason)

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


def number(value: Any, dtype: str) -> Constant:
    """A constant without axes; integers wrap around as torch's do."""
    with np.errstate(all="ignore"):
        return Constant(np.asarray(value).astype(to_numpy(dtype)))


def info_of(x: Expr) -> TensorStructInfo:
    """Struct info of a tensor value."""
    info = x.struct_info
    if not isinstance(info, TensorStructInfo):
        raise Refused("it takes a value that is not a tensor")
    return info


def dtype_of(x: Expr) -> str:
    """Dtype of a tensor value."""
    return info_of(x).dtype


def ndim_of(x: Expr) -> int:
    """Number of axes of a tensor value."""
    return info_of(x).ndim


def dims_of(x: Expr) -> tuple[PrimExpr, ...]:
    """Sizes of a tensor value; every value of an exported graph has them."""
    dims = info_of(x).dims
    if dims is None:
        raise Refused("it takes a tensor of unknown shape")
    return dims


def axis_of(axis: int, ndim: int) -> int:
    """`axis` counted from zero; tensors without axes count as having one."""
    return int(axis) % max(ndim, 1)
