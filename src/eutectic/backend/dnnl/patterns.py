"""What oneDNN takes over, the most specific pattern first.

A pattern says what the graph looks like; the checks say what the library or the
code generator cannot do, each with the sentence that the report shows. Tensors
are float32, or of 16 bits where the processor multiplies these; sums, biases and post-operations are float32. The
code generator (`codegen.py`) reads the operators of a
composite, never its name.

Reference: oneDNN 3.2, primitives and "Post-ops and Attributes".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any, Final

from eutectic.backend.contract import NARROW
from eutectic.backend.dnnl.activations import ACTIVATIONS, activation_refusal
from eutectic.backend.dnnl.narrow import computes_in
from eutectic.backend.dnnl.spec import SPECIALS_KEPT
from eutectic.backend.dnnl.steps import DTYPES
from eutectic.ir.module import GlobalVar
from eutectic.ir.node import replace
from eutectic.relax.base import Expr
from eutectic.relax.dpl.bias import channel_bias
from eutectic.relax.dpl.constructors import is_const, is_op, wildcard
from eutectic.relax.dpl.pattern import DFPattern
from eutectic.relax.dpl.remarks import Refusal
from eutectic.relax.dpl.table import FusionPattern, PatternCheckContext
from eutectic.relax.expr import Call, Constant, Var, as_int, describe_info
from eutectic.relax.op.registry import has_trait
from eutectic.relax.struct_info import TensorStructInfo

MAX_RANK: Final = 12  # DNNL_MAX_NDIMS
_LAST_FAST: Final = 2  # the last axis from which on an operand may be repeated along all axes
CONVOLUTIONS: Final = tuple(f"conv{n}d{t}" for n in (2, 1, 3) for t in ("", "_transpose"))
PLAIN_LAYOUTS: Final = {"NCW", "NCHW", "NCDHW", "OIW", "OIHW", "OIDHW", "IOW", "IOHW", "IODHW"}

Check = Callable[[PatternCheckContext], Refusal | None]


def patterns(precision: str = "default") -> list[FusionPattern]:
    """The table, in order of priority.

    Args:
        precision: `strict` leaves out activations and pools that lose NaN in oneDNN; `bf16` and `f16` take in matrix
            products that are widened afterwards.
    """
    allowed = [a for a in ACTIVATIONS if precision != "strict" or ACTIVATIONS[a].algorithm in SPECIALS_KEPT]
    entries = [*_convolutions(allowed), *_matmuls(allowed), *_pools(precision), *_elementwise(allowed), _cast()]
    if precision in NARROW:
        entries += _matmuls(allowed, widened=True)
    return sorted(entries, key=lambda entry: -entry.name.count("_"))


def _convolutions(activations: list[str]) -> Iterator[FusionPattern]:
    for op in CONVOLUTIONS:
        for bias in (True, False):
            for residual in (True, False):
                for activation in (*activations, None):
                    yield _rooted(op, f"relax.nn.{op}", bias, residual, activation, _check_convolution)


def _matmuls(activations: list[str], widened: bool = False) -> Iterator[FusionPattern]:
    for bias in (True, False):
        for residual in (True, False):
            for activation in (*activations, None):
                yield _rooted("matmul", "relax.matmul", bias, residual, activation, _check_matmul, widened)


def _rooted(
    label: str,
    op: str,
    bias: bool,
    residual: bool,
    activation: str | None,
    check_root: Check,
    widened: bool = False,
) -> FusionPattern:
    """A convolution or matmul with what may follow it, in the order oneDNN applies it.

    With `widened` the sum becomes float32 behind its bias, which is what oneDNN has there anyway.
    """
    weight = wildcard().named("weight")
    out: DFPattern = is_op(op)(wildcard().named("data"), weight).named("root")
    root = out
    if bias:
        plain = wildcard().named("bias")
        wide = is_op("relax.astype")(is_const())  # oneDNN adds in float32, so that it need not be narrowed
        operand = wide | plain | is_op("relax.reshape")(is_const(), wildcard())
        out = is_op("relax.add")(out, operand).where(channel_bias(root, operand))
    if widened:
        out = is_op("relax.astype")(out).has_attr({"dtype": "float32"})
    if residual:
        out = is_op("relax.add")(out, wildcard().named("residual"))
    if activation is not None:
        out = ACTIVATIONS[activation].pattern(out).named("activation")
    parts = (label, "bias" if bias else None, "astype" if widened else None, "add" if residual else None, activation)

    def check(context: PatternCheckContext) -> Refusal | None:
        return (
            _check_members(context)
            or check_root(context)
            or (_check_epilogue(context) if bias or residual or activation else None)
            or (_check_residual(context) if residual else None)
            or (activation_refusal(context.parts["activation"]) if activation else None)
        )

    return FusionPattern("dnnl." + "_".join(filter(None, parts)), out, {}, check)


def _pools(precision: str) -> Iterator[FusionPattern]:
    kinds = (
        ["avg_pool", "adaptive_avg_pool"] if precision == "strict" else ["max_pool", "avg_pool", "adaptive_avg_pool"]
    )
    for kind in kinds:
        for n in (1, 2, 3):
            pattern = is_op(f"relax.nn.{kind}{n}d")(wildcard().named("data")).named("root")
            yield FusionPattern(f"dnnl.{kind}{n}d", pattern, {}, _check_pool)
    mean = is_op("relax.mean")(wildcard().named("data")).named("root")
    yield FusionPattern("dnnl.mean", mean, {}, _check_mean)


def _elementwise(activations: list[str]) -> Iterator[FusionPattern]:
    for op in ("add", "multiply"):
        for activation in (*activations, None):
            out: DFPattern = is_op(f"relax.{op}")(wildcard().named("lhs"), wildcard().named("rhs")).named("root")
            if activation is not None:
                out = ACTIVATIONS[activation].pattern(out).named("activation")
            yield FusionPattern("dnnl." + "_".join(filter(None, (op, activation))), out, {}, _check_elementwise)
    for activation in activations:
        out = ACTIVATIONS[activation].pattern(wildcard().named("data")).named("activation")
        yield FusionPattern(f"dnnl.{activation}", out, {}, _check_elementwise)


def _cast() -> FusionPattern:
    pattern = is_op("relax.astype")(wildcard().named("data")).named("root")
    return FusionPattern("dnnl.cast", pattern, {}, _check_cast)


# ---- limits


def _check_members(context: PatternCheckContext) -> Refusal | None:
    """Every value of the group is a tensor of a float dtype, of known rank, that is not empty."""
    for value in context.matched_bindings.values():
        for part in (value, *(value.args if isinstance(value, Call) else ())):
            refusal = _check_tensor(part)
            if refusal is not None:
                return refusal
    return None


def _check_tensor(value: Any) -> Refusal | None:
    info = value.struct_info
    if not isinstance(info, TensorStructInfo):
        return None
    if info.dtype not in DTYPES:
        return Refusal(f"oneDNN is used for {', '.join(DTYPES)} only, this is {describe_info(info)}", value)
    if not (verdict := computes_in(info.dtype)).ok:
        return Refusal(f"oneDNN is not used for {describe_info(info)}: {verdict.reason}", value)
    if info.dims is None:
        return Refusal("the shape is not known", value)
    if info.ndim > MAX_RANK:
        return Refusal(f"rank {info.ndim} is above oneDNN's {MAX_RANK}", value)
    if any(as_int(size) == 0 for size in info.dims):
        return Refusal(f"{describe_info(info)} has no elements", value)
    return None


def _check_convolution(context: PatternCheckContext) -> Refusal | None:
    conv = context.parts["root"]
    assert isinstance(conv, Call) and conv.attrs is not None
    for key in ("data_layout", "kernel_layout", "out_layout"):
        if conv.attrs[key] not in PLAIN_LAYOUTS:
            return Refusal(f"{key} {conv.attrs[key]} is not handed to oneDNN; only channels-first layouts are", conv)
    if any(width < 0 for width in conv.attrs["padding"]):
        return Refusal(f"negative padding {conv.attrs['padding']}", conv)
    weight = context.parts["weight"].struct_info
    assert isinstance(weight, TensorStructInfo)
    if weight.static_shape is None:
        return Refusal("the weights have a symbolic size", conv)
    return None


def _check_epilogue(context: PatternCheckContext) -> Refusal | None:
    """What follows a transposed convolution with strides is not oneDNN's.

    Its kernel of blocks of matrix products adds biases and applies activations to the sum of each block of 256 input
    channels, so that results with more channels are wrong (oneDNN 3.x, `brgconv_strided`); without them they are right.
    """
    root = context.parts["root"]
    assert isinstance(root, Call)
    if (
        has_trait(root, "transposed")
        and has_trait(root, "convolution")
        and root.attrs is not None
        and max(root.attrs["strides"]) > 1
    ):
        return Refusal("oneDNN repeats what follows a transposed convolution with strides for parts of its sums", root)
    return None


def _check_matmul(context: PatternCheckContext) -> Refusal | None:
    x, w = context.parts["data"].struct_info, context.parts["weight"].struct_info
    assert isinstance(x, TensorStructInfo) and isinstance(w, TensorStructInfo)
    if min(x.ndim, w.ndim) < 2:
        return Refusal(f"matmul of {describe_info(x)} with {describe_info(w)} has an operand without two axes")
    if x.ndim != w.ndim and not isinstance(context.parts["weight"], Constant):
        return Refusal(f"matmul of ranks {x.ndim} and {w.ndim} needs a constant right operand")
    return None


def _check_residual(context: PatternCheckContext) -> Refusal | None:
    """The other side of the second add is a whole tensor that is not made by the group itself."""
    residual, root = context.parts["residual"], context.parts["root"]
    if any(residual is value for value in context.matched_bindings.values()):
        return Refusal("the residual is a value inside the group", residual)
    if not _same_shape(residual.struct_info, root.struct_info):
        return Refusal(
            f"{describe_info(residual.struct_info)} is added to {describe_info(root.struct_info)}: not the same shape",
            residual,
        )
    return None


def _same_shape(a: Any, b: Any) -> bool:
    same: bool = replace(a, dtype="float32") == replace(b, dtype="float32")
    return same


def _check_pool(context: PatternCheckContext) -> Refusal | None:
    pool = context.parts["root"]
    refusal = _check_members(context)
    if refusal is not None:
        return refusal
    assert isinstance(pool, Call) and pool.attrs is not None
    if pool.attrs["layout"] not in PLAIN_LAYOUTS or pool.attrs["out_layout"] not in PLAIN_LAYOUTS:
        return Refusal(f"layout {pool.attrs['layout']} is not handed to oneDNN", pool)
    if "pool_size" in pool.attrs:
        return _check_windows(pool)
    sizes = pool.attrs["output_size"]
    info = pool.args[0].struct_info
    if sizes is None or any(size != 1 for size in sizes):
        return Refusal(
            f"adaptive pooling to {sizes} has windows of different sizes; only (1, ...) is one pooling", pool
        )
    if not isinstance(info, TensorStructInfo) or any(as_int(size) is None for size in (info.dims or ())[2:]):
        return Refusal("the pooled axes have symbolic sizes", pool)
    return None


def _check_windows(pool: Call) -> Refusal | None:
    """Padding that torch allows and oneDNN means the same by."""
    assert pool.attrs is not None
    attrs, rank = pool.attrs, len(pool.attrs["pool_size"])
    is_average = "avg" in pool.op.name
    if any(width < 0 for width in attrs["padding"]):
        return Refusal(f"negative padding {attrs['padding']}", pool)
    if is_average and any(d != 1 for d in attrs["dilation"]):
        return Refusal("oneDNN has no dilated average pooling", pool)
    if attrs["ceil_mode"] and is_average and attrs["count_include_pad"]:
        return Refusal("with ceil_mode the last windows count fewer padded elements than oneDNN's", pool)
    if any(2 * w > k for k, w in zip(attrs["pool_size"] * 2, attrs["padding"], strict=True)) and rank:
        return Refusal(f"padding {attrs['padding']} is more than half of the window {attrs['pool_size']}", pool)
    return None


def _check_mean(context: PatternCheckContext) -> Refusal | None:
    mean = context.parts["root"]
    assert isinstance(mean, Call) and mean.attrs is not None
    refusal = _check_members(context)
    info = mean.args[0].struct_info
    if refusal is not None or not isinstance(info, TensorStructInfo):
        return refusal or Refusal("the operand is not a tensor", mean)
    axes = mean.attrs["axis"]
    if not 3 <= info.ndim <= 5 or axes is None or sorted(a % info.ndim for a in axes) != list(range(2, info.ndim)):
        return Refusal("only a mean over all spatial axes is a pooling", mean)
    if not mean.attrs["keepdims"]:
        return Refusal("a mean that drops its axes ends in a reshape, which oneDNN regions do not have", mean)
    if any(as_int(size) is None for size in (info.dims or ())[2:]):
        return Refusal("the pooled axes have symbolic sizes", mean)
    return None


def _check_elementwise(context: PatternCheckContext) -> Refusal | None:
    refusal = _check_members(context)
    if refusal is None and "activation" in context.parts:
        refusal = activation_refusal(context.parts["activation"])
    if refusal is None and "lhs" in context.parts and not _has_fast_code(context.parts["root"]):
        refusal = Refusal("oneDNN has slow code only for operands that broadcast like these", context.parts["root"])
    return refusal


def _has_fast_code(call: Expr) -> bool:
    """Whether oneDNN computes two operands by more than its reference code, some hundred times slower.

    One of them has the shape of the result. Axes along which the other one is repeated are the first ones, those behind
    the first or the second one, the second one alone, or all but that.
    """
    assert isinstance(call, Call)
    infos = [value.struct_info for value in (*call.args, call)]
    shapes = [info.static_shape or () for info in infos if isinstance(info, TensorStructInfo) and info.static_shape]
    if len(shapes) < len(infos):
        return True
    *operands, result = ((1,) * (len(shapes[-1]) - len(shape)) + shape for shape in shapes)
    smaller = min(operands, key=prod)
    if prod(max(operands, key=prod)) != prod(result):
        return False
    axes = [i for i, size in enumerate(result) if size > 1]
    repeated = [i for i in axes if smaller[i] == 1]
    forms = [
        *(axes[:k] for k in range(len(axes) + 1)),
        *(axes[k:] for k in range(1, len(axes)) if axes[k] <= _LAST_FAST),
    ]
    return repeated in (*forms, [1], [i for i in axes if i != 1])


def _check_cast(context: PatternCheckContext) -> Refusal | None:
    """A conversion costs nothing where oneDNN reorders the value anyway; others are done with their neighbours."""
    cast = context.parts["root"]
    if isinstance(context.parts["data"], Constant):
        return Refusal("a constant is converted when the model is compiled", cast)
    value_of = {var: value for value, var in context.value_to_bound_var.items()}
    readers = [value_of.get(var) for var in context.var_usages.get(context.value_to_bound_var[cast], ())]
    if not readers or not all(map(_is_outlined, readers)):
        return Refusal("not all that reads it is computed by oneDNN", cast)
    source = context.parts["data"]
    source = value_of.get(source, source) if isinstance(source, Var) else source
    if isinstance(source, Call) and not _is_outlined(source):
        return Refusal("the kernel that computes its operand can convert it", cast)
    return _check_members(context)


def _is_outlined(value: Any) -> bool:
    """Whether a value is computed by a function that has been cut out already."""
    return isinstance(value, Call) and isinstance(value.op, GlobalVar)
