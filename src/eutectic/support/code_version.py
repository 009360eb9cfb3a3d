"""What caches on disk know the code by that filled them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).parents[1]


def code_version(packages: Iterable[str], parts: Iterable[str]) -> bytes:
    """Changes when source files of this package change, or the version of an installed one does.

    Args:
        packages: Names under which they are installed.
        parts: Patterns of source files, from the folder of this package on.
    """
    digest = hashlib.sha256()
    for package in packages:
        try:
            digest.update(version(package).encode())
        except PackageNotFoundError:  # run from a source tree that is not installed
            digest.update(b"?")
    for part in parts:
        for path in sorted(_PACKAGE.glob(part)):
            digest.update(path.read_bytes())
    return digest.digest()
