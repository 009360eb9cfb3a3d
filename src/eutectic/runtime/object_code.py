"""Object code in this process: ELF object files, placed, linked with each other and with the process, and called.

Needs no linker and no LLVM, so what was compiled once runs where there is no compiler. What it takes is what the code
generator writes: position-independent code without thread-local variables, constructors and common symbols.

Reference: System V ABI, ELF-64 object files; its supplements for AMD64 and AArch64 for the relocations.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
import sys
import weakref
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from eutectic.runtime.relocations import STUB_BYTES, Reference, relocate, stub
from eutectic.runtime.symbols import registered_address
from eutectic.support.errors import LoadError

MACHINES: Final = {62: "x86_64", 183: "aarch64"}
_PROGBITS, _SYMTAB, _RELA, _NOBITS = 1, 2, 4, 8
_WRITE, _ALLOC, _CODE, _THREAD_LOCAL = 1, 2, 4, 0x400
_UNWIND: Final = (".eh_frame", ".note")  # nothing is ever thrown through our code
_READ_WRITE: Final = mmap.PROT_READ | mmap.PROT_WRITE
_UNDEFINED, _ABSOLUTE = 0, 0xFFF1


@dataclass
class _Section:
    """A section of an object file.

    Attributes:
        name: Such as `.text`.
        kind: Type in ELF.
        flags: Flags in ELF.
        data: Its bytes; none for memory that starts as zeros.
        size: Bytes in memory.
        alignment: A power of two.
        link: Number of the section that belongs to it: the symbols of relocations, the strings of symbols.
        about: For relocations the number of the section that they change.
        address: Where it is placed; 0 when it is not loaded.
    """

    name: str
    kind: int
    flags: int
    data: memoryview
    size: int
    alignment: int
    link: int
    about: int
    address: int = 0

    @property
    def is_loaded(self) -> bool:
        """Whether it takes part in the program."""
        return bool(self.flags & _ALLOC) and not self.name.startswith(_UNWIND)


@dataclass
class _Object:
    """An object file, taken apart.

    Attributes:
        sections: By number.
        symbols: By number: name, section, value, and whether others see it.
    """

    sections: list[_Section]
    symbols: list[tuple[str, int, int, bool]] = field(default_factory=list)


class ObjectCode:
    """Loaded object code; stays as long as this object, or for ever after `keep_forever`.

    Args:
        objects: Object files for this machine.
        imports: Addresses of symbols that they use, beside those of the process.

    Attributes:
        calls_registered: Whether it uses a function of `symbols.py`, which may be one of Python.

    Raises:
        LoadError: one is damaged, for another machine, or needs something that is not there.
    """

    def __init__(self, objects: Iterable[bytes], imports: Mapping[str, int] | None = None) -> None:
        self._imports = dict(imports or {})
        self._symbols: dict[str, int] = {}
        self.calls_registered = False
        parsed = [_parse(data) for data in objects]
        self._place(parsed)
        for item in parsed:
            self._define(item)
        for item in parsed:
            self._link(item)
        self._protect()

    def address(self, symbol: str) -> int:
        """Address of a function or variable.

        Raises:
            LoadError: there is none of that name.
        """
        if symbol not in self._symbols:
            raise LoadError(f"the loaded code has no symbol {symbol}")
        return self._symbols[symbol]

    def keep_forever(self) -> None:
        """Never unload the code, as threads may run it until the end."""
        self._finalizer.detach()

    # ---- placing

    def _place(self, objects: list[_Object]) -> None:
        """Memory for everything: code and constants first, then pages that are written."""
        loaded = [section for item in objects for section in item.sections if section.is_loaded]
        fixed = [section for section in loaded if not section.flags & _WRITE]
        written = [section for section in loaded if section.flags & _WRITE]
        outside = sum(sum(not place for _, place, _, _ in item.symbols) for item in objects)
        known = sum(len(item.symbols) for item in objects)
        size = _spread(fixed, 0)
        self._stubs_at = -(-size // 16) * 16
        self._code_bytes = _pages(self._stubs_at + outside * STUB_BYTES)
        size = _spread(written, self._code_bytes)
        self._table_at = -(-size // 8) * 8
        self._bytes = _pages(self._table_at + known * 8)
        self._base = _map(self._bytes)
        self._finalizer = weakref.finalize(self, _libc().munmap, self._base, self._bytes)
        self._finalizer.atexit = False
        self._stubs: dict[int, int] = {}
        self._table: dict[int, int] = {}
        for section in loaded:
            section.address += self._base
            ctypes.memmove(section.address, bytes(section.data), len(section.data))

    def _define(self, item: _Object) -> None:
        for name, place, value, is_global in item.symbols:
            if is_global and place not in (_UNDEFINED, _ABSOLUTE):
                if name in self._symbols:
                    raise LoadError(f"symbol {name} is defined twice")
                self._symbols[name] = item.sections[place].address + value

    # ---- linking

    def _link(self, item: _Object) -> None:
        for section in item.sections:
            if section.kind != _RELA or not item.sections[section.about].is_loaded:
                continue
            target = item.sections[section.about]
            for offset, info, addend in struct.iter_unpack("<QQq", section.data):
                name, place, value, _ = item.symbols[info >> 32]
                symbol = self._value(item, name, place, value)
                reference = Reference(target.address + offset, symbol, addend, name or "a section")
                relocate(sys_machine(), info & 0xFFFFFFFF, reference, self._stub, self._slot)

    def _value(self, item: _Object, name: str, place: int, value: int) -> int:
        if place == _ABSOLUTE:
            return value
        if place != _UNDEFINED:
            return item.sections[place].address + value
        for known in (self._symbols, self._imports):
            if name in known:
                return known[name]
        registered = registered_address(name)
        self.calls_registered |= registered is not None
        return _in_process(name) if registered is None else registered

    def _stub(self, target: int) -> int:
        """Address of a jump to a function that is too far for a call."""
        if target not in self._stubs:
            at = self._base + self._stubs_at + len(self._stubs) * STUB_BYTES
            ctypes.memmove(at, stub(sys_machine(), target), STUB_BYTES)
            self._stubs[target] = at
        return self._stubs[target]

    def _slot(self, target: int) -> int:
        """Address of a word that holds an address."""
        if target not in self._table:
            at = self._base + self._table_at + len(self._table) * 8
            ctypes.c_uint64.from_address(at).value = target
            self._table[target] = at
        return self._table[target]

    def _protect(self) -> None:
        if not self._code_bytes:
            return
        if _libc().mprotect(self._base, self._code_bytes, mmap.PROT_READ | mmap.PROT_EXEC):
            raise LoadError("the system does not allow code that is made at run time", help="look for W^X policies")
        if sys_machine() == "aarch64":  # instruction caches do not see what was written as data
            ctypes.CDLL("libgcc_s.so.1").__clear_cache(
                ctypes.c_void_p(self._base), ctypes.c_void_p(self._base + self._code_bytes)
            )


@cache
def sys_machine() -> str:
    """Name of the processor family of this process."""
    import platform  # only this needs it

    return platform.machine()


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_ssize_t]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return libc


def _map(size: int) -> int:
    address: int | None = _libc().mmap(
        None, max(size, mmap.PAGESIZE), _READ_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANON, -1, 0
    )
    if address is None or address == ctypes.c_void_p(-1).value:
        raise MemoryError(f"no memory for {size} bytes of code")
    return address


def _pages(size: int) -> int:
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE


def _spread(sections: Iterable[_Section], start: int) -> int:
    """Give sections their places, one after the other; returns where the last one ends."""
    for section in sections:
        start = -(-start // section.alignment) * section.alignment
        section.address = start
        start += section.size
    return start


def _in_process(name: str) -> int:
    for library in (None, "libm.so.6"):
        try:
            address = ctypes.cast(getattr(ctypes.CDLL(library), name), ctypes.c_void_p).value
        except (AttributeError, OSError):
            continue
        if address:
            return address
    raise LoadError(f"the code needs {name}, which no loaded library has")


# ---- reading


def _parse(data: bytes) -> _Object:
    try:
        return _read(data)
    except (struct.error, IndexError, UnicodeDecodeError, ValueError) as error:
        raise LoadError(f"an object file is damaged: {error}") from None


def _read(data: bytes) -> _Object:
    if data[:6] != b"\x7fELF\x02\x01" or not sys.platform.startswith("linux"):
        raise LoadError("this is no object code for 64-bit Linux")
    kind, machine = struct.unpack_from("<HH", data, 16)
    if kind != 1 or MACHINES.get(machine) != sys_machine():
        made_for = MACHINES.get(machine, f"machine {machine}")
        raise LoadError(f"the code is for {made_for}, and this is {sys_machine()}", help="compile for this machine")
    item = _Object(list(_sections(data)))
    for section in item.sections:
        if section.kind == _SYMTAB:
            item.symbols = list(_symbols(section, item.sections[section.link].data))
    if any(place > len(item.sections) and place != _ABSOLUTE for _, place, _, _ in item.symbols):
        raise LoadError("the code has common symbols")
    return item


def _sections(data: bytes) -> Iterator[_Section]:
    whole = memoryview(data)
    (table,) = struct.unpack_from("<Q", data, 40)
    entry, count, names_at = struct.unpack_from("<HHH", data, 58)
    rows = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * entry) for i in range(count)]
    names = whole[rows[names_at][4] : rows[names_at][4] + rows[names_at][5]]
    for name, kind, flags, _, offset, size, link, about, alignment, _ in rows:
        if flags & _THREAD_LOCAL:
            raise LoadError("the code has thread-local variables")
        if kind != _NOBITS and offset + size > len(data):
            raise ValueError("a section reaches beyond the end")
        bytes_ = whole[0:0] if kind == _NOBITS else whole[offset : offset + size]
        yield _Section(_string(names, name), kind, flags, bytes_, size, max(alignment, 1), link, about)


def _symbols(section: _Section, names: memoryview) -> Iterator[tuple[str, int, int, bool]]:
    for name, info, _, place, value, _ in struct.iter_unpack("<IBBHQQ", section.data):
        yield _string(names, name), place, value, info >> 4 != 0


def _string(names: memoryview, start: int) -> str:
    raw = bytes(names[start : start + 512])
    return raw.split(b"\0", 1)[0].decode()
