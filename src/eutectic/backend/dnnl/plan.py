"""The plan of a region: which primitives run in which order on which buffers.

A tensor exists in one or more versions, each a buffer with a layout. `Planner`
keeps them, inserts a reorder when a step wants a layout that no version has,
and packs constants on the spot. What each kind of step wants is in `lower.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from eutectic.backend.dnnl import abi
from eutectic.backend.dnnl.arena import Lifetime, place
from eutectic.backend.dnnl.layout import Layout, LayoutTable
from eutectic.backend.dnnl.library import Library, Owner
from eutectic.backend.dnnl.packed import PackedConstants
from eutectic.backend.dnnl.primitives import Primitive, PrimitiveFactory
from eutectic.backend.dnnl.reordering import reorder
from eutectic.backend.dnnl.spec import RegionSpec, TensorSpec
from eutectic.backend.dnnl.steps import refuse
from eutectic.runtime.constants import Constants
from eutectic.runtime.packed_array import PackedArray
from eutectic.support.aligned import aligned, aligned_array
from eutectic.support.errors import InternalError

Array: TypeAlias = np.ndarray[Any, Any]
_BEGINNING: Final = 64  # elements that are looked at before all are compared


@dataclass(slots=True, eq=False)
class Buffer:
    """Memory that calls read and write.

    Attributes:
        kind: `input`, `output`, `constant` or `arena`.
        index: Which argument or constant; of an arena buffer its offset, once planned.
        nbytes: Size.
    """

    kind: str
    index: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Version:
    """A buffer as seen through a layout."""

    buffer: Buffer
    layout: Layout


@dataclass(frozen=True, slots=True)
class Call:
    """One execution of a primitive.

    Attributes:
        primitive: What runs.
        args: Argument number and what is given for it.
        source: What of the region this computes, for reports.
    """

    primitive: Primitive
    args: tuple[tuple[int, Version], ...]
    source: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything needed to make execution contexts.

    Attributes:
        calls: In order.
        constants: Packed values, indexed by the constant buffers.
        sources: For each constant that was packed one version of it, and how its axes lie in the plain one.
        arena_bytes: Size of the block that holds every intermediate and working memory.
    """

    calls: tuple[Call, ...]
    constants: tuple[np.ndarray, ...]
    sources: Mapping[str, tuple[Version, Layout]]
    arena_bytes: int


class Planner:
    """State while a plan is made.

    Args:
        spec: The region.
        constants: A value for each of its constants.
        library: oneDNN.
        owner: Keeps descriptors and primitives.
        packed: Where packed constants are shared with other plans of the same region.

    Raises:
        CodegenError: a constant is missing or has another shape or dtype.
    """

    def __init__(
        self,
        spec: RegionSpec,
        constants: Mapping[str, np.ndarray],
        library: Library,
        owner: Owner,
        packed: PackedConstants | None = None,
    ) -> None:
        self.library = library
        self._shared = packed or PackedConstants()
        self.layouts = LayoutTable(library, owner)
        self.factory = PrimitiveFactory(library, owner, self.layouts)
        self.tensors = spec.tensors()
        self._host = {t.name: _checked(t, constants) for t in spec.constants}
        self._contents = _Contents()
        self._versions: dict[str, list[Version]] = {}
        self._calls: list[Call] = []
        self._packed: list[np.ndarray] = []
        self._by_content: dict[tuple[int, Layout, Layout], Version] = {}
        self._by_name: dict[tuple[str, Layout, Layout], Version] = {}
        self.spec = spec
        self._outputs = spec.outputs
        self._extra = 0
        for index, t in enumerate(spec.inputs):
            self._versions[t.name] = [
                Version(Buffer("input", index, t.nbytes), self.layouts.named(t.shape, t.layout, t.dtype))
            ]

    def is_constant(self, name: str) -> bool:
        """Whether the tensor is known while planning."""
        return name in self._host

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor; a scalar has one axis of extent 1."""
        return self.tensors[name].shape or (1,)

    def dtype(self, name: str) -> str:
        """Dtype of a tensor."""
        return self.tensors[name].dtype

    def plain(self, name: str) -> Layout:
        """The row-major layout of a tensor."""
        return self.layouts.plain(self.shape(name), self.dtype(name))

    def produced(self, name: str) -> Version:
        """The version that came first: plain for inputs and constants, else as its step wrote it.

        A cast is a version of what is cast until somebody reads it; here that is now.
        """
        if self.is_constant(name):
            return self.version(name, self.plain(name))
        first = next((v for v in self._versions[name] if v.layout.dtype == self.dtype(name)), None)
        return first if first is not None else self.version(name, self.plain(name))

    def has_version(self, name: str, layout: Layout) -> bool:
        """Whether `version` would find this layout without a reorder at run time."""
        return self.is_constant(name) or any(v.layout.same_bytes(layout) for v in self._versions[name])

    def version(self, name: str, target: Layout, view: Layout | None = None) -> Version:
        """The tensor in the wanted layout, reordered if no such version exists.

        Args:
            name: Which tensor.
            target: Wanted layout; has the shape of the tensor, or that of `view`.
            view: How the axes of `target` lie in the row-major tensor, where they
                are not the tensor's own (groups split off, axes swapped or added).
        """
        if self.is_constant(name):
            return self._constant(name, target, view or self.plain(name))
        if view is not None:
            plain = self.version(name, self.plain(name))
            if view.same_bytes(target):
                return Version(plain.buffer, target)
        for v in self._versions[name]:
            if v.layout.same_bytes(target):
                return Version(v.buffer, target)
        source = Version(plain.buffer, view) if view is not None else self._versions[name][0]
        reordered = Version(Buffer("arena", 0, target.nbytes), target)
        self._reorder(source, reordered, f"reorder of {name}")
        self._versions[name].append(reordered)
        return reordered

    def result(self, dst: TensorSpec, layout: Layout) -> Version:
        """Where a step writes: an output of the region if it has the layout of that, else the arena."""
        border = (
            self.layouts.named(dst.shape, dst.layout, dst.dtype)
            if dst.layout
            else self.layouts.plain(layout.shape, dst.dtype)
        )
        if dst.name in self._outputs and layout.same_bytes(border):
            return Version(Buffer("output", self._outputs.index(dst.name), layout.nbytes), layout)
        return Version(Buffer("arena", 0, layout.nbytes), layout)

    def define(self, dst: TensorSpec, version: Version) -> None:
        """Record what a step wrote. A plain buffer is seen in the tensor's own shape."""
        shape = dst.shape or (1,)
        layout = version.layout if version.layout.shape == shape else self.layouts.plain(shape, dst.dtype)
        self._versions[dst.name] = [Version(version.buffer, layout)]

    def cast(self, src: str, dst: TensorSpec) -> None:
        """Record that a tensor is another one in its own dtype: the reorder that a reader wants anyway converts."""
        self._versions[dst.name] = [self.produced(src)]

    def temporary(self, dst: TensorSpec) -> TensorSpec:
        """A tensor like `dst` with a name of its own, for a step that is computed in parts."""
        self._extra += 1
        tensor = TensorSpec(f"{dst.name} (part {self._extra})", dst.shape, dst.dtype)
        self.tensors[tensor.name] = tensor
        return tensor

    def call(self, primitive: Primitive, args: Sequence[tuple[int, Version]], source: str) -> None:
        """Append a call, with working memory as the primitive wants it."""
        if primitive.scratchpad is not None:
            scratch = Version(Buffer("arena", 0, primitive.scratchpad.nbytes), primitive.scratchpad)
            args = (*args, (abi.ARG_SCRATCHPAD, scratch))
        self._calls.append(Call(primitive, tuple(args), source))

    def finish(self) -> Plan:
        """Copy the outputs that are not written yet and place the buffers."""
        for index, name in enumerate(self._outputs):
            if not self.tensors[name].size:
                continue
            border = self.layouts.named(self.shape(name), self.tensors[name].layout, self.dtype(name))
            source = self._versions[name][0] if name in self._versions else self.produced(name)
            if (source.buffer.kind, source.buffer.index) != ("output", index):
                done = next((v for v in self._versions.get(name, ()) if v.layout.same_bytes(border)), source)
                self._reorder(done, Version(Buffer("output", index, border.nbytes), border), f"output {name}")
        sources = {name: (version, view) for (name, view, _), version in self._by_name.items()}
        return Plan(tuple(self._calls), tuple(self._packed), sources, self._place())

    def _reorder(self, source: Version, target: Version, what: str) -> None:
        primitive = self.factory.reorder(source.layout, target.layout)
        self.call(primitive, ((abi.ARG_SRC, source), (abi.ARG_DST, target)), what)

    def _place(self) -> int:
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        buffers: dict[int, Buffer] = {}
        for index, call in enumerate(self._calls):
            for _, version in call.args:
                if version.buffer.kind == "arena":
                    key = id(version.buffer)
                    buffers[key] = version.buffer
                    first.setdefault(key, index)
                    last[key] = index
        offsets, total = place([Lifetime(b.nbytes, first[k], last[k]) for k, b in buffers.items()])
        for buffer, offset in zip(buffers.values(), offsets, strict=True):
            buffer.index = offset
        return total

    def _constant(self, name: str, target: Layout, view: Layout) -> Version:
        by_name = (name, view, target)
        if by_name not in self._by_name:
            content = (self._contents.number(self._host[name]), view, target)
            if content not in self._by_content:
                self._by_content[content] = self._pack(name, target, view)
            self._by_name[by_name] = self._by_content[content]
        return self._by_name[by_name]

    def _pack(self, name: str, target: Layout, view: Layout) -> Version:
        buffer = Buffer("constant", len(self._packed), target.nbytes)
        self._packed.append(self._shared.get(name, view, target, lambda: self._in_layout(name, target, view)))
        return Version(buffer, target)

    def _in_layout(self, name: str, target: Layout, view: Layout) -> np.ndarray:
        kept = self._host[name]
        if isinstance(kept, PackedArray):
            if _is_packed_for(kept, view, target):
                return aligned_array(kept.elements).view(np.uint8)
            kept = kept()
        value, packed = kept, aligned(target.nbytes)
        if view.same_bytes(target):
            packed[:] = value.reshape(-1).view(np.uint8)
        else:
            reorder(self.library, self.factory, value, view, packed, target)
        return packed


def _is_packed_for(array: PackedArray, view: Layout, target: Layout) -> bool:
    """Whether an array lies as a primitive wants it."""
    if not array.dtype.name == view.dtype == target.dtype:
        return False
    return (array.plain, array.packed, array.elements.nbytes) == (view.image, target.order, target.nbytes)


class _Contents:
    """Numbers for arrays: equal ones for equal bytes."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, bytes], list[Array | PackedArray]] = {}
        self._numbers: dict[int, int] = {}

    def number(self, array: Array | PackedArray) -> int:
        """The number of an array, which has to stay."""
        if id(array) not in self._numbers:
            words = array.elements if isinstance(array, PackedArray) else array.reshape(-1).view(np.uint8)
            others = self._known.setdefault((array.nbytes, words[:_BEGINNING].tobytes()), [])
            same = next((other for other in others if _same(array, other)), None)
            others.append(array)
            self._numbers[id(array)] = len(self._numbers) if same is None else self._numbers[id(same)]
        return self._numbers[id(array)]


def _same(a: Array | PackedArray, b: Array | PackedArray) -> bool:
    """Whether two arrays have the same bytes, in the same order."""
    if isinstance(a, PackedArray) and isinstance(b, PackedArray):
        return (a.plain, a.packed) == (b.plain, b.packed) and np.array_equal(a.elements, b.elements)
    if isinstance(a, PackedArray) or isinstance(b, PackedArray):
        return False
    return np.array_equal(a.reshape(-1).view(np.uint8), b.reshape(-1).view(np.uint8))


def _checked(t: TensorSpec, constants: Mapping[str, np.ndarray]) -> Array | PackedArray:
    if t.name not in constants:
        raise refuse(f"constant {t.name!r} has no value")
    value = constants.stored(t.name) if isinstance(constants, Constants) else constants[t.name]
    if value.shape != t.shape or value.dtype.name != t.dtype:
        raise refuse(f"constant {t.name!r} is {value.dtype}{list(value.shape)}, expected {t.dtype}{list(t.shape)}")
    return value if isinstance(value, PackedArray) else np.ascontiguousarray(value)


def expect_chosen(layout: Layout) -> Layout:
    """The layout, which a primitive must have fixed by now.

    Raises:
        InternalError: it is still open.
    """
    if layout.text == "any":
        raise InternalError(f"oneDNN left the layout of {layout.shape} open")
    return layout
