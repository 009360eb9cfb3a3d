"""A page that shows what `kernels.py` found: bars and a table for each network, in one file that loads nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from eutectic.explain.numbers import share_text
from kernel_outcome import BEHIND, COLUMNS, Outcome, Row

_LEFT: Final = 330  # pixels of the names
_WIDTH: Final = 520  # pixels of 100 %
_RIGHT: Final = 150
_HEIGHT: Final = 30  # of a layer
_TOP: Final = 24
_BAR: Final = 10
_MOST: Final = 1.05  # longer bars are cut
_STYLE: Final = """
:root { color-scheme: light dark; --text: #1d2733; --page: #ffffff; --line: #d5dbe2; --ours: #2368c4; --other: #9aa7b5;
  --behind: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e9ef; --page: #14191f; --line: #38424e; --ours: #6ea8fe;
  --other: #66727f; --behind: #ff8a80; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page); margin: 2rem auto;
  max-width: 64rem; padding: 0 1rem; }
figure, .wide { overflow-x: auto; margin: 1rem 0; }
svg text { font-size: 12px; fill: var(--text); }
svg .grid { stroke: var(--line); }
svg .ours, .ours i { fill: var(--ours); background: var(--ours); }
svg .other, .other i { fill: var(--other); background: var(--other); }
svg text.behind { fill: var(--behind); font-weight: 600; }
.key i { display: inline-block; width: 0.8em; height: 0.8em; margin: 0 0.4em 0 1em; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px; }
th, td { padding: 0.15rem 0.6rem; text-align: right; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; white-space: nowrap; }
"""


def page(outcomes: Sequence[Outcome], machine: dict[str, Any], target: str) -> str:
    """The page as HTML text.

    Args:
        outcomes: The networks.
        machine: What `machine.describe` says.
        target: What our kernels are compiled for.
    """
    root = Element("html", lang="en")
    head = SubElement(root, "head")
    SubElement(head, "meta", charset="utf-8")
    SubElement(head, "meta", name="viewport", content="width=device-width, initial-scale=1")
    _text(head, "title", "Kernels beside oneDNN and the roofline")
    _text(head, "style", _STYLE)
    body = SubElement(root, "body")
    _text(body, "h1", "Kernels beside oneDNN and the roofline")
    threads = f"{machine['threads']} thread{'s' if machine['threads'] != 1 else ''}"
    _text(body, "p", f"{machine['processor']}, {threads}, target {target}. Each layer was compiled alone.")
    _text(
        body,
        "p",
        "Bars show the share of the roofline: the least time that the operations at the measured peak, or the bytes at "
        "the measured bandwidth, take. Numbers beside them are oneDNN's time over ours, above 1 when ours is faster; "
        f"those below {BEHIND} stand out.",
    )
    for outcome in outcomes:
        _section(body, outcome)
    indent(root)
    return "<!DOCTYPE html>\n" + tostring(root, encoding="unicode", method="html") + "\n"


def _section(body: Element, outcome: Outcome) -> None:
    _text(body, "h2", outcome.title)
    _text(body, "p", outcome.summary())
    key = SubElement(body, "p", {"class": "key"})
    for kind, name in (("ours", "eutectic"), ("other", "oneDNN")):
        entry = SubElement(key, "span", {"class": kind})
        SubElement(entry, "i").tail = name
    SubElement(body, "figure").append(_chart(outcome))
    table = SubElement(SubElement(body, "div", {"class": "wide"}), "table")
    header = SubElement(SubElement(table, "thead"), "tr")
    for name in COLUMNS:
        _text(header, "th", name)
    rows = SubElement(table, "tbody")
    for row in outcome.rows:
        line = SubElement(rows, "tr")
        for cell in outcome.cells(row):
            _text(line, "td", cell)


def _chart(outcome: Outcome) -> Element:
    width, height = _LEFT + _WIDTH + _RIGHT, _TOP + _HEIGHT * len(outcome.rows) + 8
    size = {"width": str(width), "height": str(height), "viewBox": f"0 0 {width} {height}"}
    label = f"Share of the roofline that each layer of {outcome.title} reaches"
    chart = Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "role": "img", "aria-label": label, **size})
    for percent in (0, 25, 50, 75, 100):
        x = str(_LEFT + _WIDTH * percent // 100)
        SubElement(chart, "line", {"class": "grid", "x1": x, "x2": x, "y1": str(_TOP - 4), "y2": str(height)})
        _text(chart, "text", f"{percent} %", x=x, y=str(_TOP - 8), **{"text-anchor": "middle"})
    for number, row in enumerate(outcome.rows):
        _bars(chart, outcome, row, _TOP + _HEIGHT * number)
    return chart


def _bars(chart: Element, outcome: Outcome, row: Row, top: int) -> None:
    middle = str(top + _HEIGHT // 2 + 4)
    _text(chart, "text", row.layer, x=str(_LEFT - 8), y=middle, **{"text-anchor": "end"})
    longest = 0.0
    for place, (kind, name, timing) in enumerate((("ours", "eutectic", row.ours), ("other", "oneDNN", row.library))):
        share = outcome.of_roofline(row, timing)
        if share is None or timing is None:
            continue
        length = _WIDTH * min(share, _MOST)
        y = str(top + 4 + place * (_BAR + 1))
        box = {"x": str(_LEFT), "y": y, "width": f"{length:.1f}", "height": str(_BAR), "class": kind}
        bar = SubElement(chart, "rect", box)
        _text(bar, "title", f"{name}: {timing.median_us:.4g} us, {share_text(share)} of the roofline")
        longest = max(longest, length)
    if (ratio := row.ratio) is not None:
        style = {"class": "behind"} if ratio < BEHIND else {}
        _text(chart, "text", f"{ratio:.2f}", x=f"{_LEFT + longest + 8:.1f}", y=middle, **style)


def _text(parent: Element, tag: str, text: str, **attributes: str) -> None:
    SubElement(parent, tag, attributes).text = text
