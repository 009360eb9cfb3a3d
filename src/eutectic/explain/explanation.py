"""Explanation: what was explained, with questions and views; it goes to JSON and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import RenderableType

from eutectic.driver.plan import from_tree
from eutectic.explain.data import Explained
from eutectic.explain.find import Place, find
from eutectic.explain.page import page
from eutectic.explain.perfetto import trace_events
from eutectic.explain.text import plain_text, print_rich, tree
from eutectic.explain.why import Answer, answer
from eutectic.support.errors import CallError, LoadError

VERSION: Final = 1


@dataclass(frozen=True, repr=False)
class Explanation(Explained):
    """What a compiled model executes, how long that takes, and why it is not fewer kernels.

    `print` shows a tree; `to_html` and `to_perfetto` write files for a browser; `why` answers about two operators.
    """

    def find(self, name: str) -> tuple[Place, ...]:
        """Operators of a name; none when there is no such.

        Args:
            name: An operator (`conv2d`, `relax.nn.conv2d`), a variable, a path of a module (with all that is below
                it), or `file:line` as far as it is needed; several of these with spaces between must all hold.
        """
        return find(self.plan, name)

    def why(self, a: str, b: str) -> Answer:
        """Whether two operators are executed together, and what is between them if not.

        Args:
            a: The first, as for `find`.
            b: The second.

        Raises:
            CallError: a name fits no operator, or operators of several groups; lists these.
        """
        return answer(self.plan, a, b)

    def to_json(self) -> dict[str, Any]:
        """All of it as a tree that `json.dumps` takes."""
        return {"version": VERSION, **asdict(self)}

    @staticmethod
    def from_json(tree: Mapping[str, Any]) -> Explanation:
        """Inverse of `to_json`.

        Raises:
            LoadError: it is no such tree, or of another version.
        """
        try:
            if tree["version"] != VERSION:
                raise LoadError(
                    f"this explanation has version {tree['version']}, expected {VERSION}",
                    help="explain the model again with this version",
                )
            return from_tree(Explanation, tree)
        except (KeyError, TypeError, IndexError) as error:
            raise LoadError(f"this is no explanation: {error!r}", help="write it with to_json()") from None

    def to_html(self, path: str | Path, title: str = "Explanation") -> Path:
        """Write one HTML file that needs nothing else, with the graph, a search, and the details of each group.

        Args:
            path: Where to.
            title: Heading of the page.
        """
        target = Path(path)
        target.write_text(page(self, title), encoding="utf-8")
        return target

    def to_perfetto(self, path: str | Path) -> Path:
        """Write one call as a Chrome trace, for ui.perfetto.dev or chrome://tracing.

        Args:
            path: Where to.

        Raises:
            CallError: nothing was measured.
        """
        if not self.timings:
            raise CallError("nothing was measured, so there are no times to write", help="explain with measure=True")
        target = Path(path)
        target.write_text(json.dumps(trace_events(self)), encoding="utf-8")
        return target

    def show(self) -> None:
        """Print the tree, with colours on a terminal."""
        print_rich(tree(self))

    def __rich__(self) -> RenderableType:
        return tree(self)

    def __str__(self) -> str:
        return plain_text(tree(self))

    def __repr__(self) -> str:
        times = "" if self.seconds is None else f", {self.seconds * 1e3:.3f} ms"
        return f"Explanation({len(self.plan.groups)} groups, {len(self.plan.boundaries)} boundaries{times})"
