"""Products with weights that are stored as small integers and decoded on the way into the kernel."""

from __future__ import annotations

from collections.abc import Iterator

from eutectic.arith import prove_equal
from eutectic.ir.module import GlobalVar
from eutectic.relax.dpl.bias import channel_bias
from eutectic.relax.dpl.checks import all_of, check_single_output, require_tensors, tensor_of
from eutectic.relax.dpl.constructors import is_call_tir, is_op, wildcard
from eutectic.relax.dpl.pattern import DFPattern
from eutectic.relax.dpl.pattern_builders import PatternWithParts
from eutectic.relax.dpl.remarks import Refusal
from eutectic.relax.dpl.table import FusionPattern, PatternCheckContext
from eutectic.relax.expr import Call, as_int, describe_info

VARIANTS = ("", "_bias", "_cast", "_cast_bias", "_bias_gelu", "_cast_bias_gelu")


def _decode_matmul(variant: str) -> PatternWithParts:
    """`lhs @ decode(w_encoded, scales)`, then what the name of the variant says."""
    parts: dict[str, DFPattern] = {name: wildcard().named(name) for name in ("lhs", "w_encoded", "scales")}
    decoded = is_call_tir("decode", [parts["w_encoded"], parts["scales"]])
    parts["w_decoded"] = decoded.named("w_decoded")
    root = is_op("relax.matmul")(parts["lhs"], decoded)
    parts["root"] = out = root.named("root")
    if "cast" in variant:
        parts["cast"] = out = is_op("relax.astype")(out).named("cast")
    if "bias" in variant:
        parts["bias"] = bias = wildcard().named("bias")
        out = is_op("relax.add")(out, bias).where(channel_bias(root, bias))
    if "gelu" in variant:
        out = is_op("relax.nn.gelu")(out)
    return out, parts


def _check_decode(context: PatternCheckContext) -> Refusal | None:
    """Half-precision data; two-dimensional int8 weights of 8 or twice 4 bits; one scale per column."""
    decoded, lhs = context.parts["w_decoded"], tensor_of(context.parts["lhs"])
    callee = decoded.args[0] if isinstance(decoded, Call) else None
    if not isinstance(callee, GlobalVar) or not callee.name_hint.startswith("decode"):
        return Refusal(f"{getattr(callee, 'name_hint', callee)} is not a function that decodes weights", decoded)
    if lhs is None or lhs.dtype != "float16":
        why = f"CUTLASS decodes weights for float16 data, this is {describe_info(lhs)}"
        return Refusal(why, context.parts["lhs"], "dtype", "float16", lhs.dtype if lhs else "")
    packed, scales = tensor_of(context.parts["w_encoded"]), tensor_of(context.parts["scales"])
    whole = tensor_of(decoded)
    if packed is None or scales is None or whole is None or not packed.dims or not whole.dims or not scales.dims:
        return Refusal("the shapes of the weights are not known", decoded, "shape")
    if packed.dtype != "int8" or (packed.ndim, whole.ndim) != (2, 2):
        return Refusal(f"the encoded weights are {describe_info(packed)}, not an int8 matrix", decoded, "dtype")
    columns, stored = as_int(whole.dims[1]), as_int(packed.dims[1])
    if columns is None or stored is None or stored * 2 not in (columns, columns * 2):
        why = f"{describe_info(packed)} does not hold {describe_info(whole)} in 4 or 8 bits"
        return Refusal(why, context.parts["w_encoded"], "shape")
    if not prove_equal(packed.dims[0], whole.dims[0]) or as_int(packed.dims[0]) is None:
        return Refusal("the encoded weights do not have constant rows, as many as the decoded ones", decoded, "shape")
    if scales.dtype != "float16" or as_int(scales.dims[-1]) != columns or any(as_int(n) != 1 for n in scales.dims[:-1]):
        why = f"the scales are {describe_info(scales)}, not one float16 per column"
        return Refusal(why, context.parts["scales"], "shape", f"{columns} scales", describe_info(scales))
    return None


def _check_result(context: PatternCheckContext) -> Refusal | None:
    """The product is float16, or float32 that is cast to float16."""
    out, cast = tensor_of(context.parts["root"]), context.parts.get("cast")
    wanted = "float16" if cast is None else "float32"
    if out is None or out.dtype != wanted:
        actual = out.dtype if out is not None else ""
        return Refusal(f"the product is {actual}, not {wanted}", context.parts["root"], "dtype", wanted, actual)
    if cast is not None and getattr(cast.struct_info, "dtype", "") != "float16":
        return Refusal("the product is not cast to float16", cast, "dtype", "float16")
    return None


def decode_matmul_patterns() -> Iterator[FusionPattern]:
    """Entries of the table, the shortest first."""
    check = all_of(check_single_output, require_tensors("lhs", "root", "bias"), _check_decode, _check_result)
    for variant in VARIANTS:
        pattern, parts = _decode_matmul(variant)
        yield FusionPattern(f"cutlass.decode_matmul{variant}", pattern, parts, check)
