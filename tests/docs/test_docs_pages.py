"""The Python of every page runs: its blocks in order, in one program per page, in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^]]*\]\((?!https?:)([^)#]+)")


def program(page: Path) -> str:
    """The page with everything but its `python` blocks blanked out, so that line numbers in errors are the page's."""
    text, kept, end = page.read_text(encoding="utf-8"), [], 0
    for found in BLOCK.finditer(text):
        start, stop = found.span(2)
        kept.append("\n" * text.count("\n", end, start))
        kept.append(found.group(2) if found.group(1) == "python" else "\n" * found.group(2).count("\n"))
        end = stop
    return "".join(kept)


WITH_CODE = [page for page in PAGES if program(page).strip()]


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.stem)
def test_code_runs(page: Path, tmp_path: Path):
    code = program(page)
    if re.search(r"^\s*(import|from) torch", code, re.MULTILINE) and find_spec("torch") is None:
        pytest.skip("torch is not installed")
    script = tmp_path / f"{page.stem}.py"
    script.write_text(code, encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, script], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.slow
@pytest.mark.skipif(find_spec("sphinx") is None, reason="Sphinx is not installed")
def test_sphinx_has_no_warnings(tmp_path: Path):
    """What `make docs` does, warnings as errors: pages, links between them, and the docstrings in the reference."""
    options = ["-q", "-E", "-W", "--keep-going", "-b", "html", "-d", str(tmp_path / "trees")]
    command = [sys.executable, "-m", "sphinx", *options, str(ROOT / "docs"), str(tmp_path / "html")]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "html" / "reference.html").exists()


def test_the_pages_with_code_are_found():
    assert {"README", "getting-started", "patterns", "passes", "operators"} <= {page.stem for page in WITH_CODE}


def test_lines_keep_their_numbers():
    for page in WITH_CODE:
        lines, code = page.read_text(encoding="utf-8").splitlines(), program(page).splitlines()
        assert all(lines[i] == line for i, line in enumerate(code) if line)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path):
    targets = LINK.findall(page.read_text(encoding="utf-8"))
    missing = [t for t in targets if not any((page.parent / (t + end)).exists() for end in ("", ".md"))]
    assert missing == []


def test_files_named_in_contributing_exist():
    named = re.findall(
        r"`((?:src|tests|docs|benchmarks)/[\w./-]+)`", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    )
    assert len(named) > 5
    assert [name for name in named if not (ROOT / name).exists() and "NNNN" not in name] == []
