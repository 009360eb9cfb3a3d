"""The C compiler of the system, for what is linked into programs in C."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from eutectic.support.errors import ToolchainError

COMPILERS: Final = ("cc", "gcc", "clang")
SECONDS: Final = 300
_SHOWN: Final = 800  # characters of what the compiler says


def c_compiler() -> str:
    """Path of the C compiler.

    Raises:
        ToolchainError: there is none.
    """
    for name in COMPILERS:
        if path := shutil.which(name):
            return path
    raise ToolchainError(
        f"no C compiler: none of {', '.join(COMPILERS)} is on the path", help="install one, such as the package gcc"
    )


def run_compiler(arguments: Sequence[str | Path], folder: Path) -> None:
    """Run the C compiler.

    Args:
        arguments: What it is told; nothing goes through a shell.
        folder: Where it runs and keeps what is temporary.

    Raises:
        ToolchainError: there is none, it fails, or it takes too long.
    """
    command = [c_compiler(), *map(str, arguments)]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False, errors="replace"
        )
    except subprocess.TimeoutExpired:
        raise ToolchainError(f"{command[0]} took more than {SECONDS} s") from None
    if done.returncode:
        raise ToolchainError(
            f"{command[0]} failed with status {done.returncode}", notes=[done.stderr.strip()[-_SHOWN:]]
        )
