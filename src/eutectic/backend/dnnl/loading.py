"""Regions as data, loaded: primitives are built, constants packed. Needs oneDNN and nothing of the compiler."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any, Final, TypeAlias

import numpy as np

from eutectic.backend.dnnl import library
from eutectic.backend.dnnl.engine import Region, compile_region
from eutectic.backend.dnnl.lower import step_source
from eutectic.backend.dnnl.openmp import share_team
from eutectic.backend.dnnl.packed import PackedConstants
from eutectic.backend.dnnl.spec import RegionSpec
from eutectic.backend.dnnl.special_values import all_finite
from eutectic.backend.dnnl.steps import TensorSpec
from eutectic.runtime.constants import Constants, same_bits
from eutectic.runtime.library import KernelPart, LibraryKernel, NativeCall
from eutectic.runtime.object_code import ObjectCode
from eutectic.runtime.packed_array import PackedArray
from eutectic.runtime.recently_used import RecentlyUsed
from eutectic.runtime.team import BARRIER, CLOSE, OPEN, available_threads, team, team_code
from eutectic.support.aligned import address
from eutectic.support.errors import InternalError, LoadError, SpecialValues
from eutectic.support.registry import register_global_func

Array: TypeAlias = np.ndarray[Any, Any]
KEPT_SIZES: Final = 8  # sets of sizes for which a region is kept


def load(kernel: LibraryKernel, threads: int | None) -> StaticRegion | VaryingRegion:
    """Make a region run.

    Args:
        kernel: What `describe` made.
        threads: OpenMP threads of a call; None takes what OpenMP would use.

    Raises:
        LoadError: oneDNN is not there, or slow here in a dtype of the region.
        CodegenError: it refuses the region.
    """
    _check_dtypes(kernel)
    if kernel.sizes:
        return VaryingRegion(kernel, threads)
    region = StaticRegion(kernel, threads, RegionSpec.from_json(kernel.description["spec"]), _is_usable(kernel))
    region.hold(kernel.constants)
    return region


def _check_dtypes(kernel: LibraryKernel) -> None:
    """Refuse what was compiled for a processor with other instructions."""
    spec = kernel.description["spec"]
    tensors = [*spec["inputs"], *spec["constants"], *(step["dst"] for step in spec["steps"])]
    for dtype in dict.fromkeys(str(tensor["dtype"]) for tensor in tensors):
        if reason := library.lacks(dtype):
            raise LoadError(
                f"{kernel.symbol} computes {dtype}: {reason}",
                help='compile the model for this processor, where precision="bf16" leaves float32 as it is',
            )


def _is_guarded(kernel: LibraryKernel) -> bool:
    """Whether inputs must be finite."""
    return bool(kernel.description["guarded"])


def _is_usable(kernel: LibraryKernel) -> bool:
    """Whether no constant makes oneDNN wrong."""
    return not _is_guarded(kernel) or bool(kernel.description["finite"])


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


def _sources(kernel: LibraryKernel) -> tuple[int, ...]:
    """For each input of the region the number of the tensor that it is."""
    return tuple(int(source) for source in kernel.description["sources"])


class StaticRegion:
    """A region whose sizes are known; safe to call from several threads.

    Attributes:
        region: What runs.
        native: How native code calls it; None when a constant of its own makes oneDNN wrong.
    """

    def __init__(
        self,
        kernel: LibraryKernel,
        threads: int | None,
        spec: RegionSpec,
        usable: bool,
        packed: PackedConstants | None = None,
    ) -> None:
        self._sources = _sources(kernel)
        self._guarded, self._usable = _is_guarded(kernel), usable
        code = _code(kernel, threads)
        self.region: Region = compile_region(
            spec, kernel.constants, threads=threads, code=code, guarded=self._guarded, packed=packed
        )
        known = spec.tensors()
        self._tensors: tuple[TensorSpec, ...] = (*spec.inputs, *(known[name] for name in spec.outputs))
        self.native: NativeCall | None = self.region.native_call(self._sources) if self._usable else None

    def hold(self, constants: Constants) -> None:
        """Let the packed constants stand for the plain ones, where they have all of their bits."""
        for name in constants:
            if constants.is_derived(name):
                continue
            packed = self.region.packed(name) or partial(self.region.constant, name)
            if (plain := packed()) is not None and same_bits(plain, constants[name]):
                constants.derive(name, packed if isinstance(packed, PackedArray) else partial(self._unpacked, name))

    def _unpacked(self, name: str) -> Array:
        packed = self.region.constant(name)
        assert packed is not None  # it was there when the plain one was let go
        return packed

    def parts(self) -> Sequence[KernelPart]:
        """Seconds and implementation of each step, on inputs of ones; reorders count to the step that they are for."""
        spec = self.region.spec
        outputs = [np.empty(t.shape_in_memory, t.array_dtype) for t in self._tensors[len(spec.inputs) :]]
        ones = [np.ones(t.shape_in_memory, t.array_dtype) for t in spec.inputs]
        times = self.region.profile(ones, outputs)
        place = {step_source(step): number for number, step in enumerate(spec.steps)}
        seconds, hows, before = [0.0] * len(place), [""] * len(place), 0.0
        number = 0
        for (source, spent), call in zip(times, self.region.describe(), strict=True):
            if source not in place:
                before += spent
                continue
            number = place[source]
            seconds[number] += spent + before
            hows[number], before = call.impl, 0.0
        if seconds:
            seconds[number] += before
        return [KernelPart(spent, how) for spent, how in zip(seconds, hows, strict=True)]

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
        read = [tensors[source] for source in self._sources]
        for array, spec in zip((*read, *outputs), self._tensors, strict=True):
            if array.size != spec.size or array.dtype != spec.array_dtype or not array.flags.c_contiguous:
                raise InternalError(f"{spec.name} of {self.region.spec.symbol} got {array.dtype}{list(array.shape)}")
        self.region.run_addresses(list(map(address, read)), list(map(address, outputs)))


class VaryingRegion:
    """A region with sizes that vary: compiled when it is first called with some; safe to call from several threads.

    Attributes:
        inputs: For each input the number of the tensor that it is; None when a constant makes oneDNN wrong.
    """

    def __init__(self, kernel: LibraryKernel, threads: int | None) -> None:
        self._kernel, self._threads = kernel, threads
        self._names = [str(name) for name in kernel.description["sizes"]]
        self._made: RecentlyUsed[tuple[int, ...], StaticRegion] = RecentlyUsed(KEPT_SIZES)
        self._packed = PackedConstants()
        self._usable = _is_usable(kernel)
        self.inputs = _sources(kernel) if self._usable and kernel.code else None

    def at(self, sizes: tuple[int, ...]) -> StaticRegion:
        """The region for some sizes.

        Raises:
            CodegenError: oneDNN refuses them.
        """
        return self._made.get(sizes, lambda: self._region(sizes))

    def _region(self, sizes: tuple[int, ...]) -> StaticRegion:
        spec = RegionSpec.from_json(self._kernel.description["spec"], dict(zip(self._names, sizes, strict=True)))
        return StaticRegion(self._kernel, self._threads, spec, self._usable, self._packed)

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Fill `outputs`; all arrays C-contiguous.

        Raises:
            SpecialValues: as for `StaticRegion`.
        """
        self.at(self._kernel.sizes_of(inputs))(inputs, outputs)


register_global_func("eutectic.loader.dnnl", load)
