"""Whether calls into oneDNN are worth their cost: how much work a model is, and who does most of it faster."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Final

from eutectic.backend.contract import Machine, Verdict
from eutectic.ir.module import IRModule
from eutectic.relax.analysis.uses import walk_calls
from eutectic.relax.expr import Call, Function
from eutectic.relax.op.registry import has_trait, is_convolution, work_of
from eutectic.relax.struct_info import TensorStructInfo

SMALL_FLOPS: Final = 20e6  # of one matrix product; below, a call into oneDNN costs a good part of the product's time
_SMALL_MODEL_FLOPS: Final = 5e6  # of all operators, convolutions too; below, a call costs too much of their time

# Networks were measured with both, batch 1 and two threads, wherever there was a processor with other vectors. On Zen 5
# (512 bits) a ResNet-50 takes 0.90 of the time with our own kernels, a ResNet-18 0.90 to 0.98, a block of a U-Net 0.87,
# MobileNetV2 0.93 to 0.95, EfficientNet-Lite0 0.98. On Zen 4 (512 bits, one product at a time) it is in this order
# 0.95, 0.99, 0.83, 0.95, 0.95, and 0.31 for a CREPE; on Zen 3 (256 bits) 0.86, 0.92, 0.94, 0.78, 0.82 and 0.30.
# Networks of products: on an Emerald Rapids (512 bits) a LeViT takes 0.78, a Swin 0.92, an ALBERT 0.93; on a Zen 1 (256
# bits) a PVT 0.77, an XCiT 0.85, a TinyViT 0.89, a MobileViT 0.90, a Swin and a ConvNeXt 0.95, a DeiT 0.97, a ViT 1.0;
# products alone of all kinds and forms 0.2 to 1.04, one of 333 x 777 by 777 x 555 with one thread 1.14.
# Narrower ones nobody measured.
_LEAST_LANES: Final = 8
_MOST: Final = 0.9  # share of the work that has to be in operators that our own kernels do as fast


def worthwhile(mod: IRModule, machine: Machine) -> Verdict:
    """Whether a model is worth the library.

    Not models so small that our own kernels are done before the library is called, and not those of whose work hardly
    any is in operators that the library does faster.

    Args:
        mod: The model.
        machine: What for.
    """
    functions = _functions(mod)
    calls = [call for function in functions for call in walk_calls(function)]
    is_cut_out = any(function.attr("Codegen") or function.attr("Composite") for function in functions)
    if is_cut_out:  # somebody wants the library for these, on purpose
        return Verdict(ok=True, reason="the model has regions for it")
    if is_small(calls):
        return Verdict(
            ok=False, reason="the model is so small that calls into a library would cost more than they save"
        )
    if machine.lanes() >= _LEAST_LANES and is_our_own(calls, machine.lanes()):
        reason = (
            f"kernels of our own compute nearly all of it as fast or faster with vectors of {machine.lanes()} numbers"
        )
        return Verdict(ok=False, reason=reason)
    return Verdict(ok=True, reason="much of its work is in operators that the library computes faster")


def is_our_own(calls: Sequence[Call], lanes: int = 16) -> bool:
    """Whether hardly any work is in operators for which a call of the library pays.

    Args:
        calls: The operators of a model.
        lanes: Numbers in a vector.
    """
    total = sum(map(work_of, calls))
    pays = sum(work_of(call) for call in calls if _pays(call, lanes))
    return total > 0 and (pays == 0 or pays <= (1 - _MOST) * total < inf)


def _pays(call: Call, lanes: int) -> bool:
    """Whether the library takes an operator, and is worth its call.

    These are convolutions that are not plain, and all of 16 bits.
    """
    if is_convolution(call):
        return not (_is_single(call) and _is_plain(call, lanes))
    return getattr(call.op, "name", "") == "relax.matmul" and not _is_single(call)


def _is_plain(call: Call, lanes: int) -> bool:
    """Whether all channels are in one group, or a vector has whole groups, or groups have whole halves of vectors."""
    info, attrs = call.args[1].struct_info, call.attrs
    if attrs is None or attrs.get("groups", 1) == 1:
        return True
    shape = info.static_shape if isinstance(info, TensorStructInfo) else None
    if shape is None:
        return False
    depth, filters = (shape[attrs["kernel_layout"].index(name)] for name in "IO")
    each, half = filters // int(attrs["groups"]), lanes // 2
    return bool(depth == 1 or (depth == each and lanes % each == 0) or depth % half == each % half == 0)


def _is_single(call: Call) -> bool:
    return isinstance(call.struct_info, TensorStructInfo) and call.struct_info.dtype == "float32"


def is_small(calls: Sequence[Call]) -> bool:
    """Whether there is little work in all, or no convolution and no operator that counts `SMALL_FLOPS`."""
    return sum(map(work_of, calls)) < _SMALL_MODEL_FLOPS or not any(map(_is_much, calls))


def _functions(mod: IRModule) -> list[Function]:
    return [function for _, function in mod.functions_items() if isinstance(function, Function)]


def _is_much(call: Call) -> bool:
    """Whether an operator has so much work that a call does not count."""
    return has_trait(call, "convolution") or work_of(call) > SMALL_FLOPS
