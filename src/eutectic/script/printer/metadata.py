"""Values that have no text of their own: a text refers to them by kind and number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class Metadata:
    """The values that a text refers to as `metadata["<kind>"][<number>]`."""

    def __init__(self) -> None:
        self._kinds: dict[str, list[Any]] = {}

    def reference(self, kind: str, value: Any) -> str:
        """Text that refers to a value; the same object always has the same text."""
        known = self._kinds.setdefault(kind, [])
        index = next((i for i, other in enumerate(known) if other is value), None)
        if index is None:
            index = len(known)
            known.append(value)
        return f'metadata["{kind}"][{index}]'

    def __getitem__(self, kind: str) -> list[Any]:
        if kind not in self._kinds:
            raise KeyError(
                f"the text refers to metadata of kind {kind}, which was not given: pass metadata=, or load the module "
                "with script.load"
            )
        return self._kinds[kind]

    def add(self, kind: str, value: Any) -> None:
        """Append a value to a kind."""
        self._kinds.setdefault(kind, []).append(value)

    def items(self) -> Iterator[tuple[str, list[Any]]]:
        """Kinds with their values, in order of first use."""
        yield from self._kinds.items()

    def __len__(self) -> int:
        return sum(len(values) for values in self._kinds.values())
