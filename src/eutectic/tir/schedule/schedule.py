"""Schedules: a program, and primitives that change how it computes and never what."""

from __future__ import annotations

import random
from typing import Any, Final

from eutectic.ir.module import IRModule
from eutectic.ir.prim_expr import Var
from eutectic.ir.printer import show_text
from eutectic.support.errors import ScheduleError, WellFormedError
from eutectic.support.spelling import did_you_mean
from eutectic.tir.block import Block, BlockRealize
from eutectic.tir.function import PrimFunc
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.handles import BlockRV, ExprRV, Handle, Key, LoopRV, handles_in
from eutectic.tir.schedule.legality.reduction_init import require_reduction_init
from eutectic.tir.schedule.methods import Primitives
from eutectic.tir.schedule.primitive import PRIMITIVES, Primitive
from eutectic.tir.schedule.primitives.loop_kinds import require_still_independent
from eutectic.tir.schedule.state import ScheduleState, Site
from eutectic.tir.schedule.trace import Instruction, Trace
from eutectic.tir.schedule.validate import compare_programs, compare_sums
from eutectic.tir.scheduled import mark_scheduled
from eutectic.tir.stmt import For
from eutectic.tir.well_formed import verify_well_formed

LEVELS: Final = ("detail", "fast", "none")
_LARGEST_SEED: Final = (1 << 31) - 1


class Schedule(Primitives):
    """A program that primitives transform, each of them proved to keep what it computes.

    A primitive that is refused raises `ScheduleError` and leaves everything as it is. Results are kept bit for bit.
    Sums of floats are reordered by what is asked to do that only: `rfactor`, `fuse_reduction_epilogue` with
    `reassociate`, and `tensorize` with an intrinsic that was registered so; `mode="per_iteration"` and the layout of a
    parameter change what the function is.

    Args:
        mod: A module, or a tensor function, which is called `main` in the schedule's module.
        seed: Where samples begin; None and -1 take one from the system.
        debug_mask: `all`, or any bit of a number, runs the program before and after each
            primitive in the reference interpreter; `none` and 0 do not.
        error_render_level: `detail` shows the program in refusals, `fast` only says why, `none` the sentence alone.
        enable_check: Verify the program after each primitive.

    Raises:
        ScheduleError: the program has no tensor function, or an option is unknown.

    Reference: TVM `tir.Schedule`, for names and handles.
    """

    def __init__(
        self,
        mod: PrimFunc | IRModule,
        *,
        seed: int | None = None,
        debug_mask: str | int = "none",
        error_render_level: str = "detail",
        enable_check: bool = True,
    ) -> None:
        module = IRModule({"main": mod}) if isinstance(mod, PrimFunc) else mod
        if not isinstance(module, IRModule):
            raise ScheduleError(f"a schedule is of an IRModule or a PrimFunc, got {type(mod).__name__}")
        if error_render_level not in LEVELS:
            known = ", ".join(LEVELS)
            raise ScheduleError(f"error_render_level {error_render_level!r} is unknown; known: {known}")
        if isinstance(debug_mask, str) and debug_mask not in ("all", "none"):
            raise ScheduleError(f"debug_mask {debug_mask!r} is unknown; it is 'all', 'none' or a number")
        self._state = ScheduleState(module.clone())
        names = self._state.functions()
        if not names:
            raise ScheduleError("the module has no tensor function to be scheduled")
        self._function = "main" if "main" in names else names[0] if len(names) == 1 else None
        self._bound: dict[Handle, Key] = {}
        self._relies: frozenset[tuple[str, Var]] = frozenset()
        self._trace = Trace()
        self._validates = debug_mask == "all" or (isinstance(debug_mask, int) and debug_mask != 0)
        self._level, self._checks = error_render_level, enable_check
        self.seed(seed)

    # ---- the program

    @property
    def mod(self) -> IRModule:
        """The program as it is now; a copy, which may be changed."""
        return self._state.mod.clone()

    @property
    def func(self) -> PrimFunc:
        """The function that is worked on."""
        if self._function is None:
            raise ScheduleError("the module has several functions", help="call work_on(name) first")
        return self._state.function(self._function)

    @property
    def state(self) -> ScheduleState:
        """The program with the places of its loops and blocks."""
        return self._state

    @property
    def trace(self) -> Trace:
        """What was done so far."""
        return self._trace

    @property
    def func_working_on(self) -> str | None:
        """The function that names of blocks are looked up in."""
        return self._function

    def work_on(self, func_name: str) -> None:
        """Look names of blocks up in another function from here on.

        Raises:
            ScheduleError: there is no such tensor function.
        """
        names = self._state.functions()
        if func_name not in names:
            listed = f"no tensor function is called {func_name}; there are: {', '.join(names)}"
            raise ScheduleError(listed, help=did_you_mean(func_name, names))
        self._function = func_name

    def copy(self) -> Schedule:
        """A schedule in the same state, with the same handles; samples of both go on from different seeds."""
        copy = Schedule.__new__(Schedule)
        copy.__dict__.update(self.__dict__)
        copy._bound = dict(self._bound)
        copy._trace = self._trace.copy()
        copy.seed(self.fork_seed())
        return copy

    def show(self, *args: Any, **options: Any) -> None:
        """Print the program and the trace."""
        self.mod.show(*args, **options)
        show_text(str(self._trace), "python", args[0] if args else options.get("style"))

    # ---- randomness

    def seed(self, seed: int | None) -> None:
        """Begin samples anew from a seed; None and -1 take one from the system."""
        fresh = seed is None or seed == -1
        self._rng = random.Random(random.SystemRandom().randint(1, _LARGEST_SEED) if fresh else seed)

    def fork_seed(self) -> int:
        """A seed for another schedule."""
        return self._rng.randint(1, _LARGEST_SEED)

    # ---- handles

    def get(self, rand_var_or_sref: BlockRV | LoopRV | ExprRV | Site) -> Block | For | int | None:
        """The block, loop or number that a handle or a place stands for now.

        Raises:
            ScheduleError: the handle is not one of this schedule, or what it stands for is gone.
        """
        reference = rand_var_or_sref
        if isinstance(reference, ExprRV):
            return self._edit("get").number(reference)
        stmt = reference.stmt if isinstance(reference, Site) else self._edit("get").site(reference).stmt
        if isinstance(stmt, BlockRealize):
            return stmt.block
        return stmt if isinstance(stmt, For) else None

    def get_sref(self, rand_var_or_stmt: BlockRV | LoopRV | Block | For) -> Site:
        """The place of a block or loop, given by handle or as it is now.

        Raises:
            ScheduleError: it is not in the program.
        """
        wanted = rand_var_or_stmt
        if isinstance(wanted, BlockRV | LoopRV):
            return self._edit("get_sref").site(wanted)
        for name in self._state.functions():
            index = self._state.index(name)
            for site in (*index.loops.values(), *index.blocks):
                if wanted is site.stmt or (isinstance(site.stmt, BlockRealize) and site.stmt.block is wanted):
                    return site
        raise ScheduleError("get_sref: this statement is not in the program of the schedule")

    def remove_rv(self, rand_var: BlockRV | LoopRV | ExprRV) -> None:
        """Forget a handle."""
        if self._bound.pop(rand_var, None) is None:
            raise ScheduleError("remove_rv: the handle is not one of this schedule")

    # ---- primitives

    def perform(self, primitive: Primitive[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a primitive: names of blocks become handles, the result is verified, the trace goes on.

        Raises:
            ScheduleError: the primitive refuses, or validation found a difference; nothing has changed then.
        """
        call = primitive.signature.bind(*args, **kwargs)
        call.apply_defaults()
        bound, steps = self._bound, len(self._trace)
        try:
            for name, value in call.arguments.items():
                if name in primitive.block_params:
                    call.arguments[name] = self._found(value)
            edit = self._edit(primitive.name)
            result = primitive.function(edit, *call.args, **call.kwargs)
            if edit.state is not self._state:
                require_still_independent(edit)
                require_reduction_init(edit, self._state)
                self._verify(primitive.name, self._state, edit)
        except BaseException:
            self._bound = bound
            del self._trace.insts[steps:]
            raise
        self._state, self._bound, self._relies = edit.state, edit.bound, frozenset(edit.relies)
        said = {k: v for k, v in call.arguments.items() if k != "decision" and k not in edit.unsaid}
        arguments = tuple((k, edit.resolved.get(k, v)) for k, v in said.items())
        self._trace.append(Instruction(primitive.name, arguments, tuple(handles_in(result)), edit.decision))
        return result

    def __getattr__(self, name: str) -> Any:
        """A primitive that was declared outside of this package."""
        primitive = PRIMITIVES.get(name)
        if primitive is None:
            hint = did_you_mean(name, PRIMITIVES)
            raise AttributeError(
                f"schedules have no primitive {name}" + (f"; {hint}" if hint else ""), name=name, obj=self
            )
        return primitive.__get__(self, type(self))

    def _found(self, value: Any) -> Any:
        """Blocks in the place of their names."""
        if isinstance(value, str):
            return self.get_block(value)
        return [self._found(item) for item in value] if isinstance(value, list | tuple) else value

    def _edit(self, name: str) -> Edit:
        return Edit(
            name,
            self._state,
            self._bound,
            function=self._function,
            rng=self._rng,
            level=self._level,
            relies=self._relies,
        )

    def _verify(self, step: str, before: ScheduleState, edit: Edit) -> None:
        """Check the functions that a primitive changed.

        Raises:
            WellFormedError: the primitive broke an invariant, which is a bug of ours.
            ScheduleError: the program computes something else.
        """
        after = edit.state
        for name in after.functions():
            old, new = before.mod.get(name), after.function(name)
            if old is new:
                continue
            mark_scheduled(new)
            if self._checks:
                try:
                    verify_well_formed(new)
                except WellFormedError as error:
                    error.with_note(f"after schedule primitive {step}, in function {name}")
                    raise
            if self._validates and isinstance(old, PrimFunc) and (edit.keeps_results or edit.keeps_sums):
                compare = compare_programs if edit.keeps_results else compare_sums
                compare(old, new, f"{step} (step {len(self._trace) + 1}) of {name}")
