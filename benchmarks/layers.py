"""The convolutions and products of a network, each of them alone: for kernels of ours, and for oneDNN.

A layer is the operator with a bias and a relu, or a product of two tensors alone. Our kernels read and write the
layouts that they have in the network, oneDNN those that it asks for, so that neither copies anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

import eutectic
from eutectic.backend.partition import Partition
from eutectic.backend.registry import backend
from eutectic.driver.importing import import_model
from eutectic.driver.pipeline import kernels, loops, pipeline, prepare
from eutectic.driver.pipeline_text import Pipeline
from eutectic.ir.module import IRModule
from eutectic.ir.transform import Pass, PassContext, PassInfo
from eutectic.relax import op
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call, Constant, Function, Var, const
from eutectic.relax.op import nn
from eutectic.relax.op.layout import arrange, arrange_dims, row_major
from eutectic.relax.transform import RunCodegen
from eutectic.relax.transform.layouts.borders import region_with_borders
from eutectic.support.errors import CodegenError
from eutectic.target import Target
from eutectic.testing.graphs import graph
from eutectic.testing.models import Built

Array = npt.NDArray[Any]
Shape = tuple[int, ...]
LIBRARY: Final = "dnnl"
_CONVOLUTIONS: Final = {f"relax.nn.conv{n}d": n for n in (1, 2, 3)}
_PRODUCT: Final = "relax.matmul"
_OTHER_METHODS: Final = {"FuseInvertedResidual", "ConvertMatmulToDensePack", "ConvertConv2DToWinograd"}


@dataclass(frozen=True, eq=False)
class Layer:
    """A convolution or a product of float32.

    Attributes:
        call: The operator in the layouts of the network; shapes, layouts and options are taken from it.
        has_weights: Whether the second operand is constant. Then a bias and a relu follow.
        count: How often it is in the network.
    """

    call: Call
    has_weights: bool
    count: int = 1

    @property
    def layouts(self) -> tuple[str, str, str]:
        """Layouts of data, weights and result; empty for products."""
        attrs: Any = self.call.attrs
        return (attrs.data_layout, attrs.kernel_layout, attrs.out_layout) if self.is_convolution else ("", "", "")

    @property
    def is_convolution(self) -> bool:
        """Otherwise it is a product."""
        return self.call.op.name in _CONVOLUTIONS

    @cached_property
    def shapes(self) -> tuple[Shape, Shape, Shape]:
        """Row-major shapes of both operands and the result."""
        values = (*self.call.args, self.call)
        return tuple(_row_major(_shape(v), name) for v, name in zip(values, self.layouts, strict=True))  # type: ignore[return-value]

    @property
    def terms(self) -> int:
        """Products in the sum of one element of the result."""
        return math.prod(self.shapes[1][1:]) if self.is_convolution else self.shapes[0][-1]

    @property
    def flops(self) -> int:
        """Floating-point operations; bias and relu are not counted."""
        return 2 * math.prod(self.shapes[2]) * self.terms

    @property
    def bytes(self) -> int:
        """Bytes of operands and result, each counted once; points that windows step over are not counted."""
        data, weight, out = map(math.prod, self.shapes)
        return 4 * (round(data * self._read_share) + weight + out)

    @property
    def _read_share(self) -> float:
        """The share of the data that is read."""
        attrs: Any = self.call.attrs
        if not self.is_convolution:
            return 1.0
        return math.prod(min(1.0, k / s) for k, s in zip(self.shapes[1][2:], attrs.strides, strict=True))

    @property
    def name(self) -> str:
        """For people: the window, channels and sizes of a convolution; the shapes of a product."""
        if self.is_convolution:
            return _name_of_convolution(self.call.attrs, *self.shapes)
        data, weight, _ = self.shapes
        kind = "weights " if self.has_weights else ""
        return f"{'x'.join(map(str, data))} by {kind}{'x'.join(map(str, weight))}"

    @cached_property
    def values(self) -> tuple[Array, Array, Array]:
        """Both operands and the bias in rows: normal numbers, of which results have about the same size."""
        rng = np.random.default_rng([0, *self.shapes[0], *self.shapes[1]])
        data, weight = (rng.standard_normal(shape, np.float32) for shape in self.shapes[:2])
        channels = self.shapes[1][0] if self.is_convolution else self.shapes[1][-1]
        bias = rng.standard_normal(channels, np.float32)
        return data, weight / np.float32(math.sqrt(self.terms)), bias

    def truth(self) -> Array:
        """The result in rows, computed in float64."""
        data, weight, bias = (torch.from_numpy(value).double() for value in self.values)
        total = self._convolution(data, weight) if self.is_convolution else torch.matmul(data, weight)
        if not self.has_weights:
            return total.numpy()
        return torch.relu(total + bias.reshape(self.bias_shape)).numpy()

    @property
    def bias_shape(self) -> Shape:
        """Shape of the bias in rows."""
        return (1, -1, *[1] * (len(self.shapes[0]) - 2)) if self.is_convolution else (-1,)

    def _convolution(self, data: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        attrs: Any = self.call.attrs
        axes = _CONVOLUTIONS[self.call.op.name]
        around = zip(attrs.padding[:axes], attrs.padding[axes:], strict=True)
        padded = torch.nn.functional.pad(data, [int(n) for pair in reversed(list(around)) for n in pair])
        convolve = (torch.conv1d, torch.conv2d, torch.conv3d)[axes - 1]
        return convolve(padded, weight, None, attrs.strides, 0, attrs.dilation, attrs.groups)


@dataclass(frozen=True)
class Alone:
    """A layer, compiled.

    Attributes:
        call: One run.
        result: The result of one run, in rows.
        layouts: Layouts of the data and of the result, for people.
        kernels: How many kernels are called; more than one copy something or compute in steps.
    """

    call: Callable[[], object]
    result: Callable[[], Array]
    layouts: str
    kernels: int


def layers_of(built: Built, target: Target) -> list[Layer]:
    """The distinct convolutions and products of a network, in the order in which they are first computed.

    Args:
        built: The network and example inputs.
        target: What the layouts are chosen for. Other methods than direct sums are left out: Winograd's, and kernels
            of several layers.
    """
    mod = import_model(*built, None, None, leaves_to_torch=False, custom_convert_map=None).mod
    passes = [p for p in pipeline(target).passes if p.info.name not in _OTHER_METHODS]
    end = 1 + [p.info.name for p in passes].index("AssignLayouts")
    known: dict[Any, Layer] = {}
    for call, has_weights in _calls(Pipeline(tuple(passes[:end]))(mod)["main"]):
        key = call.op.name, has_weights, *map(_shape, call.args), tuple(call.attrs.items() if call.attrs else ())
        before = known.get(key)
        known[key] = Layer(call, has_weights) if before is None else replace(before, count=before.count + 1)
    return list(known.values())


def product(rows: int, terms: int, columns: int, *, has_weights: bool) -> Layer:
    """A product of `(rows, terms)` and `(terms, columns)`."""
    mod = graph({"a": (rows, terms), "b": (terms, columns)}, lambda bb, a, b: op.matmul(a, b))
    return next(Layer(call, has_weights) for call, _ in _calls(mod["main"]))


def ours(layer: Layer, target: Target, threads: int) -> Alone:
    """The layer for a kernel of ours.

    Args:
        layer: The layer.
        target: Without libraries.
        threads: Of a call.
    """
    passes = pipeline(target).passes
    left_out = {"AssignLayouts", "ConvertConv2DToWinograd"}
    plan = Pipeline(tuple(p for p in passes if p.info.name not in left_out))
    compiled = eutectic.compile(_graph(layer, layer.call), target=target, threads=threads, pipeline=plan)
    data, _, out = layer.layouts
    return _alone(compiled, _arguments(layer, data), data, out)


def library(layer: Layer, threads: int) -> Alone:
    """The layer for oneDNN, in the layouts that it likes best.

    Args:
        layer: The layer.
        threads: Of a call.

    Raises:
        CodegenError: oneDNN does not take the layer as one region.
    """
    target = Target(f"llvm -libs={LIBRARY}")
    with target:
        mod = Pipeline((*prepare(), Partition(LIBRARY, lower=False)))(_graph(layer, _in_rows(layer)))
    regions = [f for _, f in mod.functions_items() if isinstance(f, Function) and f.attr("Codegen")]
    calls = [b.value for block in mod["main"].body.blocks for b in block.bindings if isinstance(b.value, Call)]
    if len(regions) != 1 or len(calls) != 1:
        raise CodegenError(f"oneDNN takes {layer.name} in {len(regions)} regions and {len(calls)} calls, expected one")
    offer = min(backend(LIBRARY).layouts(regions[0]), key=lambda each: each.cost)
    region = region_with_borders(regions[0], offer)
    shapes = {param.name_hint: _shape(param) for param in region.params}
    alone = graph(shapes, lambda bb, *operands: Call(bb.add_func(region, "layer"), operands))
    plan = Pipeline((RunCodegen(), _WithoutGuard(), *kernels(), *loops(target)))
    compiled = eutectic.compile(alone, target=target, threads=threads, pipeline=plan)
    places = [mod["main"].params.index(argument) for argument in calls[0].args]
    rows = _arguments(layer, "")
    arguments = [_laid_out(rows[place], offer.operand(number)) for number, place in enumerate(places)]
    return _alone(compiled, arguments, offer.operand(0), offer.result)


@dataclass(frozen=True)
class _WithoutGuard(Pass):
    """oneDNN's relu loses NaN, so that calls look for NaN in their inputs first; this is not timed."""

    @property
    def info(self) -> PassInfo:
        return PassInfo("WithoutGuard")

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        def unguarded(lowered: Any) -> Any:
            kernel = lowered.kernel
            return replace(lowered, kernel=replace(kernel, description={**kernel.description, "guarded": False}))

        return mod.with_attrs({"external_mods": tuple(map(unguarded, mod.attrs["external_mods"]))})


def _alone(compiled: Any, arguments: list[Array], data: str, out: str) -> Alone:
    def result() -> Array:
        value: Array = compiled(*arguments)
        return arrange(value, out, row_major(out)) if out else value

    count = sum(group.kind != "view" for group in compiled.report.plan.groups)
    return Alone(lambda: compiled(*arguments), result, f"{data or 'rows'} to {out or 'rows'}", count)


def _graph(layer: Layer, call: Call) -> IRModule:
    """The layer as a module whose parameters are the operands that are not constant."""
    shapes = {"a": _shape(call.args[0])} | ({} if layer.has_weights else {"b": _shape(call.args[1])})
    _, weight, out = replace(layer, call=call).layouts
    _, values, bias = layer.values

    def body(bb: Any, *operands: Expr) -> Expr:
        if not layer.has_weights:
            return replace(call, args=operands)
        total = bb.emit(replace(call, args=(*operands, const(_laid_out(values, weight)))))
        added = op.add(total, const(_laid_out(bias.reshape(layer.bias_shape), out)))
        return nn.relu(bb.emit(added))

    return graph(shapes, body)


def _in_rows(layer: Layer) -> Call:
    """The operator on row-major tensors."""
    if not layer.is_convolution:
        return layer.call
    attrs: Any = layer.call.attrs
    data, weight, out = map(row_major, layer.layouts)
    convolve: Any = (nn.conv1d, nn.conv2d, nn.conv3d)[_CONVOLUTIONS[layer.call.op.name] - 1]
    operands = [const(value) for value in layer.values[:2]]
    options = {name: getattr(attrs, name) for name in ("strides", "padding", "dilation", "groups")}
    call: Call = convolve(*operands, **options, data_layout=data, kernel_layout=weight, out_layout=out)
    return call


def _arguments(layer: Layer, layout: str) -> list[Array]:
    """Values of the parameters, the first one in a layout."""
    data, weight, _ = layer.values
    return [_laid_out(data, layout), *([] if layer.has_weights else [weight])]


def _laid_out(value: Array, layout: str) -> Array:
    return np.ascontiguousarray(arrange(value, row_major(layout), layout)) if layout else value


def _calls(main: Function) -> Iterator[tuple[Call, bool]]:
    """The convolutions and products of a function, and whether their second operands are constant."""
    constants: set[Var] = set()
    for block in main.body.blocks:
        for binding in block.bindings:
            value = binding.value
            if not isinstance(value, Call):
                continue
            if all(isinstance(arg, Constant) or arg in constants for arg in value.args):
                constants.add(binding.var)
            elif getattr(value.op, "name", "") in {*_CONVOLUTIONS, _PRODUCT}:
                yield value, isinstance(value.args[1], Constant) or value.args[1] in constants


def _shape(value: Any) -> Shape:
    shape: Shape | None = value.struct_info.static_shape
    assert shape is not None  # networks are built for one size
    return tuple(map(int, shape))


def _row_major(shape: Shape, layout: str) -> Shape:
    return tuple(int(n) for n in arrange_dims(shape, layout, row_major(layout))) if layout else shape  # type: ignore[arg-type, call-overload]


def _name_of_convolution(attrs: Any, data: Shape, weight: Shape, out: Shape) -> str:
    window, sizes = "x".join(map(str, weight[2:])), "x".join(map(str, data[2:]))
    step = f", by {'x'.join(map(str, attrs.strides))}" if max(attrs.strides) > 1 else ""
    apart = f", dilation {'x'.join(map(str, attrs.dilation))}" if max(attrs.dilation) > 1 else ""
    groups = f", {attrs.groups} groups" if attrs.groups > 1 else ""
    batch = f", batch {data[0]}" if data[0] > 1 else ""
    return f"{window} {data[1]} to {out[1]} at {sizes}{step}{apart}{groups}{batch}"
