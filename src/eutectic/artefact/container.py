"""The container of an artefact: a zip archive whose members are stored as they are, so that they can be mapped.

What is read here was written elsewhere, perhaps by somebody else. Whatever `write_members` does not write is refused:
compressed or encrypted members, links, names outside of the archive, names given twice, bytes between the members.

Reference: APPNOTE.TXT, .ZIP File Format Specification, PKWARE; 4.3 for the records, 4.5 for extra fields.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import secrets
import stat
import struct
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from eutectic.support.errors import LoadError

ALIGNMENT: Final = 64
MOST_MEMBERS: Final = 100_000
_LOCAL: Final = struct.Struct("<4sHHHHHIIIHH")
_SIZES_OF_LARGE: Final = 20  # bytes of the extra field with sizes of 64 bits
_LARGE: Final = 1 << 30
_END: Final = 22  # bytes of the record that ends an archive
_PADDING: Final = 0xD935  # extra field that is known for alignment
_NAMES: Final = re.compile(
    r"manifest\.json|weights\.safetensors|programs/\d{1,4}\.json|reports/\d{1,4}\.json|texts/\d{1,4}\.py"
    r"|code/[0-9a-f]{64}\.o"
)


@dataclass(frozen=True)
class Member:
    """Something to write.

    Attributes:
        name: Its path in the archive.
        content: Its bytes.
        aligned_at: Place in it that is to be at a multiple of `ALIGNMENT` in the file.
    """

    name: str
    content: bytes
    aligned_at: int = 0


def write_members(path: Path, members: Sequence[Member], *, synced: bool = True) -> None:
    """Write an archive in place of what is there; readers see the old file or the whole new one.

    The same members give the same bytes.

    Args:
        path: The file.
        members: What to write, in order.
        synced: Whether to wait until the disk has it.

    Raises:
        OSError: it cannot be written.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.part")
    try:
        with open(partial, "xb") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
                for member in members:
                    _append(archive, file, member)
            file.flush()
            if synced:
                os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            partial.unlink()


def _append(archive: zipfile.ZipFile, file: IO[bytes], member: Member) -> None:
    info = zipfile.ZipInfo(member.name, (1980, 1, 1, 0, 0, 0))
    info.external_attr = (stat.S_IFREG | 0o644) << 16
    is_large = len(member.content) >= _LARGE
    head = _LOCAL.size + len(member.name) + (_SIZES_OF_LARGE if is_large else 0) + 4
    padding = -(file.tell() + head + member.aligned_at) % ALIGNMENT
    info.extra = struct.pack("<HH", _PADDING, padding) + bytes(padding)
    with archive.open(info, "w", force_zip64=is_large) as target:
        target.write(member.content)


class Container:
    """An archive, mapped and looked through.

    Attributes:
        path: The file.
        members: Content by name; stays valid as long as anything refers to it.

    Args:
        path: The file.

    Raises:
        LoadError: it cannot be read, or is not one that `write_members` wrote.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with open(path, "rb") as file:
                whole = self._mapped(file)
                infos, end = self._directory(file, bytes(whole[-_END:]))
        except OSError as error:
            raise LoadError(f"{path} cannot be read: {error.strerror or error}") from None
        self.members = self._members(whole, infos, end)
        self._sums = {info.orig_filename: info.CRC for info in infos}

    def refuse(self, why: str, help: str = "write it again; nothing of it was loaded") -> LoadError:
        """The error for a file that is not taken.

        Args:
            why: What is wrong, after the name of the file.
            help: What to do.
        """
        return LoadError(f"{self.path}: {why}", help=help)

    def _mapped(self, file: IO[bytes]) -> memoryview:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise self.refuse("is no regular file", help="give the path of a file that save() wrote")
        if status.st_size < _END:
            raise self.refuse(f"is no artefact: it has {status.st_size} bytes")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    def _directory(self, file: IO[bytes], last: bytes) -> tuple[list[zipfile.ZipInfo], int]:
        """The entries of the archive in the order of the file, and where the last member ends."""
        try:
            with zipfile.ZipFile(file) as archive:
                infos, comment = archive.infolist(), archive.comment
                end = int(archive.start_dir)
        except _OF_ZIPFILE as error:
            raise self.refuse(f"is no artefact, or is cut off: {error}") from None
        is_whole = last.startswith(b"PK\5\6")  # nothing comes after the record that ends an archive
        if len(infos) > MOST_MEMBERS or comment or not is_whole:
            raise self.refuse("is an archive that save() did not write: it has too many members, or a comment")
        return sorted(infos, key=lambda info: info.header_offset), end

    def _members(self, whole: memoryview, infos: Sequence[zipfile.ZipInfo], end: int) -> dict[str, memoryview]:
        members: dict[str, memoryview] = {}
        at = 0
        for info in infos:
            name = info.orig_filename
            self._check(info)
            if name in members:
                raise self.refuse(f"has the member {name} twice")
            if info.header_offset != at:
                raise self.refuse(f"has bytes before {name} that belong to no member, or members that overlap")
            at = self._start(whole, info)
            members[name] = whole[at : at + info.file_size]
            at += info.file_size
            if at > end:
                raise self.refuse(f"is cut off: {name} says that it has {info.file_size} bytes")
        if at != end:
            raise self.refuse("has bytes after the last member")
        return members

    def _check(self, info: zipfile.ZipInfo) -> None:
        """Refuse an entry that `write_members` does not write."""
        name = info.orig_filename
        if name.startswith(("/", "\\")) or ":" in name or ".." in re.split(r"[/\\]", name):
            raise self.refuse(f"has a member that would lie outside: {name!r}")
        if info.flag_bits & 1:
            raise self.refuse(f"has an encrypted member: {name!r}")
        if info.external_attr >> 16 and not stat.S_ISREG(info.external_attr >> 16):
            raise self.refuse(f"has a member that is a link, or no file: {name!r}")
        if not _NAMES.fullmatch(name):
            raise self.refuse(f"has a member that is not known: {name!r}", help="load it with the build that wrote it")
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size or info.flag_bits:
            raise self.refuse(f"has a compressed member: {name!r}")

    def _start(self, whole: memoryview, info: zipfile.ZipInfo) -> int:
        """Where the content of a member begins; its own header has to say the same as the directory."""
        try:
            signature, _, flags, method, _, _, crc, _, _, name_length, extra = _LOCAL.unpack_from(
                whole, info.header_offset
            )
        except struct.error:
            raise self.refuse(f"is cut off before {info.orig_filename}") from None
        begin = info.header_offset + _LOCAL.size
        name = bytes(whole[begin : begin + name_length])
        same = (signature, flags, method, crc, name) == (b"PK\3\4", 0, 0, info.CRC, info.orig_filename.encode())
        if not same:
            raise self.refuse(f"has another header for {info.orig_filename} than its directory says")
        return int(begin + name_length + extra)

    def checked(self, name: str) -> bytes:
        """The content of a member that no digest covers, compared with the archive's own check sum.

        Raises:
            LoadError: there is none, or it was changed.
        """
        if name not in self.members:
            raise self.refuse(f"is no artefact: it has no {name}")
        content = bytes(self.members[name])
        if zlib.crc32(content) != self._sums[name]:
            raise self.refuse(f"was changed: {name} is not what was written")
        return content


_OF_ZIPFILE: Final[tuple[type[Exception], ...]] = (
    zipfile.BadZipFile,
    ArithmeticError,
    LookupError,
    MemoryError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    struct.error,
)
