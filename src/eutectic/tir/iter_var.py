"""Ranges of integers, and variables that iterate over them."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from eutectic.arith.proofs import simplify
from eutectic.ir.extent import checked_extent
from eutectic.ir.node import Node, field, init_field, node
from eutectic.ir.prim_expr import IntImm, PrimExpr, Var, as_prim, sub
from eutectic.support.errors import WellFormedError


@node("ir.Range", init=False)
class Range(Node):
    """The integers from `min` on, `extent` of them.

    `Range(begin, end)` takes the end as TVM does, `Range(n)` starts at zero; by
    keyword `min` and `extent` are given as they are stored.

    Attributes:
        min: First integer.
        extent: How many there are, of the dtype of `min`.

    Raises:
        WellFormedError: the dtypes of `min` and `extent` differ.
    """

    min: PrimExpr
    extent: PrimExpr

    def __init__(self, begin: Any = None, end: Any = None, *, min: Any = None, extent: Any = None) -> None:
        if begin is not None and end is None:
            begin, end = 0, begin
        if min is None:
            literal = _dtype_of(begin, end)
            min, end = as_index(begin, literal), as_index(end, literal)
            extent = end if _is_zero(min) else simplify(sub(end, min))
        literal = _dtype_of(min, extent)
        init_field(self, "min", as_index(min, literal))
        init_field(self, "extent", as_index(extent, literal))
        if self.min.dtype != self.extent.dtype:
            raise WellFormedError(f"range from a {self.min.dtype} with an extent of {self.extent.dtype}")

    @staticmethod
    def from_min_extent(min_value: Any, extent: Any) -> Range:
        """The range from `min_value` on, `extent` integers long."""
        return Range(min=min_value, extent=extent)

    @property
    def is_point(self) -> bool:
        """Whether it is known to have one element."""
        return isinstance(self.extent, IntImm) and self.extent.value == 1


def _dtype_of(*values: Any) -> str:
    """The dtype of a range: that of an expression before that of a constant, and that before int32."""
    exprs = [value for value in values if isinstance(value, PrimExpr)]
    return next((x.dtype for x in exprs if not isinstance(x, IntImm)), max((x.dtype for x in exprs), default="int32"))


def _is_zero(value: PrimExpr) -> bool:
    return isinstance(value, IntImm) and value.value == 0


def as_index(value: Any, dtype: str = "int32") -> PrimExpr:
    """`value` as an integer expression; Python numbers and constants take `dtype`."""
    index = as_prim(value, dtype)
    return IntImm(dtype, index.value) if isinstance(index, IntImm) and index.dtype != dtype else index


ITER_TYPES: Final = (
    "data_par",
    "thread_index",
    "comm_reduce",
    "ordered",
    "opaque",
    "unrolled",
    "vectorized",
    "parallelized",
    "tensorized",
)
_ITER_ALIASES: Final = {
    "S": "data_par",
    "spatial": "data_par",
    "R": "comm_reduce",
    "reduce": "comm_reduce",
    "scan": "ordered",
    "O": "opaque",
}


@node("tir.IterVar")
class IterVar(Node):
    """A variable with the range that it takes and the meaning of its iterations.

    Attributes:
        dom: Values of the variable; None where something else determines them.
        var: The variable; a name makes a new one of the range's dtype.
        iter_type: One of `ITER_TYPES`; TVM's numbers and `S`, `R`, `spatial`,
            `reduce`, `scan` are understood. Block axes are `data_par` (spatial),
            `comm_reduce`, `ordered` (scan) or `opaque`.
        thread_tag: Hardware axis such as `threadIdx.x`, for `thread_index`.

    Raises:
        WellFormedError: the type is unknown, the range has a negative extent or one that is no integer, or the
            variable has another dtype than its range.
    """

    dom: Range | None
    var: Var = field(role="def")
    iter_type: str = "data_par"
    thread_tag: str = ""

    DataPar: ClassVar[str] = "data_par"
    ThreadIndex: ClassVar[str] = "thread_index"
    CommReduce: ClassVar[str] = "comm_reduce"
    Ordered: ClassVar[str] = "ordered"
    Opaque: ClassVar[str] = "opaque"
    Unrolled: ClassVar[str] = "unrolled"
    Vectorized: ClassVar[str] = "vectorized"
    Parallelized: ClassVar[str] = "parallelized"
    Tensorized: ClassVar[str] = "tensorized"

    def __post_init__(self) -> None:
        dom: Any = self.dom
        var: Any = self.var
        kind: Any = self.iter_type
        if isinstance(dom, (tuple, list)):
            dom = Range(*dom)
            init_field(self, "dom", dom)
        if isinstance(var, str):
            init_field(self, "var", Var(var, dom.extent.dtype if dom is not None else "int32"))
        kind = ITER_TYPES[kind] if isinstance(kind, int) and 0 <= kind < len(ITER_TYPES) else kind
        init_field(self, "iter_type", _ITER_ALIASES.get(kind, kind))
        if self.iter_type not in ITER_TYPES:
            raise WellFormedError(f"axis {self.var.name} has unknown type {self.iter_type!r}")
        if dom is not None:
            checked_extent(dom.extent, f"axis {self.var.name}")
        if dom is not None and dom.extent.dtype != self.var.dtype:
            if not (isinstance(dom.extent, IntImm) and isinstance(dom.min, IntImm)):
                raise WellFormedError(f"axis {self.var.name} is {self.var.dtype}, but its range is {dom.extent.dtype}")
            minimum, extent = as_index(dom.min, self.var.dtype), as_index(dom.extent, self.var.dtype)
            init_field(self, "dom", Range(min=minimum, extent=extent))
