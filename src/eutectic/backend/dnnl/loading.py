"""Regions as data, loaded: primitives are built, constants packed. Needs oneDNN and nothing of the compiler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np

from eutectic.backend.dnnl import library
from eutectic.backend.dnnl.engine import Region, compile_region
from eutectic.backend.dnnl.openmp import share_team
from eutectic.backend.dnnl.spec import RegionSpec
from eutectic.backend.dnnl.special_values import all_finite, finite_constants, loses_specials
from eutectic.backend.dnnl.steps import TensorSpec
from eutectic.runtime.aligned import address
from eutectic.runtime.library import LibraryKernel, NativeCall
from eutectic.runtime.native import SpecialValues
from eutectic.runtime.object_code import ObjectCode
from eutectic.runtime.team import BARRIER, CLOSE, OPEN, available_threads, team, team_code
from eutectic.support.errors import InternalError

Array: TypeAlias = np.ndarray[Any, Any]
Shapes: TypeAlias = tuple[tuple[int, ...], ...]
Specialise: TypeAlias = Callable[[LibraryKernel, Shapes], LibraryKernel]
_FLOAT32: Final = np.dtype(np.float32)
KEPT_SHAPES: Final = 8  # compiled regions kept per function when sizes are symbolic


def load(kernel: LibraryKernel, threads: int | None) -> StaticRegion | DynamicRegion:
    """Make a region run.

    Args:
        kernel: What `describe` made.
        threads: OpenMP threads of a call; None takes what OpenMP would use.

    Raises:
        LoadError: oneDNN is not there.
        CodegenError: it refuses the region.
    """
    if "spec" in kernel.description:
        return StaticRegion(kernel, threads)
    from eutectic.backend.dnnl.describe import specialise  # the compiler, which regions of fixed sizes do without

    return DynamicRegion(kernel, threads, specialise)


@lru_cache(maxsize=8)
def loaded_code(code: bytes, runtime: bytes) -> ObjectCode:
    """The code of `native_text`, which all regions of a process share."""
    functions = team_code(runtime)
    return ObjectCode([code], {name: functions.address(name) for name in (OPEN, CLOSE, BARRIER)})


def _code(kernel: LibraryKernel, threads: int | None) -> ObjectCode | None:
    """The code by which native code calls a region; from then on oneDNN's threads are ours."""
    if not kernel.code:
        return None
    code = loaded_code(kernel.code, kernel.team)
    share_team(library.load(), code, team(kernel.team, available_threads(threads)))
    return code


class StaticRegion:
    """A region whose sizes are known; safe to call from several threads.

    Attributes:
        region: What runs.
        native: How native code calls it; None when a constant of its own makes oneDNN wrong.
    """

    def __init__(self, kernel: LibraryKernel, threads: int | None) -> None:
        spec = RegionSpec.from_json(kernel.description["spec"])
        self._sources = tuple(int(source) for source in kernel.description["sources"])
        self._guarded = loses_specials(spec)
        self._usable = not self._guarded or finite_constants(list(kernel.constants.values()))
        code = _code(kernel, threads)
        self.region: Region = compile_region(spec, kernel.constants, threads=threads, code=code, guarded=self._guarded)
        known = spec.tensors()
        self._tensors: tuple[TensorSpec, ...] = (*spec.inputs, *(known[name] for name in spec.outputs))
        self.native: NativeCall | None = self.region.native_call(self._sources) if self._usable else None

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Fill `outputs`; all arrays C-contiguous, of the sizes the region was made for.

        The arguments were checked where they entered the program and results are fresh, so what is
        left to check here is that every array has the elements the region will touch.

        Raises:
            SpecialValues: an input has NaN or infinities, which oneDNN would lose.
        """
        if not self._usable or (self._guarded and not all_finite(inputs)):
            raise SpecialValues(self.region.spec.symbol)
        tensors = [value for value in inputs if isinstance(value, np.ndarray)]
        given = [tensors[source] for source in self._sources]
        for array, spec in zip((*given, *outputs), self._tensors, strict=True):
            if array.size != spec.size or array.dtype != _FLOAT32 or not array.flags.c_contiguous:
                raise InternalError(f"{spec.name} of {self.region.spec.symbol} got {array.dtype}{list(array.shape)}")
        self.region.run_addresses(list(map(address, given)), list(map(address, outputs)))


class DynamicRegion:
    """A region with symbolic sizes: compiled when it is first called with some; safe to call from several threads.

    Attributes:
        native: None: native code has to know sizes.
    """

    native: Final = None

    def __init__(self, kernel: LibraryKernel, threads: int | None, specialise: Specialise) -> None:
        self._kernel, self._threads, self._specialise = kernel, threads, specialise
        self._regions: dict[Shapes, StaticRegion] = {}

    def at(self, inputs: Sequence[Any]) -> StaticRegion:
        """The region for the shapes of some inputs."""
        key = tuple(tuple(value.shape) if isinstance(value, np.ndarray) else tuple(value) for value in inputs)
        found = self._regions.get(key)
        if found is None:
            # No lock, which a fork could leave locked: two threads may compile the same shapes, and one result stays.
            made = StaticRegion(self._specialise(self._kernel, key), self._threads)
            found = self._regions.setdefault(key, made)
            for oldest in list(self._regions)[:-KEPT_SHAPES]:
                self._regions.pop(oldest, None)
        return found

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Fill `outputs`; all arrays C-contiguous.

        Raises:
            SpecialValues: as for `StaticRegion`.
        """
        if any(output.size == 0 for output in outputs):
            return
        self.at(inputs)(inputs, outputs)
