"""Graphs for the pattern tables of GPU libraries: made from the name of a pattern, with one thing wrong if wanted."""

from __future__ import annotations

from typing import Any

import numpy as np

from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.prim_expr import Var as ScalarVar
from eutectic.ir.transform import PassContext
from eutectic.relax import op
from eutectic.relax.dpl import FusionRemark
from eutectic.relax.dpl.table import FusionPattern, get_patterns_with_prefix
from eutectic.relax.expr import const
from eutectic.relax.struct_info import tensor
from eutectic.relax.transform import FuseOpsByPattern
from eutectic.testing.graphs import graph

ACTIVATIONS = {"relu": op.nn.relu, "gelu": op.nn.gelu, "silu": op.nn.silu, "": None}


def composites(mod: IRModule) -> list[str]:
    """Names of the patterns that took something, inner composites included."""
    names = []
    for function in mod.functions.values():
        inner = [b.value for block in function.body.blocks for b in block.bindings] if function.attr("Codegen") else []
        names += [str(f.attr("Composite")) for f in (function, *inner) if hasattr(f, "attr") and f.attr("Composite")]
    return sorted(names)


def unique(prefix: str) -> dict[str, list[FusionPattern]]:
    """Entries of a table by name; several may share one."""
    found: dict[str, list[FusionPattern]] = {}
    for entry in get_patterns_with_prefix(prefix):
        found.setdefault(entry.name, []).append(entry)
    return found


def refusals(mod: IRModule, entries: list[FusionPattern]) -> list[FusionRemark]:
    """Remarks of a fusion with these entries, none of which takes anything."""
    with PassContext(remarks=True) as ctx:
        assert FuseOpsByPattern(entries)(mod) is mod
    return ctx.remarks


def _epilogue(bb: Any, name: str, out: Any, bias: Any, residual: Any, flaw: str) -> Any:
    """What the name of a pattern says after the root: bias, activation, residual, activation."""
    before, _, after = name.partition("_residual")
    root = out
    if "bias" in before:
        out = bb.emit(op.add(out, bias))
    activation = ACTIVATIONS[before.rsplit("_", 1)[-1] if before.rsplit("_", 1)[-1] in ACTIVATIONS else ""]
    out = out if activation is None else bb.emit(activation(out))
    if after:
        other = bb.emit(op.tanh(root)) if flaw == "own residual" else residual
        out = bb.emit((op.add if "add" in after else op.multiply)(out, other))
        out = bb.emit(op.nn.relu(out)) if "relu" in after else out
    return out


def product(name: str, flaw: str = "", dtype: str = "float16", out_dtype: str | None = None, **given: Any) -> IRModule:
    """A matrix product as the name of a pattern describes it.

    Args:
        name: Such as `matmul_transposed_bias_relu_residual_add`.
        flaw: What is wrong: `leak`, `own residual`, `axes`, or "".
        dtype: Of both operands.
        out_dtype: Of the product.
        given: Sizes `m`, `k`, `n`; shapes `batch`, `rhs_batch`, `bias`, `residual`.
    """
    m, k, n = (given.get(key, size) for key, size in (("m", 8), ("k", 16), ("n", 32)))
    batch, transposed = given.get("batch", ()), "transposed" in name
    rhs_batch = given.get("rhs_batch", ())
    square = (n, k) if transposed else (k, n)
    result = out_dtype or dtype
    params = {
        "x": ((*batch, m, k), dtype),
        "w": ((*rhs_batch, *square), dtype),
        "b": (given.get("bias", (n,)), result),
        "r": (given.get("residual", (*batch, m, n)), result),
    }

    def body(bb: Any, x: Any, w: Any, b: Any, r: Any) -> Any:
        rank = len(rhs_batch) + 2
        axes = [*range(rank - 2), rank - 1, rank - 2]
        if transposed:
            w = bb.emit(op.permute_dims(w, axes if flaw != "axes" else list(range(rank))))
        root = bb.emit(op.matmul(x, w, out_dtype))
        out = _epilogue(bb, name, root, b, r, flaw)
        return [out, bb.emit(op.negative(root))] if flaw == "leak" else out

    return graph(params, body)


def convolution(name: str, flaw: str = "", dtype: str = "float16", layout: str = "NHWC", **given: Any) -> IRModule:
    """A convolution as the name of a pattern describes it.

    Args:
        name: Such as `conv2d_bias_relu`.
        flaw: `leak`, `own residual` or "".
        dtype: Of everything.
        layout: Of data and result.
        given: Options of the convolution; shapes `bias`, `residual`; sizes `height`, `channels`.
    """
    height, channels = given.pop("height", 6), given.pop("channels", 8)
    bias, groups = given.pop("bias", None), given.get("groups", 1)
    sizes = {"N": 2, "C": channels, "H": height, "W": 6}
    out = {"N": 2, "C": 16, "H": height, "W": 6}
    kernel = {"NHWC": "OHWI", "NCHW": "OIHW"}[layout]
    weights = {"O": 16, "I": channels // groups, "H": 3, "W": 3}
    residual = given.pop("residual", tuple(out[c] for c in layout))
    per_channel = tuple(16 if c == "C" else 1 for c in layout)
    params = {
        "x": (tuple(sizes[c] for c in layout), dtype),
        "w": (tuple(weights[c] for c in kernel), dtype),
        "b": (bias or per_channel, dtype),
        "r": (residual, dtype),
    }
    options = {"padding": 1, "data_layout": layout, "kernel_layout": kernel, **given}

    def body(bb: Any, x: Any, w: Any, b: Any, r: Any) -> Any:
        root = bb.emit(op.nn.conv2d(x, w, **options))
        made = _epilogue(bb, name, root, b, r, flaw)
        return [made, bb.emit(op.negative(root))] if flaw == "leak" else made

    return graph(params, body)


def dequantized(scale: Any = 0.5, zero: Any = 0, k: int = 16) -> IRModule:
    """An int8 product with a transposed right operand, dequantized."""

    def body(bb: Any, x: Any, w: Any) -> Any:
        root = bb.emit(op.matmul(x, bb.emit(op.permute_dims(w)), "int32"))
        return op.dequantize(root, const(np.asarray(scale, np.float32)), const(np.asarray(zero, np.int32)))

    return graph({"x": ((8, k), "int8"), "w": ((4, k), "int8")}, body)


def scaled(
    first: tuple[int, ...] = (1,), k: int = 32, transposed: bool = True, dtype: str = "float8_e4m3fn"
) -> IRModule:
    """A product of 8-bit floats times two scales, cast."""

    def body(bb: Any, x: Any, w: Any, a: Any, b: Any) -> Any:
        operand = bb.emit(op.permute_dims(w)) if transposed else w
        root = bb.emit(op.matmul(x, operand, "float32"))
        return op.astype(bb.emit(op.multiply(root, bb.emit(op.multiply(a, b)))), "float16")

    square = (16, k) if transposed else (k, 16)
    params = {"x": ((16, k), dtype), "w": (square, dtype), "a": (first, "float32"), "b": ((1,), "float32")}
    return graph(params, body)


def decoded(name: str, callee: str = "decode", stored: int = 16, scales: tuple[int, ...] = (32,)) -> IRModule:
    """A product with weights that a function of the module decodes."""
    product_dtype = "float32" if "cast" in name else "float16"

    def body(bb: Any, x: Any, w: Any, s: Any, b: Any) -> Any:
        whole = bb.emit(op.call_tir(GlobalVar(callee), (w, s), tensor((64, 32), "float16")))
        out = bb.emit(op.matmul(x, whole, product_dtype))
        out = bb.emit(op.astype(out, "float16")) if "cast" in name else out
        out = bb.emit(op.add(out, b)) if "bias" in name else out
        return op.nn.gelu(out) if "gelu" in name else out

    params = {
        "x": ((8, 64), "float16"), "w": ((64, stored), "int8"), "s": (scales, "float16"), "b": ((32,), "float16")
    }  # fmt: skip
    mod = graph(params, body).clone()
    stand_in = {"w": ((64, stored), "int8"), "s": (scales, "float16")}
    mod[callee] = graph(stand_in, lambda bb, w, s: op.zeros((64, 32), "float16"))["main"].with_attr(
        "global_symbol", callee
    )  # what decodes is never looked into: any function of the name will do
    return mod


def attention(kind: str = "attention", dtype: str = "float16", **given: Any) -> IRModule:
    """Attention as one operator.

    Args:
        kind: `attention`, `attention_bias` or `attention_var_len`.
        dtype: Of everything.
        given: `features`, shape `bias`, and options of the operator.
    """
    features, bias = given.pop("features", 8), given.pop("bias", (2, 4, 6, 6))
    batch = 1 if kind == "attention_var_len" else 2
    operand = ((batch, 6, 4, features), dtype)
    params = {"q": operand, "k": operand, "v": operand, "b": (bias, dtype), "starts": ((3,), "int32")}

    def body(bb: Any, q: Any, k: Any, v: Any, b: Any, starts: Any) -> Any:
        if kind == "attention_var_len":
            return op.nn.attention_var_len(q, k, v, starts, 6, **given)
        return op.nn.attention(q, k, v, b if kind == "attention_bias" else None, **given)

    return graph(params, body)


def stacked(start: str, layout: str = "BS3NH", bias: bool = False, dtype: str = "float16", flaw: str = "") -> IRModule:
    """Attention whose operands are cut out of one tensor; `flaw` is `axis`, `order`, `swap` or ""."""
    b, s, n, h = 2, 6, 6, 8
    whole = (b, s, 3 * n * h) if layout == "BS3NH" else (s, b, n, 3 * h)
    third, last = whole[-1] // 3, len(whole) - 1

    def body(bb: Any, x: Any, mask: Any) -> Any:
        if start == "split":
            parts = bb.emit(op.split(x, 3, axis=last if flaw != "axis" else last - 1))
            raw = [bb.emit(parts[i]) for i in range(3)]
        else:
            begins = [0, third, 2 * third] if flaw != "order" else [third, 0, 2 * third]
            raw = [bb.emit(op.strided_slice(x, [last], [at], [at + third])) for at in begins]
        if layout == "BS3NH":
            operands = [bb.emit(op.reshape(item, (b, s, n, h))) for item in raw]
        else:
            axes = [1, 0, 2, 3] if flaw != "swap" else [1, 2, 0, 3]
            operands = [bb.emit(op.permute_dims(item, axes)) for item in raw]
        out = bb.emit(op.nn.attention(*operands, mask if bias else None))
        return out if layout == "BS3NH" else op.permute_dims(out, [1, 0, 2, 3])

    return graph({"x": (whole, dtype), "mask": ((b, n, s, s), dtype)}, body)


def normalised(kind: str, dtype: str = "float16", axes: Any = -1, **options: Any) -> IRModule:
    """Layer or root-mean-square normalisation."""
    count = 1 if isinstance(axes, int) else len(axes)
    sizes = (6, 8)[-count:]

    def body(bb: Any, x: Any, gamma: Any, beta: Any) -> Any:
        if kind == "rms_norm":
            return op.nn.rms_norm(x, gamma, axes)
        return op.nn.layer_norm(x, gamma, beta, axes, **options)

    return graph({"x": ((2, 6, 8), dtype), "gamma": (sizes, dtype), "beta": (sizes, dtype)}, body)


def symbolic(name: str = "n") -> ScalarVar:
    """A size that is not known when compiling."""
    return ScalarVar(name, "int64")
