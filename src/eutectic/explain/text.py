"""An explanation for the terminal: a tree of groups, each with its operators and what separates it from its readers."""

from __future__ import annotations

import io
from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.text import Text
from rich.tree import Tree

from eutectic.driver.plan import OperatorRecord
from eutectic.explain.data import Explained, Group
from eutectic.explain.numbers import clipped, count_text, seconds_text, share_text

_WIDTH = 140
_USUAL = "(default)"  # ends what is chosen where nothing was measured
_COLOURS = {"kernel": "green", "library": "cyan", "view": "bright_black", "host": "red"}


def plain_text(renderable: RenderableType, width: int = _WIDTH) -> str:
    """What rich makes of something, without colours and control characters."""
    console = Console(width=width, file=io.StringIO(), record=True, color_system=None, legacy_windows=False)
    console.print(renderable)
    return "\n".join(line.rstrip() for line in console.export_text(styles=False).rstrip().splitlines())


def print_rich(renderable: RenderableType) -> None:
    """Print, with colours on a terminal."""
    Console().print(renderable)


def tree(explanation: Explained) -> Tree:
    """The explanation as a tree."""
    out = Tree(Text(summary(explanation), style="bold"))
    for note in explanation.notes:
        out.add(Text(note, style="italic"))
    shared = {n: t for t in explanation.timings if len(t.groups) > 1 for n in t.groups}
    boundaries: dict[int, list[Text]] = {}
    for step in explanation.boundaries:
        line = Text.assemble((f"not with {step.reader}: ", "yellow"), (f"[{step.rule}] ", "magenta"), step.reason)
        boundaries.setdefault(step.source, []).append(line)
    for group in explanation.groups:
        node = out.add(_head(group))
        for operator in group.operators:
            node.add(_operator(operator))
        for choice in group.record.chosen:
            if not choice.endswith(_USUAL):
                node.add(Text(choice, style="italic"))
        if group.record.note:
            node.add(Text(group.record.note, style="italic"))
        if group.number in shared:
            together = shared[group.number]
            node.add(Text(f"measured with groups {list(together.groups)}: {seconds_text(together.seconds)}"))
        for line in boundaries.get(group.number, ()):
            node.add(line)
    return out


def summary(explanation: Explained) -> str:
    """The whole in one line."""
    records = explanation.plan.groups
    parts = [f"{len(records)} groups", f"{sum(len(record.operators) for record in records)} operators"]
    if explanation.seconds is not None:
        parts.append(f"{seconds_text(explanation.seconds)} per call on {explanation.threads} threads")
    parts += _moved(explanation)
    if explanation.plan.sizes:
        parts.append(f"at {', '.join(f'{size.name} = {size.value}' for size in explanation.plan.sizes)}")
    return ", ".join(parts)


def _moved(explanation: Explained) -> Iterator[str]:
    fused = [record.bytes_fused for record in explanation.plan.groups]
    unfused = [record.bytes_unfused for record in explanation.plan.groups]
    if None not in fused and None not in unfused:
        moved, alone = (sum(size for size in sizes if size is not None) for sizes in (fused, unfused))
        yield f"{count_text(moved, 'B')} moved, {count_text(alone, 'B')} without fusion"


def _head(group: Group) -> Text:
    record = group.record
    what = record.pattern if record.kind == "library" else f"{record.backend} {record.name}".strip()
    facts = [count_text(record.bytes_fused, "B"), f"unfused {count_text(record.bytes_unfused, 'B')}"]
    if record.flops:
        facts.append(count_text(record.flops, "FLOP"))
    if group.seconds is not None:
        facts = [seconds_text(group.seconds), f"{share_text(group.roofline)} of roofline", *facts]
    if record.kind == "view":
        facts = ["costs nothing"]
    return Text.assemble(
        (f"{group.number} ", "bold"),
        (f"{record.kind} ", _COLOURS[record.kind]),
        (clipped(what), "bold"),
        f" -> {record.gives}  ",
        (", ".join(facts), "bright_black"),
        (f"  {group.how}" if group.how else "", "bright_black"),
    )


def _operator(operator: OperatorRecord) -> Text:
    part = f" of {operator.part_of}" if operator.part_of else ""
    module = f"  {operator.module}" if operator.module else ""
    return Text.assemble(
        (operator.label, "blue"), part, (module, "green"), (f"  {operator.source}" if operator.source else "", "dim")
    )
