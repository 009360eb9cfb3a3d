"""Backends by name, and code generators by kind of target: ours, imported when first needed, and those users add."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, Final, NoReturn

from eutectic.backend.contract import Availability, Backend, CodeGenerator, LoweredRegion
from eutectic.relax.dpl.table import pattern_source, register_patterns
from eutectic.relax.expr import Constant, Function
from eutectic.relax.transform.dense_pack.choice import PANEL_OFFERS
from eutectic.relax.transform.inverted_residual.choice import RESIDUAL_OFFERS
from eutectic.relax.transform.layouts.borders import region_with_borders, region_without_borders
from eutectic.relax.transform.layouts.offers import LAYOUT_OFFERS, LayoutOffer
from eutectic.relax.transform.split_batch.choice import BATCH_OFFERS
from eutectic.relax.transform.winograd.choice import WINOGRAD_OFFERS
from eutectic.runtime.library import LibraryKernel, LoadedKernel, Loader
from eutectic.support.errors import CodegenError, EutecticError, LoadError
from eutectic.support.registry import note_addition, register_global_func
from eutectic.support.shown import shown
from eutectic.support.spelling import did_you_mean
from eutectic.target import KINDS, Target
from eutectic.target.target import register_library

_SHOWN: Final = 6  # operators listed in a message


@dataclass(frozen=True)
class _Row:
    """Where a built-in backend is.

    Attributes:
        module: What to import; its `BACKEND` is the backend.
        default_for: Kinds of targets for which it is offered when nobody named a target.
    """

    module: str
    default_for: tuple[str, ...] = ()


_ROWS: Final[dict[str, _Row]] = {
    "dnnl": _Row("eutectic.backend.dnnl.backend", default_for=("llvm",)),
    "cublas": _Row("eutectic.backend.cublas.backend"),
    "cudnn": _Row("eutectic.backend.cudnn.backend"),
    "cutlass": _Row("eutectic.backend.cutlass.backend"),
}
_BACKENDS: Final[dict[str, Backend]] = {}
# Kind of target -> what to import; its `CODE_GENERATOR` makes code for it.
_GENERATOR_ROWS: Final = {"llvm": "eutectic.backend.llvm.backend"}
_GENERATORS: Final[dict[str, CodeGenerator]] = {}


def backend(name: str) -> Backend:
    """The backend of a name.

    Raises:
        CodegenError: there is none.
    """
    if name not in _BACKENDS:
        if name not in _ROWS:
            known = backend_names()
            help = did_you_mean(str(name), known)
            raise CodegenError(f"no backend is called {shown(name)}", help=help or f"known are {', '.join(known)}")
        _adopt(import_module(_ROWS[name].module).BACKEND)
    return _BACKENDS[name]


def backend_names() -> list[str]:
    """Names of all backends."""
    return sorted({*_ROWS, *_BACKENDS})


def register_backend(candidate: Any, override: bool = False) -> Backend:
    """Add a backend of your own: `Target("llvm -libs=<name>")` then asks it.

    Args:
        candidate: An object derived from `Backend`.
        override: Whether it may take the place of one that is there.

    Returns:
        The same object.

    Raises:
        CodegenError: it lacks something, or the name is taken.
    """
    missing = [part for part in _PARTS if not hasattr(candidate, part)]
    if missing:
        raise CodegenError(
            f"{type(candidate).__name__} is no backend: it has no {', '.join(missing)}",
            help="derive its class from eutectic.backend.contract.Backend",
        )
    if not isinstance(candidate.name, str) or not candidate.name.isidentifier():
        raise CodegenError(
            f"a backend is called by a word of letters, digits and underscores, not {shown(candidate.name)}"
        )
    if candidate.name in backend_names() and not override:
        raise CodegenError(f"a backend called {candidate.name!r} is registered already", help="pass override=True")
    registered: Backend = candidate
    note_addition(f"backend {registered.name}")
    _adopt(registered)
    _announce(registered.name)
    return registered


_PARTS: Final = (
    "name", "title", "availability", "version", "patterns", "outline", "worthwhile", "layouts", "lower", "loader",
)  # fmt: skip


def code_generator(target: Target) -> CodeGenerator:
    """What makes native code for a target.

    Raises:
        CodegenError: nothing does for targets of its kind.
    """
    kind = target.kind.name
    if kind not in _GENERATORS:
        if kind not in _GENERATOR_ROWS:
            known = ", ".join(sorted({*_GENERATOR_ROWS, *_GENERATORS}))
            raise CodegenError(
                f"target {target} is not one that native code is made for",
                help=f"known are the kinds {known}; register_code_generator adds one",
            )
        try:
            _GENERATORS[kind] = import_module(_GENERATOR_ROWS[kind]).CODE_GENERATOR
        except ModuleNotFoundError as error:
            if str(error.name).startswith("eutectic"):
                raise
            raise CodegenError(
                f"code for {target} needs {error.name}, which is not installed", help="pip install 'eutectic[compiler]'"
            ) from None
    return _GENERATORS[kind]


def code_forms() -> dict[str, str]:
    """Forms in which code can be shown, with the language by which each is coloured."""
    kinds = sorted({*_GENERATOR_ROWS, *_GENERATORS})
    return {form: language for kind in kinds for form, language in code_generator(Target(kind)).forms.items()}


def register_code_generator(candidate: Any, override: bool = False) -> CodeGenerator:
    """Add what makes code for a kind of target.

    Args:
        candidate: An object derived from `CodeGenerator`.
        override: Whether it may take the place of one that is there.

    Returns:
        The same object.

    Raises:
        CodegenError: it lacks something, there is no such kind of target, or there is a generator for it.
    """
    missing = [part for part in _GENERATOR_PARTS if not hasattr(candidate, part)]
    if missing:
        raise CodegenError(
            f"{type(candidate).__name__} is no code generator: it has no {', '.join(missing)}",
            help="derive its class from eutectic.backend.contract.CodeGenerator",
        )
    generator: CodeGenerator = candidate
    if generator.kind not in KINDS:
        near = did_you_mean(str(generator.kind), KINDS)
        raise CodegenError(
            f"a code generator is for a kind of target, got {shown(generator.kind)}",
            help=near or f"one of {', '.join(KINDS)}",
        )
    if generator.kind in {*_GENERATOR_ROWS, *_GENERATORS} and not override:
        raise CodegenError(f"code for {generator.kind!r} has a generator already", help="pass override=True")
    note_addition(f"code generator for {generator.kind}")
    _GENERATORS[generator.kind] = generator
    _ask(generator.kind)
    return generator


_GENERATOR_PARTS: Final = (
    "kind", "forms", "machine", "layouts", "winograd", "inverted_residual", "dense_pack", "batch", "cached", "kernel",
    "program", "with_code", "source", "spills",
)  # fmt: skip


def default_backends(target: Target) -> list[Backend]:
    """Backends that are offered for a target when nobody named one, the preferred one first."""
    return [backend(name) for name, row in _ROWS.items() if target.kind.name in row.default_for]


def loader(name: str) -> Loader:
    """What makes kernels of a library run.

    A library that cannot run here gets a loader that says so for each kernel (`LoadError`, X0120).

    Raises:
        CodegenError: there is no such backend.
    """
    owner = backend(name)
    own_loader = owner.loader()
    if own_loader is not None:
        return own_loader

    def refuse(kernel: LibraryKernel, threads: int | None) -> LoadedKernel:
        _refuse(owner, kernel)

    return refuse


def _refuse(owner: Backend, kernel: LibraryKernel) -> NoReturn:
    """Say that there is nothing here that runs a kernel.

    Raises:
        LoadError: always, with the kernel's operators and what to do.
    """
    state = owner.availability(Target("llvm"))
    reason = state.reason or f"{owner.title} has no loader"
    notes = []
    if listed := kernel.description.get("operators"):
        more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
        notes.append(f"operators of the region: {', '.join(listed[:_SHOWN])}{more}")
    if names := kernel.description.get("composites"):
        notes.append(f"taken by: {', '.join(names)}")
    raise LoadError(
        f"region {kernel.symbol} cannot run: {reason}",
        code="X0120",
        notes=notes,
        help=f"leave the partition for {owner.name} out, or run the module before RunCodegen in the interpreter",
    )


def region_offers(owner: Backend, region: Function) -> Sequence[LayoutOffer]:
    """In which layouts a backend can compute a region.

    Raises:
        CodegenError: it offers none, or one that the region's tensors cannot have.
    """
    offers, symbol = owner.layouts(region), region.attr("global_symbol")
    if not offers:
        raise CodegenError(f"backend {owner.name} offers no layout for region {symbol}")
    for offer in offers:
        try:
            region_with_borders(region, offer)
        except (EutecticError, ValueError, IndexError) as error:
            raise CodegenError(
                f"backend {owner.name} offers layouts {offer.operands} and {offer.results} for region {symbol}: "
                f"{error}",
                help="one name for each tensor, such as NHWC for a tensor of four axes; empty for row-major",
            ) from None
    return offers


def lower_region(owner: Backend, region: Function) -> LoweredRegion:
    """A region as a kernel, in the layouts in which the graph calls it.

    Raises:
        CodegenError: the backend cannot compute it, or gave something else than a kernel with its name and symbol.
    """
    kernel: Any = owner.lower(*region_without_borders(region))
    symbol = region.attr("global_symbol")
    if not isinstance(kernel, LibraryKernel) or (kernel.library, kernel.symbol) != (owner.name, symbol):
        actual = f"{kernel.library}:{kernel.symbol}" if isinstance(kernel, LibraryKernel) else shown(kernel)
        raise CodegenError(
            f"backend {owner.name} lowered region {symbol} to {actual}, expected a kernel {symbol} of it"
        )
    return LoweredRegion(region, kernel)


def available(candidate: Backend, target: Target) -> Availability:
    """Whether a backend can be used for a target: it is there, and something can run what it makes."""
    state = candidate.availability(target)
    if state.ok and candidate.loader() is None:
        return Availability(ok=False, reason=f"{candidate.title} has no loader")
    return state


def _adopt(registered: Backend) -> None:
    _BACKENDS[registered.name] = registered
    register_patterns(reversed(list(registered.patterns("default"))))  # of equal names the one registered last is found


def _announce(name: str) -> None:
    """Make a name known to targets, to `RunCodegen`, and to those who look up patterns, without importing anything."""

    def compile_functions(
        functions: Sequence[Function], options: Mapping[str, Any], constant_names: Mapping[Constant, str]
    ) -> list[LoweredRegion]:
        """One region per function; options and names of constants are not used."""
        return [lower_region(backend(name), function) for function in functions]

    def layouts(region: Function) -> Sequence[LayoutOffer]:
        """The offers of a backend."""
        return region_offers(backend(name), region)

    register_library(name)
    register_global_func(f"relax.ext.{name}.layouts", layouts, override=True)
    register_global_func(f"relax.ext.{name}", compile_functions, override=True)
    pattern_source(f"{name}.", partial(backend, name))


def _ask(kind: str) -> None:
    """Have passes ask the code generator for a kind of target."""
    LAYOUT_OFFERS.register(kind, lambda call, target, *speeds: code_generator(target).layouts(call, target, *speeds))
    WINOGRAD_OFFERS.register(
        kind, lambda sizes, target, *speeds: code_generator(target).winograd(sizes, target, *speeds)
    )
    RESIDUAL_OFFERS.register(
        kind, lambda sizes, target, *speeds: code_generator(target).inverted_residual(sizes, target, *speeds)
    )
    BATCH_OFFERS.register(kind, lambda sizes, target, *speeds: code_generator(target).batch(sizes, target, *speeds))
    PANEL_OFFERS.register(kind, lambda sizes, target: code_generator(target).dense_pack(sizes, target))


for _name in _ROWS:
    _announce(_name)
for _kind in _GENERATOR_ROWS:
    _ask(_kind)
register_global_func("eutectic.loader", loader)
