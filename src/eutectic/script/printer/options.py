"""How a program is printed, beside what is printed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

from eutectic.ir.module import IRModule
from eutectic.support.spelling import did_you_mean

BEGIN, END, REMARK = "\x02", "\x03", "\x04"  # around text that is underlined; before the number of a remark
_STEP: Final = re.compile(r"\.(\w+)|\[(?:'([^']*)'|(\d+))\]")


@dataclass(frozen=True)
class PrintOptions:
    """What `script()` takes beside the name.

    Attributes:
        ir_prefix: Name of the namespace `I`.
        tir_prefix: Name of the namespace `T`.
        relax_prefix: Name of the namespace `R`.
        buffer_dtype: Element type that declarations of buffers leave out.
        int_dtype: Dtype of integers of tensor programs that are written bare.
        float_dtype: Dtype of floats of tensor programs that are written bare; `void` for none.
        indent_spaces: Spaces of a level.
        print_line_numbers: Whether each line begins with its number.
        num_context_lines: Lines kept on both sides of what is underlined; all when negative.
        syntax_sugar: Whether loop nests, axes and root blocks have their short forms.
        show_object_address: Whether names end with where the variable lies in memory.
        show_all_struct_info: Whether types are written that the value says already.
        underlined: Objects with marks below.
        remarks: Texts for comments beside objects, by number.
    """

    ir_prefix: str = "I"
    tir_prefix: str = "T"
    relax_prefix: str = "R"
    buffer_dtype: str = "float32"
    int_dtype: str = "int32"
    float_dtype: str = "void"
    indent_spaces: int = 4
    print_line_numbers: bool = False
    num_context_lines: int = -1
    syntax_sugar: bool = True
    show_object_address: bool = False
    show_all_struct_info: bool = True
    underlined: Sequence[Any] = ()
    remarks: Sequence[tuple[Any, str]] = ()
    _marks: dict[int, tuple[str, str]] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        for number, (item, _) in enumerate(self.remarks):
            self._marks[id(item)] = (f"{REMARK}{number}{REMARK}", "")
        for item in self.underlined:
            before, after = self._marks.get(id(item), ("", ""))
            self._marks[id(item)] = (before + BEGIN, END + after)

    def shows(self, item: object) -> bool:
        """Whether an object has marks or a remark."""
        return id(item) in self._marks

    def marked(self, item: object, text: str) -> str:
        """The text of an object, with marks around it where it is to be shown."""
        if not self._marks or id(item) not in self._marks:
            return text
        before, after = self._marks[id(item)]
        return f"{before}{text}{after}"

    def marked_lines(self, item: object, lines: list[str]) -> list[str]:
        """The lines of an object, each with marks around it; a remark stands at the first."""
        if not self._marks or id(item) not in self._marks:
            return lines
        before, after = self._marks[id(item)]
        rest = before.rpartition(REMARK)[2]
        heads = [before, *(rest for _ in lines[1:])]
        return [_inside(line, head, after) for line, head in zip(lines, heads, strict=True)]


_PUBLIC: Final = [part.name for part in fields(PrintOptions) if part.name not in ("underlined", "remarks", "_marks")]


def _inside(line: str, before: str, after: str) -> str:
    text = line.lstrip(" ")
    return line[: len(line) - len(text)] + before + text + after


def at_path(root: Any, path: str) -> Any:
    """What lies at a path such as `<root>.body.blocks[0]`, the form in which differences are reported.

    Args:
        root: Where the path begins.
        path: Names after dots, positions and quoted keys in brackets; what follows `: ` is ignored.

    Raises:
        ValueError: there is nothing there.
    """
    item, rest = root, path.partition(": ")[0].removeprefix("<root>")
    while rest:
        step = _STEP.match(rest)
        if step is None:
            raise ValueError(f"path {path!r} is not understood at {rest!r}; it is written like <root>.body.blocks[0]")
        name, key, number = step.groups()
        try:
            item = getattr(item, name) if name else item[key if number is None else int(number)]
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise ValueError(f"path {path!r} leads nowhere at {step.group()!r}: {error}") from None
        rest = rest[step.end() :]
    return item


def print_options(
    root: Any,
    *,
    path_to_underline: Sequence[str] | None = None,
    path_to_annotate: Mapping[str, str] | None = None,
    obj_to_underline: Sequence[Any] | None = None,
    obj_to_annotate: Mapping[Any, str] | None = None,
    **options: Any,
) -> PrintOptions:
    """Options with paths looked up.

    Args:
        root: What is printed.
        path_to_underline: Where what is underlined lies.
        path_to_annotate: Comments by where they stand.
        obj_to_underline: What is underlined.
        obj_to_annotate: Comments by what they stand beside.
        options: Attributes of `PrintOptions`.

    Raises:
        TypeError: there is no such option.
        ValueError: a path leads nowhere, or a number of spaces is negative.
    """
    unknown = sorted(set(options) - set(_PUBLIC))
    if unknown:
        raise TypeError(
            f"script() has no option {unknown[0]!r}; {did_you_mean(unknown[0], _PUBLIC) or ''}".rstrip("; ")
        )
    if options.get("indent_spaces", 4) < 1:
        raise ValueError(f"indent_spaces must be at least 1, got {options['indent_spaces']}")
    shown = [*(obj_to_underline or ()), *(at_path(root, path) for path in path_to_underline or ())]
    remarks = [(at_path(root, path), text) for path, text in (path_to_annotate or {}).items()]
    if any(isinstance(item, IRModule) for item in shown):
        raise ValueError("a module as a whole cannot be underlined; name a function of it")
    return PrintOptions(**options, underlined=shown, remarks=[*(obj_to_annotate or {}).items(), *remarks])
