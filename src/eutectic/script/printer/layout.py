"""The last step of printing: names of namespaces, indentation, line numbers, and marks below the text."""

from __future__ import annotations

import re
from typing import Final

from eutectic.script.printer.options import BEGIN, END, REMARK, PrintOptions

_INDENT: Final = 4
_NAMESPACE: Final = re.compile(r"""("(?:[^"\\]|\\.)*")|(?<![\w.])([IRT])\.""")  # outside of strings
_IMPORT: Final = re.compile(r"^(# from tvm\.script import \w+ as )([IRT])$")
_REMARK: Final = re.compile(f"{REMARK}(\\d+){REMARK}")


def laid_out(lines: list[str], options: PrintOptions) -> list[str]:
    """Lines as the options want them."""
    texts = [_renamed(line, options) for line in lines]
    texts = [_indented(text, options.indent_spaces) for text in texts]
    marked = [_commented(text, options) for text in texts]
    plain = [text.replace(BEGIN, "").replace(END, "") for text in marked]
    below = [_underline(text) for text in marked]
    if options.print_line_numbers:
        width = len(str(len(plain)))
        plain = [f"{number:>{width}} {text}" for number, text in enumerate(plain, 1)]
        below = [" " * (width + 1) + text if text else "" for text in below]
    return _with_context(plain, below, options.num_context_lines)


def _renamed(line: str, options: PrintOptions) -> str:
    names = {"I": options.ir_prefix, "T": options.tir_prefix, "R": options.relax_prefix}
    if all(name == own for name, own in names.items()):
        return line
    head = _IMPORT.match(line)
    if head is not None:
        return head.group(1) + names[head.group(2)]
    return _NAMESPACE.sub(lambda part: part.group(1) or f"{names[part.group(2)]}.", line)


def _indented(line: str, spaces: int) -> str:
    text = line.lstrip(" ")
    depth = (len(line) - len(text)) // _INDENT
    return " " * (depth * spaces) + text if text else ""


def _commented(line: str, options: PrintOptions) -> str:
    comments = [options.remarks[int(number)][1] for number in _REMARK.findall(line)]
    text = _REMARK.sub("", line)
    return f"{text}  # {'; '.join(comments)}" if comments else text


def _underline(text: str) -> str:
    """Marks below what lies between marks; empty when nothing does."""
    out, depth = [], 0
    for character in text:
        if character in (BEGIN, END):
            depth += 1 if character == BEGIN else -1
        else:
            out.append("^" if depth else " ")
    return "".join(out).rstrip()


def _with_context(lines: list[str], below: list[str], around: int) -> list[str]:
    shown = [number for number, marks in enumerate(below) if marks]
    keep = set(range(len(lines)))
    if around >= 0 and shown:
        keep = {near for number in shown for near in range(number - around, number + around + 1)}
    out: list[str] = []
    skipped = 0
    for number, (line, marks) in enumerate(zip(lines, below, strict=True)):
        if number not in keep:
            skipped += 1
            continue
        out += [*([f"(... {skipped} lines skipped ...)"] if skipped else []), line, *([marks] if marks else [])]
        skipped = 0
    return [*out, f"(... {skipped} lines skipped ...)"] if skipped else out
