"""Sphinx configuration: MyST pages, furo theme, warnings are errors (`make docs`)."""

from __future__ import annotations

import re
from importlib import metadata
from typing import Any

project = "Eutectic"
author = "The Eutectic contributors"
release = metadata.version("eutectic")
version = release

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
nitpicky = False

myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 3

autodoc_typehints = "description"
autodoc_member_order = "bysource"
napoleon_google_docstring = True
napoleon_numpy_docstring = False

html_theme = "furo"
html_title = f"Eutectic {release}"

_CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)(\w?)")


def _markdown_code(app: Any, what: str, name: str, item: Any, options: Any, lines: list[str]) -> None:
    """Docstrings write code as Markdown does, in single backticks; reStructuredText wants two."""
    for i, line in enumerate(lines):
        lines[i] = _CODE.sub(lambda m: f"``{m[1]}``" + (f"\\ {m[2]}" if m[2] else ""), line)


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", _markdown_code, priority=1000)
