"""The manifest of an artefact: what is in it, for which processors, and how each member is recognised."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from eutectic.support.annotations import accepts, described, hints_of
from eutectic.support.errors import LoadError

FORMAT: Final = "eutectic artefact"
VERSION: Final = 3
NAME: Final = "manifest.json"
LARGEST: Final = 64 << 20  # bytes of a manifest


@dataclass(frozen=True)
class MemberRow:
    """How a member is recognised.

    Attributes:
        bytes: Its size.
        sha256: Digest of its content, in hexadecimal digits.
    """

    bytes: int
    sha256: str


@dataclass(frozen=True)
class VariantRow:
    """A model for one kind of processor.

    Attributes:
        target: What it was compiled for.
        precision: What libraries were allowed to take.
        features: What the processor must have, by LLVM's names.
        threads: Threads that `compile` was told; None takes what is available, for calls that Python makes.
        native_threads: Threads of a call of native code; None where there is none.
        program: Member with the program.
        report: Member with the report.
        text: Member with the module it was made from.
        constants: What the text refers to: by kind the dtype, shape and digest of each array.
    """

    target: str
    precision: str
    features: tuple[str, ...]
    threads: int | None
    native_threads: int | None
    program: str
    report: str
    text: str
    constants: Any


@dataclass(frozen=True)
class PackedRow:
    """An array that is kept in the order in which a library wants it.

    Attributes:
        elements: Digest of the array of its words.
        plain: As in `PackedArray`.
        packed: As in `PackedArray`.
    """

    elements: str
    plain: Any
    packed: Any


@dataclass(frozen=True)
class Manifest:
    """What an artefact says about itself.

    Attributes:
        version: Of the format.
        writer: Version of the package that wrote it.
        signature: How the model is called.
        state: What the buffers begin as that calls read and write: dtype, shape and digest of each.
        variants: The model for each kind of processor.
        packed: Arrays that are kept in another order, by the digest of what they are in row-major order.
        members: All members but the manifest.
    """

    version: int
    writer: str
    signature: Any
    state: Any
    variants: tuple[VariantRow, ...]
    packed: Mapping[str, PackedRow]
    members: Mapping[str, MemberRow]

    def to_json(self) -> bytes:
        """The manifest as text."""
        tree = {"format": FORMAT, **asdict(self)}
        return json.dumps(tree, allow_nan=False, indent=1).encode()


_HINTS: Final = {kind: hints_of(kind) for kind in (MemberRow, VariantRow, PackedRow, Manifest)}


def from_json(text: bytes) -> Manifest:
    """Inverse of `Manifest.to_json`.

    Raises:
        LoadError: it is no manifest, or one of another version.
    """
    if len(text) > LARGEST:
        raise _damaged(f"it has {len(text)} bytes")
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _damaged(f"it is no JSON: {error}") from None
    if not isinstance(tree, dict) or tree.pop("format", None) != FORMAT:
        raise _damaged("it does not begin as one")
    if tree.get("version") != VERSION:
        raise LoadError(
            f"the file is of version {str(tree.get('version'))[:20]} of the format, this build reads {VERSION}",
            help="load it with the build that wrote it, or save the model again with this one",
        )
    rows, members, packed = tree.get("variants"), tree.get("members"), tree.get("packed")
    if not isinstance(rows, list) or not rows or not isinstance(members, dict) or not isinstance(packed, dict):
        raise _damaged("it lists no variants, no members or no packed arrays")
    tree["variants"] = tuple(_made(VariantRow, _with_tuple(row)) for row in rows)
    tree["packed"] = {digest: _made(PackedRow, row) for digest, row in packed.items()}
    tree["members"] = {name: _made(MemberRow, row) for name, row in members.items()}
    manifest: Manifest = _made(Manifest, tree)
    return manifest


def _with_tuple(row: Any) -> Any:
    features = row.get("features") if isinstance(row, dict) else None
    return {**row, "features": tuple(features)} if isinstance(features, list) else row


def _made(kind: type[Any], row: Any) -> Any:
    """One of the dataclasses above, of fields that it declares.

    Raises:
        LoadError: a field is missing, unknown, or of another kind.
    """
    hints = _HINTS[kind]
    if not isinstance(row, dict) or set(row) != set(hints):
        raise _damaged(f"a {kind.__name__} has other fields")
    for name, hint in hints.items():
        if isinstance(row[name], bool) or not accepts(
            hint, row[name], len(row[name]) if isinstance(row[name], tuple) else 0
        ):
            raise _damaged(f"{name} of a {kind.__name__} is {str(row[name])[:40]!r}, expected {described(hint)}")
    return kind(**row)


def _damaged(why: str) -> LoadError:
    return LoadError(f"the manifest is damaged: {why}", help="write the file again")
