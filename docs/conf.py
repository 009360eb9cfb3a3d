"""Sphinx configuration: MyST pages, furo theme, warnings are errors (`make docs`)."""

from __future__ import annotations

from importlib import metadata

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
