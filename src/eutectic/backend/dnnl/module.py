"""A oneDNN region as a module that an executable calls, and the code generator that makes it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np

from eutectic.backend.dnnl.codegen import Lowered, lower_function
from eutectic.backend.dnnl.engine import Region, compile_region
from eutectic.backend.dnnl.plan import address
from eutectic.backend.dnnl.special_values import all_finite, finite_constants, loses_specials
from eutectic.backend.dnnl.steps import TensorSpec
from eutectic.ir.module import IRModule
from eutectic.ir.prim_expr import IntImm, PrimExpr
from eutectic.ir.prim_expr import Var as ScalarVar
from eutectic.relax.analysis.struct_info import bind_sizes, free_symbolic_vars
from eutectic.relax.base import ShapeStructInfo
from eutectic.relax.expr import Constant, Function
from eutectic.relax.interpret import Interpreter
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.relax.transform.bind_params import bind_symbolic_vars
from eutectic.support.errors import EutecticAdvice, InternalError
from eutectic.support.registry import get_global_func, register_global_func

Array: TypeAlias = np.ndarray[Any, Any]
_FLOAT32: Final = np.dtype(np.float32)
KEPT_SHAPES: Final = 8  # compiled regions kept per function when sizes are symbolic


class DnnlModule:
    """One region; compiled for its shapes when it is loaded or, with symbolic sizes, when first called with them.

    Attributes:
        symbol: Name by which the program calls it.
        function: The graph function it computes.
    """

    kind: ClassVar[str] = "dnnl"

    def __init__(self, function: Function) -> None:
        self.function = function
        self.symbol = str(function.attr("global_symbol"))
        self.symbols = free_symbolic_vars([p.struct_info for p in function.params if p.struct_info is not None])
        self.lowered: Lowered | None = None if self.symbols else lower_function(function)

    def load(self, threads: int | None, runner: int | None) -> LoadedRegion:
        """Build what can be built before the first call.

        Raises:
            LoadError: oneDNN is not there.
            CodegenError: it refuses the region.
        """
        return LoadedRegion(self, threads, runner)

    def specialise(self, shapes: Sequence[tuple[int, ...]]) -> Lowered:
        """The region for concrete shapes of the arguments."""
        if self.lowered is not None:
            return self.lowered
        sizes: dict[ScalarVar, PrimExpr] = {}
        for param, shape in zip(self.function.params, shapes, strict=True):
            info = param.struct_info
            if isinstance(info, TensorStructInfo):
                bind_sizes(info, TensorStructInfo(shape, info.dtype), sizes)  # type: ignore[arg-type]  # converted to a ShapeExpr
            elif isinstance(info, ShapeStructInfo):
                bind_sizes(info, ShapeStructInfo(tuple(IntImm("int64", n) for n in shape)), sizes)
        return lower_function(bind_symbolic_vars(self.function, sizes))


@dataclass(frozen=True)
class _Compiled:
    """A region for certain shapes.

    Attributes:
        region: What runs.
        guarded: Whether inputs must be finite for it to be right.
        usable: False when its own constants make it wrong.
        sources: The tensor argument behind each input of the region.
        tensors: Inputs, then outputs of the region.
    """

    region: Region
    guarded: bool
    usable: bool
    sources: tuple[int, ...]
    tensors: tuple[TensorSpec, ...]

    def run(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Hand the tensor arguments over by address; a reshaped one differs by its shape only.

        The arguments were checked where they entered the program and results are fresh, so what is
        left to check here is that every array has the elements the region will touch.
        """
        tensors = [value for value in inputs if isinstance(value, np.ndarray)]
        given = [tensors[source] for source in self.sources]
        for array, spec in zip((*given, *outputs), self.tensors, strict=True):
            if array.size != spec.size or array.dtype != _FLOAT32 or not array.flags.c_contiguous:
                raise InternalError(f"{spec.name} of {self.region.spec.symbol} got {array.dtype}{list(array.shape)}")
        self.region.run_addresses(list(map(address, given)), list(map(address, outputs)))


class LoadedRegion:
    """A region ready to run; safe to call from several threads."""

    def __init__(self, module: DnnlModule, threads: int | None, runner: int | None) -> None:
        self._module, self._threads, self._runner = module, threads, runner
        self._regions: dict[tuple[tuple[int, ...], ...], _Compiled] = {}
        self._warned = False
        self._other: list[Any] = []  # what computes calls with NaN, once there was one
        self._static: _Compiled | None = None
        if module.lowered is not None:
            self._static = self._compile(module.lowered)

    def _compile(self, lowered: Lowered) -> _Compiled:
        region = compile_region(lowered.spec, lowered.constants, threads=self._threads, runner=self._runner)
        guarded = loses_specials(lowered.spec)
        usable = not guarded or finite_constants(list(lowered.constants.values()))
        known = lowered.spec.tensors()
        outputs = (known[name] for name in lowered.spec.outputs)
        return _Compiled(region, guarded, usable, lowered.sources, (*lowered.spec.inputs, *outputs))

    def region(self, inputs: Sequence[Any]) -> Region:
        """The compiled region for the shapes of some inputs, for profiles and reports."""
        return self._compiled(inputs).region

    def _compiled(self, inputs: Sequence[Any]) -> _Compiled:
        """The compiled region for the shapes of some inputs."""
        if self._static is not None:
            return self._static
        key = tuple(_shape(value) for value in inputs)
        found = self._regions.get(key)
        if found is None:
            # No lock, which a fork could leave locked: two threads may compile the same shapes, and one result stays.
            found = self._regions.setdefault(key, self._compile(self._module.specialise(key)))
            for oldest in list(self._regions)[:-KEPT_SHAPES]:
                self._regions.pop(oldest, None)
        return found

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Fill `outputs`; all arrays C-contiguous, of the shapes the region was made for."""
        if any(output.size == 0 for output in outputs):
            return
        compiled = self._compiled(inputs)
        if not compiled.usable or (compiled.guarded and not all_finite(inputs)):
            self._by_reference(inputs, outputs)
            return
        compiled.run(inputs, outputs)

    def _by_reference(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Compute a call that has NaN or infinities, which oneDNN would lose."""
        if not self._warned:
            self._warned = True
            warnings.warn(
                "an input holds NaN, infinity or numbers near the largest: such calls run without oneDNN, which drops "
                'NaN or turns infinity into it, and take longer; compile with precision="strict" if this is frequent',
                EutecticAdvice,
                stacklevel=6,
            )
        if not self._other:
            make = get_global_func("eutectic.compile_region", allow_missing=True)
            self._other.append(None if make is None else make(self._module.function, self._threads))
        run = self._other[0]
        if run is not None:
            result = run(inputs)
        else:
            symbol = self._module.symbol
            found = Interpreter(IRModule({symbol: self._module.function})).run(symbol, *inputs)
            result = found if isinstance(found, tuple) else (found,)
        for output, value in zip(outputs, result, strict=True):
            output[...] = value


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(value.shape) if isinstance(value, np.ndarray) else tuple(value)


def compile_functions(
    functions: Sequence[Function], options: Mapping[str, Any], constant_names: Mapping[Constant, str]
) -> list[DnnlModule]:
    """The `RunCodegen` backend for functions with `Codegen: "dnnl"`.

    Args:
        functions: Regions made by `MergeCompositeFunctions` or `FuseOpsByPattern`.
        options: None are defined.
        constant_names: Names of constants in the module; not needed, regions keep theirs.

    Raises:
        CodegenError: a composite holds something oneDNN cannot do.
    """
    return [DnnlModule(function) for function in functions]


register_global_func("relax.ext.dnnl", compile_functions)
