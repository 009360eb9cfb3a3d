"""Graphs of kernels, linked, with what they were made from: the end of every compilation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

from eutectic.backend.registry import loader as loader_of
from eutectic.driver.fallback import region_program
from eutectic.driver.libraries import Libraries, libraries_of
from eutectic.driver.link import link
from eutectic.driver.native import NativeBuilder
from eutectic.driver.other_code import needs_other_code, other_code
from eutectic.driver.settings import Settings
from eutectic.driver.shelf import Shelved, aligned_constants
from eutectic.ir.module import IRModule
from eutectic.runtime.executable import Executable
from eutectic.runtime.loading import Loading
from eutectic.runtime.team import available_threads
from eutectic.target import Target


@dataclass(frozen=True)
class Linked:
    """A graph, linked.

    Attributes:
        executable: What runs.
        partitioned: The graph with its regions, before code was generated.
        lowered: The graph of kernels that was linked.
        native: What made the kernels.
        timed: Links it once more, as code that takes the times of its kernels.
    """

    executable: Executable
    partitioned: Shelved
    lowered: Shelved
    native: NativeBuilder
    timed: Callable[[], Executable]


def linked(lowered: IRModule, partitioned: IRModule, settings: Settings) -> Linked:
    """Link a graph of kernels.

    Args:
        lowered: The graph.
        partitioned: What it was made of.
        settings: What for.

    Raises:
        EutecticError: something cannot be compiled, or linked.
    """
    target, threads = settings.target, settings.threads
    align = aligned_constants(lowered)
    lowered, partitioned = align(lowered), align(partitioned)
    libraries = libraries_for(lowered, threads, target)
    native = NativeBuilder(target, threads)

    def all_values() -> IRModule:
        return other_code(origin.module, target)

    other = all_values if needs_other_code(partitioned) else None
    executable = link(lowered, libraries, "main", native, other)
    origin, kept = libraries.shelf.put(partitioned), libraries.shelf.put(lowered)

    @cache
    def timed() -> Executable:
        return link(kept.module, libraries, "main", NativeBuilder(target, threads, timed=True), other)

    return Linked(executable, origin, kept, native, timed)


def libraries_for(mod: IRModule, threads: int | None, target: Target, *, elsewhere: bool = False) -> Libraries:
    """The kernels of libraries that a lowered module calls, each with the loader of its backend.

    Args:
        mod: The module.
        threads: Threads of a call.
        target: What the native code is for that calls them.
        elsewhere: As in `NativeBuilder`.
    """
    loading = Loading(loader_of, available_threads(threads))
    reference = partial(region_program, threads=threads, target=target, elsewhere=elsewhere)
    return libraries_of(mod.attrs.get("external_mods", ()), loading, reference, target)
