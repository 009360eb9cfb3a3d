"""What this processor can do, by LLVM's names of features."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

from eutectic.support.errors import LoadError

# Features that generated code makes use of; a processor has many more that it never touches.
USED: Final = frozenset(
    """
    sse3 ssse3 sse4.1 sse4.2 popcnt lzcnt bmi bmi2 movbe avx avx2 fma f16c gfni
    avx512f avx512bw avx512cd avx512dq avx512vl avx512ifma avx512vbmi avx512vbmi2 avx512vnni avx512bitalg
    avx512vpopcntdq avx512bf16 avx512fp16 avxvnni amx-tile amx-bf16 amx-int8
    neon dotprod fullfp16 bf16 i8mm sve sve2
    """.split()  # noqa: SIM905 - a list would be longer than what it says
)
# The kernel's names that are not LLVM's with underscores left out or made dashes.
_OTHER_NAMES: Final = {
    "pni": "sse3",
    "sse4_1": "sse4.1",
    "sse4_2": "sse4.2",
    "abm": "lzcnt",
    "bmi1": "bmi",
    "asimd": "neon",
    "asimddp": "dotprod",
    "asimdhp": "fullfp16",
    "amx_tile": "amx-tile",
    "amx_bf16": "amx-bf16",
    "amx_int8": "amx-int8",
}


def model_name() -> str:
    """Name of the processor as Linux gives it, else as Python does."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    named = next((line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")), "")
    return named or platform.processor() or platform.machine()


@cache
def features() -> frozenset[str]:
    """The features of this processor; none where the system does not tell."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    for line in text.splitlines():
        name, _, flags = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(_OTHER_NAMES.get(flag, flag.replace("_", "")) for flag in flags.split())
    return frozenset()


def check_features(wanted: Iterable[str], what: str) -> None:
    """Refuse code that this processor cannot run.

    Args:
        wanted: The features that the code makes use of.
        what: The code, for the message.

    Raises:
        LoadError: some are missing; names them.
    """
    known = features()
    missing = sorted(set(wanted) - known) if known else []
    if missing:
        raise LoadError(
            f"{what} is compiled for another processor: this one lacks {', '.join(missing)}",
            help='compile for this processor, or for a smaller one: target="llvm -mcpu=x86-64-v3"',
        )
