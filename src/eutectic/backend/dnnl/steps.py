"""What a region is made of: tensors, steps and post-operations, as plain data with a JSON form.

Nothing here knows oneDNN's handles. `spec.py` puts steps together to a region
and documents what the library does with special values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, Final, TypeAlias, TypeVar

import ml_dtypes  # noqa: F401 - makes its dtypes known to NumPy by name
import numpy as np

from eutectic.backend.dnnl.algorithms import PARAMETERS as PARAMETERS
from eutectic.backend.dnnl.border_layout import border_layout
from eutectic.runtime.sizes import SizeExpr, evaluate, size_from_json, size_to_json
from eutectic.support.deep import deep
from eutectic.support.errors import CodegenError

Json: TypeAlias = dict[str, Any]

_T = TypeVar("_T")

DTYPES: Final = ("float32", "bfloat16", "float16")
"""What tensors of a region may be; sums and post-operations are float32 for all of them."""


def refuse(message: str, *, help: str | None = None) -> CodegenError:
    """The error for a description that no region can be made of."""
    return CodegenError(message, code="G0200", help=help)


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A named tensor of fixed shape.

    Attributes:
        name: Unique in its region.
        shape: Elements per axis, outermost first; zero is allowed.
        dtype: One of `DTYPES`.
        layout: How an input or output of a region lies in memory, as in `border_layout.py`; empty is row-major.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    layout: str = ""

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of its elements."""
        return self.size * self.array_dtype.itemsize

    @property
    def array_dtype(self) -> np.dtype[Any]:
        """NumPy's name of the dtype."""
        return np.dtype(self.dtype)

    @property
    def shape_in_memory(self) -> tuple[int, ...]:
        """Elements per axis of the array."""
        there = border_layout(self.layout)
        return self.shape if there is None else there.shape_in_memory(self.shape)


@dataclass(frozen=True, slots=True)
class PostEltwise:
    """A function of each element, applied to the result of a step.

    Attributes:
        algorithm: A key of `PARAMETERS`.
        alpha: First parameter; 0 where the algorithm has none.
        beta: Second parameter; 0 where the algorithm has none.
    """

    algorithm: str
    alpha: float = 0.0
    beta: float = 0.0


@dataclass(frozen=True, slots=True)
class PostBinary:
    """`result <kind> operand`, applied to the result of a step.

    Attributes:
        kind: `add` or `mul` (also `sub`, `max`, `min`, `div`); the result of the step is the left side.
        operand: Name of a tensor whose shape broadcasts to the step's, aligned at the last axis.
    """

    kind: str
    operand: str


PostOp: TypeAlias = PostEltwise | PostBinary


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution or transposed convolution over one to three spatial axes.

    Attributes:
        src: `(n, c, *spatial)`.
        weight: `(o, c/groups, *kernel)`, or `(c, o/groups, *kernel)` when transposed.
        bias: `(o,)`, or None.
        dst: `(n, o, *out)`; of a transposed convolution its size says the output padding.
        strides: Per spatial axis, positive.
        padding_begin: Zeros (transposed: outputs cut) before each axis; not negative.
        padding_end: The same behind each axis.
        dilation: Distance of kernel taps; 1 is dense.
        groups: Divides both channel counts.
        transposed: The gradient of a convolution with respect to its input.
        post_ops: Applied in order after the bias.
    """

    src: str
    weight: str
    bias: str | None
    dst: TensorSpec
    strides: tuple[int, ...]
    padding_begin: tuple[int, ...]
    padding_end: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int = 1
    transposed: bool = False
    post_ops: tuple[PostOp, ...] = ()


@dataclass(frozen=True, slots=True)
class Matmul:
    """`src @ weight + bias` over the last two axes; batch axes broadcast.

    Attributes:
        src: `(*batch, m, k)`.
        weight: `(*batch, k, n)`, or `(*batch, n, k)` with `transpose_weight`; constant or computed.
        bias: `(n,)`, or None.
        dst: `(*batch, m, n)`.
        transpose_weight: Swap the last two axes of the weight first.
        post_ops: Applied in order after the bias.
    """

    src: str
    weight: str
    bias: str | None
    dst: TensorSpec
    transpose_weight: bool = False
    post_ops: tuple[PostOp, ...] = ()


@dataclass(frozen=True, slots=True)
class Pool:
    """Maximum or mean over windows of one to three spatial axes.

    `avg_include_pad` always divides by the window's volume, also where a window
    reaches into `padding_end`; torch's `ceil_mode` does not where the window
    passes the symmetric padding, so those two must not be mapped on each other.

    Attributes:
        kind: `max`, `avg_include_pad` or `avg_exclude_pad`.
        src: `(n, c, *spatial)`.
        dst: `(n, c, *out)`.
        kernel: Window extents.
        strides: Step between windows.
        padding_begin: Not negative; every window must hold an element of `src`.
        padding_end: The same behind each axis.
        dilation: 1 is dense; only `max` takes others.
    """

    kind: str
    src: str
    dst: TensorSpec
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    padding_begin: tuple[int, ...]
    padding_end: tuple[int, ...]
    dilation: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Binary:
    """`lhs <kind> rhs` with numpy's broadcasting.

    Attributes:
        kind: `add`, `sub`, `mul`, `div`, `max` or `min`.
        lhs: Left operand.
        rhs: Right operand; may be the same tensor.
        dst: Result, of the broadcast shape.
        post_ops: Applied in order.
    """

    kind: str
    lhs: str
    rhs: str
    dst: TensorSpec
    post_ops: tuple[PostOp, ...] = ()


@dataclass(frozen=True, slots=True)
class Eltwise:
    """A function of each element.

    Attributes:
        src: Operand.
        dst: Result, of the same shape.
        post_op: Which function.
    """

    src: str
    dst: TensorSpec
    post_op: PostEltwise


@dataclass(frozen=True, slots=True)
class Cast:
    """The same elements in another dtype, rounded to nearest, ties to even.

    No kernel is called for it: whoever reads the result wants it in a layout of its own, and brings it there from the
    operand.

    Attributes:
        src: Operand; not a constant.
        dst: Result, of the same shape.
    """

    src: str
    dst: TensorSpec


Step: TypeAlias = Convolution | Matmul | Pool | Binary | Eltwise | Cast

STEP_KINDS: Final[dict[str, type[Step]]] = {
    "convolution": Convolution,
    "matmul": Matmul,
    "pool": Pool,
    "binary": Binary,
    "eltwise": Eltwise,
    "cast": Cast,
}
_SIZE: Final = "size"  # the only key of an object that stands for a size that varies
_KIND_OF: Final = {cls: kind for kind, cls in STEP_KINDS.items()}


def operands(step: Step) -> tuple[str, ...]:
    """Names of the tensors that a step reads, without repetition."""
    match step:
        case Convolution() | Matmul():
            names = [step.src, step.weight, *([step.bias] if step.bias is not None else [])]
        case Binary():
            names = [step.lhs, step.rhs]
        case Pool() | Eltwise() | Cast():
            names = [step.src]
    names += [p.operand for p in post_ops(step) if isinstance(p, PostBinary)]
    return tuple(dict.fromkeys(names))


def post_ops(step: Step) -> tuple[PostOp, ...]:
    """The post-operations of a step; none for pools, casts and element-wise steps."""
    return () if isinstance(step, Pool | Eltwise | Cast) else step.post_ops


def tensor_to_json(t: TensorSpec) -> Json:
    """A tensor as JSON data."""
    data: Json = {"name": t.name, "shape": list(map(_item_to_json, t.shape)), "dtype": t.dtype}
    return data | ({"layout": t.layout} if t.layout else {})


def step_to_json(step: Step) -> Json:
    """A step as JSON data, headed by its kind."""
    return {"kind": _KIND_OF[type(step)], **_fields_to_json(step)}


def _fields_to_json(node: Step | PostOp) -> Json:
    return {("op" if f.name == "kind" else f.name): _value_to_json(getattr(node, f.name)) for f in fields(node)}


def _value_to_json(value: Any) -> Any:
    match value:
        case TensorSpec():
            return tensor_to_json(value)
        case PostEltwise() | PostBinary():
            return _fields_to_json(value)
        case tuple():
            return [_item_to_json(v) for v in value]
        case float() if not math.isfinite(value):
            return str(value)  # JSON has no infinities; clip with one bound needs them
    return value


def _item_to_json(value: Any) -> Any:
    """A part of a tuple; a name or an expression there is a size that varies."""
    return {_SIZE: size_to_json(value)} if isinstance(value, (str, SizeExpr)) else _value_to_json(value)


@deep
def put_sizes(data: Any, sizes: Mapping[str, int]) -> Any:
    """A description with numbers in place of the sizes that vary.

    Raises:
        CodegenError: a size has no value.
    """
    match data:
        case dict() if set(data) == {_SIZE}:
            size = data[_SIZE]
            try:
                return evaluate(size_from_json(size), sizes)
            except (KeyError, ZeroDivisionError) as error:
                raise refuse(f"the size {size!r} has no value where {dict(sizes)} is given: {error!r}") from None
        case dict():
            return {key: put_sizes(value, sizes) for key, value in data.items()}
        case list():
            return [put_sizes(value, sizes) for value in data]
    return data


def tensor_from_json(data: Any) -> TensorSpec:
    """Inverse of `tensor_to_json`.

    Raises:
        CodegenError: the data does not describe a tensor.
    """
    return _decode(TensorSpec, data)


def step_from_json(data: Any) -> Step:
    """Inverse of `step_to_json`.

    Raises:
        CodegenError: the data does not describe a step.
    """
    kind = data.get("kind") if isinstance(data, dict) else None
    if not isinstance(kind, str) or kind not in STEP_KINDS:
        raise refuse(f"a step has kind {kind!r}", help=f"known kinds are {', '.join(STEP_KINDS)}")
    return _decode(STEP_KINDS[kind], {k: v for k, v in data.items() if k != "kind"})


def _decode(cls: type[_T], data: Any) -> _T:
    if not isinstance(data, dict):
        raise refuse(f"{cls.__name__} is described by {type(data).__name__}, not by an object")
    known = {("op" if f.name == "kind" else f.name): f for f in fields(cls)}  # type: ignore[arg-type]  # a dataclass
    if unknown := sorted(set(data) - set(known)):
        raise refuse(f"{cls.__name__} has unknown fields {unknown}")
    values: Json = {}
    for key, f in known.items():
        if key in data:
            values[f.name] = _decode_field(str(f.type), data[key], f"{cls.__name__}.{key}")
        elif f.default is MISSING:
            raise refuse(f"{cls.__name__} has no field {key!r}")
    return cls(**values)


def _decode_field(annotation: str, value: Any, where: str) -> Any:
    if annotation not in _DECODERS:
        raise refuse(f"{where} cannot be read")
    try:
        return _DECODERS[annotation](value)
    except (TypeError, ValueError) as error:
        raise refuse(f"{where} is {value!r}, expected {annotation}") from error


def exactly(cls: type[_T], value: Any) -> _T:
    """The value if it has exactly this class, so that `True` is no integer.

    Raises:
        TypeError: it has another class.
    """
    if type(value) is not cls:
        raise TypeError(cls.__name__)
    return value


def _float(value: Any) -> float:
    if value not in ("inf", "-inf") and type(value) not in (int, float):
        raise TypeError("float")
    return float(value)


def _post_op(value: Any) -> PostOp:
    if not isinstance(value, dict):
        raise TypeError("post_op")
    return _decode(PostBinary, value) if "operand" in value else _decode(PostEltwise, value)


def _tuple(item: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    return lambda value: tuple(item(v) for v in exactly(list, value))


_DECODERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "str": lambda v: exactly(str, v),
    "int": lambda v: exactly(int, v),
    "bool": lambda v: exactly(bool, v),
    "float": _float,
    "str | None": lambda v: None if v is None else exactly(str, v),
    "tuple[int, ...]": _tuple(lambda v: exactly(int, v)),
    "TensorSpec": tensor_from_json,
    "PostEltwise": lambda v: _decode(PostEltwise, v),
    "tuple[PostOp, ...]": _tuple(_post_op),
}
