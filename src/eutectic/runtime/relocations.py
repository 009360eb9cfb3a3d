"""Relocations: how addresses become parts of instructions and data, for the processors that code is made for.

Reference: System V ABI AMD64 supplement, chapter 4.4; ELF for the Arm 64-bit Architecture, section 5.7.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from eutectic.support.errors import LoadError

STUB_BYTES: Final = 16
Lookup = Callable[[int], int]


@dataclass(frozen=True)
class Reference:
    """A place in code or data that refers to a symbol.

    Attributes:
        place: Its address.
        symbol: Address of the symbol.
        addend: What is added.
        name: Of the symbol, for messages.
    """

    place: int
    symbol: int
    addend: int
    name: str

    @property
    def value(self) -> int:
        """Address that is meant."""
        return self.symbol + self.addend


def stub(machine: str, target: int) -> bytes:
    """A jump to any address."""
    if machine == "x86_64":
        return b"\xff\x25\x00\x00\x00\x00" + struct.pack("<Q", target) + b"\xcc\xcc"  # jmp *0(%rip)
    return struct.pack("<IIQ", 0x58000050, 0xD61F0200, target)  # ldr x16, #8; br x16


def relocate(machine: str, kind: int, at: Reference, stub_of: Lookup, slot_of: Lookup) -> None:
    """Write one relocation.

    Args:
        machine: Processor family.
        kind: Number of the relocation.
        at: Where, and what it refers to.
        stub_of: Address of a near jump to an address.
        slot_of: Address of a word with an address.

    Raises:
        LoadError: the code uses a relocation that is not known, or something is out of reach.
    """
    known = _AMD64 if machine == "x86_64" else _AARCH64
    if kind not in known:
        raise LoadError(f"the code uses relocation {kind} of {machine}, which is not supported")
    known[kind](at, stub_of, slot_of)


def _word(at: Reference, value: int, bits: int, *, signed: bool = True) -> None:
    low, high = (-(1 << (bits - 1)), 1 << (bits - 1)) if signed else (0, 1 << bits)
    if not low <= value < high:
        raise LoadError(f"{at.name} is out of reach of the code that uses it")
    size = {32: ctypes.c_uint32, 64: ctypes.c_uint64}[bits]
    size.from_address(at.place).value = value & ((1 << bits) - 1)


def _absolute(bits: int, *, signed: bool) -> Callable[[Reference, Lookup, Lookup], None]:
    return lambda at, _, __: _word(at, at.value, bits, signed=signed)


def _relative(bits: int) -> Callable[[Reference, Lookup, Lookup], None]:
    return lambda at, _, __: _word(at, at.value - at.place, bits)


def _call_amd64(at: Reference, stub_of: Lookup, _: Lookup) -> None:
    near = abs(at.value - at.place) < 1 << 31
    symbol = at.symbol if near else stub_of(at.symbol)
    _word(at, symbol + at.addend - at.place, 32)


def _through_slot_amd64(at: Reference, _: Lookup, slot_of: Lookup) -> None:
    _word(at, slot_of(at.symbol) + at.addend - at.place, 32)


_AMD64: Final = {
    1: _absolute(64, signed=False),
    2: _relative(32),
    4: _call_amd64,
    9: _through_slot_amd64,
    10: _absolute(32, signed=False),
    11: _absolute(32, signed=True),
    24: _relative(64),
    41: _through_slot_amd64,
    42: _through_slot_amd64,
}


def _bits(at: Reference, mask: int, value: int) -> None:
    word = ctypes.c_uint32.from_address(at.place)
    word.value = (word.value & ~mask & 0xFFFFFFFF) | (value & mask)


def _branch(at: Reference, stub_of: Lookup, _: Lookup) -> None:
    """The 26 bits of a branch: instructions to go."""
    near = abs(at.value - at.place) < 1 << 27
    distance = (at.value if near else stub_of(at.symbol)) - at.place
    _bits(at, 0x03FFFFFF, distance >> 2)


def _page(at: Reference, target: int) -> None:
    """The 21 bits of `adrp`: pages to go, the two lowest bits apart from the others."""
    pages = (target >> 12) - (at.place >> 12)
    if not -(1 << 20) <= pages < 1 << 20:
        raise LoadError(f"{at.name} is out of reach of the code that uses it")
    _bits(at, 0x60FFFFE0, (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5)


def _offset(scale: int) -> Callable[[Reference, Lookup, Lookup], None]:
    """The 12 bits of an offset in a page, in units of what is loaded."""
    return lambda at, _, __: _bits(at, 0x003FFC00, ((at.value & 0xFFF) >> scale) << 10)


_AARCH64: Final = {
    257: _absolute(64, signed=False),
    258: _absolute(32, signed=False),
    260: _relative(64),
    261: _relative(32),
    275: lambda at, _, __: _page(at, at.value),
    276: lambda at, _, __: _page(at, at.value),
    277: _offset(0),
    278: _offset(0),
    282: _branch,
    283: _branch,
    284: _offset(1),
    285: _offset(2),
    286: _offset(3),
    299: _offset(4),
    311: lambda at, _, slot_of: _page(at, slot_of(at.symbol)),
    312: lambda at, _, slot_of: _bits(at, 0x003FFC00, ((slot_of(at.symbol) & 0xFFF) >> 3) << 10),
}
