"""Tensors of the tensor-expression language, and the operations that make them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final

from eutectic.ir.attrs import DictAttrs
from eutectic.ir.extent import checked_extent
from eutectic.ir.node import Node, field, init_field, node
from eutectic.ir.prim_expr import IntImm, PrimExpr, TypedExpr
from eutectic.ir.visit import post_order
from eutectic.support.registry import load_providers
from eutectic.tir.buffer import indices_of
from eutectic.tir.iter_var import IterVar

TENSOR_OPERATORS: Final[dict[str, Callable[..., Any]]] = {}
"""What Python operators on tensors mean; `topi` fills it, as this package must not import it."""


def sizes_of(shape: Any) -> tuple[PrimExpr, ...]:
    """Sizes as expressions of one dtype: int64 when one of them is, else int32; one alone stands for one axis."""
    sizes = indices_of(shape)
    if not any(size.dtype == "int64" for size in sizes):
        return sizes
    return tuple(IntImm("int64", size.value) if isinstance(size, IntImm) else size for size in sizes)


@node("te.Operation")
class Operation(Node):
    """What makes one or more tensors.

    Attributes:
        name: Name of the stage; also of its buffer and block.
        tag: Free text for those who look at stages.
        attrs: Annotations of the block.
    """

    name: str = field(role="ignore", default="", kw_only=True)
    tag: str = field(role="ignore", default="", kw_only=True)
    attrs: DictAttrs = field(role="ignore", default=DictAttrs(), kw_only=True)
    is_variable: ClassVar[bool] = True

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


@node("te.PlaceholderOp")
class PlaceholderOp(Operation):
    """A tensor that is given.

    Attributes:
        shape: Its sizes.
        dtype: Its dtype.
    """

    shape: tuple[PrimExpr, ...] = field(role="ignore")
    dtype: str = field(role="ignore")

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """What it reads: nothing."""
        return ()


@node("te.ComputeOp")
class ComputeOp(Operation):
    """One or more tensors computed element by element.

    Attributes:
        axis: One variable per axis of the results.
        body: Value per result; all of them parts of one `Reduce`, or none.
    """

    axis: tuple[IterVar, ...] = field(role="ignore")
    body: tuple[PrimExpr, ...] = field(role="ignore")

    @property
    def reduce_axis(self) -> tuple[IterVar, ...]:
        """The axes that are reduced over; empty without a reduction."""
        return tuple(getattr(self.body[0], "axis", ()))

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The tensors that the body reads, in order of first use."""
        tensors: dict[Tensor, None] = {}
        for value in self.body:
            for item in post_order(value):
                if isinstance(item, ProducerLoad):
                    tensors.setdefault(item.producer)
        return tuple(tensors)


@node("te.Tensor")
class Tensor(Node):
    """A multi-dimensional value; `A[i, j]` and `A(i, j)` read an element.

    Python arithmetic on tensors is `topi`'s, once that package is loaded.

    Attributes:
        shape: Sizes; empty for a scalar.
        dtype: Dtype of an element.
        op: What makes it.
        value_index: Which result of `op` it is.

    Raises:
        WellFormedError: a size is negative, too large, or no integer.
    """

    shape: tuple[PrimExpr, ...] = field(role="ignore")
    dtype: str = field(role="ignore")
    op: Any = field(role="ignore")
    value_index: int = field(role="ignore", default=0)
    is_variable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for axis, size in enumerate(self.shape):
            checked_extent(size, f"axis {axis} of tensor {self.op.name}")

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def name(self) -> str:
        """Name of the stage; with `.v0`, `.v1`, ... where that makes several tensors."""
        several = isinstance(self.op, ComputeOp) and len(self.op.body) > 1
        return f"{self.op.name}.v{self.value_index}" if several else str(self.op.name)

    def __call__(self, *indices: Any) -> ProducerLoad:
        """The element at `indices`.

        Raises:
            ValueError: there is not one index per axis.
        """
        if len(indices) != len(self.shape):
            raise ValueError(f"tensor {self.name} has {len(self.shape)} axes, but {len(indices)} indices were given")
        return ProducerLoad(self, indices)

    def __getitem__(self, indices: Any) -> ProducerLoad:
        """The element at `indices`.

        Raises:
            ValueError: there is not one index per axis.
        """
        return self(*indices) if isinstance(indices, tuple) else self(indices)

    def __iter__(self) -> Any:
        raise TypeError(f"tensor {self.name} cannot be iterated; index it, or take its shape")

    def __repr__(self) -> str:
        sizes = ", ".join(str(size.value) if isinstance(size, IntImm) else str(size) for size in self.shape)
        return f"Tensor({self.name}, shape=({sizes}), dtype={self.dtype})"

    def astype(self, dtype: str) -> Tensor:
        """Every element converted to `dtype`."""
        return _operator("cast")(self, dtype)  # type: ignore[no-any-return]  # filled by topi

    def __add__(self, other: Any) -> Tensor:
        return _operator("add")(self, other)  # type: ignore[no-any-return]  # filled by topi

    def __radd__(self, other: Any) -> Tensor:
        return _operator("add")(other, self)  # type: ignore[no-any-return]  # filled by topi

    def __sub__(self, other: Any) -> Tensor:
        return _operator("subtract")(self, other)  # type: ignore[no-any-return]  # filled by topi

    def __rsub__(self, other: Any) -> Tensor:
        return _operator("subtract")(other, self)  # type: ignore[no-any-return]  # filled by topi

    def __mul__(self, other: Any) -> Tensor:
        return _operator("multiply")(self, other)  # type: ignore[no-any-return]  # filled by topi

    def __rmul__(self, other: Any) -> Tensor:
        return _operator("multiply")(other, self)  # type: ignore[no-any-return]  # filled by topi

    def __truediv__(self, other: Any) -> Tensor:
        return _operator("divide")(self, other)  # type: ignore[no-any-return]  # filled by topi

    def __rtruediv__(self, other: Any) -> Tensor:
        return _operator("divide")(other, self)  # type: ignore[no-any-return]  # filled by topi

    def __neg__(self) -> Tensor:
        return _operator("negative")(self)  # type: ignore[no-any-return]  # filled by topi


def _operator(name: str) -> Callable[..., Any]:
    if name not in TENSOR_OPERATORS:
        load_providers("operators on tensors")
    if name not in TENSOR_OPERATORS:
        raise TypeError(f"{name} of whole tensors is defined by topi: import eutectic.topi, or index the tensors")
    return TENSOR_OPERATORS[name]


@node("tir.ProducerLoad")
class ProducerLoad(TypedExpr):
    """An element of a tensor; `create_prim_func` makes a `BufferLoad` of it.

    Attributes:
        producer: The tensor.
        indices: One index per axis.
    """

    producer: Tensor
    indices: tuple[PrimExpr, ...]

    def __post_init__(self) -> None:
        init_field(self, "indices", indices_of(self.indices))
        init_field(self, "dtype", self.producer.dtype)

    def __repr__(self) -> str:
        return f"{self.producer.name}[{', '.join(map(str, self.indices))}]"
