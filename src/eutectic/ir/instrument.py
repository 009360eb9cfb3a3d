"""Instruments: objects a `PassContext` calls around each pass."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from eutectic.support.timeline import Timeline


class PassInstrument:
    """Base of instruments; every method may be left as it is."""

    def enter_pass_ctx(self) -> None:
        """Called when the context is entered."""

    def exit_pass_ctx(self) -> None:
        """Called when the context is left."""

    def should_run(self, mod: Any, info: Any) -> bool:
        """Whether the pass may run; one False of any instrument skips it."""
        return True

    def run_before_pass(self, mod: Any, info: Any) -> None:
        """Called before the pass, with its input."""

    def run_after_pass(self, mod: Any, info: Any) -> None:
        """Called after the pass, with its result."""


def pass_instrument(cls: type | None = None) -> Any:
    """Class decorator that makes any class with some of the methods an instrument."""

    def decorate(subject: type) -> type:
        return type(subject.__name__, (subject, PassInstrument), {"__doc__": subject.__doc__})

    return decorate if cls is None else decorate(cls)


class PassTimingInstrument(PassInstrument):
    """Seconds per pass, nested passes indented under the one that ran them."""

    def __init__(self) -> None:
        self.timeline = Timeline()

    def run_before_pass(self, mod: Any, info: Any) -> None:
        """Start the clock of the pass."""
        self.timeline.begin(info.name)

    def run_after_pass(self, mod: Any, info: Any) -> None:
        """Stop the clock of the pass."""
        self.timeline.end()

    def render(self) -> str:
        """One line per pass: name and milliseconds."""
        steps = self.timeline.steps
        return "\n".join(f"{'  ' * step.depth}{step.name}: {step.seconds * 1e3:.3f} ms" for step in steps)


class _Printing(PassInstrument):
    """Base of instruments that write modules as text.

    Args:
        write: Takes each text.
    """

    def __init__(self, write: Callable[[str], Any] = print) -> None:
        self._write = write

    def _say(self, when: str, mod: Any, info: Any) -> None:
        self._write(f"{when} Running Pass: {info}\n{mod.script()}")


class PrintAfterAll(_Printing):
    """Print the module after every pass."""

    def run_after_pass(self, mod: Any, info: Any) -> None:
        """Print name and module."""
        self._say("After", mod, info)


class PrintBeforeAll(_Printing):
    """Print the module before every pass."""

    def run_before_pass(self, mod: Any, info: Any) -> None:
        """Print name and module."""
        self._say("Before", mod, info)


class PassPrintingInstrument(_Printing):
    """Print the module before and after the passes of some names.

    Args:
        print_before_pass_names: Passes whose input is printed.
        print_after_pass_names: Passes whose result is printed.
        write: Takes each text.
    """

    def __init__(
        self,
        print_before_pass_names: Collection[str],
        print_after_pass_names: Collection[str],
        write: Callable[[str], Any] = print,
    ) -> None:
        super().__init__(write)
        self._before, self._after = frozenset(print_before_pass_names), frozenset(print_after_pass_names)

    def run_before_pass(self, mod: Any, info: Any) -> None:
        """Print name and module, if the pass is one of those."""
        if info.name in self._before:
            self._say("Before", mod, info)

    def run_after_pass(self, mod: Any, info: Any) -> None:
        """Print name and module, if the pass is one of those."""
        if info.name in self._after:
            self._say("After", mod, info)


class DumpIR(PassInstrument):
    """Write the module after each pass into a file of its own: `000_Normalize.py`, `001_FuseOps.py`, ...

    Args:
        dump_dir: Folder of the files; made when a context is entered.
        refresh: Whether files of the folder that have such names are removed first.

    Raises:
        FileExistsError: there are such files already, and `refresh` is False.
    """

    def __init__(self, dump_dir: Path | str, refresh: bool = False) -> None:
        self.dump_dir, self.refresh, self.counter = Path(dump_dir), refresh, 0

    def enter_pass_ctx(self) -> None:
        """Make the folder."""
        self.dump_dir.mkdir(parents=True, exist_ok=True)
        old = sorted(self.dump_dir.glob("[0-9][0-9][0-9]_*.py"))
        if old and not self.refresh:
            raise FileExistsError(
                f"{self.dump_dir} has {old[0].name} of an earlier run; pass refresh=True to remove it"
            )
        for file in old:
            file.unlink()
        self.counter = 0

    def run_after_pass(self, mod: Any, info: Any) -> None:
        """Write the module."""
        name = re.sub(r"[^\w.-]", "_", info.name)
        (self.dump_dir / f"{self.counter:03d}_{name}.py").write_text(mod.script() + "\n", encoding="utf-8")
        self.counter += 1
