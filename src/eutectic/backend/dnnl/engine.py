"""Compiling a region and running it: the door to this package.

spec = RegionSpec("f", (TensorSpec("x", (1, 3, 8, 8)),), (TensorSpec("w", (4, 3, 1, 1)),), (...,), ("y",))
region = compile_region(spec, {"w": weights})
region.run([x], [y])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eutectic.backend.dnnl import threads as pools
from eutectic.backend.dnnl.context import Context
from eutectic.backend.dnnl.layout import Layout, LayoutTable
from eutectic.backend.dnnl.library import Library, Owner, load
from eutectic.backend.dnnl.lower import lower
from eutectic.backend.dnnl.native import Record
from eutectic.backend.dnnl.packed import PackedConstants
from eutectic.backend.dnnl.plan import Plan, Planner, Version
from eutectic.backend.dnnl.primitives import PrimitiveFactory
from eutectic.backend.dnnl.reordering import reorder
from eutectic.backend.dnnl.spec import RegionSpec, TensorSpec
from eutectic.backend.dnnl.steps import refuse
from eutectic.runtime.library import NativeCall
from eutectic.runtime.object_code import ObjectCode
from eutectic.runtime.packed_array import PackedArray
from eutectic.support.aligned import address, aligned
from eutectic.support.errors import CallError, EutecticError

_MAX_IDLE = 16
"""Contexts kept for later calls; more exist only while more calls run at once."""


@dataclass(frozen=True, slots=True)
class CallReport:
    """One primitive of a compiled region.

    Attributes:
        source: What of the region it computes, such as `convolution y`.
        impl: oneDNN's name of the implementation.
        layouts: Layouts of its arguments, in the order they are given.
    """

    source: str
    impl: str
    layouts: str


@dataclass(frozen=True, slots=True, eq=False)
class _Live:
    """What a region has while it is open; dies when the last running call lets go of it."""

    owner: Owner
    plan: Plan
    idle: list[Context]


class Region:
    """A compiled region. Safe to call from many threads at once.

    Attributes:
        spec: What it computes.
        threads: OpenMP threads of each call.
        arena_bytes: Intermediates and working memory, per concurrent call.
        weight_bytes: Packed constants, once.
        record: What native code reads to run it; None when there is no code that does.
    """

    def __init__(
        self, spec: RegionSpec, library: Library, owner: Owner, plan: Plan, threads: int, record: Record | None
    ) -> None:
        self.spec = spec
        self.threads = threads
        self.arena_bytes = plan.arena_bytes
        self.weight_bytes = sum(c.nbytes for c in plan.constants)
        self._library = library
        self.record = record
        self._live: _Live | None = _Live(owner, plan, [])
        tensors = spec.tensors()
        self._inputs = spec.inputs
        self._outputs = tuple(tensors[name] for name in spec.outputs)
        self._get_threads = library.function("omp_get_max_threads")
        self._set_threads = library.function("omp_set_num_threads")

    def run(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        """Compute the outputs in place.

        Args:
            inputs: Row-major arrays of the spec's shapes and dtypes.
            outputs: The same, writable, overlapping neither each other nor an input.

        Raises:
            CallError: an array does not fit, or the region is closed.
        """
        self.run_addresses(*self._addresses(inputs, outputs))

    def run_addresses(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Like `run`, on the addresses of arrays that the caller has checked."""
        live = self._open()
        if not live.plan.calls:
            return
        if pools.pool_is_lost():
            pools.on_living_pool(self._execute, live, inputs, outputs)
        else:
            self._execute(live, inputs, outputs)

    def profile(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> list[tuple[str, float]]:
        """Like `run`, but one primitive at a time from Python; returns the source and seconds of each.

        Raises:
            CallError: an array does not fit, or the region is closed.
        """
        live = self._open()
        addresses = self._addresses(inputs, outputs)

        def measure() -> list[float]:
            context = self._acquire(live)
            try:
                with pools.thread_count(self._library, self.threads):
                    return context.profile(*addresses)
            finally:
                self._release(live, context)

        seconds = pools.on_living_pool(measure)
        return [(call.source, s) for call, s in zip(live.plan.calls, seconds, strict=True)]

    def describe(self) -> list[CallReport]:
        """The primitives in the order they run."""
        return [
            CallReport(call.source, call.primitive.impl, " ".join(version.layout.text for _, version in call.args))
            for call in self._open().plan.calls
        ]

    def native_call(self, operands: Sequence[int]) -> NativeCall | None:
        """How native code calls it; None when it cannot.

        Args:
            operands: For each input the number of the operand it is.
        """
        record = self.record
        if record is None:
            return None
        return NativeCall(record.run, record.address, tuple(operands), self.arena_bytes, record.explain, record)

    def packed(self, name: str) -> PackedArray | None:
        """A constant as it is packed; None when it is not, or in a layout that no strides describe."""
        live, spec = self._open(), self.spec.tensors()[name]
        version, view = live.plan.sources.get(name, (None, None))
        if version is None or view is None or version.layout.order is None or view.image is None:
            return None
        if not spec.dtype == version.layout.dtype == "float32":  # a description is of words of four bytes
            return None
        elements = live.plan.constants[version.buffer.index].view(np.uint32)
        return PackedArray(elements, view.image, version.layout.order, spec.array_dtype, spec.shape)

    def constant(self, name: str) -> np.ndarray | None:
        """A constant as it was given, made from what is packed; None when it is not packed, or padded beyond that.

        Reorders move bits, so that these are those that were given.
        """
        live = self._open()
        if name not in live.plan.sources:
            return None
        version, view = live.plan.sources[name]
        spec = self.spec.tensors()[name]
        plain = aligned(spec.nbytes)
        if version.layout.text == "opaque" or spec.nbytes != view.nbytes or version.layout.dtype != spec.dtype:
            return None
        pools.on_living_pool(self._unpack, live, version, view, plain)
        return plain.view(spec.array_dtype).reshape(spec.shape)

    def _unpack(self, live: _Live, version: Version, view: Layout, plain: np.ndarray) -> None:
        scope = Owner(self._library)
        try:
            factory = PrimitiveFactory(self._library, scope, LayoutTable(self._library, scope))
            packed = live.plan.constants[version.buffer.index]
            with pools.thread_count(self._library, self.threads):
                reorder(self._library, factory, packed, version.layout, plain, view)
        finally:
            scope.close()

    def close(self) -> None:
        """Give everything back, once running calls are done; also happens when the region is collected."""
        self._live = None

    def _execute(self, live: _Live, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        context = self._acquire(live)
        before = self._get_threads()
        if before != self.threads:
            self._set_threads(self.threads)
        try:
            context.run(inputs, outputs)
        finally:
            if before != self.threads:
                self._set_threads(before)
            self._release(live, context)

    def _acquire(self, live: _Live) -> Context:
        # Popping from a list is atomic, and unlike a lock it cannot be held by a thread that a fork loses.
        try:
            return live.idle.pop()
        except IndexError:
            return Context(self._library, live.owner, live.plan)

    def _release(self, live: _Live, context: Context) -> None:
        if len(live.idle) < _MAX_IDLE:
            live.idle.append(context)

    def _open(self) -> _Live:
        live = self._live
        if live is None:
            raise CallError(f"region {self.spec.symbol!r} is closed")
        return live

    def _addresses(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> tuple[list[int], list[int]]:
        if len(inputs) != len(self._inputs) or len(outputs) != len(self._outputs):
            got, expected = (len(inputs), len(outputs)), (len(self._inputs), len(self._outputs))
            raise CallError(f"{self.spec.symbol!r} is given (inputs, outputs) = {got}, expected {expected}")
        read, written, taken = [], [], []
        for array, want in zip(inputs, self._inputs, strict=True):
            at = self._check(array, want, "input")
            read.append(at)
            taken.append((at, at + array.nbytes))
        for array, want in zip(outputs, self._outputs, strict=True):
            at = self._check(array, want, "output")
            end = at + array.nbytes
            for first, last in taken:
                if at < last and first < end:
                    raise CallError(f"output {want.name!r} of {self.spec.symbol!r} overlaps another argument")
            written.append(at)
            taken.append((at, end))
        return read, written

    def _check(self, array: np.ndarray, want: TensorSpec, what: str) -> int:
        if not isinstance(array, np.ndarray):
            raise CallError(
                f"{what} {want.name!r} of {self.spec.symbol!r} is a {type(array).__name__}, expected an array"
            )
        flags = array.flags
        if array.shape != want.shape_in_memory or array.dtype != want.array_dtype or not flags.c_contiguous:
            got = f"{array.dtype}{list(array.shape)}{'' if flags.c_contiguous else ', not contiguous'}"
            expected = f"{want.dtype}{list(want.shape_in_memory)}"
            raise CallError(f"{what} {want.name!r} of {self.spec.symbol!r} is {got}, expected {expected}")
        if what == "output" and not flags.writeable:
            raise CallError(f"output {want.name!r} of {self.spec.symbol!r} is read-only")
        return address(array)


def compile_region(
    spec: RegionSpec,
    constants: Mapping[str, np.ndarray],
    *,
    threads: int | None = None,
    code: ObjectCode | None = None,
    guarded: bool = False,
    packed: PackedConstants | None = None,
) -> Region:
    """Build the primitives of a region and pack its constants.

    Args:
        spec: What to compute.
        constants: Values by name; read now and not kept.
        threads: OpenMP threads of each call; None takes what OpenMP would use here,
            that is OMP_NUM_THREADS or the affinity mask.
        code: The loaded code of `native_text`, for calls from native code; None leaves Python as the only caller.
        guarded: Whether calls from native code refuse inputs that are not finite.
        packed: Where packed constants are shared with the same region for other sizes.

    Raises:
        CodegenError: oneDNN cannot do a step, or a constant does not fit.
        LoadError: oneDNN is not there.
    """
    library = load()
    pools.watch_forks()
    if threads is not None and threads < 1:
        raise refuse(f"region {spec.symbol!r} is to use {threads} threads", help="give a positive number, or None")
    count: int = threads if threads is not None else library.function("omp_get_max_threads")()
    owner = Owner(library)
    try:
        # The number of threads is part of how kernels divide their work, so it is fixed here.
        plan = pools.on_living_pool(_plan, spec, constants, library, owner, count, packed)
    except EutecticError as error:
        owner.close()
        error.with_note(f"in region {spec.symbol!r} ({spec.source})")
        raise
    record = None
    if code is not None:
        record = Record(plan, library, owner, code, threads=count, inputs=spec.inputs, guarded=guarded)
    return Region(spec, library, owner, plan, count, record)


def _plan(
    spec: RegionSpec,
    constants: Mapping[str, np.ndarray],
    library: Library,
    owner: Owner,
    threads: int,
    packed: PackedConstants | None,
) -> Plan:
    with pools.thread_count(library, threads):
        planner = Planner(spec, constants, library, owner, packed)
        for step in spec.steps:
            if step.dst.size:
                lower(planner, step)
        return planner.finish()
