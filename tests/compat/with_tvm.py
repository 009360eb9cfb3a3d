"""Run the scripts of this folder under a real TVM, and compare what they print with what they print here.

    python tests/compat/with_tvm.py --tvm PATH_OF_PYTHON_WITH_TVM [SCRIPT ...]

Scripts are written with the names of TVM 0.23. Where a later version moved names (`tvm.tir` to `tvm.tirx`, `T.block`
to `T.sblock`), their text is changed first, and what they print is changed back.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SCRIPTS = Path(__file__).parent / "scripts"
MOVED = (
    (r"from tvm\.script import tir as T", "from tvm.script import tirx as T"),
    (r"@T\.prim_func\b(?!\()", "@T.prim_func(s_tir=True)"),
    (r"@T\.prim_func\((?!s_tir)", "@T.prim_func(s_tir=True, "),
    (r"\bT\.block\(", "T.sblock("),
    (r"\bT\.alloc_buffer\(", "T.sblock_alloc_buffer("),
    (r"\btvm\.tir\.(Schedule|TensorIntrin)\b", r"tvm.s_tir.\1"),
    (r"\bget_block\(", "get_sblock("),
    (r"\btvm\.tir\b", "tvm.tirx"),
    (r"from tvm import tir$", "from tvm import tirx as tir"),
    (r"(?m)^import tvm$", "import tvm\nimport tvm.s_tir\nimport tvm.testing"),
    (r"tvm\.instrument\.", "tvm.ir.instrument."),
)
BACK = ((r"T\.sblock\b", "T.block"), (r"\bget_sblock\b", "get_block"), (r"\bSBlock", "Block"), (r"tirx", "tir"))


def changed(text: str, changes: tuple[tuple[str, str], ...]) -> str:
    """A text with names replaced."""
    for old, new in changes:
        text = re.sub(old, new, text, flags=re.M)
    return text


def printed(command: list[str], script: Path) -> tuple[bool, str]:
    """Whether a script runs, and what it prints; the last line of the error where it does not."""
    done = subprocess.run([*command, str(script)], capture_output=True, text=True, timeout=300, check=False)
    if done.returncode == 0:
        return True, done.stdout
    return False, (done.stderr.strip().splitlines() or ["no message"])[-1][:200]


def compare(script: Path, python: str) -> tuple[str, str]:
    """`same`, `differs` or `stops`, and how."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / script.name
        copy.write_text(changed(script.read_text(encoding="utf-8"), MOVED), encoding="utf-8")
        runs, theirs = printed([python], copy)
    if not runs:
        return "stops", theirs
    here, ours = printed([sys.executable, "-m", "eutectic.compat"], script)
    if not here:
        return "stops here", ours
    pairs = zip(ours.splitlines(), changed(theirs, BACK).splitlines(), strict=False)
    first = next(((mine, other) for mine, other in pairs if mine != other), None)
    return ("same", "") if first is None else ("differs", f"{first[0]!r} here, {first[1]!r} there")


def main() -> None:
    """Print a line for each script, and the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tvm", required=True, help="a Python that can import tvm")
    parser.add_argument("scripts", nargs="*", type=Path)
    options = parser.parse_args()
    scripts = options.scripts or sorted(SCRIPTS.glob("*.py"))
    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(lambda script: compare(script, options.tvm), scripts))
    for script, (outcome, how) in zip(scripts, outcomes, strict=True):
        print(f"{outcome:10} {script.stem} {how}".rstrip())
    counts = {outcome: sum(one == outcome for one, _ in outcomes) for outcome in dict(outcomes)}
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())))


if __name__ == "__main__":
    main()
