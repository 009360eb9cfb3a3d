"""Index maps: functions from the indices of one layout to those of another."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Sequence
from inspect import Parameter
from typing import Any, ClassVar, TypeAlias

import numpy as np

from eutectic.arith.analyzer import Analyzer
from eutectic.arith.interval import dtype_range
from eutectic.ir.dtype import is_integer
from eutectic.ir.node import Node, field, init_field, node, replace
from eutectic.ir.prim_expr import Call, Cast, ExprOp, IntImm, PrimExpr, Var, as_prim
from eutectic.support.errors import WellFormedError
from eutectic.tir.index_map_box import MapOnBox, is_index, values_of, variables_of
from eutectic.tir.index_map_inverse import inverse_of
from eutectic.tir.index_map_text import lambda_text, parse_lambda, parse_map
from eutectic.tir.iter_var import Range, as_index
from eutectic.tir.statement_mutator import rewrite_expr, with_values

Function: TypeAlias = "Callable[..., Any]"  # takes variables, gives an expression or several


@node("tir.IndexMap")
class IndexMap(Node):
    """A function from indices to indices: where an element of one layout is in another.

    Attributes:
        initial_indices: Its variables.
        final_indices: What they are mapped to.
        inverse_index_map: The map back, for those that it cannot be derived for; it is not part of the program.

    Raises:
        WellFormedError: a variable is given twice.

    Reference: TVM `tir.IndexMap`.
    """

    initial_indices: tuple[Var, ...] = field(role="def")
    final_indices: tuple[PrimExpr, ...]
    inverse_index_map: IndexMap | None = field(role="ignore", default=None)
    AXIS_SEPARATOR: ClassVar[str] = "axis_separator"

    def __post_init__(self) -> None:
        inputs: tuple[Any, ...] = tuple(self.initial_indices)
        dtype = next((item.dtype for item in inputs), "int64")
        init_field(self, "initial_indices", inputs)
        init_field(self, "final_indices", tuple(as_prim(item, dtype) for item in self.final_indices))
        if len(set(inputs)) != len(inputs) or not all(isinstance(item, Var) for item in inputs):
            raise WellFormedError("the initial indices of an index map are not variables, each once")

    # ---- from functions and text

    @staticmethod
    def from_func(
        mapping_function: Function,
        ndim: int | None = None,
        inverse_index_map: Function | IndexMap | None = None,
        *,
        index_dtype: str = "int64",
    ) -> IndexMap:
        """The map that a Python function computes.

        Args:
            mapping_function: Takes variables, and gives an expression or a sequence of them.
            ndim: How many variables it takes, when it takes `*args`.
            inverse_index_map: The map back.
            index_dtype: Dtype of the variables.

        Raises:
            TypeError: the function returns what is no index, or a separator of axes.
            ValueError: it takes `*args`, and `ndim` is not given or too small.
        """
        index_map, separators = IndexMap.from_func_with_separators(
            mapping_function, ndim, inverse_index_map, index_dtype=index_dtype
        )
        if separators:
            raise TypeError("the function returns axis separators; use from_func_with_separators")
        return index_map

    @staticmethod
    def from_func_with_separators(
        mapping_function: Function,
        ndim: int | None = None,
        inverse_index_map: Function | IndexMap | None = None,
        *,
        index_dtype: str = "int64",
    ) -> tuple[IndexMap, list[int]]:
        """The map that a Python function computes, and where `IndexMap.AXIS_SEPARATOR` stands among its results.

        Args:
            mapping_function: As `from_func`.
            ndim: As `from_func`.
            inverse_index_map: As `from_func`.
            index_dtype: As `from_func`.

        Returns:
            The map, and the number of indices before each separator.

        Raises:
            TypeError: as `from_func`.
            ValueError: as `from_func`.
        """
        args, kwargs = _inputs(mapping_function, ndim, index_dtype)
        inputs = (*args, *kwargs.values())
        returned = mapping_function(*args, **kwargs)
        items = list(returned) if isinstance(returned, Iterable) and not isinstance(returned, str) else [returned]
        outputs: list[PrimExpr] = []
        separators: list[int] = []
        for item in items:
            if isinstance(item, str) and item == IndexMap.AXIS_SEPARATOR:
                separators.append(len(outputs))
            elif isinstance(item, int | float | ExprOp) and not isinstance(item, bool):
                outputs.append(as_prim(item, index_dtype))
            else:
                raise TypeError(f"an index map returns expressions, got {type(item).__name__}: {item!r}")
        inverse = inverse_index_map
        if inverse is not None and not isinstance(inverse, IndexMap):
            inverse = IndexMap.from_func(inverse, len(outputs), index_dtype=index_dtype)
        return IndexMap(tuple(inputs), tuple(outputs), inverse), separators

    @staticmethod
    def from_text(text: str) -> IndexMap:
        """The map that `as_python` wrote.

        Raises:
            ValueError: it is no such text.
        """
        there, back = parse_map(text)
        return IndexMap(*parse_lambda(there), None if back is None else IndexMap(*parse_lambda(back)))

    def as_python(self) -> str:
        """The map as a lambda, or as a call of `tir.IndexMap.from_func` when it has an inverse of its own.

        Raises:
            ValueError: it has free variables, or operations that have no text.
        """
        text = lambda_text(self.initial_indices, self.final_indices)
        if self.inverse_index_map is None:
            return text
        back = lambda_text(self.inverse_index_map.initial_indices, self.inverse_index_map.final_indices)
        return f"tir.IndexMap.from_func({text}, inverse_index_map={back})"

    def script(self, **options: Any) -> str:
        """The map as in TVMScript; what has no text as a constructor."""
        inputs = set(self.initial_indices)
        free = list(
            dict.fromkeys(var for item in self.final_indices for var in variables_of(item) if var not in inputs)
        )
        try:
            return f"T.index_map({lambda_text(self.initial_indices, self.final_indices, free)})"
        except ValueError:
            return Node.script(self, **options)

    # ---- what it maps

    def map_indices(self, indices: Sequence[PrimExpr | int]) -> list[PrimExpr]:
        """Where an element is mapped to.

        Args:
            indices: One per variable; integers of several dtypes become the widest of them.

        Raises:
            ValueError: there is not one index per variable.
        """
        self._require_rank(indices)
        widened = _in_one_dtype(indices, self._dtype)
        index_map = self.with_dtype(widened[0].dtype) if widened else self
        values = dict(zip(index_map.initial_indices, widened, strict=True))
        return [Analyzer().simplify(with_values(item, values)) for item in index_map.final_indices]

    def map_shape(self, shape: Sequence[PrimExpr | int | Range]) -> list[PrimExpr]:
        """Sizes of a box from zero on that holds what all elements of a shape are mapped to.

        Args:
            shape: Elements per axis; a range must begin at zero.

        Raises:
            ValueError: there is not one size per variable, or an index could be negative, overflow or has no bound.
        """
        space = self.on(shape)
        if space.extents is None:
            raise ValueError(f"{self.script()} maps {_said(shape)} to indices that are negative, or have no bound")
        return list(space.extents)

    def map_ndarray(self, arr_src: Any) -> np.ndarray[Any, Any]:
        """An array in the other layout.

        Args:
            arr_src: An array, or what NumPy can make one of.

        Raises:
            ValueError: the map is not bijective on the shape of the array, so that places would be left over.
        """
        source = np.asarray(arr_src)
        space = self.on(source.shape)
        if space.extents is None or not space.is_bijective:
            raise ValueError(f"{self.script()} is not bijective on {_said(source.shape)}")
        shape = [int(size.value) for size in space.extents if isinstance(size, IntImm)]
        mapped = np.empty(shape, source.dtype)
        grid = dict(zip(space.inputs, np.indices(source.shape, np.int64), strict=True))
        places = [np.broadcast_to(np.asarray(values_of(item, grid)), source.shape) for item in space.outputs]
        if any(place.dtype == object for place in places):
            raise ValueError(f"{self.script()} has operations that are not computed here")
        mapped[tuple(places)] = source
        return mapped

    # ---- inverses

    def inverse(self, shape: Sequence[PrimExpr | int | Range]) -> IndexMap:
        """The map back, from the box of `map_shape`.

        Args:
            shape: Elements per axis.

        Raises:
            ValueError: the map is not proved to be bijective on the shape, or no inverse is found and proved.
        """
        space = self.on(shape)
        if not space.is_bijective:
            raise ValueError(f"{self.script()} is not proved to be bijective on {_said(shape)}")
        return self.proved_inverse(space)

    def non_surjective_inverse(self, shape: Sequence[PrimExpr | int | Range]) -> tuple[IndexMap, PrimExpr]:
        """The map back, and the places in the box of `map_shape` that no element is mapped to.

        Args:
            shape: Elements per axis.

        Returns:
            The inverse, and a condition on its initial indices that holds where it means nothing.

        Raises:
            ValueError: no inverse is found and proved; or an index could be negative or has no bound.
        """
        space = self.on(shape)
        self.map_shape(shape)
        inverse = self.proved_inverse(space)
        return inverse, space.outside(inverse.initial_indices, inverse.final_indices)

    def proved_inverse(self, space: MapOnBox) -> IndexMap:
        """The map back from the outputs of this map on a box, proved at all of its points.

        Args:
            space: What `on` gives.

        Raises:
            ValueError: none is found and proved.
        """
        back = self.inverse_index_map
        if back is not None:
            typed = back.with_dtype(space.outputs[0].dtype if space.outputs else self._dtype)
            fits = len(typed.initial_indices) == len(space.outputs) and len(typed.final_indices) == len(space.inputs)
            if not fits or not _fits(typed, space) or not space.is_inverse(typed.initial_indices, typed.final_indices):
                raise ValueError(f"{back.script()} is not proved to be the inverse of {self.script()}")
            return IndexMap(typed.initial_indices, typed.final_indices, self)
        variables = tuple(Var(f"axis{k}", item.dtype) for k, item in enumerate(space.outputs))
        inputs = inverse_of(space, variables)
        if inputs is None or not _fits(IndexMap(variables, tuple(inputs)), space):
            help = "give inverse_index_map"
            raise ValueError(f"no inverse of {self.script()} on {_said(space.shape)} is found and proved; {help}")
        return IndexMap(variables, tuple(inputs), replace(self, inverse_index_map=None))

    # ---- forms

    def is_equivalent_to(self, other_map: IndexMap) -> bool:
        """Whether two maps are proved to map all indices to the same."""
        mine, other = self.with_dtype("int64"), other_map.with_dtype("int64")
        if len(mine.initial_indices) != len(other.initial_indices) or len(mine.final_indices) != len(
            other.final_indices
        ):
            return False
        values = dict(zip(other.initial_indices, mine.initial_indices, strict=True))
        known = Analyzer()
        pairs = zip(mine.final_indices, other.final_indices, strict=True)
        return all(known.can_prove_equal(a, with_values(b, values)) for a, b in pairs)

    def with_dtype(self, dtype: str) -> IndexMap:
        """The map on indices of another dtype; itself when they have it already."""
        if all(item.dtype == dtype for item in (*self.initial_indices, *self.final_indices)):
            return self
        return self._converted(dtype)

    def _converted(self, dtype: str) -> IndexMap:
        inputs = {var: Var(var.name, dtype) for var in self.initial_indices}
        own = {var.dtype for var in self.initial_indices} or {"int64"}  # constants of other dtypes are no indices

        def change(item: PrimExpr) -> PrimExpr | None:
            if isinstance(item, Var):
                return inputs.get(item)
            if isinstance(item, IntImm) and item.dtype in own:
                return IntImm(dtype, item.value)
            if isinstance(item, Call) and item.dtype in own:
                return replace(item, dtype=dtype)
            if isinstance(item, Cast) and item.dtype in own:
                return item.value.astype(dtype)
            return None

        outputs = [rewrite_expr(item, change) for item in self.final_indices]
        return IndexMap(tuple(inputs.values()), tuple(outputs), self.inverse_index_map)

    def on(self, shape: Sequence[PrimExpr | int | Range], assumption: PrimExpr | None = None) -> MapOnBox:
        """The map on the elements of a shape, to be asked about its properties.

        Args:
            shape: Elements per axis; a range must begin at zero.
            assumption: What holds of variables in the shape.

        Raises:
            ValueError: there is not one size per variable, a range does not begin at zero, or a size is no integer.
        """
        self._require_rank(shape)
        sizes = [_size(item) for item in shape]
        one = _in_one_dtype(sizes, self._dtype)
        if not all(map(is_index, one)):
            raise ValueError(f"{_said(shape)} is no shape")
        index_map = self.with_dtype(one[0].dtype if one else self._dtype)
        space = MapOnBox(index_map.initial_indices, index_map.final_indices, tuple(one))
        return space if assumption is None else dataclasses.replace(space, assumption=assumption)

    @property
    def _dtype(self) -> str:
        return self.initial_indices[0].dtype if self.initial_indices else "int64"

    def _require_rank(self, indices: Sequence[Any]) -> None:
        if len(indices) != len(self.initial_indices):
            raise ValueError(f"{self.script()} takes {len(self.initial_indices)} indices, got {len(indices)}")


def _fits(back: IndexMap, space: MapOnBox) -> bool:
    """Whether an inverse is computed without leaving its dtype."""
    return space.extents is not None and MapOnBox(back.initial_indices, back.final_indices, space.extents).fits


def _inputs(function: Function, ndim: int | None, dtype: str) -> tuple[list[Var], dict[str, Var]]:
    """Variables for the parameters of a function, positional and by keyword."""
    args: list[Var] = []
    kwargs: dict[str, Var] = {}
    parameters = inspect.signature(function).parameters.values()
    named = [p for p in parameters if p.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)]
    only = [p for p in parameters if p.kind is Parameter.KEYWORD_ONLY]
    for parameter in parameters:
        if parameter.kind is Parameter.VAR_KEYWORD:
            raise ValueError("an index map cannot take **kwargs")
        if parameter.kind is Parameter.VAR_POSITIONAL:
            rest = -1 if ndim is None else ndim - len(named) - len(only)
            if rest < 0:
                raise ValueError(f"an index map of *{parameter.name} needs ndim, at least {len(named) + len(only)}")
            args += [Var(f"{parameter.name}_{k}", dtype) for k in range(rest)]
        elif parameter.kind is Parameter.KEYWORD_ONLY:
            kwargs[parameter.name] = Var(parameter.name, dtype)
        else:
            args.append(Var(parameter.name, dtype))
    return args, kwargs


def _size(item: PrimExpr | int | Range) -> PrimExpr | int:
    if not isinstance(item, Range):
        return item
    if not (isinstance(item.min, IntImm) and item.min.value == 0):
        raise ValueError(f"the range from {item.min} on does not begin at zero")
    return item.extent


def _in_one_dtype(values: Sequence[PrimExpr | int], dtype: str) -> list[PrimExpr]:
    """Indices of one dtype: the widest of those that are not constants."""
    dtypes = [item.dtype for item in values if isinstance(item, PrimExpr)]
    symbolic = [item.dtype for item in values if isinstance(item, PrimExpr) and not isinstance(item, IntImm)]
    chosen = max(symbolic or dtypes or [dtype], key=lambda name: dtype_range(name).hi if is_integer(name) else 0)
    indices = [as_index(item, chosen) for item in values]
    return [item if item.dtype == chosen else item.astype(chosen) for item in indices]


def _said(shape: Sequence[Any]) -> str:
    return "[" + ", ".join(str(item.value) if isinstance(item, IntImm) else str(item) for item in shape) + "]"
