"""LLVM as a code generator for processors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from eutectic.backend.contract import CodeGenerator
from eutectic.backend.kernel import Built
from eutectic.backend.llvm.batch_pieces import batch_offers
from eutectic.backend.llvm.dense_pack import narrow_weights, panel_offers
from eutectic.backend.llvm.inverted_residual import residual_offers
from eutectic.backend.llvm.kernels import build_kernel, cached_kernel, compiled_kernel, lowered_kernel
from eutectic.backend.llvm.layouts import layout_offers
from eutectic.backend.llvm.machine import Machine, machine_of
from eutectic.backend.llvm.optimize import assembly, optimized_text, spill_count
from eutectic.backend.llvm.pool_text import team_code
from eutectic.backend.llvm.program import library_code, native_code
from eutectic.backend.llvm.winograd import winograd_offers
from eutectic.backend.plan import Bounds, Plan
from eutectic.ir.prim_expr import Var
from eutectic.ir.services import Speeds
from eutectic.relax.expr import Call
from eutectic.relax.transform.dense_pack.choice import PanelOffer, ProductSizes
from eutectic.relax.transform.inverted_residual.choice import ResidualOffer, ResidualSizes
from eutectic.relax.transform.layouts.offers import LayoutOffer
from eutectic.relax.transform.split_batch.choice import BatchOffer, BatchSizes
from eutectic.relax.transform.winograd.choice import ConvolutionSizes, WinogradOffer
from eutectic.runtime.library import LibraryKernel
from eutectic.runtime.native_code import NativeCode
from eutectic.support.errors import CodegenError
from eutectic.target import Target
from eutectic.tir.function import PrimFunc

_ARM_STACK: Final = re.compile(r"^\s+(?:str|ldr|stp|ldp)\s+[qdv]\d+.*\[sp", re.MULTILINE)


class Llvm(CodeGenerator):
    """Native code by LLVM, for every processor that the installed one knows."""

    kind = "llvm"
    forms: Mapping[str, str] = {"llvm": "llvm", "asm": "gas"}
    is_anywhere = True

    def machine(self, target: Target) -> Machine:
        """The machine of a CPU target."""
        return machine_of(target)

    def layouts(self, call: Call, target: Target, speeds: Speeds | None = None) -> Sequence[LayoutOffer]:
        """Channels in blocks of vectors, where there are so many."""
        return layout_offers(call, machine_of(target), speeds)

    def winograd(
        self, sizes: ConvolutionSizes, target: Target, speeds: Speeds | None = None
    ) -> Sequence[WinogradOffer]:
        """Tiles of 2 or 4 outputs, channels in vectors."""
        return winograd_offers(sizes, machine_of(target), speeds)

    def inverted_residual(
        self, sizes: ResidualSizes, target: Target, speeds: Speeds | None = None
    ) -> Sequence[ResidualOffer]:
        """Channels in blocks of a few vectors."""
        return residual_offers(sizes, machine_of(target), speeds)

    def dense_pack(self, sizes: ProductSizes, target: Target) -> Sequence[PanelOffer]:
        """Columns in panels of a few vectors, for few rows."""
        return panel_offers(sizes, machine_of(target), bool(target.libs))

    def narrow_weights(self, target: Target) -> Sequence[str]:
        """Dtypes of 16 bits that its kernels read weights in, and widen them."""
        return narrow_weights(machine_of(target))

    def batch(self, sizes: BatchSizes, target: Target, speeds: Speeds | None = None) -> Sequence[BatchOffer]:
        """A few images at a time, so that what is between operators stays in caches."""
        return batch_offers(sizes, machine_of(target), speeds)

    def cached(self, func: PrimFunc, target: Target) -> Built | None:
        """The kernel of a tensor program from the cache on disk."""
        return cached_kernel(func, machine_of(target))

    def kernel(self, func: PrimFunc, target: Target, name: str = "", lowered: PrimFunc | None = None) -> Built:
        """The kernel of a tensor program as object code."""
        machine = machine_of(target)
        return build_kernel(func, machine, name) if lowered is None else compiled_kernel(func, lowered, machine, name)

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
        """A plan as its entry and its kernels."""
        return native_code(
            plan,
            arrays,
            machine_of(target),
            libraries=libraries,
            threads=threads,
            bounds=bounds,
            elsewhere=elsewhere,
            timed=timed,
        )

    def with_code(self, kernel: LibraryKernel, target: Target) -> LibraryKernel:
        """The text that the library gave, compiled, and the team of threads."""
        if not kernel.native_text:
            return kernel
        return replace(kernel, code=library_code(kernel.native_text, machine_of(target)), team=team_code())

    def source(self, func: PrimFunc, name: str, target: Target, form: str) -> str:
        """LLVM text after LLVM's clean-up, or the assembly of the processor."""
        machine = machine_of(target)
        text = lowered_kernel(func, machine, re.sub(r"\W", "_", name, flags=re.ASCII)).text
        listing = optimized_text(text, machine) if form == "llvm" else assembly(text, machine)
        return f"{';' if form == 'llvm' else '#'} {name}, for {machine.cpu}\n{listing}"

    def spills(self, func: PrimFunc, name: str, target: Target) -> int:
        """Counted in the assembly of x86 and of 64-bit ARM."""
        text, triple = self.source(func, name, target, "asm"), machine_of(target).triple
        if triple.startswith(("x86_64", "i686", "amd64")):
            return spill_count(text)
        if triple.startswith(("aarch64", "arm64")):
            return len(_ARM_STACK.findall(text))
        raise CodegenError(f"spills are counted in assembly of x86 and of 64-bit ARM, not of {triple}")


CODE_GENERATOR: Final = Llvm()
