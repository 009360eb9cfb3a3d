"""The exceptions of Eutectic and how they are laid out as text.

Every error has a stable code, one sentence with the values in it, an excerpt of
the user's source when it is known, notes with facts, and a help line with the
next thing to do. `docs/errors.md` has one section per code.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final

OTHERWISE: Final = "otherwise: "
"""How the message of a check begins that asks for other code instead of failing the call."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """One line of source with a caret under a part of it.

    Attributes:
        where: File and position, such as `model.py:27:16`.
        text: The source line, without its newline; empty when it cannot be read.
        line: 1-based line number.
        column: 0-based first column of the caret.
        width: Columns underlined; at least one.
    """

    where: str
    text: str
    line: int
    column: int = 0
    width: int = 1

    def render(self) -> list[str]:
        """The lines of the excerpt, ready to be joined."""
        head = [f"  --> {self.where}"]
        if not self.text:
            return head
        gutter = " " * len(str(self.line))
        return [
            *head,
            f" {gutter} |",
            f" {self.line} | {self.text}",
            f" {gutter} | {' ' * self.column}{'^' * max(1, self.width)}",
        ]


class EutecticError(Exception):
    """Base of all errors raised on purpose.

    Args:
        message: One sentence with the values in it.
        code: Stable identifier; None takes the class's.
        at: Where in the user's source, when known.
        notes: Further facts, one sentence each.
        help: What to do next.
    """

    default_code: ClassVar[str] = "E0000"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        at: Excerpt | None = None,
        notes: Iterable[str] = (),
        help: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.at = at
        self.facts: tuple[str, ...] = tuple(notes)
        self.help = help

    def with_note(self, note: str) -> EutecticError:
        """Add a fact while the error travels outwards; returns the same error."""
        if note not in self.facts:
            self.facts = (*self.facts, note)
        return self

    def __str__(self) -> str:
        lines = [f"error[{self.code}]: {self.message}"]
        if self.at is not None:
            lines += self.at.render()
        lines += [f"  = note: {note}" for note in self.facts]
        if self.help:
            lines.append(f"  = help: {self.help}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.code, self.at, self.facts, self.help))


def _rebuild(
    cls: type[EutecticError], message: str, code: str, at: Excerpt | None, facts: tuple[str, ...], help: str | None
) -> EutecticError:
    error = cls.__new__(cls)
    EutecticError.__init__(error, message, code=code, at=at, notes=facts, help=help)
    return error


class ArgumentError(EutecticError, TypeError, ValueError):
    """An argument of a public function is not what it takes: which one, what was expected, what was given."""

    default_code = "E0100"


class FrontendError(EutecticError):
    """A model cannot be imported."""

    default_code = "F0100"


class UnsupportedOperatorError(FrontendError):
    """The model uses operators that the importer does not know; lists all of them.

    Attributes:
        uses: Each use as the operator, the reason (empty when it has no converter at all), and the place; the notes
            name the first places only.
    """

    default_code = "F0101"
    uses: tuple[tuple[str, str, str], ...] = ()

    def __reduce__(self) -> tuple[object, ...]:
        return (*super().__reduce__(), {"uses": self.uses})


class UnsupportedTypeError(FrontendError):
    """A value of the model has a dtype, device or kind that is not supported."""

    default_code = "F0102"


class ExportFailedError(FrontendError):
    """torch.export refused the model; its own error is the cause."""

    default_code = "F0103"


class ModelStateError(FrontendError):
    """The model is in a state that would change results: training mode, CUDA parameters."""

    default_code = "F0104"


class ScriptError(EutecticError):
    """Text IR that does not parse."""

    default_code = "P0100"


class TypeInferenceError(EutecticError, TypeError):
    """An operator cannot accept its arguments."""

    default_code = "R0100"


class PatternError(EutecticError, ValueError):
    """A pattern or a pattern table entry is malformed."""

    default_code = "D0100"


class BindError(EutecticError, ValueError):
    """A parameter cannot be bound to the given value."""

    default_code = "B0100"


class PassError(EutecticError, ValueError):
    """A pass was misused: unknown option, missing function, bad context key."""

    default_code = "A0100"


class ScheduleError(EutecticError):
    """A schedule primitive cannot apply, or would change the result."""

    default_code = "S0100"


class WellFormedError(EutecticError, ValueError):
    """IR breaks an invariant."""

    default_code = "V0100"


class OutOfBoundsError(WellFormedError):
    """A tensor program touches memory outside of its buffers."""

    default_code = "V0200"


class CodegenError(EutecticError):
    """A target cannot express something."""

    default_code = "G0100"


class ToolchainError(EutecticError):
    """An external tool failed."""

    default_code = "T0100"


class LoadError(EutecticError):
    """An artifact or library does not fit this machine or version."""

    default_code = "X0100"


class CallError(EutecticError, TypeError):
    """Wrong arguments at run time: which one, what was expected, what was given."""

    default_code = "X0200"


class SpecialValues(EutecticError):
    """NaN, infinities or huge numbers that fast code would compute wrongly; compiled models have other code for them.

    A kernel that refuses them says `OTHERWISE`, and then what it is that computes them wrongly.
    """

    default_code = "X0201"


class InternalError(EutecticError):
    """A state that cannot happen; a bug of ours."""

    default_code = "Z0100"


class EutecticAdvice(UserWarning):
    """Advice that can be silenced with `warnings.filterwarnings("ignore", category=EutecticAdvice)`."""
