"""The table of TVM's names in the documentation is that of the code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from eutectic.compat.surface.listing import BEGIN, END, with_table

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "compat.md"
ENV = {"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}


def test_the_table_is_up_to_date(tmp_path: Path):
    """Bring it up to date with `python -m eutectic.compat --table docs/compat.md`."""
    copy = tmp_path / "compat.md"
    copy.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    command = [sys.executable, "-m", "eutectic.compat", "--table", str(copy)]
    done = subprocess.run(command, env=ENV, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert copy.read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8")


def test_a_page_without_a_place_for_it_is_refused():
    with pytest.raises(ValueError, match="has no place for the table"):
        with_table("# A page")
    with pytest.raises(ValueError, match="has no place for the table"):
        with_table(f"{END} {BEGIN}")
