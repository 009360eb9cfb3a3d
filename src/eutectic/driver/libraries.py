"""The kernels of libraries that a module calls, ready to be linked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eutectic.backend.contract import LoweredRegion
from eutectic.backend.registry import code_generator
from eutectic.driver.shelf import Shelf
from eutectic.relax.expr import Function
from eutectic.runtime.library import LibraryKernel, LoadedKernel, NativeInterface, VaryingKernel
from eutectic.runtime.loading import Loading
from eutectic.runtime.program import Program
from eutectic.support.errors import CodegenError
from eutectic.target import Target


@dataclass
class Libraries:
    """Kernels of libraries by the names by which a module calls them.

    Attributes:
        loading: Loads them.
        kernels: They, as data.
        functions: The graph functions that they compute; `function` has them with their weights.
        reference: Makes a program of our own kernels of such a function; None for functions that it does not take.
        shelf: Knows the weights of modules that the kernels have.
    """

    loading: Loading = field(default_factory=Loading)
    kernels: Mapping[str, LibraryKernel] = field(default_factory=dict)
    functions: Mapping[str, Function] = field(default_factory=dict)
    reference: Callable[[Function], Program | None] = lambda function: None
    shelf: Shelf = field(default_factory=lambda: Shelf(()))

    def __contains__(self, symbol: str) -> bool:
        return symbol in self.kernels

    def kernel(self, symbol: str) -> LibraryKernel:
        """The kernel called `symbol`.

        Raises:
            CodegenError: there is none.
        """
        if symbol not in self.kernels:
            raise CodegenError(f"external function {symbol} is in no module", help="run RunCodegen first")
        return self.kernels[symbol]

    def function(self, symbol: str) -> Function:
        """The graph function that a kernel computes."""
        return self.shelf.function(self.functions[symbol])

    def strip(self) -> None:
        """Let go of the weights in the graph functions that loaded kernels have."""
        self.functions = {symbol: self.shelf.put_function(function) for symbol, function in self.functions.items()}

    def loaded(self, symbol: str) -> LoadedKernel | VaryingKernel:
        """The same, loaded."""
        return self.loading.library(self.kernel(symbol))

    def native(self) -> dict[str, NativeInterface]:
        """Those that native code can call."""
        interfaces = {symbol: self.loading.interface(kernel) for symbol, kernel in self.kernels.items()}
        return {symbol: call for symbol, call in interfaces.items() if call is not None}


def libraries_of(
    modules: Sequence[Any],
    loading: Loading,
    reference: Callable[[Function], Program | None],
    target: Target,
) -> Libraries:
    """The kernels that `RunCodegen` left.

    Args:
        modules: What backends made of regions.
        loading: Loads them.
        reference: As in `Libraries`.
        target: What the native code is for that calls them.

    Raises:
        CodegenError: something else was made of a region, which only its maker can run.
    """
    for module in modules:
        if not isinstance(module, LoweredRegion):
            raise CodegenError(
                f"region {getattr(module, 'symbol', '')} became a {type(module).__name__}, which nothing can load",
                help="register a backend, whose lower() gives a LibraryKernel",
            )
    generator = code_generator(target)
    kernels = {module.symbol: generator.with_code(module.kernel, target) for module in modules}
    functions = {module.symbol: module.function for module in modules}
    return Libraries(loading, kernels, functions, reference, Shelf(kernels.values()))
