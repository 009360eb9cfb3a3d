"""oneDNN's parallel regions on our team: its calls into the OpenMP runtime are led to functions of ours.

Only the addresses in the library's own table of imports are changed, so whoever else uses the OpenMP runtime of the
process (torch does) keeps it.

Reference: ELF gABI, dynamic section; System V ABI AMD64 supplement, 4.4 and 5.2 (global offset table).
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from eutectic.backend.dnnl.library import Library
from eutectic.backend.dnnl.openmp_text import INTERPOSED, PREFIX
from eutectic.runtime.object_code import ObjectCode
from eutectic.runtime.team import available_threads

_JUMP_SLOT, _GLOBAL_DATA = 7, 6
_STRINGS, _SYMBOLS, _RELOCATIONS, _RELOCATIONS_SIZE, _JUMPS_SIZE, _JUMPS = 5, 6, 7, 8, 2, 23
_RELOCATION: Final = np.dtype([("offset", np.uint64), ("info", np.uint64), ("addend", np.int64)])
_lock = threading.Lock()
_done: dict[Library, bool] = {}
_NEEDED: Final = tuple(name for name in INTERPOSED if name.startswith("GOMP_parallel"))


class _Symbol(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_uint32),
        ("info", ctypes.c_uint8),
        ("other", ctypes.c_uint8),
        ("section", ctypes.c_uint16),
        ("value", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
    )


def share_team(library: Library, functions: ObjectCode, record: int) -> bool:
    """Let a library run its parallel regions on the process's team, from now on; once is enough.

    Args:
        library: oneDNN.
        functions: The loaded code of `OPENMP_TEXT`; it stays for ever.
        record: Address of the team's record.

    Returns:
        Whether it does; not on other platforms, nor for a build that was made for another runtime than GCC's.
    """
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64":
        return False
    with _lock:
        if library not in _done:
            _done[library] = _interpose(library, functions, record)
        return _done[library]


def _interpose(library: Library, functions: ObjectCode, record: int) -> bool:
    slots = dict(_slots(library.handle))
    key = ctypes.c_uint32()
    if not all(name in slots for name in _NEEDED) or ctypes.CDLL(None).pthread_key_create(ctypes.byref(key), None):
        return False
    functions.keep_forever()
    for name, value in (("key", key.value), ("team", record), ("default", available_threads())):
        ctypes.c_uint64.from_address(functions.address(f"openmp_{name}")).value = value
    addresses = {name: functions.address(PREFIX + name) for name in INTERPOSED}
    for name, slot in slots.items():
        _write(slot, addresses[name])
    library.replace(addresses)
    return True


def _slots(handle: int) -> Iterator[tuple[str, int]]:
    """Where a loaded library keeps the addresses of the functions that we replace."""
    base = ctypes.c_uint64.from_address(handle).value  # a handle of dlopen is the loader's link_map
    entries = _dynamic(ctypes.c_uint64.from_address(handle + 16).value)
    for table, size in ((_JUMPS, _JUMPS_SIZE), (_RELOCATIONS, _RELOCATIONS_SIZE)):
        for offset, info in _relocations(entries.get(table, 0), entries.get(size, 0)):
            symbol = _Symbol.from_address(entries[_SYMBOLS] + (info >> 32) * ctypes.sizeof(_Symbol))
            name = ctypes.string_at(entries[_STRINGS] + symbol.name).decode(errors="replace")
            if name in INTERPOSED:
                yield name, base + offset


def _relocations(at: int, size: int) -> list[tuple[int, int]]:
    """Offset and kind of the relocations of a table that hold addresses of functions; a library has tens of thousands.

    Args:
        at: Where the table is.
        size: Its bytes.
    """
    rows = (
        np.frombuffer(memoryview((ctypes.c_uint8 * size).from_address(at)), _RELOCATION)
        if size
        else np.empty(0, _RELOCATION)
    )
    wanted = rows[np.isin(rows["info"] & 0xFFFFFFFF, (_JUMP_SLOT, _GLOBAL_DATA))]
    return list(zip(wanted["offset"].tolist(), wanted["info"].tolist(), strict=True))


def _dynamic(at: int) -> Mapping[int, int]:
    """The entries of a dynamic section; addresses in it are those of the loaded library."""
    entries: dict[int, int] = {}
    while (tag := ctypes.c_int64.from_address(at).value) != 0:
        entries[tag] = ctypes.c_uint64.from_address(at + 8).value
        at += 16
    return entries


def _write(slot: int, address: int) -> None:
    """Change a word that the loader may have made read-only."""
    protect = ctypes.CDLL(None).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    page = slot // mmap.PAGESIZE * mmap.PAGESIZE
    protect(page, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE)
    ctypes.c_uint64.from_address(slot).value = address
