"""Proofs about sets of index tuples: cover, overlap, emptiness, injectivity.

Expressions must be quasi-affine: sums, multiples by constants, floor division and
remainder by positive constants, minima and maxima. True means proved; False means
not proved, be it wrong, not quasi-affine, or too much work. Most of what is true has
a short reason, which `quick_proofs` finds, and most of what is wrong a counterexample
that `quick_refutations` finds; isl decides the rest. Its answers are remembered by
the whole text of the question.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from types import ModuleType
from typing import Any, Final, TypeAlias

from eutectic.arith import quick_proofs
from eutectic.arith.analyzer import Analyzer, RangeLike
from eutectic.arith.quick_refutations import refutes
from eutectic.ir.dtype import is_integer
from eutectic.ir.prim_expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Cast,
    Comparison,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    PrimExpr,
    SizeVar,
    Sub,
    Var,
    as_prim,
)
from eutectic.ir.visit import post_order

Ends: TypeAlias = "RangeLike | tuple[PrimExpr | int, PrimExpr | int]"  # a tuple is (min, extent)
MAX_OPERATIONS: Final = 2_000_000  # of isl, for one question; about a second
MAX_TEXT: Final = 20_000
MAX_REMEMBERED: Final = 1024

_JOINED: Final[dict[type[PrimExpr], str]] = {
    Add: "({} + {})",
    Sub: "({} - {})",
    Mul: "({} * {})",
    Min: "min({}, {})",
    Max: "max({}, {})",
    FloorDiv: "floor(({})/{})",
    FloorMod: "(({}) mod {})",
    EQ: "({} = {})",
    NE: "({} != {})",
    LT: "({} < {})",
    LE: "({} <= {})",
    GT: "({} > {})",
    GE: "({} >= {})",
    And: "({} and {})",
    Or: "({} or {})",
}


_QUICK: Final[dict[str, quick_proofs.Question]] = {
    "covers": quick_proofs.covers,
    "disjoint": quick_proofs.disjoint,
    "is_empty": quick_proofs.is_empty,
    "is_injective": quick_proofs.is_injective,
}
_ASKED: Final[dict[str, Callable[..., Any]]] = {
    "covers": lambda a, b: b.range().is_subset(a.range()),
    "union_covers": lambda b, *parts: b.range().is_subset(reduce(_joined, (part.range() for part in parts))),
    "disjoint": lambda a, b: a.range().intersect(b.range()).is_empty(),
    "is_empty": lambda a: a.is_empty(),
    "is_injective": lambda a: a.is_injective(),
}


@dataclass(frozen=True, slots=True)
class Region:
    """The index tuples that a loop nest reaches.

    Attributes:
        indices: One expression per axis.
        iters: Range of each loop variable; other variables are fixed but unknown,
            a `SizeVar` among them not negative.
        predicate: Only where this holds.
    """

    indices: tuple[PrimExpr, ...]
    iters: Mapping[Var, Ends] = field(default_factory=dict)
    predicate: PrimExpr | bool = True

    @staticmethod
    def box(ranges: Sequence[Ends]) -> Region:
        """All tuples within one range per axis."""
        axes = [Var(f"axis{k}", _dtype(ends)) for k, ends in enumerate(ranges)]
        return Region(tuple(axes), dict(zip(axes, ranges, strict=True)))


class _NotAffineError(Exception):
    """An expression that isl cannot take; never leaves this module."""


def covers(a: Region, b: Region, assumption: PrimExpr | bool = True) -> bool:
    """Whether every tuple of `b` is proved to be one of `a`, wherever `assumption` holds."""
    return len(a.indices) == len(b.indices) and _proved("covers", (a, b), assumption)


def covers_together(parts: Sequence[Region], b: Region, assumption: PrimExpr | bool = True) -> bool:
    """Whether every tuple of `b` is proved to be one of some of several regions, wherever `assumption` holds.

    What is least work is asked first: whether one region is enough by a quick proof, all of them by isl, one by isl.
    """
    fitting = [part for part in parts if len(part.indices) == len(b.indices)]
    return (
        any(proved_quickly("covers", (part, b), assumption) for part in fitting)
        or _union_covers(fitting, b, assumption)
        or any(proved_by_isl("covers", (part, b), assumption) for part in fitting)
    )


def _union_covers(parts: Sequence[Region], b: Region, assumption: PrimExpr | bool) -> bool:
    """What isl says of several regions, without those that are not quasi-affine; it is not asked about a single one."""
    if len(parts) < 2:
        return False
    condition = as_prim(assumption, "bool")
    names = _parameters((b, *parts), condition)
    wanted = _map_text_or_none(b, condition, names)
    texts = [text for part in parts if (text := _map_text_or_none(part, condition, names)) is not None]
    return wanted is not None and bool(texts) and _answered("union_covers", (wanted, *texts))


def disjoint(a: Region, b: Region, assumption: PrimExpr | bool = True) -> bool:
    """Whether `a` and `b` are proved to have no tuple in common, wherever `assumption` holds."""
    return len(a.indices) == len(b.indices) and _proved("disjoint", (a, b), assumption)


def is_empty(region: Region, assumption: PrimExpr | bool = True) -> bool:
    """Whether a region is proved to have no tuple, wherever `assumption` holds."""
    return _proved("is_empty", (region,), assumption)


def is_injective(region: Region, assumption: PrimExpr | bool = True) -> bool:
    """Whether different iterations are proved to reach different tuples, wherever `assumption` holds."""
    return _proved("is_injective", (region,), assumption)


def example(region: Region, assumption: PrimExpr | bool = True, effort: int = MAX_OPERATIONS) -> bool | dict[Var, int]:
    """Values of the loop variables for which a region has a tuple.

    Args:
        region: Where to look.
        assumption: A condition that holds.
        effort: Most operations of isl.

    Returns:
        False when it is proved that there are none; such values, which exist for sure; or True when neither is
        known, as where it depends on variables that the region does not iterate over.
    """
    condition = as_prim(assumption, "bool")
    names = _parameters((region,), condition)
    try:
        text = _map_text(region, condition, names, True)
    except _NotAffineError:
        return True
    isl = _isl()
    context = isl.Context()
    context.set_max_operations(effort)
    try:
        domain = isl.Map.read_from_str(context, text).domain()
        if domain.is_empty():
            return False
        if names:
            return True
        point = domain.sample_point()
        values = [point.get_coordinate_val(isl.dim_type.set, k).to_python() for k in range(len(region.iters))]
    except isl.Error:
        return True
    return dict(zip(region.iters, map(int, values), strict=True))


def proved_quickly(question: str, regions: Sequence[Region], assumption: PrimExpr | bool = True) -> bool:
    """Whether a question is answered with yes without isl, which would say yes then, too.

    Args:
        question: `covers`, `disjoint`, `is_empty` or `is_injective`.
        regions: What it is about.
        assumption: A condition that holds.
    """
    return quick_proofs.proves(_QUICK[question], _tuples(regions), as_prim(assumption, "bool"))


def _tuples(regions: Sequence[Region]) -> list[quick_proofs.Tuples]:
    return [
        quick_proofs.Tuples(
            region.indices,
            {var: _ends(var, ends) for var, ends in region.iters.items()},
            (as_prim(region.predicate, "bool"),),
        )
        for region in regions
    ]


def proved_by_isl(question: str, regions: Sequence[Region], assumption: PrimExpr | bool = True) -> bool:
    """Whether isl answers a question with yes; arguments as of `proved_quickly`."""
    condition = as_prim(assumption, "bool")
    if refutes(question, _tuples(regions), condition):
        return False
    names = _parameters(regions, condition)
    for simplifies in (False, True):  # what is no quasi-affine expression can be equal to one
        try:
            texts = tuple(_map_text(region, condition, names, simplifies) for region in regions)
        except _NotAffineError:
            continue
        return _answered(question, texts)
    return False


def _proved(question: str, regions: Sequence[Region], assumption: PrimExpr | bool) -> bool:
    return proved_quickly(question, regions, assumption) or proved_by_isl(question, regions, assumption)


def _joined(a: Any, b: Any) -> Any:
    return a.union(b)


@lru_cache(maxsize=MAX_REMEMBERED)
def _answered(question: str, texts: tuple[str, ...]) -> bool:
    """What isl says; the texts are all of a question, with names of their own for its variables."""
    isl = _isl()
    context = isl.Context()
    context.set_max_operations(MAX_OPERATIONS)
    try:
        return bool(_ASKED[question](*(isl.Map.read_from_str(context, text) for text in texts)))
    except isl.Error:  # more work than allowed
        return False


def _isl() -> ModuleType:
    try:
        import islpy  # a tenth of a second, and only wanted for these proofs
    except ImportError as missing:
        raise ImportError("proofs about index sets need islpy; install it with `pip install islpy`") from missing
    module: ModuleType = islpy
    return module


def _dtype(ends: Ends) -> str:
    pair = ends if isinstance(ends, tuple) else (ends.min, ends.extent)
    return next((end.dtype for end in pair if isinstance(end, PrimExpr)), "int32")


def _ends(var: Var, ends: Ends) -> tuple[PrimExpr, PrimExpr]:
    low, extent = ends if isinstance(ends, tuple) else (ends.min, ends.extent)
    return as_prim(low, var.dtype), as_prim(extent, var.dtype)


def _parameters(regions: Sequence[Region], assumption: PrimExpr) -> dict[Var, str]:
    """A name for every variable that no region iterates over."""
    bound = {var for region in regions for var in region.iters}
    names: dict[Var, str] = {}
    roots = [assumption]
    for region in regions:
        roots += [*region.indices, as_prim(region.predicate, "bool")]
        for ends in region.iters.values():
            pair = ends if isinstance(ends, tuple) else (ends.min, ends.extent)
            roots += [as_prim(end, "int32") for end in pair]
    for root in roots:
        for item in post_order(root):
            if isinstance(item, Var) and item not in bound and item not in names:
                names[item] = f"p{len(names)}"
    return names


def _map_text(region: Region, assumption: PrimExpr, parameters: Mapping[Var, str], simplifies: bool) -> str:
    names = {**parameters, **{var: f"i{k}" for k, var in enumerate(region.iters)}}
    conditions = [f"{name} >= 0" for var, name in parameters.items() if isinstance(var, SizeVar)]
    for var, ends in region.iters.items():
        first, count = (_text(end, names, simplifies) for end in _ends(var, ends))
        conditions.append(f"{first} <= {names[var]} < {first} + {count}")
    conditions += [_text(as_prim(condition, "bool"), names, simplifies) for condition in (region.predicate, assumption)]
    inputs = ", ".join(names[var] for var in region.iters)
    outputs = ", ".join(_text(index, names, simplifies) for index in region.indices)
    return f"[{', '.join(parameters.values())}] -> {{ [{inputs}] -> [{outputs}] : {' and '.join(conditions)} }}"


def _map_text_or_none(region: Region, assumption: PrimExpr, parameters: Mapping[Var, str]) -> str | None:
    """The text of a region, simplified where it is not quasi-affine as it is; None where it is not then either."""
    for simplifies in (False, True):
        try:
            return _map_text(region, assumption, parameters, simplifies)
        except _NotAffineError:
            continue
    return None


def _text(expr: PrimExpr, names: Mapping[Var, str], simplifies: bool) -> str:
    """An expression in isl's syntax.

    Raises:
        _NotAffineError: it is not quasi-affine, or the text would be too long.
    """
    memo: dict[int, str] = {}
    simple = Analyzer().simplify(expr) if simplifies else expr
    for item in post_order(simple):
        if isinstance(item, PrimExpr):
            memo[id(item)] = _text_of(item, memo, names)
            if len(memo[id(item)]) > MAX_TEXT:
                raise _NotAffineError
    return memo[id(simple)]


def _text_of(item: PrimExpr, memo: Mapping[int, str], names: Mapping[Var, str]) -> str:
    match item:
        case IntImm():
            return str(item.value) if item.dtype != "bool" else ("1 = 1" if item.value else "1 = 0")
        case Var() if item in names and is_integer(item.dtype):
            return names[item]
        case FloorDiv() | FloorMod() if not (isinstance(item.b, IntImm) and item.b.value > 0):
            raise _NotAffineError
        case Mul() if not (isinstance(item.a, IntImm) or isinstance(item.b, IntImm)):
            raise _NotAffineError
        case Not():
            return f"(not {memo[id(item.a)]})"
        case Cast() if item.widens:
            return memo[id(item.value)]
        case Comparison() if not is_integer(item.a.dtype):
            raise _NotAffineError
        case Add() | Sub() | Mul() | Min() | Max() | FloorDiv() | FloorMod() | Comparison() | And() | Or():
            if item.dtype[0] == "u":  # unsigned operations may wrap around
                raise _NotAffineError
            return _JOINED[type(item)].format(memo[id(item.a)], memo[id(item.b)])
        case _:
            raise _NotAffineError
