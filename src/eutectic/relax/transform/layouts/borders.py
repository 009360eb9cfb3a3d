"""Regions of libraries whose parameters and results are in other layouts than the region computes in.

What a region computes is written on row-major values. At its borders `layout_transform` says how they lie in memory:

    def region(x: (1, 56, 56, 64)):            # NHWC
        x1 = layout_transform(x, "NHWC", "NCHW")
        y = conv2d_relu(x1)
        y1 = layout_transform(y, "NCHW", "NHWC")
        return y1

That is a graph function as any other: the interpreter and the compiler run it. A backend is given what stands between,
and the layouts as a `LayoutOffer`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eutectic.ir.node import replace
from eutectic.relax.base import Expr
from eutectic.relax.expr import Binding, BindingBlock, Call, Function, SeqExpr, Tuple, Var, VarBinding
from eutectic.relax.op.layout import row_major
from eutectic.relax.op.layout_transform import LayoutTransformAttrs, layout_transform
from eutectic.relax.op.registry import infer_call
from eutectic.relax.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from eutectic.relax.transform.layouts.offers import LayoutOffer


def region_with_borders(region: Function, offer: LayoutOffer) -> Function:
    """A region whose tensors are in the layouts of an offer.

    Args:
        region: A function of row-major tensors.
        offer: Layouts of its tensor parameters and of its results.
    """
    params, entries = list(region.params), []
    for number, place in enumerate(_tensors(region.params)):
        if name := offer.operand(number):
            param = region.params[place]
            params[place] = Var(param.name_hint, _transform(param, row_major(name), name).struct_info)
            entries.append(VarBinding(param, _transform(params[place], name, row_major(name))))
    results, exits = list(_results(region)), []
    for number, name in enumerate(offer.results):
        if name:
            value = _transform(results[number], row_major(name), name)
            results[number] = outside = Var("out", value.struct_info)
            exits.append(VarBinding(outside, value))
    blocks = [BindingBlock(tuple(entries)), *region.body.blocks, BindingBlock(tuple(exits))]
    return _with_body(region, params, blocks, results)


def has_borders(region: Function) -> bool:
    """Whether some tensor of a region is in another layout."""
    return bool(_transforms(region))


def region_without_borders(region: Function) -> tuple[Function, LayoutOffer]:
    """The inverse of `region_with_borders`: what is computed on row-major tensors, and the layouts outside."""
    calls = _transforms(region)
    if not calls:
        return region, LayoutOffer()
    entries = {call.args[0]: var for var, call in calls.items() if call.args[0] in region.params}
    values = _results(region)
    exits = [calls[value] if value in calls and value not in entries.values() else None for value in values]
    params = [entries.get(param, param) for param in region.params]
    operands = tuple(_layout(calls, entries.get(region.params[place])) for place in _tensors(region.params))
    results = [value if call is None else call.args[0] for value, call in zip(values, exits, strict=True)]
    layouts = tuple("" if call is None else _attrs(call).dst_layout for call in exits)
    blocks = [replace(block, bindings=_without(block.bindings, calls)) for block in region.body.blocks]
    return _with_body(region, params, blocks, results), LayoutOffer(operands, layouts)


def _with_body(
    region: Function, params: Sequence[Var], blocks: Sequence[BindingBlock], results: Sequence[Expr]
) -> Function:
    body = Tuple(tuple(results)) if isinstance(region.body.body, Tuple) else results[0]
    if isinstance(body, Tuple):
        body = replace(body, struct_info=TupleStructInfo(tuple(map(_info, results))))
    return Function(params, SeqExpr(_joined(blocks), body), _info(body), region.is_pure, region.attrs, region.span)


def _joined(blocks: Sequence[BindingBlock]) -> tuple[BindingBlock, ...]:
    """Plain blocks that follow each other as one, which is how their text is read; empty ones are left out."""
    joined: list[BindingBlock] = []
    for block in blocks:
        if joined and type(block) is type(joined[-1]) is BindingBlock:
            joined[-1] = replace(joined[-1], bindings=(*joined[-1].bindings, *block.bindings))
        elif block.bindings:
            joined.append(block)
    return tuple(joined)


def _info(value: Expr) -> StructInfo:
    assert value.struct_info is not None
    return value.struct_info


def _transforms(region: Function) -> dict[Var, Call]:
    """The calls at the borders: what the region itself computes is in functions of its own."""
    return {
        binding.var: binding.value
        for block in region.body.blocks
        for binding in block.bindings
        if isinstance(binding.value, Call) and isinstance(binding.value.attrs, LayoutTransformAttrs)
    }


def _tensors(params: Sequence[Var]) -> list[int]:
    """Places of the parameters that are tensors."""
    return [place for place, param in enumerate(params) if isinstance(param.struct_info, TensorStructInfo)]


def _results(region: Function) -> Sequence[Expr]:
    body = region.body.body
    return body.fields if isinstance(body, Tuple) else (body,)


def _transform(value: Expr, there: str, wanted: str) -> Call:
    return infer_call(layout_transform(value, there, wanted, span=value.span))


def _attrs(call: Call) -> LayoutTransformAttrs:
    assert isinstance(call.attrs, LayoutTransformAttrs)
    return call.attrs


def _layout(calls: Mapping[Var, Call], entry: Var | None) -> str:
    """The layout in which a parameter comes."""
    return "" if entry is None else _attrs(calls[entry]).src_layout


def _without(bindings: Sequence[Binding], calls: Mapping[Var, Call]) -> tuple[Binding, ...]:
    return tuple(binding for binding in bindings if binding.var not in calls)
