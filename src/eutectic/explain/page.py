"""An explanation as one HTML file: the page, its style, its script and the data, all in one.

The parts are in the folder `web`. Nothing is fetched, and the page's own policy forbids it.
"""

from __future__ import annotations

import html
import json
import re
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from typing import Any

from eutectic.explain.data import Explained, Group
from eutectic.explain.text import summary


def page(explanation: Explained, title: str) -> str:
    """The file as text.

    Args:
        explanation: What to show.
        title: Heading.
    """
    parts = {
        "title": html.escape(title),
        "style": _part("page.css"),
        "script": _part("page.js"),
        "data": _script_text(page_data(explanation)),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match.group(1)], _part("page.html"))


def page_data(explanation: Explained) -> dict[str, Any]:
    """What the script reads."""
    return {
        "summary": summary(explanation),
        "groups": [_group(group) for group in explanation.groups],
        "boundaries": [asdict(boundary) for boundary in explanation.boundaries],
        "misses": [asdict(miss) for miss in explanation.misses],
        "timings": [asdict(timing) for timing in explanation.timings],
    }


def _group(group: Group) -> dict[str, Any]:
    record = group.record
    return {
        **asdict(record),
        "number": group.number,
        "seconds": group.seconds,
        "roofline": group.roofline,
        "how": group.how,
        "bytes_fused": record.bytes_fused,
        "bytes_unfused": record.bytes_unfused,
        "constant_bytes": record.constant_bytes,
    }


def _script_text(tree: Any) -> str:
    """JSON that cannot end the element it stands in."""
    return json.dumps(tree, separators=(",", ":")).replace("<", "\\u003c")


@cache
def _part(name: str) -> str:
    return files("eutectic.explain").joinpath("web", name).read_text(encoding="utf-8").rstrip()
