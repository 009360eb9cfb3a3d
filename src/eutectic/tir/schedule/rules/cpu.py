"""The default schedule of a CPU: rules, in the order in which they are tried, and primitives only."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from eutectic.ir.visit import post_order
from eutectic.support.errors import ScheduleError
from eutectic.tir.block import BlockRealize
from eutectic.tir.buffer import Buffer
from eutectic.tir.function import PrimFunc
from eutectic.tir.function_attributes import CHOSEN, SCHEDULED, TRACE, is_lowered
from eutectic.tir.schedule.handles import BlockLike
from eutectic.tir.schedule.rules.choosing import ChoicePoint, Chooser, given_decisions
from eutectic.tir.schedule.rules.dense_pack import DensePack
from eutectic.tir.schedule.rules.digit_axes import digits_apart
from eutectic.tir.schedule.rules.elementwise import Elementwise
from eutectic.tir.schedule.rules.epilogues import with_epilogues
from eutectic.tir.schedule.rules.group_axes import groups_apart
from eutectic.tir.schedule.rules.inverted_residual import InvertedResidual
from eutectic.tir.schedule.rules.lane_reduction import LaneReduction
from eutectic.tir.schedule.rules.nest import Nest, block_name, blocks_in_root, run_by_threads, variable_of
from eutectic.tir.schedule.rules.packing import pack
from eutectic.tir.schedule.rules.padded_bands import PaddedBands
from eutectic.tir.schedule.rules.padded_slices import PaddedSlices
from eutectic.tir.schedule.rules.padded_window import PaddedWindow
from eutectic.tir.schedule.rules.processor import Processor
from eutectic.tir.schedule.rules.producers import inlining_of
from eutectic.tir.schedule.rules.put_together import stored_first
from eutectic.tir.schedule.rules.recurrent import Recurrent
from eutectic.tir.schedule.rules.register_tile import RegisterTile
from eutectic.tir.schedule.rules.rows import Group, groups_of
from eutectic.tir.schedule.rules.rule import Decisions, JointRule, Rule
from eutectic.tir.schedule.rules.scan import Scan
from eutectic.tir.schedule.rules.scatter import Scatter
from eutectic.tir.schedule.rules.short_rows import ShortRows, is_turned
from eutectic.tir.schedule.rules.stage import Stage, stages_of
from eutectic.tir.schedule.rules.taps_apart import TapsApart
from eutectic.tir.schedule.rules.varying_window import VaryingWindow
from eutectic.tir.schedule.rules.walk import Walk, walk_of
from eutectic.tir.schedule.rules.winograd import Winograd
from eutectic.tir.schedule.schedule import Schedule
from eutectic.tir.stmt import For, ForKind

RULES: Final[tuple[Rule[Any, Any], ...]] = (ShortRows(), Elementwise(), LaneReduction(), RegisterTile())
_TOGETHER: Final[tuple[JointRule[Any], ...]] = (
    Winograd(),
    InvertedResidual(),
    DensePack(),
    PaddedWindow(),
    VaryingWindow(),
    TapsApart(),
    PaddedBands(),
    PaddedSlices(),
    Recurrent(),
    Scan(),
    Scatter(),
)  # rules of several stages


@dataclass(frozen=True)
class _Match:
    """The rule that schedules a stage, and what it chose."""

    rule: Rule[Any, Any]
    axes: Any
    decisions: Decisions


def schedule_for_cpu(func: PrimFunc, processor: Processor) -> PrimFunc:
    """A tensor program with loops that suit a processor.

    A program that is lowered, or has loops that are not serial, keeps its loops.

    Args:
        func: What to schedule; decisions that it brings with it (`choosing.py`) are asked for before the rules' own.
        processor: What it will run on.
    """
    if _keeps_loops(func):
        return func
    chooser = Chooser(processor, given_decisions(func))
    sch = schedule_by_rules(func, processor, chooser)
    scheduled = sch.func.with_attr(SCHEDULED, True).with_attr(TRACE, tuple(sch.trace.as_python()))
    chosen: PrimFunc = scheduled.with_attr(CHOSEN, chooser.remarks)
    return chosen


def choice_points(func: PrimFunc, processor: Processor) -> dict[str, ChoicePoint]:
    """What the rules choose for a program, and could choose, by choice point; none for one that keeps its loops.

    Args:
        func: The program, not scheduled; decisions that it brings with it count.
        processor: What it will run on.
    """
    if _keeps_loops(func):
        return {}
    chooser = Chooser(processor, given_decisions(func))
    schedule_by_rules(func, processor, chooser)
    return chooser.points


def _keeps_loops(func: PrimFunc) -> bool:
    is_done = func.attr(SCHEDULED) or is_lowered(func)
    return bool(is_done) or _has_kinds(func) or not isinstance(func.body, BlockRealize)


def schedule_by_rules(func: PrimFunc, processor: Processor, chooser: Chooser | None = None) -> Schedule:
    """A program scheduled by rules.

    What no rule is for, or what a rule cannot do, keeps its loops; the outermost ones are shared by threads where that
    is safe.

    Args:
        func: The program.
        processor: What it will run on.
        chooser: Answers for the rules, and notes what they ask; None leaves them what they say themselves.
    """
    chooser = chooser or Chooser(processor)
    sch = Schedule(func, error_render_level="none", enable_check=False)
    staged = stages_of(func)
    if staged is None or len({stage.name for stage in staged[0]}) < len(staged[0]):
        return _together(sch, chooser) or _outermost_by_threads(sch, blocks_in_root(sch))
    stages, intermediates = staged
    kept = [buffer for rule in _TOGETHER for buffer in rule.kept(sch, stages)]
    _inline(sch, _inlined(stages, [buffer for buffer in intermediates if buffer not in kept]))
    sch = _with_groups(sch)
    together = _together(sch, chooser)
    if together is not None:
        return together
    for stage in _stages(sch)[0]:
        pack(sch, stage)
    if _with_stores(sch):  # a reduction that nothing follows has a last stage now, too, as some rules want it
        sch = _with_groups(sch)
        together = _together(sch, chooser)
        if together is not None:
            return together
    numbers = _numbers(sch)
    for group in groups_of(*_stages(sch)):
        sch = _scheduled(sch, group, chooser, numbers)
    return sch


def _with_groups(sch: Schedule) -> Schedule:
    """The schedule with groups apart in all stages."""
    for stage in _stages(sch)[0]:
        sch = groups_apart(sch, stage)
        if is_turned(stage):
            sch = digits_apart(sch, stage)
    return sch


def _numbers(sch: Schedule) -> dict[str, int]:
    """Which stage each is, by the name of its block."""
    return {stage.name: number for number, stage in enumerate(_stages(sch)[0])}


def _together(sch: Schedule, chooser: Chooser) -> Schedule | None:
    """The schedule of stages that one rule is for; None when there are none, or the rule is refused."""
    staged = stages_of(sch.func, counts_together=True)
    for rule in _TOGETHER:
        axes = rule.matches(sch, staged[0] if staged else (), chooser.processor)
        if axes is not None:
            return _by_one(sch, rule, axes, chooser)
    return None


def _by_one(sch: Schedule, rule: JointRule[Any], axes: Any, chooser: Chooser) -> Schedule | None:
    """The schedule of all stages by one rule; None when it is refused."""
    before = dict(chooser.points)
    done, decisions = sch.copy(), chooser.choose(rule, axes, 0)
    names = rule.left_to_others(axes, decisions)
    try:
        if names:
            done = _by_themselves(done, names, chooser)
        rule.apply(done, axes, decisions)
    except ScheduleError as error:
        chooser.give_up(before, rule.name, error)
        return None
    return done


def _by_themselves(sch: Schedule, names: Collection[str], chooser: Chooser) -> Schedule:
    """The schedule after some stages were scheduled by rules of their own."""
    _with_stores(sch, names)
    numbers = _numbers(sch)
    for stage in _stages(sch)[0]:
        if stage.name in names:
            sch = _scheduled(sch, Group((stage,)), chooser, numbers)
    return sch


def _scheduled(sch: Schedule, group: Group, chooser: Chooser, numbers: Mapping[str, int]) -> Schedule:
    """The schedule after a group was scheduled."""
    if any(axis.size == 0 for stage in group.stages for axis in (*stage.spatial, *stage.reduce)):
        return sch
    done, before = sch.copy(), dict(chooser.points)
    try:
        walks = [walk_of(stage, group.depth) for stage in group.stages]
        _apply(done, group, [_match(walk, chooser, numbers[walk.stage.name]) for walk in walks])
    except ScheduleError as error:
        chooser.give_up(before, ", ".join(stage.name for stage in group.stages), error)
        names = [part.name for stage in group.stages for part in (stage, stage.epilogue) if part is not None]
        return _outermost_by_threads(sch, names)
    return done


def _outermost_by_threads(sch: Schedule, blocks: Sequence[BlockLike]) -> Schedule:
    """Let threads share the outermost loops around blocks, where that is safe."""
    outermost = {variable_of(sch, loops[0]): loops[0] for block in blocks if (loops := sch.get_loops(block))}
    for loop in outermost.values():
        with contextlib.suppress(ScheduleError):  # it stays serial
            sch.parallel(loop)
    return sch


def _has_kinds(func: PrimFunc) -> bool:
    return any(isinstance(part, For) and part.kind != ForKind.SERIAL for part in post_order(func.body))


def _inlined(stages: Sequence[Stage], intermediates: Sequence[Buffer]) -> Sequence[str]:
    """Names of the stages that are computed where they are read, in the order in which to inline them."""
    inlining = inlining_of(stages, intermediates)
    stored = stored_first(stages, inlining)
    return inlining_of(stages, [b for b in intermediates if b not in stored]).names if stored else inlining.names


def _inline(sch: Schedule, names: Sequence[str]) -> None:
    """Inline blocks at once, or those that can be one after the other."""
    try:
        if names:
            sch.compute_inline(names, name_values=True)
    except ScheduleError:
        for name in names:
            with contextlib.suppress(ScheduleError):  # it stays a stage
                sch.compute_inline(name, name_values=True)


def _with_stores(sch: Schedule, names: Collection[str] | None = None) -> bool:
    """Every reduction, of those with some names, has another block that stores it: an epilogue, or a copy.

    Returns:
        Whether one was given a copy.
    """
    is_changed = False
    for stage in _stages(sch)[0]:
        if stage.init is not None and stage.epilogue is None and (names is None or stage.name in names):
            with contextlib.suppress(ScheduleError):  # it is scheduled as it is
                sch.cache_write(stage.name, 0, "local")
                is_changed = True
    return is_changed


def _stages(sch: Schedule) -> tuple[list[Stage], Collection[Buffer]]:
    staged = stages_of(sch.func, counts_together=True)
    assert staged is not None
    stages, intermediates = staged
    return with_epilogues(stages, intermediates), intermediates


def _match(walk: Walk, chooser: Chooser, number: int) -> _Match:
    """The first rule that is for a stage.

    Args:
        walk: The stage.
        chooser: Answers for the rule.
        number: Of the stage.

    Raises:
        ScheduleError: there is none.
    """
    for rule in RULES:
        axes = rule.matches(walk, chooser.processor)
        if axes is not None:
            return _Match(rule, axes, chooser.choose(rule, axes, number))
    raise ScheduleError(f"no rule schedules block {walk.stage.name}")


def _apply(sch: Schedule, group: Group, matches: Sequence[_Match]) -> None:
    nests = [item.rule.nest(sch, item.axes, item.decisions) for item in matches]
    first = sch.get_block(nests[0].block)
    if group.depth:
        _merge(sch, nests)
    for nest, item in zip(nests, matches, strict=True):
        item.rule.apply(nest, item.axes, item.decisions, shared=not group.depth)
    if group.depth:
        for stage in group.kept:  # not before: rules know buffers as they were
            sch.set_scope((stage.epilogue or stage).name, 0, "local")
        run_by_threads(sch, sch.get_loops(first)[: group.depth])


def _merge(sch: Schedule, nests: Sequence[Nest]) -> None:
    """One nest of the loops over shared axes."""
    loops = {name: loop for nest in nests for name, loop in nest.innermost_shared.items()}
    order = [block_name(sch, rv) for rv in blocks_in_root(sch)]
    sch.merge(*(loops[name] for name in order if name in loops))
