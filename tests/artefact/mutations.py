"""Damaged copies of an artefact, and a process that loads them; not a test by itself.

Run with the file, its input, its results, and a range of seeds; prints what came of each kind of damage.
"""

from __future__ import annotations

import hashlib
import io
import json
import random
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from eutectic.artefact.container import Member, write_members

OTHERS: tuple[Any, ...] = (
    None,
    True,
    "x",
    "../x",
    -1,
    1 << 62,
    1 << 70,
    10**400,
    1e300,
    [],
    {},
    [1, "a"],
    {"of": "os"},
)


def members_of(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def archive_of(members: list[tuple[str, bytes]]) -> bytes:
    """An archive as ours are, whatever is in it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "archive"
        write_members(path, [Member(name, content) for name, content in members])
        return path.read_bytes()


def flipped(data: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 4, 64))):
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def flipped_directory(data: bytes, rng: random.Random) -> bytes:
    """Sizes, offsets, flags and names in the records of the archive."""
    out = bytearray(data)
    records = [at for sign in (b"PK\1\2", b"PK\3\4", b"PK\5\6") for at in _places(data, sign)]
    at = rng.choice(records)
    out[min(at + rng.randrange(46), len(out) - 1)] = rng.choice((0, 1, 0x7F, 0xFF, rng.randrange(256)))
    return bytes(out)


def _places(data: bytes, sign: bytes) -> Iterator[int]:
    at = data.find(sign)
    while at >= 0:
        yield at
        at = data.find(sign, at + 1)


def cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data))] if rng.random() < 0.7 else data + bytes(rng.randrange(1, 99))


def removed(data: bytes, rng: random.Random) -> bytes:
    members = list(members_of(data).items())
    del members[rng.randrange(len(members))]
    return archive_of(members)


def doubled(data: bytes, rng: random.Random) -> bytes:
    members = list(members_of(data).items())
    name, content = rng.choice(members)
    changed = rng.choice((content, content[:-1], b""))
    return archive_of([*members, (name, changed)])


def renamed(data: bytes, rng: random.Random) -> bytes:
    members = list(members_of(data).items())
    i = rng.randrange(len(members))
    name = rng.choice(
        ("../evil", "/etc/passwd", "a\\..\\b", "programs/9.json", members[0][0], "code/x.o", "x" * 300, "")
    )
    members[i] = (name, members[i][1])
    return archive_of(members)


def resized(data: bytes, rng: random.Random) -> bytes:
    members = list(members_of(data).items())
    i = rng.randrange(len(members))
    name, content = members[i]
    members[i] = (name, rng.choice((b"", content[: len(content) // 2], content + bytes(64), content * 2)))
    return archive_of(members)


def in_manifest(data: bytes, rng: random.Random) -> bytes:
    members = members_of(data)
    manifest = json.loads(members["manifest.json"])
    _replace(manifest, rng)
    members["manifest.json"] = json.dumps(manifest).encode()
    return archive_of(list(members.items()))


def in_program(data: bytes, rng: random.Random) -> bytes:
    """A value of another kind in a program, a report, or the header of the weights, with digests that agree."""
    members = members_of(data)
    name = rng.choice([name for name in members if name.startswith(("programs", "reports", "weights"))])
    content = members[name]
    if name.startswith("weights"):
        size = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + size])
        _replace(header, rng)
        text = json.dumps(header).encode()
        members[name] = len(text).to_bytes(8, "little") + text + content[8 + size :]
    else:
        tree = json.loads(content)
        # 1e300 may be the slope of an activation: not damage, as digests agree, but another model.
        _replace(tree, rng, [other for other in OTHERS if not isinstance(other, float)])
        members[name] = json.dumps(tree).encode()
    manifest = json.loads(members["manifest.json"])
    row = manifest["members"][name]
    row["bytes"], row["sha256"] = len(members[name]), hashlib.sha256(members[name]).hexdigest()
    members["manifest.json"] = json.dumps(manifest).encode()
    return archive_of(list(members.items()))


def _replace(tree: Any, rng: random.Random, others: Sequence[Any] = OTHERS) -> None:
    """Put something else in a random place of a tree."""
    places = list(_places_in(tree))
    container, key = rng.choice(places)
    container[key] = rng.choice(others)


def _places_in(tree: Any) -> Iterator[tuple[Any, Any]]:
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in list(items):
        yield tree, key
        yield from _places_in(value)


KINDS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    kind.__name__: kind
    for kind in (flipped, flipped_directory, cut, removed, doubled, renamed, resized, in_manifest, in_program)
}


def main() -> None:
    import warnings

    import numpy as np

    import eutectic
    from eutectic.support.errors import CallError, LoadError

    warnings.simplefilter("ignore")
    source, given, results, first, last = sys.argv[1:]
    data, x = Path(source).read_bytes(), np.load(given)
    with np.load(results) as arrays:
        wanted = [arrays[name] for name in arrays.files]
    outcomes: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.eut"
        for seed in range(int(first), int(last)):
            rng = random.Random(seed)
            kind = list(KINDS)[seed % len(KINDS)]
            path.write_bytes(KINDS[kind](data, rng))
            print(f"seed {seed} {kind}", file=sys.stderr, flush=True)  # the last one is seen when the process dies
            try:
                model = eutectic.load(path)
            except LoadError as error:
                if not error.help or str(path) not in str(error):
                    raise AssertionError(f"seed {seed}: {error}") from error
                outcomes[kind, "refused"] += 1
                continue
            try:
                assert model.report.passes
            except LoadError:
                assert kind == "in_program"
                outcomes[kind, "has no report"] += 1
                continue
            try:
                got = model(x)
            except CallError:
                assert kind in ("in_manifest", "in_program")  # a description that says something else, consistently
                outcomes[kind, "refuses the call"] += 1
                continue
            got = got if isinstance(got, tuple) else (got,)
            is_equal = all(map(np.array_equal, got, wanted))
            # A number of a program that became another one, with digests that agree, is not damage: another model.
            assert is_equal or kind == "in_program", f"seed {seed}: other results"
            outcomes[kind, "equal" if is_equal else "another model"] += 1
    for (kind, outcome), count in sorted(outcomes.items()):
        print(kind, outcome, count)


if __name__ == "__main__":
    main()
