"""Object code in the process: symbols, calls that are far away, damage, and the bits of relocations."""

from __future__ import annotations

import ctypes
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eutectic.backend.llvm.machine import machine_of
from eutectic.backend.llvm.optimize import object_code
from eutectic.runtime.object_code import ObjectCode
from eutectic.runtime.relocations import Reference, relocate, stub
from eutectic.support.errors import LoadError
from eutectic.target import Target

HOST = machine_of(Target("llvm"))
TEXT = """
@table = global [4 x i64] [i64 1, i64 2, i64 3, i64 5]
@zeros = internal global [100 x i64] zeroinitializer
@word = internal constant [6 x i8] c"hello\\00"
declare i64 @outside(i64)
declare double @cbrt(double)

define i64 @sum(i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %s = phi i64 [ 0, %entry ], [ %more, %loop ]
  %at = getelementptr [4 x i64], ptr @table, i64 0, i64 %i
  %value = load i64, ptr %at
  %more = add i64 %s, %value
  %next = add i64 %i, 1
  %again = icmp slt i64 %next, %n
  br i1 %again, label %loop, label %out
out:
  ret i64 %more
}

define i64 @count() {
  %old = load i64, ptr @zeros
  %new = add i64 %old, 1
  store i64 %new, ptr @zeros
  ret i64 %new
}

define ptr @text() {
  ret ptr @word
}

define i64 @twice(i64 %x) {
  %once = call i64 @outside(i64 %x)
  %both = call i64 @outside(i64 %once)
  ret i64 %both
}

define double @root(double %x) {
  %r = call double @cbrt(double %x)
  ret double %r
}
"""
OTHER = """
declare i64 @sum(i64)
define i64 @through(i64 %n) {
  %s = call i64 @sum(i64 %n)
  %d = mul i64 %s, 10
  ret i64 %d
}
"""
PYTHON = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(lambda x: 3 * x)
IMPORTS = {"outside": ctypes.cast(PYTHON, ctypes.c_void_p).value or 0}
OBJECTS = [object_code(text, HOST) for text in (TEXT, OTHER)]


def call(code: ObjectCode, name: str, *args: int) -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(args))(code.address(name))(*args)


def test_functions_see_each_other_the_process_and_what_is_handed_over():
    code = ObjectCode(OBJECTS, IMPORTS)
    assert call(code, "sum", 4) == 11
    assert call(code, "through", 3) == 60
    assert call(code, "twice", 5) == 45
    assert ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(code.address("root"))(27.0) == pytest.approx(3)
    assert ctypes.string_at(ctypes.CFUNCTYPE(ctypes.c_void_p)(code.address("text"))()) == b"hello"


def test_variables_are_each_code_s_own_and_can_be_written():
    first, second = ObjectCode(OBJECTS, IMPORTS), ObjectCode(OBJECTS, IMPORTS)
    assert [call(first, "count") for _ in range(3)] == [1, 2, 3]
    assert call(second, "count") == 1
    ctypes.c_int64.from_address(first.address("table")).value = 100
    assert (call(first, "sum", 4), call(second, "sum", 4)) == (110, 11)


def test_code_cannot_be_written():
    code = ObjectCode(OBJECTS, IMPORTS)
    with open("/proc/self/maps", encoding="ascii") as maps:
        rows = [line.split()[:2] for line in maps]
    for name, wanted in (("sum", "r-xp"), ("table", "rw-p")):
        at = code.address(name)
        assert [kind for span, kind in rows if int(span.split("-")[0], 16) <= at < int(span.split("-")[1], 16)] == [
            wanted
        ]


def test_what_is_missing_is_named():
    with pytest.raises(LoadError, match="the code needs outside"):
        ObjectCode(OBJECTS)
    with pytest.raises(LoadError, match="no symbol nothing"):
        ObjectCode(OBJECTS, IMPORTS).address("nothing")
    with pytest.raises(LoadError, match="symbol sum is defined twice"):
        ObjectCode([OBJECTS[0], OBJECTS[0]], IMPORTS)


def test_code_for_other_machines_is_refused():
    other = "aarch64" if HOST.triple.startswith("x86_64") else "x86_64"
    code = object_code(OTHER, machine_of(Target(f"llvm -mtriple={other}-linux-gnu")))
    with pytest.raises(LoadError, match=f"the code is for {other}"):
        ObjectCode([code])
    with pytest.raises(LoadError, match="no object code"):
        ObjectCode([b"MZ" + bytes(100)])


@given(st.integers(0, len(OBJECTS[1]) - 1))
def test_code_that_is_cut_off_is_refused(length: int):
    with pytest.raises(LoadError):
        ObjectCode([OBJECTS[1][:length], OBJECTS[0]], IMPORTS)


# ---- the bits of relocations, by the meaning that processors give them


def patched(machine: str, kind: int, words: bytes, symbol_distance: int, addend: int = 0) -> tuple[int, bytes, int]:
    """Place, patched bytes and symbol address."""
    memory = ctypes.create_string_buffer(words, len(words))
    place = ctypes.addressof(memory)
    reference = Reference(place, place + symbol_distance, addend, "f")
    relocate(machine, kind, reference, lambda target: place + 64, lambda target: place + 128)
    return place, memory.raw, place + symbol_distance + addend


@given(st.integers(-(1 << 24), 1 << 24).map(lambda n: 4 * n))
def test_branches_of_arm(distance: int):
    _, words, _ = patched("aarch64", 283, struct.pack("<I", 0x94000000), distance)
    (instruction,) = struct.unpack("<I", words)
    assert instruction >> 26 == 0b100101
    immediate = instruction & 0x03FFFFFF
    assert 4 * (immediate - (1 << 26) * (immediate >> 25)) == distance


@given(st.integers(-(1 << 30), 1 << 30))
def test_pages_and_offsets_of_arm(distance: int):
    place, words, target = patched("aarch64", 275, struct.pack("<I", 0x90000001), distance)
    (instruction,) = struct.unpack("<I", words)
    assert instruction & 0x9F00001F == 0x90000001
    pages = (instruction >> 5 & 0x7FFFF) << 2 | instruction >> 29 & 3
    pages -= (1 << 21) * (pages >> 20)
    assert (place // 4096 + pages) * 4096 == target // 4096 * 4096
    for kind, scale in ((277, 0), (284, 1), (285, 2), (286, 3), (299, 4)):
        _, words, target = patched("aarch64", kind, struct.pack("<I", 0xF9400020), distance // 16 * 16)
        (instruction,) = struct.unpack("<I", words)
        assert (instruction >> 10 & 0xFFF) << scale == target % 4096 // (1 << scale) * (1 << scale)


def test_far_calls_go_through_a_stub():
    _, words, _ = patched("x86_64", 4, bytes(4), 1 << 40, -4)
    assert struct.unpack("<i", words)[0] == 64 - 4
    _, words, _ = patched("aarch64", 283, struct.pack("<I", 0x94000000), 1 << 40)
    assert (struct.unpack("<I", words)[0] & 0x03FFFFFF) * 4 == 64
    assert stub("x86_64", 0x1122334455667788)[:6] == b"\xff\x25\0\0\0\0"
    assert struct.unpack_from("<Q", stub("aarch64", 0x1122334455667788), 8) == (0x1122334455667788,)


def test_what_is_out_of_reach_or_unknown_is_refused():
    with pytest.raises(LoadError, match="f is out of reach"):
        patched("x86_64", 2, bytes(4), 1 << 40)
    with pytest.raises(LoadError, match="relocation 77 of x86_64"):
        patched("x86_64", 77, bytes(8), 0)
