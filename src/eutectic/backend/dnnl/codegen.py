"""From composites to a region description: what `relax.ext.dnnl` does.

Each composite has one root (a convolution, matmul, pooling or element-wise
operator); what follows it becomes its bias and post-operations, in the order of
the program. Only the operators, their operands and options count: names of
functions, composites and parameters, and the order of parameters, do not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias, cast

import numpy as np

from eutectic.backend.dnnl.activations import BY_OP, post_eltwise
from eutectic.backend.dnnl.spec import RegionSpec
from eutectic.backend.dnnl.steps import (
    Binary,
    Cast,
    Convolution,
    Eltwise,
    Matmul,
    Pool,
    PostBinary,
    Step,
    TensorSpec,
)
from eutectic.backend.size_data import size_data
from eutectic.ir.prim_expr import Var as ScalarVar
from eutectic.relax.base import ShapeExpr, ShapeStructInfo
from eutectic.relax.dpl.bias import channel_axis
from eutectic.relax.expr import Call, Constant, Function, MatchCast, Tuple, Var
from eutectic.relax.interpret import apply_op
from eutectic.relax.op.registry import has_trait
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.relax.struct_info_relations import free_symbolic_vars
from eutectic.runtime.sizes import Size, computed
from eutectic.support.errors import CodegenError

Array: TypeAlias = np.ndarray[Any, Any]
Value: TypeAlias = "str | Array"


@dataclass
class Lowered:
    """A region and the constants it is compiled with.

    Attributes:
        spec: What oneDNN computes. With `names` its extents may be sizes of the runtime in place of numbers.
        constants: Values by name.
        sources: For each input of `spec` the number of the tensor argument it is; its
            shape may be another one, when the program reshapes the argument first.
        names: The sizes that vary.
        sizes: For each of these the argument and the place in its shape where it is found.
    """

    spec: RegionSpec
    constants: dict[str, Array]
    sources: tuple[int, ...]
    names: tuple[str, ...] = ()
    sizes: tuple[tuple[int, int], ...] = ()


def lower_function(function: Function) -> Lowered:
    """Describe a function with a `Codegen` attribute.

    Raises:
        CodegenError: a shape is not known from those of the arguments, or a composite holds something oneDNN cannot do.
    """
    return _Lowering(function).run()


@dataclass
class _Lowering:
    function: Function
    steps: list[Step] = field(default_factory=list)
    inputs: list[TensorSpec] = field(default_factory=list)
    sources: list[int] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    env: dict[Var, Value] = field(default_factory=dict)
    locals_: dict[Var, Function] = field(default_factory=dict)
    arrays: dict[Constant, Array] = field(default_factory=dict)
    constant_names: dict[int, str] = field(default_factory=dict)  # by identity: every named array is kept in constants
    symbols: dict[ScalarVar, str] = field(default_factory=dict)  # names of the sizes that vary

    def run(self) -> Lowered:
        symbol = str(self.function.attr("global_symbol", "region"))
        places = size_places(self.function)
        self.symbols.update({var: f"{var.name}_{i}" for i, var in enumerate(places)})
        for i, param in enumerate(tensor_params(self.function)):
            self.inputs.append(self.tensor(f"in{i}", param))
            self.sources.append(i)
            self.env[param] = f"in{i}"
        for block in self.function.body.blocks:
            for binding in block.bindings:
                if isinstance(binding.value, Function):
                    self.locals_[binding.var] = binding.value
                else:
                    self.env[binding.var] = self.composite_call(binding.value)
        body = self.function.body.body
        outputs = [self.name_of(self.value(item)) for item in (body.fields if isinstance(body, Tuple) else (body,))]
        constants = tuple(TensorSpec(name, data.shape, str(data.dtype)) for name, data in self.constants.items())
        spec = RegionSpec(symbol, tuple(self.inputs), constants, tuple(self.steps), tuple(outputs))
        names, sizes = tuple(self.symbols.values()), tuple(places.values())
        return Lowered(spec, self.constants, tuple(self.sources), names, sizes)

    def tensor(self, name: str, expr: Any) -> TensorSpec:
        return TensorSpec(name, self.shape(name, expr), expr.struct_info.dtype)

    def shape(self, name: str, expr: Any) -> tuple[int, ...]:
        """Extents of a tensor; sizes of the runtime stand where they vary, until numbers take their place."""
        info = expr.struct_info
        if not isinstance(info, TensorStructInfo) or info.dims is None:
            raise CodegenError(f"oneDNN region: {name} has no known tensor shape")
        unknown = [var.name for var in free_symbolic_vars(info.dims) if var not in self.symbols]
        if unknown:
            raise CodegenError(f"oneDNN region: {name} has the sizes {', '.join(unknown)}, which no argument defines")
        return tuple(cast(int, size_data(dim, self.symbols)) for dim in info.dims)

    def value(self, expr: Any) -> Value:
        if isinstance(expr, Constant):
            if expr not in self.arrays:
                self.arrays[expr] = np.ascontiguousarray(expr.data).reshape(expr.data.shape)
            return self.arrays[expr]
        if isinstance(expr, Var) and expr in self.env:
            return self.env[expr]
        raise CodegenError(f"oneDNN region: {type(expr).__name__} cannot be an operand")

    def name_of(self, value: Value) -> str:
        """Name of a tensor; a constant gets one."""
        if isinstance(value, str):
            return value
        if id(value) not in self.constant_names:
            self.constant_names[id(value)] = f"const{len(self.constants)}"
            self.constants[f"const{len(self.constants)}"] = value
        return self.constant_names[id(value)]

    def reshaped_input(self, name: str, expr: Any) -> str | None:
        """An input under another shape, which costs nothing as inputs are row-major; None for other tensors."""
        position = next((i for i, known in enumerate(self.inputs) if known.name == name), None)
        if position is None:
            return None
        fresh = self.tensor(f"in{len(self.inputs)}", expr)
        self.inputs.append(fresh)
        self.sources.append(self.sources[position])
        return fresh.name

    def composite_call(self, call: Any) -> Value:
        if not (isinstance(call, Call) and isinstance(call.op, Var) and call.op in self.locals_):
            raise CodegenError("oneDNN region: only calls of composites are expected in its body")
        composite = self.locals_[call.op]
        # Shapes only carry sizes, whose names are known.
        args = [self.value(arg) for arg in call.args if isinstance(arg.struct_info, TensorStructInfo)]
        return _Composite(self, composite, args).run()


@dataclass
class _Composite:
    """One composite becomes one step."""

    region: _Lowering
    function: Function
    args: Sequence[Value]
    env: dict[Var, Value] = field(default_factory=dict)
    step: Step | None = None
    flipped: dict[Var, Value] = field(default_factory=dict)  # transposed matmul operands, by their variable

    @property
    def name(self) -> str:
        return str(self.function.attr("Composite"))

    def run(self) -> Value:
        self.env.update(zip(tensor_params(self.function), self.args, strict=True))
        result: Value | None = None
        last: Var | None = None
        for block in self.function.body.blocks:
            for binding in block.bindings:
                if isinstance(binding, MatchCast) or not isinstance(binding.value, Call):
                    raise self.cannot(f"a {type(binding.value).__name__}")
                result = self.apply(binding.value, binding.var)
                self.env[binding.var], last = result, binding.var
        if self.step is None or not isinstance(result, str) or self.function.body.body is not last:
            raise self.cannot("a result that is not that of its last operator")
        self.region.steps.append(self.step)
        return self.step.dst.name

    def cannot(self, what: str) -> CodegenError:
        return CodegenError(f"oneDNN cannot compute composite {self.name}: it holds {what}")

    def operand(self, expr: Any) -> Value:
        if isinstance(expr, Constant):
            return self.region.value(expr)
        if isinstance(expr, Var) and expr in self.env:
            return self.env[expr]
        raise self.cannot(f"an operand of kind {type(expr).__name__}")

    def apply(self, call: Call, var: Var) -> Value:
        name = call.op.name
        tensors = [arg for arg in call.args if isinstance(arg.struct_info, TensorStructInfo)]
        values = [self.operand(arg) for arg in tensors]
        if name in ("relax.reshape", "relax.permute_dims") and not isinstance(values[0], str):
            return self.fold(call, values)
        if name == "relax.astype" and not isinstance(values[0], str):
            return values[0]  # a bias, which is added in float32 whatever the dtype of the sum
        if name == "relax.reshape" and isinstance(values[0], str):
            view = self.region.reshaped_input(values[0], var)
            if view is None:
                raise self.cannot("a reshape of a value that oneDNN computed")
            return view
        if name == "relax.permute_dims" and _swaps_last_two(call):
            self.flipped[var] = values[0]
            return values[0]
        if name == "relax.astype" and isinstance(self.step, Matmul) and call.attrs is not None:
            # The sum is float32 until it is stored.
            self.step = replace(self.step, dst=replace(self.step.dst, dtype=str(call.attrs["dtype"])))
            return self.step.dst.name
        if self.step is not None and self.step.dst.name in [v for v in values if isinstance(v, str)]:
            self.append(call, tensors, values, var)
        elif self.step is None:
            self.start(call, tensors, values, var)
        else:
            raise self.cannot(f"{name} beside its root")
        assert self.step is not None
        return self.step.dst.name

    def fold(self, call: Call, values: Sequence[Value]) -> Array:
        args = [
            tuple(a.static or ()) if isinstance(a, ShapeExpr) else v
            for a, v in zip(call.args, [*values, None], strict=False)
        ]
        return np.ascontiguousarray(apply_op(call, args))

    def start(self, call: Call, tensors: Sequence[Any], values: Sequence[Value], var: Var) -> None:
        maker = _ROOTS.get(call.op.name)
        dst = self.region.tensor(f"t{len(self.region.steps)}", var)
        if maker is not None:
            self.step = maker(self, call, tensors, values, dst)
        elif call.op.name in BY_OP:
            post = post_eltwise(call)
            if post is None:
                raise self.cannot(f"{call.op.name} with these parameters")
            self.step = Eltwise(self.region.name_of(values[0]), dst, post)
        else:
            raise self.cannot(call.op.name)

    def append(self, call: Call, tensors: Sequence[Any], values: Sequence[Value], var: Var) -> None:
        """Make an operator on the current result its bias or a post-operation."""
        step = self.step
        assert step is not None
        if isinstance(step, (Pool, Eltwise, Cast)):
            raise self.cannot(f"{call.op.name} after {type(step).__name__}")
        if call.op.name in BY_OP:
            post = post_eltwise(call)
            if post is None:
                raise self.cannot(f"{call.op.name} with these parameters")
            self.step = replace(step, post_ops=(*step.post_ops, post))
            return
        kind = {"relax.add": "add", "relax.multiply": "mul"}.get(call.op.name)
        if kind is None:
            raise self.cannot(call.op.name)
        own = [i for i, v in enumerate(values) if isinstance(v, str) and v == step.dst.name]
        if len(own) != 1 or len(values) != 2:
            raise self.cannot(f"{call.op.name} of its own result with itself")
        other = values[1 - own[0]]
        if kind == "add" and self.is_bias(other, step):
            assert isinstance(step, (Convolution, Matmul)) and not isinstance(other, str)
            self.step = replace(step, bias=self.region.name_of(other.reshape(-1)))
            return
        self.step = replace(step, post_ops=(*step.post_ops, PostBinary(kind, self.region.name_of(other))))

    def is_bias(self, other: Value, step: Any) -> bool:
        """A constant with one value per channel, added before anything else."""
        if (
            isinstance(other, str)
            or not isinstance(step, (Convolution, Matmul))
            or step.bias is not None
            or step.post_ops
        ):
            return False
        shape = step.dst.shape
        axis = 1 if isinstance(step, Convolution) else len(shape) - 1
        padded = (1,) * (len(shape) - other.ndim) + other.shape
        return bool(padded == tuple(n if i == axis else 1 for i, n in enumerate(shape)))


def tensor_params(function: Function) -> list[Var]:
    """The parameters that are tensors."""
    return [param for param in function.params if isinstance(param.struct_info, TensorStructInfo)]


def size_places(function: Function) -> dict[ScalarVar, tuple[int, int]]:
    """Sizes that vary, with the argument and the place in its shape where each stands alone."""
    places: dict[ScalarVar, tuple[int, int]] = {}
    for number, param in enumerate(function.params):
        info = param.struct_info
        dims = (
            info.dims
            if isinstance(info, TensorStructInfo)
            else info.values
            if isinstance(info, ShapeStructInfo)
            else ()
        )
        for axis, size in enumerate(dims or ()):
            if isinstance(size, ScalarVar):
                places.setdefault(size, (number, axis))
    return places


def _swaps_last_two(call: Call) -> bool:
    info = call.args[0].struct_info
    if not isinstance(info, TensorStructInfo) or info.ndim < 2:
        return False
    axes = call.attrs["axes"] if call.attrs is not None else None
    wanted = [*range(info.ndim - 2), info.ndim - 1, info.ndim - 2]
    order = list(range(info.ndim))[::-1] if axes is None else [a % info.ndim for a in axes]
    return bool(order == wanted)


Root: TypeAlias = Callable[[_Composite, Call, Sequence[Any], Sequence[Value], TensorSpec], Step]


def _convolution(c: _Composite, call: Call, tensors: Sequence[Any], values: Sequence[Value], dst: TensorSpec) -> Step:
    assert call.attrs is not None
    attrs, rank = call.attrs, len(call.attrs["strides"])
    src, weight = map(c.region.name_of, values)
    if channel_axis(call) != 1:
        raise c.cannot(f"a convolution with layout {attrs['data_layout']}")
    return Convolution(
        src,
        weight,
        None,
        dst,
        strides=tuple(attrs["strides"]),
        padding_begin=tuple(attrs["padding"][:rank]),
        padding_end=tuple(attrs["padding"][rank:]),
        dilation=tuple(attrs["dilation"]),
        groups=int(attrs["groups"]),
        transposed=has_trait(call, "transposed"),
    )


def _matmul(c: _Composite, call: Call, tensors: Sequence[Any], values: Sequence[Value], dst: TensorSpec) -> Step:
    src, weight = values
    if tensors[0] in c.flipped:
        raise c.cannot("a matmul whose left operand is transposed")
    rank = tensors[0].struct_info.ndim
    if not isinstance(weight, str) and weight.ndim < rank:
        weight = weight.reshape((1,) * (rank - weight.ndim) + weight.shape)
    names = c.region.name_of(src), c.region.name_of(weight)
    return Matmul(*names, None, dst, transpose_weight=tensors[1] in c.flipped)


def _pool(c: _Composite, call: Call, tensors: Sequence[Any], values: Sequence[Value], dst: TensorSpec) -> Step:
    assert call.attrs is not None
    attrs, src = call.attrs, c.region.name_of(values[0])
    spatial = c.region.shape(src, tensors[0])[2:]
    rank = len(spatial)
    if "pool_size" not in attrs:
        return Pool("avg_include_pad", src, dst, spatial, (1,) * rank, (0,) * rank, (0,) * rank, (1,) * rank)
    average = "avg_include_pad" if attrs["count_include_pad"] else "avg_exclude_pad"
    kernel, strides, dilation = (tuple(attrs[key]) for key in ("pool_size", "strides", "dilation"))
    begin = tuple(attrs["padding"][:rank])
    # With ceil_mode the last window may reach further than the padding says: the end follows from the result.
    end = tuple(
        cast(int, _reached(out, s, (k - 1) * d + 1 - b, n))
        for out, s, k, d, n, b in zip(dst.shape[2:], strides, kernel, dilation, spatial, begin, strict=True)
    )
    kind = "max" if "max" in call.op.name else average
    return Pool(kind, src, dst, kernel, strides, begin, end, dilation)


def _reached(out: Size, stride: int, window: int, extent: Size) -> Size:
    """How far behind an axis the last window ends, whose first one ends at `window`."""
    last = computed("add", computed("mul", computed("sub", out, 1), stride), window)
    return computed("max", computed("sub", last, extent), 0)


def _mean(c: _Composite, call: Call, tensors: Sequence[Any], values: Sequence[Value], dst: TensorSpec) -> Step:
    src = c.region.name_of(values[0])
    spatial = c.region.shape(src, tensors[0])[2:]
    ones, zeros = (1,) * len(spatial), (0,) * len(spatial)
    return Pool("avg_include_pad", src, dst, spatial, ones, zeros, zeros, ones)


def _cast(c: _Composite, call: Call, tensors: Sequence[Any], values: Sequence[Value], dst: TensorSpec) -> Step:
    return Cast(c.region.name_of(values[0]), dst)


def _binary(kind: str) -> Root:
    def make(c: _Composite, call: Call, tensors: Sequence[Any], values: Sequence[Value], dst: TensorSpec) -> Step:
        lhs, rhs = map(c.region.name_of, values)
        return Binary(kind, lhs, rhs, dst)

    return make


_ROOTS: Final[Mapping[str, Root]] = {
    **{f"relax.nn.conv{n}d{t}": _convolution for n in (1, 2, 3) for t in ("", "_transpose")},
    **{f"relax.nn.{kind}_pool{n}d": _pool for kind in ("max", "avg", "adaptive_avg") for n in (1, 2, 3)},
    "relax.matmul": _matmul,
    "relax.mean": _mean,
    "relax.astype": _cast,
    "relax.add": _binary("add"),
    "relax.multiply": _binary("mul"),
}
