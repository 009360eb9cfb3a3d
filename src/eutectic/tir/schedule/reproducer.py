"""Two versions of a program that differ, with the inputs on which they do, in a folder of their own."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from eutectic.tir.function import PrimFunc

_SCRIPT: Final = '''"""Runs a program before and after a step, on inputs on which they differ."""

from pathlib import Path

import numpy as np

from eutectic.script import from_source
from eutectic.tir.interpret import run

here = Path(__file__).parent
given = np.load(here / "inputs.npz")
for version in ("before", "after"):
    func = from_source((here / f"{version}.py").read_text(encoding="utf-8"))
    args = [given[f"arg{i}"] for i in range(len(given.files))]
    args = [arg if arg.ndim else arg.item() for arg in args]
    run(func, *args)
    print(version, *args, sep="\\n")
'''


def save_reproducer(before: PrimFunc, after: PrimFunc, args: Sequence[Any]) -> Path:
    """Write both versions, the inputs and a script into a new folder.

    Args:
        before: The program.
        after: The same after a step.
        args: Arguments on which they differ.
    """
    folder = Path(tempfile.mkdtemp(prefix="eutectic-difference-"))
    for version, func in (("before", before), ("after", after)):
        (folder / f"{version}.py").write_text(func.script(), encoding="utf-8")
    np.savez(folder / "inputs.npz", **{f"arg{i}": np.asarray(arg) for i, arg in enumerate(args)})  # type: ignore[arg-type]  # by name
    (folder / "reproduce.py").write_text(_SCRIPT, encoding="utf-8")
    return folder
