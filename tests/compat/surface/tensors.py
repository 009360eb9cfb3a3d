"""Examples of names: see `eutectic.compat.surface.tensors`; each subject has a module of its own."""

from __future__ import annotations

import sys
from importlib import import_module

for _subject in ("arith", "functions", "nodes", "schedules", "scripts", "topi", "topi_nn"):
    _name = f"tests.compat.surface.tensors_{_subject}"
    sys.modules.pop(_name, None)  # examples are collected whenever this module is imported
    import_module(_name)
