"""The cache on disk: what is kept comes back, whatever is wrong is a miss, and nobody else's folder is used."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from eutectic import te, topi
from eutectic.backend.llvm.kernels import build_kernel
from eutectic.backend.llvm.machine import machine_of
from eutectic.support import cache
from eutectic.support.cache import Entry, clear, entries, read, usable_folder, write
from eutectic.target import Target
from eutectic.testing.native import native
from eutectic.tir import PrimFunc

ENTRY = Entry({"name": "x", "sizes": [1, ["var", 2]]}, bytes(range(256)) * 9)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("EUTECTIC_CACHE_DIR", str(tmp_path / "kernels"))
    return tmp_path / "kernels"


def file_of(folder: Path, key: str) -> Path:
    return folder / f"{key}.eutc"


def test_round_trip(folder: Path):
    assert read("a") is None
    write("a", ENTRY)
    write("b", Entry({}, b""))
    assert read("a") == ENTRY
    assert read("b") == Entry({}, b"")
    assert read("c") is None
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {item.key for item in entries()} == {"a", "b"}
    assert next(item for item in entries() if item.key == "a").meta == ENTRY.meta
    size = sum(path.stat().st_size for path in folder.iterdir())
    removed = clear()
    assert sorted(item.key for item in removed) == ["a", "b"]
    assert sum(item.bytes for item in removed) == size
    assert entries() == []
    assert read("a") is None


def test_the_last_write_counts(folder: Path):
    write("a", ENTRY)
    write("a", Entry({"n": 2}, b"new"))
    assert read("a") == Entry({"n": 2}, b"new")
    assert [path.name for path in folder.iterdir()] == ["a.eutc"]


def test_every_damaged_byte_is_a_miss(folder: Path):
    write("a", ENTRY)
    path = file_of(folder, "a")
    whole = path.read_bytes()
    for at in [*range(0, 120), *range(120, len(whole), 97)]:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1 :])
        assert read("a") is None, at
    for length in [*range(0, 80), len(whole) - 1]:
        path.write_bytes(whole[:length])
        assert read("a") is None, length
    path.write_bytes(whole + b"!")
    assert read("a") is None
    path.write_bytes(whole)
    assert read("a") == ENTRY


def test_an_entry_under_another_key_is_a_miss(folder: Path):
    write("a", ENTRY)
    os.rename(file_of(folder, "a"), file_of(folder, "b"))
    assert read("b") is None
    assert entries()[0].meta == {}  # it is listed, as what it is: damaged


def test_what_is_not_a_file_is_a_miss(folder: Path, tmp_path: Path):
    write("a", ENTRY)
    kept = tmp_path / "elsewhere"
    os.rename(file_of(folder, "a"), kept)
    file_of(folder, "a").symlink_to(kept)
    assert read("a") is None  # a link may point to what others write
    write("a", ENTRY)  # replaces the link, not what it points to
    assert read("a") == ENTRY
    file_of(folder, "b").mkdir()
    assert read("b") is None
    write("b", ENTRY)  # cannot be written, which is no error
    assert read("b") is None
    assert not [path for path in folder.iterdir() if path.name.startswith(".new")]


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(path))  # the whole path may be longer than such a name can be


def _folder(path: Path) -> None:
    path.mkdir()


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _loop(path: Path) -> None:
    path.symlink_to(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
@pytest.mark.parametrize("make", [_pipe, _socket, _folder, _device, _loop])
def test_an_entry_that_is_no_file_is_a_miss_at_once(folder: Path, make: Callable[[Path], None]):
    """It is neither waited for nor read without end; in a thread, so that a failure does not hang the tests."""
    folder.mkdir(mode=0o700)
    make(file_of(folder, "a"))
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.extend((read("a"), entries())), daemon=True)
    thread.start()
    thread.join(20)
    assert found == [None, []]
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    assert [read("a") for _ in range(50)] == [None] * 50
    assert not before or len(os.listdir("/proc/self/fd")) <= before + 5
    write("a", ENTRY)
    assert read("a") == (None if make is _folder else ENTRY)


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o720, 0o702])
def test_a_folder_that_others_can_write_is_not_used(folder: Path, mode: int):
    write("a", ENTRY)
    folder.chmod(mode)
    assert usable_folder() is None
    assert read("a") is None
    write("b", ENTRY)
    assert clear() == []
    folder.chmod(0o700)
    assert read("a") == ENTRY
    assert read("b") is None


def test_a_link_is_not_used_as_folder(folder: Path, tmp_path: Path):
    (tmp_path / "other").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "other")
    write("a", ENTRY)
    assert usable_folder() is None
    assert list((tmp_path / "other").iterdir()) == []


def test_a_file_is_not_used_as_folder(folder: Path):
    folder.write_text("no folder")
    write("a", ENTRY)
    assert read("a") is None
    assert entries() == []


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(folder: Path):
    write("a", ENTRY)
    folder.chmod(0o500)
    write("b", ENTRY)
    assert read("a") == ENTRY
    assert read("b") is None
    folder.chmod(0o700)


def test_no_folder_can_be_made(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("EUTECTIC_CACHE_DIR", "/proc/eutectic/kernels")
    write("a", ENTRY)
    assert read("a") is None


def test_an_empty_name_switches_it_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("EUTECTIC_CACHE_DIR", "")
    monkeypatch.chdir(tmp_path)
    write("a", ENTRY)
    assert usable_folder() is None
    assert read("a") is None
    assert list(tmp_path.iterdir()) == []


def test_writers_at_once(folder: Path):
    """Readers see one of the entries, never half of one."""
    many = [Entry({"n": n}, bytes([n]) * 50_000) for n in range(4)]
    faults: list[object] = []

    def work(n: int) -> None:
        for _ in range(15):
            write("a", many[n])
            found = read("a")
            if found not in many:
                faults.append(found)

    workers = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not faults
    assert [path.name for path in folder.iterdir()] == ["a.eutc"]


def test_the_least_used_go_first(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cache, "MOST_BYTES", 60_000)
    monkeypatch.setattr(cache, "_written", [0])
    for n in range(64):
        write(f"k{n}", Entry({}, bytes(2000)))
        os.utime(file_of(folder, f"k{n}"), (n, n))
    kept = {item.key for item in entries()}
    assert 20 <= len(kept) <= 30
    assert {"k62", "k63"} <= kept
    assert "k0" not in kept


def test_models_take_the_room_of_what_was_not_used_for_longer(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cache, "MOST_BYTES", 10_000)
    for n, key in enumerate(("old", "older", "new")):
        path = cache.model_path(key)
        assert path is not None
        path.write_bytes(bytes(4000))
        os.utime(path, (1000 - n if key != "new" else 2000,) * 2)
    write("kernel", Entry({}, b""))
    cache.model_was_written(path)
    assert {(item.key, item.is_model) for item in entries()} == {("old", True), ("new", True), ("kernel", False)}


def test_what_killed_processes_left_goes(folder: Path):
    path = cache.model_path("a")
    assert path is not None
    left, written = folder / ".a.eut.1.part", folder / ".b.eut.2.part"
    left.write_bytes(b"")
    written.write_bytes(b"")
    os.utime(left, (1000, 1000))
    cache.model_was_written(path)
    assert list(folder.iterdir()) == [written]


# ---- kernels in it


def program(n: int = 9, name: str = "f") -> PrimFunc:
    x = te.placeholder((n, 7), "float32", name="x")
    return te.create_prim_func([x, topi.nn.softmax(x)]).with_attr("global_symbol", name)


def symbolic() -> PrimFunc:
    """A kernel with an intermediate whose size is symbolic."""
    n = te.size_var("n", "int64")
    x = te.placeholder((n, 7), "float32", name="x")
    total = topi.sum(x, 1)
    return te.create_prim_func([x, topi.add(topi.max(total), topi.multiply(total, topi.min(total)))])


def shorter() -> PrimFunc:
    """An intermediate in memory whose size has a subtraction, a division and a largest one."""
    n = te.size_var("n", "int64")
    x = te.placeholder((n, 7), "float32", name="x")
    fewer = te.compute((te.max(n - 2, 1) // 1, 7), lambda i, j: x[i, j] * 2, name="fewer")
    return te.create_prim_func([x, topi.matmul(x, topi.transpose(topi.exp(topi.nn.softmax(fewer))))])


@pytest.mark.parametrize("func", [program(), symbolic(), shorter()], ids=["static", "symbolic", "shorter"])
def test_kernels_come_back(folder: Path, func: PrimFunc, monkeypatch: pytest.MonkeyPatch):
    machine = machine_of(Target("llvm"))
    first, second = build_kernel(func, machine), build_kernel(func, machine)
    assert (first.cached, second.cached) == (False, True)
    assert (first.code, first.symbol, first.parallel) == (second.code, second.symbol, second.parallel)
    assert [str(item.bytes) for item in first.workspaces] == [str(item.bytes) for item in second.workspaces]
    x = np.random.default_rng(0).standard_normal((9, 7)).astype("float32")
    sizes = func.buffer_map[func.params[1]].shape
    shape = (9,) if len(sizes) == 1 else (9, 7)
    got, want = np.zeros(shape, "float32"), np.zeros(shape, "float32")
    native(func)(x, got)
    monkeypatch.setenv("EUTECTIC_CACHE_DIR", "")
    native(func)(x, want)
    np.testing.assert_array_equal(got, want)


def test_other_programs_and_machines_have_other_keys(folder: Path):
    host, plain = machine_of(Target("llvm")), machine_of(Target("llvm -mcpu=x86-64"))
    symbols = {build_kernel(f, m).symbol for f in (program(9), program(10)) for m in (host, plain)}
    assert len(symbols) == 4
    assert len(entries()) == 4


@pytest.mark.parametrize(
    "meta",
    [
        {},
        {"workspaces": 3, "parallel": 1},
        {"workspaces": [[["no", 1], 2]], "parallel": 1},
        {"workspaces": [["v99", True]], "parallel": 0},
        {"workspaces": [["x"]], "parallel": 0},
    ],
)
def test_a_foreign_entry_is_compiled_again(folder: Path, meta: dict[str, object]):
    machine = machine_of(Target("llvm"))
    build_kernel(program(), machine)
    key = entries()[0].key
    write(key, Entry(meta, b"no code"))
    made = build_kernel(program(), machine)
    assert not made.cached
    assert build_kernel(program(), machine).cached
