"""In which layouts a region can be called: those that oneDNN would bring its tensors into anyway.

oneDNN says which layouts its kernels want on this processor when their descriptors are made, which needs no weights. A
tensor at the border of a region that is in that layout already spares a reorder.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from eutectic.backend.dnnl import threads as pools
from eutectic.backend.dnnl.border_layout import name_of
from eutectic.backend.dnnl.codegen import Lowered, lower_function, tensor_params
from eutectic.backend.dnnl.layout import Layout
from eutectic.backend.dnnl.library import Library, Owner, availability, load
from eutectic.backend.dnnl.lower import lower
from eutectic.backend.dnnl.plan import Buffer, Planner, Version
from eutectic.relax.expr import Function, Tuple
from eutectic.relax.transform.layouts.choice import copy_cost
from eutectic.relax.transform.layouts.offers import ROW_MAJOR, LayoutOffer
from eutectic.support.errors import EutecticError


def offers(region: Function) -> Sequence[LayoutOffer]:
    """Row-major; what oneDNN likes best for its parameters, its results, or both.

    Args:
        region: A function with `Codegen`, of row-major tensors. One whose sizes vary is row-major, as oneDNN is asked
            when it is called.
    """
    if not availability().ok:
        return (ROW_MAJOR,)
    lowered = lower_function(region)
    if lowered.spec.varies or lowered.names:
        return (ROW_MAJOR,)
    library = load()
    try:
        read, written = pools.on_living_pool(partial(_wanted, library, lowered))
    except EutecticError:  # what oneDNN refuses is said where it is lowered
        return (ROW_MAJOR,)
    body = region.body.body
    results = body.fields if isinstance(body, Tuple) else (body,)
    reading, writing = _costs(tensor_params(region), read), _costs(results, written)
    plain: tuple[str, ...] = ()
    choices = [
        (operands, values, (0.0 if operands else reading) + (0.0 if values else writing))
        for operands in ([plain, read] if any(read) else [plain])
        for values in ([plain, written] if any(written) else [plain])
    ]
    return [LayoutOffer(operands, values, cost) for operands, values, cost in choices]


def _costs(tensors: Iterable[Any], layouts: Iterable[str]) -> float:
    """What reorders of tensors to, or from, some layouts cost."""
    return sum(copy_cost(t.struct_info, "", name) for t, name in zip(tensors, layouts, strict=True) if name)


def _wanted(library: Library, lowered: Lowered) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Layouts in which parameters are first read, and results are computed."""
    owner = Owner(library)
    try:
        draft = _Draft(lowered.spec, lowered.constants, library, owner)
        for step in lowered.spec.steps:
            if step.dst.size:
                lower(draft, step)
        return draft.read(lowered.sources), draft.written()
    finally:
        owner.close()


class _Draft(Planner):
    """A plan that is thrown away: constants are not packed."""

    def _constant(self, name: str, target: Layout, view: Layout) -> Version:
        return Version(Buffer("constant", 0, target.nbytes), target)

    def read(self, sources: Sequence[int]) -> tuple[str, ...]:
        """For each parameter the layout that it is brought into, where it is read in one layout only."""
        names = ["" for _ in range(max(sources, default=-1) + 1)]
        for tensor, source in zip(self.spec.inputs, sources, strict=True):
            versions = self._versions[tensor.name]
            is_alone = sources.count(source) == 1 and tensor.name not in self.spec.outputs
            if is_alone and len(versions) == 2 and not self._reads(versions[0]):
                names[source] = self._name(versions[1].layout)
        return tuple(names)

    def _reads(self, version: Version) -> bool:
        """Whether a step reads a tensor as it comes, and not only a reorder."""
        calls = [call for call in self._calls if any(given.buffer is version.buffer for _, given in call.args)]
        return any(not call.source.startswith("reorder of ") for call in calls)

    def written(self) -> tuple[str, ...]:
        """For each result the layout in which it is computed."""
        outputs = self.spec.outputs
        own = {step.dst.name for step in self.spec.steps if step.dst.size}
        return tuple(
            self._name(self.produced(name).layout) if name in own and outputs.count(name) == 1 else ""
            for name in outputs
        )

    def _name(self, layout: Layout) -> str:
        """The name of a layout, where it has one and cuts channels into full blocks."""
        is_plain = layout.same_bytes(self.layouts.plain(layout.shape))
        return "" if is_plain or layout.image is None else name_of(layout.text)
