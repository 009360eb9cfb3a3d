"""Modules without the constants that loaded libraries have: kept for reports and copies, at no cost in weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from eutectic.backend.contract import LoweredRegion
from eutectic.ir.module import IRModule
from eutectic.ir.node import Node
from eutectic.ir.visit import post_order, rewrite
from eutectic.relax.expr import Constant, Function
from eutectic.runtime.constants import Constants
from eutectic.runtime.library import LibraryKernel
from eutectic.support.aligned import aligned_array

Array: TypeAlias = np.ndarray[Any, Any]
_Place: TypeAlias = tuple[int, int, str]  # address, bytes, dtype
_NAMED: Final = "const_name_to_constant"  # attribute of a module after RunCodegen
_REGIONS: Final = "external_mods"


def aligned_constants(mod: IRModule) -> Callable[[IRModule], IRModule]:
    """What gives modules the constants of one of them at addresses that native code likes.

    Native code would make copies, and the modules would keep the others.

    Args:
        mod: The module that is linked.
    """
    copies = {id(array): (array, aligned_array(array)) for array in _constants_of(mod)}

    def aligned(array: Array) -> Array:
        return copies[id(array)][1] if id(array) in copies else array

    return lambda other: _changed(other, aligned)


def _constants_of(mod: IRModule) -> list[Array]:
    """Constants that native code reads; those of regions belong to libraries, which pack them."""
    functions = (function for _, function in mod.functions_items() if isinstance(function, Function))
    own = (function for function in functions if not function.attr("Codegen"))
    return [node.data for function in own for node in post_order(function) if isinstance(node, Constant)]


class Shelf:
    """Takes the weights out of modules, and puts them back.

    Where a constant was, a constant of the same shape and dtype stands whose memory is a single element.

    Args:
        kernels: Kernels before they are loaded. Modules that are `put` have to exist by now: arrays are recognised by
            their addresses.
    """

    def __init__(self, kernels: Iterable[LibraryKernel]) -> None:
        self._known: dict[_Place, tuple[Constants, str]] = {}
        for kernel in kernels:
            for name, value in kernel.constants.items():
                if not kernel.constants.is_derived(name) and (place := _place(value)) is not None:
                    self._known.setdefault(place, (kernel.constants, name))
        self._shelved: dict[int, tuple[Array, Constants, str]] = {}  # by the placeholder's identity

    def put(self, mod: IRModule) -> Shelved:
        """A module without the weights that a library has by now."""
        return Shelved(self, _changed(mod, self._without))

    def put_function(self, function: Function) -> Function:
        """As `put`, for a function."""
        return _rewritten(function, self._without)

    def take(self, mod: IRModule) -> IRModule:
        """Inverse of `put`; the same module when nothing was taken out of it."""
        return _changed(mod, self._with)

    def function(self, function: Function) -> Function:
        """As `take`, for a function."""
        return _rewritten(function, self._with)

    def _without(self, array: Array) -> Array:
        place = _place(array)
        origin = None if place is None else self._known.get(place)
        if origin is None or not origin[0].is_derived(origin[1]):
            return array
        placeholder = np.broadcast_to(np.zeros((), array.dtype), array.shape)
        self._shelved[id(placeholder)] = (placeholder, *origin)
        return placeholder

    def _with(self, array: Array) -> Array:
        if id(array) not in self._shelved:
            return array
        _, constants, name = self._shelved[id(array)]
        return constants[name].reshape(array.shape)


def _place(array: Array) -> _Place | None:
    """What two arrays have in common that are one memory; None for an array that is not C-contiguous."""
    if not array.flags.c_contiguous:
        return None
    return int(array.__array_interface__["data"][0]), array.nbytes, array.dtype.name


def _changed(mod: IRModule, change: Callable[[Array], Array]) -> IRModule:
    """A module with other arrays in its constants; the same one when they are all kept."""
    functions = {gv: _function(function, change) for gv, function in mod.functions_items()}
    named = {name: change(array) for name, array in mod.attrs.get(_NAMED, {}).items()}
    regions = tuple(_region(region, change) for region in mod.attrs.get(_REGIONS, ()))
    same = all(fresh is mod[gv] for gv, fresh in functions.items())
    if same and all(fresh is old for fresh, old in zip(regions, mod.attrs.get(_REGIONS, ()), strict=True)):
        return mod
    out = mod.with_attrs({_NAMED: named, _REGIONS: regions} if regions else {})
    for gv, fresh in functions.items():
        out.update_func(gv, fresh)
    return out


def _function(function: Any, change: Callable[[Array], Array]) -> Any:
    return _rewritten(function, change) if isinstance(function, Function) else function


def _region(region: Any, change: Callable[[Array], Array]) -> Any:
    if not isinstance(region, LoweredRegion):
        return region
    fresh = _rewritten(region.function, change)
    return region if fresh is region.function else LoweredRegion(fresh, region.kernel)


def _rewritten(function: Function, change: Callable[[Array], Array]) -> Function:
    def changed(node: Node) -> Node | None:
        if not isinstance(node, Constant) or (array := change(node.data)) is node.data:
            return None
        return Constant(array, struct_info=node.struct_info, span=node.span)

    rewritten = rewrite(function, changed)
    assert isinstance(rewritten, Function)
    return rewritten


@dataclass(frozen=True)
class Shelved:
    """A module without its weights.

    Attributes:
        shelf: What has them.
        stripped: The module.
    """

    shelf: Shelf
    stripped: IRModule

    @property
    def module(self) -> IRModule:
        """The module with its weights; a new one each time, when some were taken out of it."""
        return self.shelf.take(self.stripped)
