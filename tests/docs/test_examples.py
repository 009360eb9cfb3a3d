"""The programs in examples/ run, and are as short as their names say."""

from __future__ import annotations

import ast
import runpy
from pathlib import Path

import pytest

pytest.importorskip("torch")
EXAMPLES = Path(__file__).parents[2] / "examples"


def lines_of_code(path: Path) -> int:
    """Lines that are neither empty, nor comments, nor documentation."""
    text = path.read_text(encoding="utf-8")
    head = ast.parse(text).body[0]
    documentation = range(head.lineno, (head.end_lineno or 0) + 1)
    lines = enumerate(text.splitlines(), 1)
    return sum(bool(line.strip()) and line.lstrip()[0] != "#" and i not in documentation for i, line in lines)


def test_a_backend_in_60_lines(capsys):
    path = EXAMPLES / "backend_in_60_lines.py"
    assert lines_of_code(path) <= 60
    runpy.run_path(str(path), run_name="__main__")
    said = capsys.readouterr().out.splitlines()
    taken = "numpy_conv numpy_conv.conv2d_bias_relu computes relax.nn.conv2d, relax.add, relax.nn.relu of"
    assert said == [f"{taken} 0 1", f"{taken} 2 3", "llvm llvm.reshape computes relax.reshape of 4"]
