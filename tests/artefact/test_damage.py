"""Files that were damaged or made up: each is refused, or is a model that computes the same; nothing crashes."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.artefact import mutations

import eutectic
from eutectic.artefact.container import ALIGNMENT, Container, Member, write_members
from eutectic.artefact.manifest import from_json
from eutectic.artefact.weights import digest_of, read_weights, write_weights
from eutectic.backend.dnnl.library import availability
from eutectic.relax import Tuple, op
from eutectic.support.errors import LoadError
from eutectic.testing.graphs import graph, weights

ROOT = Path(__file__).parents[2]
TARGETS = ["llvm", *(["llvm -libs=dnnl"] if availability().ok else [])]
X = np.random.default_rng(0).standard_normal((1, 3, 6, 6)).astype(np.float32)


def network():
    def body(bb, x):
        a = bb.emit(op.nn.relu(op.add(op.nn.conv2d(x, weights(4, 3, 3, 3)), weights(1, 4, 1, 1))))
        b = bb.emit(op.nn.relu(op.nn.conv2d(a, weights(4, 4, 1, 1))))
        return Tuple((bb.emit(op.nn.softmax(op.add(b, a), axis=1)), op.argmax(b, axis=1)))

    return graph({"x": (1, 3, 6, 6)}, body)


@pytest.fixture(scope="module", params=TARGETS)
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    model = eutectic.compile(network(), target=request.param, threads=1)
    np.save(folder / "x.npy", X)
    np.savez(folder / "results.npz", *model(X))
    return model.save(folder / "net.eut")


def _mutated(saved: Path, first: int, last: int) -> str:
    """What a process says that loads damaged copies; it must neither die nor wait for ever."""
    command = [sys.executable, str(Path(mutations.__file__)), str(saved), str(saved.with_name("x.npy"))]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, str(saved.with_name("results.npz")), str(first), str(last)],
        env=env, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_damaged_files_are_refused_or_the_same(saved: Path):
    said = _mutated(saved, 0, 270)
    counts = {tuple(line.split()[:2]): int(line.split()[-1]) for line in said.splitlines()}
    assert sum(counts.values()) == 270
    for kind in mutations.KINDS:
        assert counts[kind, "refused"] > 0
    for kind in ("cut", "removed", "doubled", "resized"):
        assert {other for kind_, other in counts if kind_ == kind} == {"refused"}


@pytest.mark.slow
def test_many_damaged_files_are_refused_or_the_same(saved: Path):
    assert _mutated(saved, 1000, 6000)


# ---- archives that save() does not write


def _rewritten(saved: Path, change: Callable[[zipfile.ZipInfo], None], method: int = zipfile.ZIP_STORED) -> bytes:
    """The archive with entries as others would write them."""
    target = saved.with_name("strange.eut")
    with zipfile.ZipFile(saved) as source, zipfile.ZipFile(target, "w", method) as archive:
        for info in source.infolist():
            entry = zipfile.ZipInfo(info.filename)
            entry.external_attr, entry.compress_type = (stat.S_IFREG | 0o644) << 16, method
            change(entry)
            archive.writestr(entry, source.read(info))
    return target.read_bytes()


def _as_link(entry: zipfile.ZipInfo) -> None:
    if entry.filename.startswith("texts"):
        entry.external_attr = (stat.S_IFLNK | 0o777) << 16


def _renamed(name: str) -> Callable[[zipfile.ZipInfo], None]:
    def change(entry: zipfile.ZipInfo) -> None:
        if entry.filename.startswith("texts"):
            entry.filename = entry.orig_filename = name

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_as_link, r"is a link, or no file: 'texts/0\.py'"),
        (_renamed("../../evil.py"), "would lie outside"),
        (_renamed("/etc/passwd"), "would lie outside"),
        (_renamed("texts\\..\\evil.py"), "would lie outside"),
        (_renamed("C:evil.py"), "would lie outside"),
        (_renamed("texts/0.py/"), "not known"),
        (_renamed("__init__.py"), "not known"),
        (_renamed("programs/0.json"), "twice"),
        (_renamed("texts/7.py"), "do not agree about"),
    ],
)
def test_strange_members_are_refused(change: Callable[[zipfile.ZipInfo], None], words: str, saved: Path):
    path = saved.with_name("bad.eut")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zipfile's, about names that it is given twice
        path.write_bytes(_rewritten(saved, change))
    with pytest.raises(LoadError, match=words) as error:
        eutectic.load(path)
    assert str(path) in str(error.value)
    assert error.value.help


def test_compressed_members_are_refused_before_anything_is_unpacked(saved: Path):
    path = saved.with_name("bad.eut")
    path.write_bytes(_rewritten(saved, lambda entry: None, zipfile.ZIP_DEFLATED))
    with pytest.raises(LoadError, match="has a compressed member"):
        eutectic.load(path)


def test_encrypted_members_are_refused(saved: Path):
    data = bytearray(saved.read_bytes())
    at = data.index(b"PK\1\2")
    data[at + 8] |= 1
    path = saved.with_name("bad.eut")
    path.write_bytes(data)
    with pytest.raises(LoadError, match="encrypted member"):
        eutectic.load(path)


@pytest.mark.parametrize("place", ["before", "between", "after"])
def test_bytes_that_belong_to_no_member_are_refused(place: str, saved: Path):
    data, path = saved.read_bytes(), saved.with_name("bad.eut")
    if place == "between":
        with zipfile.ZipFile(saved) as source, zipfile.ZipFile(path, "w") as archive, open(path, "rb+") as raw:
            for info in source.infolist():
                archive.fp.seek(0, 2)
                raw.seek(0, 2)
                raw.write(b"hidden")
                raw.flush()
                archive.fp.seek(0, 2)
                archive.start_dir = archive.fp.tell()
                entry = zipfile.ZipInfo(info.filename)
                entry.external_attr = info.external_attr
                archive.writestr(entry, source.read(info))
    else:
        path.write_bytes(bytes(64) + data if place == "before" else data + bytes(64))
    with pytest.raises(LoadError):
        eutectic.load(path)


@pytest.mark.parametrize("content", [b"", b"PK", b"\0" * 100, b"eutectic" * 20, b"PK\5\6" + bytes(18)])
def test_other_files_are_refused(content: bytes, tmp_path: Path):
    path = tmp_path / "m.eut"
    path.write_bytes(content)
    with pytest.raises(LoadError, match="no artefact"):
        eutectic.load(path)


def test_paths_that_are_no_files_are_refused(tmp_path: Path):
    with pytest.raises(LoadError, match="cannot be read: No such file"):
        eutectic.load(tmp_path / "none.eut")
    with pytest.raises(LoadError, match="cannot be read: Is a directory"):
        eutectic.load(tmp_path)
    with pytest.raises(LoadError, match="no regular file"):
        eutectic.load("/dev/null")


def test_other_versions_are_refused(saved: Path):
    members = mutations.members_of(saved.read_bytes())
    members["manifest.json"] = members["manifest.json"].replace(b'"version": 3', b'"version": 7', 1)
    path = saved.with_name("bad.eut")
    path.write_bytes(mutations.archive_of(list(members.items())))
    with pytest.raises(LoadError, match=r"version 7 of the format, this build reads 3"):
        eutectic.load(path)


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "m.eut"
    write_members(path, [Member("manifest.json", b"{}")])
    old = path.read_bytes()

    def fail(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="No space"):
        write_members(path, [Member("manifest.json", b"[]")])
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]


@given(st.lists(st.binary(max_size=300), max_size=6), st.integers(0, 100))
def test_members_come_back_aligned(contents: list[bytes], place: int):
    path = Path(os.environ.get("PYTEST_TMP", "/tmp")) / f"members-{os.getpid()}.eut"
    try:
        names = ["manifest.json", *(f"programs/{i}.json" for i in range(len(contents)))]
        write_members(path, [Member(name, part, place) for name, part in zip(names, [b"", *contents], strict=True)])
        container = Container(path)
        assert [bytes(container.members[name]) for name in names[1:]] == contents
        for member in container.members.values():
            if member.nbytes:
                assert (np.frombuffer(member, np.uint8).__array_interface__["data"][0] + place) % ALIGNMENT == 0
        assert container.checked("manifest.json") == b""
    finally:
        path.unlink(missing_ok=True)


# ---- weights and manifests


@given(st.lists(st.tuples(st.sampled_from(["f4", "i8", "?", "u1", "f2"]), st.integers(0, 40)), max_size=8))
def test_arrays_come_back_aligned(kinds: list[tuple[str, int]]):
    arrays = [np.arange(size).astype(kind) for kind, size in kinds]
    content, begin = write_weights({digest_of(array): array for array in arrays})
    aligned = np.zeros(len(content) + 128, np.uint8)
    start = -(aligned.__array_interface__["data"][0] + begin) % 64
    aligned[start : start + len(content)] = np.frombuffer(content, np.uint8)
    places = read_weights(aligned[start : start + len(content)].data)
    for array in arrays:
        got = places[digest_of(array)]
        assert bytes(got) == array.tobytes()
        if array.nbytes:
            assert np.frombuffer(got, np.uint8).__array_interface__["data"][0] % 64 == 0


HEADERS = {
    b'{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"a":1}': "twice",
    b'{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,8]}}': "has 8 bytes",
    b'{"a":{"dtype":"F32","shape":[4],"data_offsets":[16,32]}}': "hole",
    b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}': "have 8 bytes, and the file 16",
    b'{"a":{"dtype":"F32","shape":[-4],"data_offsets":[0,16]}}': "no number",
    b'{"a":{"dtype":"F32","shape":[true,4],"data_offsets":[0,16]}}': "no number",
    b'{"a":{"dtype":"X9","shape":[4],"data_offsets":[0,16]}}': "is described by",
    b'{"a":{"dtype":"U8","shape":[4194305,4194305,211106198978564],"data_offsets":[0,16]}}': "has 16 bytes",
    b'{"a":[]}': "is described by",
    b"[]": "no table",
    b"[" * 5000: "no JSON",
}


@pytest.mark.parametrize("header", HEADERS, ids=lambda header: HEADERS[header])
def test_headers_of_weights_that_lie_are_refused(header: bytes):
    with pytest.raises(LoadError, match=HEADERS[header]):
        read_weights(memoryview(len(header).to_bytes(8, "little") + header + bytes(16)))


def test_cut_weights_are_refused():
    for content in (b"", b"\1\0\0", (1 << 62).to_bytes(8, "little") + b"{}"):
        with pytest.raises(LoadError, match="cut off"):
            read_weights(memoryview(content))


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"format": "zip"}', b'{"a":' + b"9" * 5000 + b"}", b"[" * 9999])
def test_texts_that_are_no_manifest_are_refused(text: bytes):
    with pytest.raises(LoadError, match="the manifest is damaged"):
        from_json(text)
