"""What importers of all frameworks share: the context of a conversion, refusals, and constants."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final, NoReturn, Protocol, TypeVar

import numpy as np

from eutectic.ir.dtype import from_numpy, to_numpy
from eutectic.ir.prim_expr import IntImm, PrimExpr
from eutectic.ir.span import Span
from eutectic.relax.base import Expr, ShapeExpr
from eutectic.relax.block_builder import BlockBuilder
from eutectic.relax.expr import Call, Constant, TupleGetItem, Var
from eutectic.relax.op import astype, reshape, shape_to_tensor
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.support.errors import Excerpt, UnsupportedOperatorError

Converter = Callable[..., Any]
C = TypeVar("C", bound=Converter)

PLACES: Final = 3  # shown per operator that is refused
SMALL_BYTES: Final = 1 << 16  # contents up to this size are compared with each other


class Refused(Exception):
    """A form of an operator that cannot be imported; collected and reported with all others."""


class Operator(Protocol):
    """A constructor of a graph operator; it takes a span."""

    def __call__(self, *args: Any, span: Span | None = None, **options: Any) -> Call:
        """Build a call."""
        ...


class Converters(dict[str, Converter]):
    """The converters of a framework by the names of its operators."""

    def converts(self, *names: str) -> Callable[[C], C]:
        """Decorator: enter a converter under the names of operators."""

        def enter(converter: C) -> C:
            for name in names:
                if name in self:
                    raise ValueError(f"two converters for {name}")
                self[name] = converter
            return converter

        return enter


class ConversionContext:
    """What a converter may do while one operator is converted.

    Attributes:
        span: Where the operator comes from in the user's program.
        block_builder: Receives the bindings.
    """

    def __init__(self, span: Span | None, block_builder: BlockBuilder) -> None:
        self.span, self.block_builder = span, block_builder

    def emit(self, value: Expr, name: str = "") -> Var:
        """Bind a value to a new variable."""
        return self.block_builder.emit(value, name)

    def call(self, operator: Callable[..., Call], *args: Any, **options: Any) -> Var:
        """Bind the call of an operator, with the span of what is converted."""
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
            size = self.call(shape_to_tensor, ShapeExpr((value,)))
            return self.cast(self.call(reshape, size, ()), dtype)
        if not isinstance(value, Expr):
            self.refuse(f"it takes a {type(value).__name__}")
        return self.cast(value, dtype)

    def refuse(self, reason: str) -> NoReturn:
        """Give up on this operator; the reason reaches the user."""
        raise Refused(reason)


class Constants:
    """Graph constants of a model's arrays: one object per source, and per content of small ones."""

    def __init__(self) -> None:
        self._by_source: dict[Hashable, Constant] = {}
        self._by_content: dict[Hashable, Constant] = {}

    def constant(self, source: Hashable, array: Callable[[], np.ndarray]) -> Constant:
        """The constant of a source.

        Args:
            source: What tells arrays of the model from each other while it is imported.
            array: Makes the array, which nobody else may write: the data is copied once, so that a compiled model
                does not change when its source is trained on.
        """
        if source not in self._by_source:
            self._by_source[source] = self._of_content(array())
        return self._by_source[source]

    def _of_content(self, array: np.ndarray) -> Constant:
        array.flags.writeable = False
        info = TensorStructInfo(ShapeExpr(array.shape), from_numpy(array.dtype))
        if array.nbytes > SMALL_BYTES:
            return Constant(array, struct_info=info)
        content = (info.dtype, array.shape, array.tobytes())
        return self._by_content.setdefault(content, Constant(array, struct_info=info))


class RefusedOperators:
    """The operators of a model that could not be converted, in the order in which they were met.

    Args:
        help: What the user may do about them.
    """

    def __init__(self, help: str) -> None:
        self._help = help
        self._places: dict[tuple[str, str], list[str]] = {}
        self._first: Excerpt | None = None

    def add(self, operator: str, reason: str, place: str, span: Span | None) -> None:
        """Note one use of an operator.

        Args:
            operator: Its name in the framework.
            reason: Why it is refused; empty when it has no converter at all.
            place: Where it is used, for people.
            span: The same as data.
        """
        self._places.setdefault((operator, reason), []).append(place)
        if self._first is None and span is not None and span.file:
            self._first = span.excerpt()

    def raise_if_any(self) -> None:
        """Raise the error when something was noted.

        Raises:
            UnsupportedOperatorError: lists every operator with its count, reason, and first places.
        """
        if not self._places:
            return
        operators = {name for name, _ in self._places}
        kinds = "an operator" if len(operators) == 1 else f"{len(operators)} operators"
        listed = ", ".join(_counted(name, len(places)) for (name, _), places in self._places.items())
        error = UnsupportedOperatorError(
            f"the model uses {kinds} that cannot be imported: {listed}",
            at=self._first,
            notes=[_note(*key, places) for key, places in self._places.items()],
            help=self._help,
        )
        error.uses = tuple((*key, place) for key, places in self._places.items() for place in places)
        raise error


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
    """Sizes of a tensor value; every value of an imported graph has them."""
    dims = info_of(x).dims
    if dims is None:
        raise Refused("it takes a tensor of unknown shape")
    return dims


def _counted(name: str, count: int) -> str:
    return f"{name} ({count} time{'s' if count > 1 else ''})"


def _note(name: str, reason: str, places: list[str]) -> str:
    more = len(places) - PLACES
    shown = list(dict.fromkeys(places))[:PLACES]
    where = "; ".join(shown) + (f"; and {more} more" if more > 0 else "")
    return f"{name}{': ' + reason if reason else ''}, at {where}"
