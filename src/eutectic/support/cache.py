"""A cache of files by key, shared by processes, in which whatever is wrong is a miss.

An entry carries its own hash. It is written under a temporary name and renamed, so
readers see all of it or nothing. The folder belongs to the user alone, or it is not used.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import stat
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from eutectic.support.config import cache_folder

_MAGIC: Final = b"EUTC1\n"
_SUFFIX: Final = ".eutc"
_MODEL: Final = ".eut"  # whole compiled models, which are written and read by the package `artefact`
_DIGEST: Final = 32
MOST_BYTES: Final = 2 * 1024**3
MOST_OF_MODEL: Final = MOST_BYTES // 4
_LONGEST_WRITE: Final = 3600  # seconds


@dataclass(frozen=True)
class Entry:
    """What is kept under a key.

    Attributes:
        meta: JSON data.
        blob: Bytes.
    """

    meta: dict[str, Any]
    blob: bytes


@dataclass(frozen=True)
class EntryInfo:
    """A file of the cache.

    Attributes:
        key: Its key.
        bytes: Its size.
        used: When it was last read or written, in seconds since 1970.
        meta: Its JSON data; empty when the file is damaged, and for models.
        is_model: Whether it is a whole compiled model, in a file of its own format.
    """

    key: str
    bytes: int
    used: float
    meta: dict[str, Any]
    is_model: bool = False


def usable_folder() -> Path | None:
    """The cache's folder, made when it is not there; None when it cannot be trusted or the cache is off."""
    folder = cache_folder()
    if folder is None:
        return None
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = os.lstat(folder)
    except OSError:
        return None
    ours = not hasattr(os, "getuid") or status.st_uid == os.getuid()
    if not stat.S_ISDIR(status.st_mode) or not ours or status.st_mode & 0o022:
        return None
    return folder


def read(key: str) -> Entry | None:
    """The entry of a key; None when there is none, or it is damaged."""
    folder = usable_folder()
    if folder is None:
        return None
    path = folder / f"{key}{_SUFFIX}"
    try:
        data, _ = _read_file(path)
        with contextlib.suppress(OSError):
            os.utime(path)
    except OSError:
        return None
    return _decode(key, data)


def write(key: str, entry: Entry) -> None:
    """Keep an entry; that it could not be written is no error."""
    folder = usable_folder()
    if folder is None:
        return
    name = ""
    try:
        descriptor, name = tempfile.mkstemp(prefix=".new-", dir=folder)
        with os.fdopen(descriptor, "wb") as file:
            file.write(_encode(key, entry))
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, folder / f"{key}{_SUFFIX}")
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(name)
    else:
        _keep_small(folder)


def model_path(key: str) -> Path | None:
    """Where a compiled model is kept, whether it is there or not; None when nothing is kept."""
    folder = usable_folder()
    return None if folder is None else folder / f"{key}{_MODEL}"


def model_was_written(path: Path) -> None:
    """Make room for a model: what was not used for longest is removed when there is too much."""
    _remove_oldest(path.parent)


def entries() -> list[EntryInfo]:
    """All entries, the latest used first."""
    folder = usable_folder()
    out = []
    for path in _files(folder):
        if path.suffix == _MODEL:
            with contextlib.suppress(OSError):
                out.append(_info(path))
            continue
        try:
            data, status = _read_file(path)
        except OSError:
            continue
        key = path.name.removesuffix(_SUFFIX)
        entry = _decode(key, data)
        out.append(EntryInfo(key, status.st_size, status.st_mtime, {} if entry is None else entry.meta))
    return sorted(out, key=lambda item: (-item.used, item.key))


def clear() -> list[EntryInfo]:
    """Remove all entries.

    Returns:
        What was removed.
    """
    removed = []
    for path in _files(usable_folder()):
        with contextlib.suppress(OSError):
            item = _info(path)
            path.unlink()
            removed.append(item)
    return removed


def _info(path: Path) -> EntryInfo:
    """What is known of a file without reading it."""
    status = path.lstat()
    return EntryInfo(path.stem, status.st_size, status.st_mtime, {}, path.suffix == _MODEL)


def _read_file(path: Path) -> tuple[bytes, os.stat_result]:
    """The bytes of a file and what is known of it.

    A pipe or a device could keep us waiting, so that only plain files are read, and opening does not wait either.

    Raises:
        OSError: it cannot be read, or is no plain file.
    """
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
    descriptor = os.open(path, flags | getattr(os, "O_BINARY", 0))
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a plain file", str(path))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(), status
    finally:
        os.close(descriptor)


def _files(folder: Path | None) -> list[Path]:
    return [] if folder is None else sorted(path for suffix in (_SUFFIX, _MODEL) for path in folder.glob(f"*{suffix}"))


def _encode(key: str, entry: Entry) -> bytes:
    meta = json.dumps(entry.meta, sort_keys=True).encode()
    payload = key.encode() + b"\n" + len(meta).to_bytes(8, "little") + meta + entry.blob
    return _MAGIC + hashlib.sha256(payload).digest() + payload


def _decode(key: str, data: bytes) -> Entry | None:
    start = len(_MAGIC) + _DIGEST
    payload = data[start:]
    if not data.startswith(_MAGIC) or hashlib.sha256(payload).digest() != data[len(_MAGIC) : start]:
        return None
    name, _, rest = payload.partition(b"\n")
    if name != key.encode() or len(rest) < 8:
        return None
    length = int.from_bytes(rest[:8], "little")
    try:
        meta = json.loads(rest[8 : 8 + length])
    except ValueError:
        return None
    return Entry(meta, rest[8 + length :]) if isinstance(meta, dict) else None


_written: list[int] = [0]


def _keep_small(folder: Path) -> None:
    """Make room for kernels; looked at every 64 writes."""
    _written[0] += 1
    if _written[0] % 64 == 0:
        _remove_oldest(folder)


def _remove_oldest(folder: Path) -> None:
    """Remove what was not used for longest when there is too much, and what processes left that were killed."""
    files = []
    for path in _files(folder):
        with contextlib.suppress(OSError):
            files.append((_info(path), path))
    total = sum(item.bytes for item, _ in files)
    for item, path in sorted(files, key=lambda row: row[0].used):
        if total <= MOST_BYTES:
            break
        with contextlib.suppress(OSError):
            path.unlink()
        total -= item.bytes
    for path in folder.glob(".*"):  # names of files that are being written
        with contextlib.suppress(OSError):
            if path.lstat().st_mtime < time.time() - _LONGEST_WRITE:
                path.unlink()
