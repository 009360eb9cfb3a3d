"""A region that only a CUDA device can run: what the GPU libraries' code generators give `RunCodegen`.

Partitioning for these libraries works everywhere; running what they take does not yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NoReturn

from eutectic.ir.op import Op
from eutectic.ir.visit import post_order
from eutectic.relax.expr import Call, Constant, Function
from eutectic.support.errors import LoadError

_SHOWN: Final = 6  # operators listed in the message


class DeviceRegion:
    """One function with `Codegen`, kept as a graph until there is a device to compile it for.

    Attributes:
        kind: Name of the backend.
        symbol: Name by which the program calls the region.
        function: The graph function it computes.
        workspace_bytes: What `AllocateWorkspace` gave it as its last argument; 0 for none.
    """

    def __init__(self, kind: str, library: str, function: Function) -> None:
        self.kind, self._library, self.function = kind, library, function
        self.symbol = str(function.attr("global_symbol"))
        self.workspace_bytes = int(function.attr("WorkspaceSize") or 0)

    @property
    def operators(self) -> tuple[str, ...]:
        """Names of the operators inside, each once, in order."""
        calls = (item.op for item in post_order(self.function) if isinstance(item, Call))
        return tuple(dict.fromkeys(op.name for op in calls if isinstance(op, Op)))

    @property
    def composites(self) -> tuple[str, ...]:
        """Names of the patterns that made it, each once, in order."""
        found = (item.attr("Composite") for item in post_order(self.function) if isinstance(item, Function))
        return tuple(dict.fromkeys(str(name) for name in found if name))

    def load(self, threads: int | None, runner: int | None) -> NoReturn:
        """Refuse: there is nothing here that runs it.

        Raises:
            LoadError: always, with the region, its operators and what to do.
        """
        listed = self.operators
        shown = ", ".join(listed[:_SHOWN]) + (f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else "")
        raise LoadError(
            f"region {self.symbol} needs a CUDA device and {self._library}, which this build cannot run",
            code="X0120",
            notes=[f"operators of the region: {shown}", f"taken by: {', '.join(self.composites)}"],
            help=f"leave out partition_for_{self.kind}, or run the module before RunCodegen in the interpreter",
        )


def device_codegen(
    kind: str, library: str
) -> Callable[[Sequence[Function], Mapping[str, Any], Mapping[Constant, str]], list[DeviceRegion]]:
    """A `RunCodegen` backend that keeps regions for a device.

    Args:
        kind: Name of the backend, as in the `Codegen` attribute.
        library: What people call the library.
    """

    def compile_functions(
        functions: Sequence[Function], options: Mapping[str, Any], constant_names: Mapping[Constant, str]
    ) -> list[DeviceRegion]:
        """One module per function; options and names of constants are not used."""
        return [DeviceRegion(kind, library, function) for function in functions]

    return compile_functions
