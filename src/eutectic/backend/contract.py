"""What a library backend is: the one protocol by which the compiler knows cuBLAS, oneDNN, or a library of a user's own.

A backend says what it takes, and describes it as data; its loader makes that run. `registry.py` has them by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from eutectic.ir.module import IRModule
from eutectic.ir.transform import Pass
from eutectic.relax.dpl.table import FusionPattern
from eutectic.relax.expr import Function
from eutectic.relax.transform import FuseOpsByPattern, MergeCompositeFunctions
from eutectic.runtime.library import LibraryKernel, Loader
from eutectic.target import Target

PRECISIONS: Final = ("default", "strict")
"""`strict` leaves out what loses NaN or infinities."""


@dataclass(frozen=True)
class Availability:
    """Whether a library can be used for a target.

    Attributes:
        ok: Whether it can.
        reason: Why not, as the end of a sentence; empty when `ok`.
    """

    ok: bool
    reason: str = ""


@dataclass(frozen=True)
class Verdict:
    """An answer with its reason, which is what a report shows.

    Attributes:
        ok: The answer.
        reason: Why, as a part of a sentence.
    """

    ok: bool
    reason: str


@dataclass(frozen=True)
class LayoutOffer:
    """Layouts in which a region can be computed.

    Attributes:
        operands: Layout of each operand, such as `NCHW16c`; operands that are not listed are row-major.
        results: Layout of each result, likewise.
        cost: Of the region with these layouts, compared with its other offers.
    """

    operands: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    cost: float = 0.0


@dataclass(frozen=True, eq=False)
class LoweredRegion:
    """A region and the kernel that computes it; what `RunCodegen` leaves in the attribute `external_mods`.

    Attributes:
        function: The graph function.
        kernel: The same for the library.
    """

    function: Function
    kernel: LibraryKernel

    @property
    def symbol(self) -> str:
        """Name by which the program calls it."""
        return self.kernel.symbol


ROW_MAJOR: Final = LayoutOffer()


@dataclass(frozen=True)
class BackendRemark:
    """What a backend was asked about a module, in `PassContext.remarks`.

    Attributes:
        kind: `taken` or `declined`.
        backend: Its name.
        title: What people call the library.
        reason: Why.
    """

    kind: str
    backend: str
    title: str
    reason: str


@runtime_checkable
class Backend(Protocol):
    """A library that computes parts of a graph.

    Derive from it, give `name`, `patterns` and `lower`, and `loader` for a library that can run here; the rest has
    defaults.

    Attributes:
        name: As in `-libs=`, in the `Codegen` attribute of its regions, and before the dot of its patterns.
        title: What people call the library, in messages.
    """

    name: str
    title: str

    def availability(self, target: Target) -> Availability:
        """Whether the library can be used for a target; must not raise. By default it can."""
        return Availability(ok=True)

    def patterns(self, precision: str) -> Sequence[FusionPattern]:
        """What it takes, in order of priority.

        Args:
            precision: One of `PRECISIONS`.
        """

    def outline(self, precision: str) -> Sequence[Pass]:
        """Passes that move what it takes into functions with its name as `Codegen`.

        By default what the patterns match, constants included, joined as far as it feeds each other. A library
        that wants the graph in another form first, or memory beside the operands, puts its own passes here.
        """
        return (FuseOpsByPattern(self.patterns(precision), annotate_roles=True), MergeCompositeFunctions())

    def worthwhile(self, mod: IRModule, target: Target) -> Verdict:
        """Whether its kernels are worth the calls; asked only when nobody named the library.

        Args:
            mod: A module of operators.
            target: What it is compiled for.
        """
        return Verdict(ok=True, reason="its kernels are used wherever it has one")

    def layouts(self, region: Function) -> Sequence[LayoutOffer]:
        """In which layouts it can compute a region; at least one. By default row-major."""
        return (ROW_MAJOR,)

    def lower(self, region: Function, layout: LayoutOffer) -> LibraryKernel:
        """A region as data.

        Args:
            region: A function with `Codegen`; its `global_symbol` is the symbol of the kernel.
            layout: One of its offers.

        Raises:
            CodegenError: the library cannot compute it; a pattern should not have matched.
        """

    def loader(self) -> Loader | None:
        """What makes its kernels run; None for a library that cannot run here."""
        return None
