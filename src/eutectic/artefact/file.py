"""Artefacts: models as files with the extension `.eut`.

An artefact holds a model once for each kind of processor it was compiled for. Its members are

- `manifest.json`: the format's version, the signature, a row for each variant and one for each other member;
- `programs/<n>.json`, `reports/<n>.json`, `texts/<n>.py`: the program, the report and the module of a variant;
- `code/<digest>.o`: object code;
- `weights.safetensors`: every array of every program and text, and the buffers that calls write, each once, by digest;
  those that a library packs are there as it packs them, and the manifest says how to make the plain ones from them.

Reading runs nothing and makes nothing but dataclasses of the runtime; machine code runs when the model is loaded.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import prod
from operator import index
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np

from eutectic.artefact.container import Container, Member, write_members
from eutectic.artefact.manifest import NAME, VERSION, Manifest, MemberRow, PackedRow, VariantRow, from_json
from eutectic.artefact.verify import features_of, threads_of
from eutectic.artefact.weights import digest_of, read_weights, write_weights
from eutectic.runtime.encoding import damaged, from_tree, to_tree
from eutectic.runtime.packed_array import PackedArray, Terms, plain
from eutectic.runtime.processor import features
from eutectic.runtime.program import Program
from eutectic.runtime.saved import SavedModel
from eutectic.runtime.signature import ArraySignature, ModelSignature
from eutectic.support.aligned import ALIGNMENT, address
from eutectic.support.errors import LoadError
from eutectic.support.large_pages import in_large_pages

Array: TypeAlias = np.ndarray[Any, Any]
WEIGHTS: Final = "weights.safetensors"
LARGEST_TEXT: Final = 1 << 30  # bytes of a program, a report or a text


class _Parts:
    """What programs refer to by digest, collected from all variants.

    Attributes:
        code: Object code.
        arrays: Arrays in row-major order.
        orders: Arrays that a library has in another order, by the digest of what they are in row-major order.
    """

    keeps_orders: ClassVar[bool] = True

    def __init__(self) -> None:
        self.code: dict[str, bytes] = {}
        self.arrays: dict[str, Array] = {}
        self.orders: dict[str, PackedArray] = {}
        self._digests: dict[int, tuple[Array | PackedArray, str]] = {}

    def content(self, content: bytes) -> str:
        """See `Sink`."""
        digest = hashlib.sha256(content).hexdigest()
        self.code[digest] = content
        return digest

    def array(self, array: Array) -> str:
        """See `Sink`."""
        digest = self._digest(array)
        self.arrays.setdefault(digest, array)
        return digest

    def packed(self, array: PackedArray) -> str:
        """See `Sink`."""
        digest = self._digest(array)
        self.orders.setdefault(digest, array)
        return digest

    def _digest(self, array: Array | PackedArray) -> str:
        """The digest of an array, which is looked through once."""
        if id(array) not in self._digests:
            self._digests[id(array)] = (array, digest_of(plain(array)))
        return self._digests[id(array)][1]

    def placed(self, needed: Collection[str]) -> dict[str, PackedRow]:
        """The rows of arrays in another order, whose elements take the places of what can be made from them.

        Args:
            needed: Digests of arrays that every process reads in row-major order.
        """
        for digest in self.orders.keys() - set(needed):
            self.arrays.pop(digest, None)
        return {digest: self._row(array) for digest, array in sorted(self.orders.items())}

    def _row(self, array: PackedArray) -> PackedRow:
        return PackedRow(self.array(array.elements), array.plain, array.packed)


def write_artefact(path: str | Path, variants: Sequence[SavedModel], writer: str, *, synced: bool = True) -> Path:
    """Write a model as a file.

    Args:
        path: The file; what is there is replaced at once.
        variants: The model for each kind of processor, preferred ones first.
        writer: Version of the package.
        synced: Whether to wait until the disk has it; else a crash of the machine may leave a damaged file.

    Returns:
        The path.

    Raises:
        LoadError: a part of a variant belongs to the compiler, or the file cannot be written.
    """
    target, parts = Path(path), _Parts()
    texts: dict[str, bytes] = {}
    signature, state = to_tree(variants[0].signature, parts), to_tree(variants[0].state, parts)
    for variant in variants:
        to_tree(replace(variant.program, otherwise=None), parts)
    needed = tuple(parts.arrays)
    rows = tuple(_row(variant, number, parts, texts) for number, variant in enumerate(variants))
    packed = parts.placed(needed)
    weights, begin = write_weights(parts.arrays)
    code = {f"code/{digest}.o": content for digest, content in sorted(parts.code.items())}
    members = [Member(name, content) for name, content in {**texts, **code}.items()]
    members.append(Member(WEIGHTS, weights, begin))
    listed = {member.name: _member_row(member.content) for member in members}
    manifest = Manifest(VERSION, writer, signature, state, rows, packed, listed)
    try:
        write_members(target, [Member(NAME, manifest.to_json()), *members], synced=synced)
    except OSError as error:
        raise LoadError(f"{target} cannot be written: {error.strerror or error}") from None
    return target


def _row(variant: SavedModel, number: int, parts: _Parts, texts: dict[str, bytes]) -> VariantRow:
    """The row of a variant; its members are added to `texts`, those that are there already once."""
    program = _json(to_tree(variant.program, parts))
    return VariantRow(
        target=variant.target,
        precision=variant.precision,
        features=tuple(sorted(features_of(variant.program))),
        threads=variant.threads,
        native_threads=threads_of(variant.program),
        program=_kept(texts, f"programs/{number}.json", program),
        report=_kept(texts, f"reports/{number}.json", _json(dict(variant.report))),
        text=_kept(texts, f"texts/{number}.py", variant.text.encode()),
        constants=to_tree(variant.constants, parts),
    )


def _kept(texts: dict[str, bytes], name: str, content: bytes) -> str:
    """The name of a member with some content: one that there is, else a new one."""
    folder = name.partition("/")[0]
    same = (known for known, other in texts.items() if other == content and known.startswith(folder + "/"))
    name = next(same, name)
    texts[name] = content
    return name


def _json(tree: Any) -> bytes:
    return json.dumps(tree, allow_nan=False, separators=(",", ":")).encode()


def _member_row(content: bytes | memoryview) -> MemberRow:
    return MemberRow(len(content), hashlib.sha256(content).hexdigest())


def _copy(content: memoryview) -> memoryview:
    """The same bytes in large pages, each as far from a multiple of `ALIGNMENT` as it was."""
    there = np.frombuffer(content, np.uint8)
    begin = address(there) % ALIGNMENT
    here = in_large_pages(begin + len(there))[begin:]
    here[:] = there
    return here.data.toreadonly()


class Artefact:
    """A file, looked through; its variants are read when they are asked for.

    Attributes:
        path: The file.
        manifest: What it says about itself.

    Args:
        path: The file.
        check: Whether the digest of the weights is compared, for which all of them have to be read. The digests of
            everything else always are.
        copied: Whether weights are in memory of their own, in large pages, instead of in pages of the file, which
            processes share.

    Raises:
        LoadError: it is no artefact, is damaged, or of another version.
    """

    def __init__(self, path: str | Path, check: bool = True, copied: bool = False) -> None:
        self.path = Path(path)
        self._container = Container(self.path)
        try:
            self.manifest = from_json(self._container.checked(NAME))
            self._check_members(check)
            weights = self._container.members[WEIGHTS]
            self._weights = read_weights(_copy(weights) if copied else weights)
        except LoadError as error:
            raise self.named(error) from None

    def _check_members(self, check_weights: bool) -> None:
        listed, real = self.manifest.members, {**self._container.members}
        del real[NAME]
        if set(listed) != set(real) or WEIGHTS not in real:
            strange = sorted(set(listed) ^ set(real)) or [WEIGHTS]
            raise self._container.refuse(f"the manifest and the archive do not agree about {strange[0]!r}")
        for name, content in real.items():
            row = listed[name]
            if row.bytes != len(content):
                raise self._container.refuse(f"{name} has {len(content)} bytes, and {row.bytes} were written")
            if not name.startswith("code/") and name != WEIGHTS and len(content) > LARGEST_TEXT:
                raise self._container.refuse(f"{name} has {len(content)} bytes, more than any text of ours")
            if (check_weights or name != WEIGHTS) and _member_row(content).sha256 != row.sha256:
                raise self._container.refuse(f"{name} is not what was written: its digest is another one")

    def best(self) -> int:
        """Number of the variant that asks most of the processor, of those that run here.

        Raises:
            LoadError: none does; says what the processor lacks.
        """
        here, rows = features(), self.manifest.variants
        runnable = [number for number, row in enumerate(rows) if not here or here.issuperset(row.features)]
        if not runnable:
            raise self._no_variant()
        rate = min if not here else max  # where nobody knows what the processor has, the least is the safest
        return rate(runnable, key=lambda number: len(rows[number].features))

    def _no_variant(self) -> LoadError:
        rows = self.manifest.variants
        lacks = [(row.target, ", ".join(sorted(set(row.features) - features()))) for row in rows]
        notes = [f'the variant for "{target}" needs {missing}' for target, missing in lacks]
        return LoadError(
            f"{self.path} is compiled for other processors: this one lacks {lacks[0][1]}",
            notes=notes,
            help="eutectic.load(path, recompile=True) compiles it here from its text, where the compiler is installed; "
            'or save it for smaller processors: save(path, targets=["x86-64-v2"])',
        )

    def saved(self, number: int) -> SavedModel:
        """A variant as data; arrays share the memory of the file.

        Args:
            number: Its place in the manifest.

        Raises:
            LoadError: it is damaged.
        """
        row = self.manifest.variants[number]
        try:
            program = from_tree(self._tree(row.program), self, Program)
            signature: Any = from_tree(self.manifest.signature, self, object)
            if not isinstance(signature, (ModelSignature, ArraySignature)):
                raise damaged("the signature is something else")
            constants = from_tree(row.constants, self, dict)
            if not _is_table(constants):
                raise damaged("the constants of the text are something else")
            state = from_tree(self.manifest.state, self, tuple)
            return SavedModel(
                program, signature, self._tree(row.report), self._text(row.text), row.threads, constants, row.target,
                row.precision, state,
            )  # fmt: skip
        except LoadError as error:
            raise self.named(error) from None

    def named(self, error: LoadError) -> LoadError:
        """An error with the name of the file, and what to do."""
        error.help = error.help or "save the model again"
        error.with_note(f"in {self.path}")
        return error

    def _text(self, name: str) -> str:
        try:
            return bytes(self._container.members[name]).decode()
        except (KeyError, UnicodeDecodeError):
            raise damaged(f"{name[:80]} is missing, or is no text") from None

    def _tree(self, name: str) -> Any:
        try:
            return json.loads(self._text(name))
        except (ValueError, RecursionError) as error:
            raise damaged(f"{name} is no JSON: {error}") from None

    def content(self, reference: Any) -> bytes:
        """See `Source`."""
        return bytes(self._container.members[f"code/{reference}.o"])

    def array(self, reference: Any) -> memoryview | PackedArray:
        """See `Source`."""
        return self._weights[reference] if reference in self._weights else self.packed(reference)

    def packed(self, reference: Any) -> PackedArray:
        """See `Source`."""
        row = self.manifest.packed[reference]
        elements = np.frombuffer(self._weights[row.elements], np.uint32)
        places, packed = _terms(row.plain), _terms(row.packed)
        size = prod(extent for axis in places for extent, _ in axis)
        return PackedArray(elements, places, packed, elements.dtype, (size,))


def _terms(side: Any) -> Terms:
    """Places of axes as they were before they were written.

    Raises:
        TypeError, ValueError: they are something else.
    """
    return tuple(tuple((index(extent), index(stride)) for extent, stride in axis) for axis in side)


def _is_table(constants: Mapping[Any, Any]) -> bool:
    """Whether this is what texts refer to: tuples of arrays by kind."""
    return all(
        isinstance(kind, str)
        and isinstance(arrays, tuple)
        and all(isinstance(array, (np.ndarray, PackedArray)) for array in arrays)
        for kind, arrays in constants.items()
    )
