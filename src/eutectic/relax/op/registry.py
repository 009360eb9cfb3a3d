"""How an operator is defined: one object per operator collects inference, meaning and lowering.

The model file is `matmul.py`. An operator module calls `define_op`, and hangs on
the result: `infer` (struct info of a call), `reference` (its meaning in NumPy) and
`legalize` (its tensor program; step by step filled in by the lowering).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import wraps
from typing import Any, Final, Literal, NoReturn, TypeVar

import numpy as np

from eutectic.ir.attrs import Attrs
from eutectic.ir.dtype import is_float, to_numpy
from eutectic.ir.op import Op, register_op
from eutectic.ir.span import Span, caller_span
from eutectic.relax.base import Expr, StructInfo
from eutectic.relax.expr import Call, const, convert, describe_info
from eutectic.relax.op.along_axes import AxisPlaces
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.support.deep import deep
from eutectic.support.errors import TypeInferenceError
from eutectic.support.registry import note_addition
from eutectic.support.shown import clipped
from eutectic.tir.data_layout import layout

Fusion = Literal["elementwise", "broadcast", "injective", "reduction", "out_fusible", "opaque"]
Trait = Literal[
    "attention",  # attention of queries to keys and values
    "calls",  # calls the function that is its first argument
    "commutative",  # patterns match its two operands in either order
    "contraction",  # sums of products: its work is worth counting
    "convolution",  # weights slide over spatial axes, transposed or not
    "generated",  # kernels of ours compute it, and no library: what follows is fused into it
    "pointwise",  # an element of the result depends on those of the operands at its place, as they broadcast
    "transposed",  # of a convolution: the gradient with respect to its input
    "view",  # the same elements in the same order under another shape
]
Infer = Callable[[Call], StructInfo]
Reference = Callable[..., Any]
InLayouts = Callable[[Call, Sequence[Expr], Sequence[str], str], Call]
AlongAxes = Callable[[Call, AxisPlaces], "Call | None"]
Separable = Callable[[Call, Sequence[bool]], bool]
A = TypeVar("A", bound=Attrs)
F = TypeVar("F", bound=Callable[..., Any])


class OpDef:
    """One operator: its `Op`, arity, fusion kind, and the functions that give it meaning.

    Attributes:
        op: The registered operator.
        arity: Number of arguments, a (least, most) pair, or None for any.
        fusion: How it may be fused; the vocabulary of `FuseOps`.
        pure: Whether calls have no side effects.
        traits: What it has in common with others: passes ask for a trait, not for a list of names.
    """

    def __init__(
        self,
        op: Op,
        arity: int | tuple[int, int] | None,
        fusion: Fusion,
        pure: bool,
        traits: Collection[Trait] = (),
    ) -> None:
        self.op, self.arity, self.fusion, self.pure = op, arity, fusion, pure
        self.traits = frozenset(traits)
        self.work_fn: Callable[[Call], float] | None = None
        self.identity_fn: Callable[[Call], bool] | None = None
        self.in_layouts_fn: InLayouts | None = None
        self.along_axes_fn: AlongAxes | None = None
        self.separable_fn: Separable | None = None
        self.infer_fn: Infer | None = None
        self.reference_fn: Reference | None = None
        self.legalize_fn: Callable[..., Any] | None = None

    def infer(self, function: F) -> F:
        """Decorator: `function(call) -> StructInfo`; refuses with `refuse`."""
        self.infer_fn = function
        return function

    def reference(self, function: F) -> F:
        """Decorator: `function(attrs, *args)` computes the result with NumPy.

        Tensors arrive as arrays, tuples as tuples of arrays, shapes as tuples of
        int, scalars as Python numbers. What the wrapper around it returns are
        C-contiguous arrays that share no memory with the arguments; floating-point
        warnings are silent, as IEEE results are what is asked for.
        """
        self.reference_fn = _finished(function)
        return function

    def legalize(self, function: F) -> F:
        """Decorator: `function(builder, call)` lowers a call to tensor programs."""
        self.legalize_fn = function
        return function

    def identity(self, function: F) -> F:
        """Decorator: `function(call)` says whether a call is its first operand, provided that the types are equal."""
        self.identity_fn = function
        return function

    def in_layouts(self, function: F) -> F:
        """Decorator: `function(call, args, operands, result)` is the call on arguments that are in other layouts.

        `args` are the arguments, `operands` the layouts of the tensors among them, fields of tuples one by one, and
        `result` that of the result; an empty text is the one that the call itself says. What is `pointwise` needs none:
        it is the same in all layouts.
        """
        self.in_layouts_fn = function
        return function

    def along_axes(self, function: F) -> F:
        """Decorator: `function(call, places)` is a call whose options speak of axes, with those of another layout.

        All tensors, also those of the result, are in one layout. The tensors among the arguments stay as they are, and
        nothing is said of the result. None where the other layout has no such call, as where blocks would be cut.
        """
        self.along_axes_fn = function
        return function

    def separable(self, function: F) -> F:
        """Decorator: `function(call, batched)` says whether a batch can be computed piece by piece.

        The batch is the first axis of the tensors among the arguments, fields of tuples one by one, for which `batched`
        is true, at least one, and of all results. Each place of it must depend on no other place. What is `pointwise`
        needs none.
        """
        self.separable_fn = function
        return function

    def work(self, function: F) -> F:
        """Decorator: `function(call)` counts multiplications and additions; infinite when a size is not known."""
        self.work_fn = function
        return function


def _finished(function: Reference) -> Reference:
    @wraps(function)
    def run(attrs: Any, *args: Any) -> Any:
        with np.errstate(all="ignore"):
            return _own(function(attrs, *args), tuple(_arrays(args)))

    return run


def _arrays(value: Any) -> Iterator[Any]:
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _arrays(item)


@deep
def _own(result: Any, inputs: tuple[Any, ...]) -> Any:
    """Numbers of NumPy as arrays, views as copies; everything else as it is."""
    if isinstance(result, tuple) and any(isinstance(item, (np.ndarray, np.generic)) for item in result):
        return tuple(_own(item, inputs) for item in result)
    if not isinstance(result, (np.ndarray, np.generic)):
        return result
    shared = isinstance(result, np.ndarray) and any(np.may_share_memory(result, array) for array in inputs)
    return np.array(result, order="C", copy=True) if shared else np.asarray(result, order="C")


_DEFS: Final[dict[str, OpDef]] = {}


def define_op(
    name: str,
    *,
    arity: int | tuple[int, int] | None = None,
    fusion: Fusion = "opaque",
    pure: bool = True,
    traits: Collection[Trait] = (),
) -> OpDef:
    """Register an operator; each name once."""
    if name in _DEFS:
        raise ValueError(f"operator {name} is defined twice")
    note_addition(f"operator {name}")
    _DEFS[name] = definition = OpDef(register_op(name), arity, fusion, pure, traits)
    return definition


def op_def(op: Op | str) -> OpDef | None:
    """The definition of an operator, or None when only its name is registered."""
    return _DEFS.get(op if isinstance(op, str) else op.name)


def has_trait(value: Any, trait: Trait) -> bool:
    """Whether a call, an operator, or the operator of a name has a trait; False for everything else."""
    op = value.op if isinstance(value, Call) else value
    definition = (
        _DEFS.get(op if isinstance(op, str) else getattr(op, "name", "")) if isinstance(op, (Op, str)) else None
    )
    return definition is not None and trait in definition.traits


def is_convolution(value: Any) -> bool:
    """Whether a call, or the operator of a name, computes convolutions: as they are, or one of those made of them."""
    if not has_trait(value, "generated") or has_trait(value, "contraction"):
        return has_trait(value, "convolution")
    definition = op_def(value.op if isinstance(value, Call) else value)
    return definition is not None and definition.work_fn is not None


def is_identity(c: Call) -> bool:
    """Whether a call gives its first operand, provided that the result has the same type."""
    definition = op_def(c.op) if isinstance(c.op, Op) else None
    return definition is not None and definition.identity_fn is not None and definition.identity_fn(c)


def always(c: Call) -> bool:
    """For operators that are an identity whenever the types are equal."""
    return True


def work_of(c: Call) -> float:
    """Multiplications and additions of a call as its operator counts them; 0 where it does not."""
    definition = op_def(c.op) if isinstance(c.op, Op) else None
    return definition.work_fn(c) if definition is not None and definition.work_fn is not None else 0.0


def all_ops() -> dict[str, OpDef]:
    """Every defined operator by name."""
    return dict(_DEFS)


def call(definition: OpDef, *args: Any, attrs: Attrs | None = None, span: Span | None = None) -> Call:
    """A call with its struct info inferred, when that of all arguments is known.

    Raises:
        TypeInferenceError: wrong number of arguments, or the operator refuses them.
    """
    untyped = Call(definition.op, tuple(convert(arg) for arg in args), attrs, (), span)
    if any(arg.struct_info is None for arg in untyped.args):
        return untyped
    return infer_call(untyped)


def said_in_layout(call: Call, source: str, target: str) -> Call | None:
    """A call that speaks of axes, with those of another layout; its tensors stay, and nothing is said of the result.

    Args:
        call: A call of anything.
        source: The layout that it speaks of, such as `NCHW`.
        target: The one that is wanted.

    Returns:
        The call; None for operators that are not `along_axes`, and where the other layout has no such call.
    """
    definition = op_def(call.op) if isinstance(call.op, Op) else None
    if definition is None or definition.along_axes_fn is None:
        return None
    return definition.along_axes_fn(call, AxisPlaces(layout(source), layout(target)))


def infer_call(c: Call) -> Call:
    """`c` with the struct info its operator infers."""
    definition = op_def(c.op)
    if definition is None or definition.infer_fn is None:
        raise TypeInferenceError(f"operator {c.op.name} has no inference rule")
    _check_arity(definition, c)
    return Call(c.op, c.args, c.attrs, c.sinfo_args, c.span, struct_info=definition.infer_fn(c))


def _check_arity(definition: OpDef, c: Call) -> None:
    arity, count = definition.arity, len(c.args)
    if arity is None:
        return
    least, most = (arity, arity) if isinstance(arity, int) else arity
    if not least <= count <= most:
        refuse(c, f"{short_name(c)} takes {least if least == most else f'{least} to {most}'} arguments, got {count}")


def refuse(c: Call, message: str, *, help: str | None = None) -> NoReturn:
    """Raise a `TypeInferenceError` with the user's source line and the types of all arguments."""
    span = c.span or caller_span()
    notes = [clipped(f"argument {i} has type {describe(arg)}") for i, arg in enumerate(c.args)]
    raise TypeInferenceError(clipped(message), at=span.excerpt() if span else None, notes=notes, help=help)


def describe(arg: Any) -> str:
    """The type of an argument, as the text form writes it."""
    info = getattr(arg, "struct_info", None)
    return describe_info(info) if info is not None else f"unknown ({type(arg).__name__})"


def short_name(c: Call) -> str:
    """Operator name without the dialect prefix."""
    return str(c.op.name).removeprefix("relax.")


def attrs_of(c: Call, kind: type[A]) -> A:
    """The attributes of a call as their own class.

    Raises:
        TypeInferenceError: the call carries other attributes, or none.
    """
    if not isinstance(c.attrs, kind):
        refuse(
            c,
            f"{short_name(c)} needs {kind.__name__}, got {type(c.attrs).__name__}",
            help="build it with its constructor",
        )
    return c.attrs


def tensor_args(c: Call, indices: Sequence[int] | None = None) -> list[TensorStructInfo]:
    """Struct info of the tensor arguments.

    Args:
        c: The call.
        indices: Which arguments must be tensors; None means all.

    Raises:
        TypeInferenceError: one of them is not a tensor.
    """
    infos = []
    for i in range(len(c.args)) if indices is None else indices:
        info = c.args[i].struct_info
        if not isinstance(info, TensorStructInfo):
            refuse(c, f"argument {i} of {short_name(c)} must be a tensor")
        infos.append(info)
    return infos


def number_like(value: Any, like: Expr) -> Expr:
    """A Python number as a rank-0 constant of the dtype of `like`; expressions pass unchanged.

    Raises:
        TypeInferenceError: an integer or bool dtype cannot hold the number.
    """
    if not isinstance(value, (bool, int, float)):
        return convert(value)
    info = like.struct_info
    dtype = info.dtype if isinstance(info, TensorStructInfo) and info.dtype else None
    constant = const(value, dtype) if dtype is None or is_float(dtype) or _holds(dtype, value) else None
    if constant is None:
        span = caller_span()
        raise TypeInferenceError(
            f"{dtype} cannot hold {value!r}, which is used together with a tensor of that dtype",
            at=span.excerpt() if span else None,
            help="cast the tensor with astype first",
        )
    return constant


def _holds(dtype: str, value: float) -> bool:
    """Whether an integer or bool dtype has this value."""
    if not math.isfinite(value) or value != int(value):
        return False
    if dtype == "bool":
        return value in (0, 1)
    bounds = np.iinfo(to_numpy(dtype))
    return int(bounds.min) <= value <= int(bounds.max)
