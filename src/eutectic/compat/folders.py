"""`tvm.contrib.utils`: folders that vanish."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

__all__ = ["TempDirectory", "tempdir"]


class TempDirectory:
    """A folder that is removed with its content when this object is.

    Attributes:
        path: The folder.
        temp_dir: The same, as TVM calls it.
    """

    def __init__(self, custom_path: str | None = None) -> None:
        self._folder = None if custom_path else tempfile.TemporaryDirectory(prefix="eutectic-")
        self.path = custom_path or self._folder.name  # type: ignore[union-attr]  # one of the two is there
        Path(self.path).mkdir(parents=True, exist_ok=True)

    @property
    def temp_dir(self) -> str:
        """The folder."""
        return self.path

    def relpath(self, name: str) -> str:
        """Path of a file in the folder."""
        return str(Path(self.path) / name)

    def listdir(self) -> list[str]:
        """Names of what is in the folder."""
        return sorted(os.listdir(self.path))

    def remove(self) -> None:
        """Remove it now."""
        if self._folder is not None:
            self._folder.cleanup()

    def __truediv__(self, name: str) -> Path:
        return Path(self.path) / name

    def __enter__(self) -> TempDirectory:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def tempdir(custom_path: str | None = None) -> TempDirectory:
    """A folder for what a script writes; a path of one's own stays."""
    return TempDirectory(custom_path)
