"""What a backend is: the protocols by which the compiler knows cuBLAS, oneDNN, LLVM, or what a user has added.

A library says what it takes, and describes it as data; its loader makes that run. A code generator makes native code of
tensor programs for a kind of target. `registry.py` has both by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np

from eutectic.backend.epilogues import leaving_epilogues
from eutectic.backend.kernel import Built
from eutectic.backend.plan import Bounds, Plan
from eutectic.ir.module import IRModule
from eutectic.ir.prim_expr import Var
from eutectic.ir.services import Speeds
from eutectic.ir.transform import Pass
from eutectic.relax.dpl.table import FusionPattern
from eutectic.relax.expr import Call, Function
from eutectic.relax.transform import FuseOpsByPattern, MergeCompositeFunctions
from eutectic.relax.transform.dense_pack.choice import PanelOffer, ProductSizes
from eutectic.relax.transform.inverted_residual.choice import ResidualOffer, ResidualSizes
from eutectic.relax.transform.layouts.offers import ROW_MAJOR, LayoutOffer
from eutectic.relax.transform.split_batch.choice import BatchOffer, BatchSizes
from eutectic.relax.transform.winograd.choice import ConvolutionSizes, WinogradOffer
from eutectic.runtime.library import LibraryKernel, Loader
from eutectic.runtime.native_code import NativeCode
from eutectic.target import Target
from eutectic.tir.function import PrimFunc

PRECISIONS: Final = ("default", "strict", "bf16", "f16")
"""`strict` leaves out what loses NaN or infinities; `bf16` and `f16` narrow operands of products (`NARROW`)."""

NARROW: Final[Mapping[str, str]] = {"bf16": "bfloat16", "f16": "float16"}
"""The dtype of operands that a precision narrows."""


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
        share: Of the time of float32, where that was asked and measured.
    """

    ok: bool
    reason: str
    share: float | None = None


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


class Machine(Protocol):
    """The processor behind a target, as the code generator of its kind knows it."""

    @property
    def cpu(self) -> str:
        """Its name."""

    @property
    def is_host(self) -> bool:
        """Whether the code runs in this process."""

    def lanes(self, bits: int = 32) -> int:
        """Elements of so many bits in a vector."""


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

    def version(self) -> str:
        """What its choices and kernels depend on besides the target, such as its release and instruction set.

        Compiled models that are kept on disk are known by it, too. By default nothing.
        """
        return ""

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
        return (
            FuseOpsByPattern(leaving_epilogues(self.patterns(precision)), annotate_roles=True),
            MergeCompositeFunctions(),
        )

    def worthwhile(self, mod: IRModule, machine: Machine) -> Verdict:
        """Whether its kernels are worth the calls; asked only when nobody named the library.

        Args:
            mod: A module of operators.
            machine: What it is compiled for.
        """
        return Verdict(ok=True, reason="its kernels are used wherever it has one")

    def computes_in(self, dtype: str, target: Target) -> Verdict:
        """Whether its kernels are faster in a dtype than in float32, and how much if that was measured; by default not.

        Args:
            dtype: Such as `bfloat16`.
            target: What a module is compiled for.
        """
        return Verdict(ok=False, reason=f"{self.title} does not say that its kernels of {dtype} are faster")

    def multiplies(self, dtype: str, target: Target) -> bool:
        """Whether it has kernels of a dtype of 16 bits, faster than in float32 or not; by default not."""
        return False

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


@runtime_checkable
class CodeGenerator(Protocol):
    """What makes native code for a kind of target. Derive from it and give all of it but `layouts`.

    Attributes:
        kind: The kind of target, as in `Target.kind.name`; there is one generator for each.
        forms: Forms in which it shows the code of a tensor program, the one that it writes itself first; with the
            language by which each is coloured.
        is_anywhere: Whether other processes that import this package have it, too: they may then make kernels, which
            `cached` finds here.
    """

    kind: str
    forms: Mapping[str, str]
    is_anywhere: bool = False

    def machine(self, target: Target) -> Machine:
        """The machine of a target.

        Raises:
            CodegenError: it makes no code for the target.
        """

    def layouts(self, call: Call, target: Target, speeds: Speeds | None = None) -> Sequence[LayoutOffer]:
        """In which layouts its kernels can compute a call of an operator; at least one. By default row-major.

        Args:
            call: A call with its struct info.
            target: What the code is for.
            speeds: What its processor was measured to do; None where it was not.
        """
        return (ROW_MAJOR,)

    def winograd(
        self, sizes: ConvolutionSizes, target: Target, speeds: Speeds | None = None
    ) -> Sequence[WinogradOffer]:
        """How its kernels can compute a convolution by Winograd's method, best first; arguments as for `layouts`."""
        return ()

    def inverted_residual(
        self, sizes: ResidualSizes, target: Target, speeds: Speeds | None = None
    ) -> Sequence[ResidualOffer]:
        """How one of its kernels can compute an inverted residual, best first; arguments as for `layouts`."""
        return ()

    def dense_pack(self, sizes: ProductSizes, target: Target) -> Sequence[PanelOffer]:
        """How its kernels can compute a product faster from weights in panels, best first."""
        return ()

    def narrow_weights(self, target: Target) -> Sequence[str]:
        """Dtypes of 16 bits in which its kernels read weights of products of float32; by default none."""
        return ()

    def batch(self, sizes: BatchSizes, target: Target, speeds: Speeds | None = None) -> Sequence[BatchOffer]:
        """How a network is faster in pieces of a batch with its kernels, best first; arguments as for `layouts`."""
        return ()

    def cached(self, func: PrimFunc, target: Target) -> Built | None:
        """The kernel of a tensor program when it has been made before, maybe by another process; else None."""

    def kernel(self, func: PrimFunc, target: Target, name: str = "", lowered: PrimFunc | None = None) -> Built:
        """The kernel of a tensor program, which `cached` finds from then on; several threads may ask at once.

        Args:
            func: The program.
            target: What the code is for.
            name: What people call it; the function's own name when empty.
            lowered: What `ScheduleForTarget` and `LowerTIR` made of it; None has the generator do that.

        Raises:
            CodegenError: something in it cannot be compiled.
        """

    def program(
        self,
        plan: Plan,
        arrays: Sequence[np.ndarray[Any, Any]],
        target: Target,
        *,
        libraries: Mapping[str, LibraryKernel] | None = None,
        threads: int | None = None,
        bounds: Mapping[Var, Bounds] | None = None,
        elsewhere: bool = False,
        timed: bool = False,
    ) -> NativeCode:
        """A plan as one native function.

        Args:
            plan: What to do.
            arrays: Values of its constants.
            target: What the code is for.
            libraries: Kernels of libraries, by the names in the plan.
            threads: Threads of a call; None takes what is available.
            bounds: Ranges of symbolic sizes.
            elsewhere: Whether the code may be for another machine, where it is loaded from a file.
            timed: Whether each call is to take the times of its steps, for profiles; gives a `TimedCode`.

        Raises:
            CodegenError: the code is not for this machine.
        """

    def with_code(self, kernel: LibraryKernel, target: Target) -> LibraryKernel:
        """A kernel of a library with the code by which native code for a target calls it."""

    def source(self, func: PrimFunc, name: str, target: Target, form: str) -> str:
        """The code of a tensor program as text, headed by a comment with its name.

        Args:
            func: The program.
            name: Its name.
            target: What for; it need not be able to run here.
            form: One of `forms`.

        Raises:
            CodegenError: something in it cannot be compiled.
        """

    def spills(self, func: PrimFunc, name: str, target: Target) -> int:
        """How many instructions of a tensor program move a vector register to or from the stack.

        Raises:
            CodegenError: it cannot be compiled, or the processor's assembly is not one that is understood.
        """
