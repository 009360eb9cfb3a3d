"""Runs of bindings as native code of our own: which bindings make a run, and the instruction for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from eutectic.backend.kernel import Built
from eutectic.backend.plan import Bounds, Plan
from eutectic.backend.registry import code_generator
from eutectic.backend.segment import Segment, is_native, mapped_function, plan_segment
from eutectic.driver.kernel_sharing import helpers_worth, made_by_several
from eutectic.driver.libraries import Libraries
from eutectic.driver.pipeline import loops
from eutectic.driver.pipeline_text import members_to_run
from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.op import Op
from eutectic.ir.prim_expr import Var as ScalarVar
from eutectic.ir.transform import PassContext
from eutectic.relax.analysis.uses import used_vars, walk_bindings
from eutectic.relax.expr import Call, Function, Var
from eutectic.relax.op.map_batch import MAP_BATCH
from eutectic.relax.struct_info import TensorStructInfo, TupleStructInfo
from eutectic.runtime.library import NativeInterface
from eutectic.runtime.native_code import NativeCode
from eutectic.runtime.team import available_threads
from eutectic.support.deep import as_here, deep
from eutectic.target import Target
from eutectic.tir.function import PrimFunc
from eutectic.tir.function_attributes import SCHEDULED
from eutectic.tir.scheduled import was_scheduled
from eutectic.tir.transform.check_bounds import check_bounds

_COMPILERS: Final = 2  # threads that compile kernels; Python runs in one at a time
_KERNELS: Final = ("relax.call_tir", "relax.call_dps_packed", MAP_BATCH)


@dataclass
class NativeBuilder:
    """How bindings become native code.

    Attributes:
        target: What the code is for.
        threads: Threads of a call; None takes what is available.
        timed: Whether native code takes the times of its steps at each call.
        elsewhere: Whether the code may be for another machine than this one: it is written to a file, not loaded.
        built: Kernels made so far.
        plans: Plans made so far, in order.
        names: Names of tensor programs in their modules.
    """

    target: Target
    threads: int | None = None
    timed: bool = False
    elsewhere: bool = False
    built: dict[PrimFunc, Built] = field(default_factory=dict)
    plans: list[Plan] = field(default_factory=list)
    names: dict[PrimFunc, str] = field(default_factory=dict)

    def kernel(self, func: PrimFunc) -> Built:
        """The kernel of a tensor program, made once."""
        if func not in self.built:
            self.prepare({self.names.get(func, "main"): func})
        return self.built[func]

    def prepare(self, funcs: Mapping[str, PrimFunc]) -> None:
        """Make the kernels of tensor programs: out of the cache, or by the passes of `loops`.

        The passes run once for all programs that the cache lacks, as members of the current context, which records
        them; one that looks at programs is shown those in the cache, too. If nobody looks, and there are many programs,
        other processes help, and what the passes do is not recorded.

        Args:
            funcs: The programs by name.
        """
        generator, ctx = code_generator(self.target), PassContext.current()
        fresh = {name: self._checked(func, name, ctx) for name, func in funcs.items() if func not in self.built}
        known = {name: generator.cached(func, self.target) for name, func in fresh.items()}
        missing = {name: func for name, func in fresh.items() if known[name] is None}
        looks = _looks(ctx)
        if missing and may_share(self.target, ctx) and (helpers := helpers_worth(len(missing))):
            compiled = made_by_several(missing, self.target, helpers)
        else:
            compiled = self._compiled(missing, fresh if looks else missing, ctx)
        self.built.update({funcs[name]: known[name] or compiled[name] for name in fresh})

    def _compiled(
        self, missing: Mapping[str, PrimFunc], shown: Mapping[str, PrimFunc], ctx: PassContext
    ) -> dict[str, Built]:
        """The kernels of some programs in this process, by passes that are shown maybe more of them."""
        mod = IRModule(dict(shown))
        lowered = loops(self.target).run(mod, ctx) if len(mod) else mod
        kernel = code_generator(self.target).kernel
        return _overlapped(
            {name: partial(kernel, func, self.target, name, lowered[name]) for name, func in missing.items()}
        )

    def kernels(self) -> dict[str, Built]:
        """The kernels made so far, by the names of their tensor programs."""
        return {name: self.built[func] for func, name in self.names.items() if func in self.built}

    def _checked(self, func: PrimFunc, name: str, ctx: PassContext) -> PrimFunc:
        """The program that the cache knows a kernel by: checked, and marked if it is to keep its loops."""
        checked = check_bounds(func, name)
        keeps_loops = was_scheduled(func) or "ScheduleForTarget" in ctx.disabled_pass
        return checked.with_attr(SCHEDULED, True) if keeps_loops else checked

    def segment(
        self,
        name: str,
        bindings: Sequence[Any],
        needed: Sequence[Var],
        mod: IRModule,
        bounds: Mapping[ScalarVar, Bounds],
        libraries: Libraries,
    ) -> tuple[Segment, NativeCode]:
        """A run of bindings, compiled."""
        threads = available_threads(self.threads)
        self.names.update({func: gv.name_hint for gv, func in mod.functions_items() if isinstance(func, PrimFunc)})
        self.prepare(_programs(bindings, mod))
        calls = libraries.native()
        segment = plan_segment(name, bindings, needed, mod, self.kernel, calls, threads)
        self.plans.append(segment.plan)
        code = code_generator(self.target).program(
            segment.plan,
            segment.arrays,
            self.target,
            libraries=libraries.kernels,
            threads=threads,
            bounds=bounds,
            elsewhere=self.elsewhere,
            timed=self.timed,
        )
        return segment, code


def _overlapped(work: Mapping[str, Callable[[], Built]]) -> dict[str, Built]:
    """What calls give, by name, two of them at a time: one runs Python while the library of the other one computes.

    Raises:
        EutecticError: what the first call raised that failed.
    """
    if len(work) < _COMPILERS or available_threads(None) < _COMPILERS:
        return {name: call() for name, call in work.items()}
    with ThreadPoolExecutor(_COMPILERS, "eutectic-compile") as pool:
        futures = {name: pool.submit(as_here(call)) for name, call in work.items()}
        try:
            return {name: future.result() for name, future in futures.items()}
        finally:
            pool.shutdown(cancel_futures=True)


def runs(
    function: Function, mod: IRModule, libraries: Mapping[str, NativeInterface]
) -> Iterator[tuple[bool, list[Any]]]:
    """The bindings of a function in order, in runs that are native or not."""
    run: list[Any] = []
    for block in function.body.blocks:
        for binding in block.bindings:
            if not is_native(binding, mod, libraries) or _renames_other(binding):
                if run:
                    yield _has_kernel(run), run
                    run = []
                yield False, [binding]
                continue
            run.append(binding)
    if run:
        yield _has_kernel(run), run


def _renames_other(binding: Any) -> bool:
    """Whether a binding gives a name to a parameter that is neither a tensor nor a tuple."""
    return isinstance(binding.value, Var) and not isinstance(
        binding.value.struct_info, (TensorStructInfo, TupleStructInfo)
    )


def _is_kernel(binding: Any) -> bool:
    value = binding.value
    return isinstance(value, Call) and isinstance(value.op, Op) and value.op.name in _KERNELS


@deep
def _programs(bindings: Sequence[Any], mod: IRModule) -> dict[str, PrimFunc]:
    """The tensor programs that bindings call, by name."""
    programs: dict[str, PrimFunc] = {}
    for binding in bindings:
        if not _is_kernel(binding) or not isinstance(callee := binding.value.args[0], GlobalVar):
            continue
        if (function := mapped_function(binding.value, mod)) is not None:
            programs |= _programs(list(walk_bindings(function)), mod)
            continue
        func = mod[callee]
        assert isinstance(func, PrimFunc)  # or the call would not be native
        programs[callee.name_hint] = func
    return programs


def _has_kernel(bindings: Sequence[Any]) -> bool:
    return any(map(_is_kernel, bindings))


def needed_outside(bindings: Sequence[Any], function: Function) -> list[Var]:
    """Variables bound by a run that other bindings, or the result, read."""
    inside = {binding.var for binding in bindings}
    own = {id(binding) for binding in bindings}
    read: set[Var] = set()
    for block in function.body.blocks:
        for binding in block.bindings:
            if id(binding) not in own:
                read.update(var for var in used_vars(binding.value) if var in inside)
    read.update(var for var in used_vars(function.body.body) if var in inside)
    return [binding.var for binding in bindings if binding.var in read]


def may_share(target: Target, ctx: PassContext) -> bool:
    """Whether other processes may make kernels: anything can, by all passes of `loops`, and nobody looks."""
    passes = loops(target)
    by_default = tuple(members_to_run(passes, ctx)) == passes.passes
    return code_generator(target).is_anywhere and not _looks(ctx) and by_default


def _looks(ctx: PassContext) -> bool:
    """Whether somebody is shown what passes do."""
    return ctx.verify or ctx.validate or bool(ctx.instruments)
