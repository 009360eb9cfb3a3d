"""What a module of TVM offers to scripts: its public names, and what becomes of those that we do not have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

WHOLE: Final = "*"  # stands for the module itself
_ENTRY: Final = re.compile(r"([\w.]+)(?:\(([^)]*)\))?")


def each(names: str, reason: str) -> dict[str, str]:
    """One reason for several names, apart by white space."""
    return dict.fromkeys(names.split(), reason)


@dataclass(frozen=True)
class PublicName:
    """A public name of TVM.

    Attributes:
        name: It, within its module; a method stands behind its class, as in `Schedule.split`.
        parameters: Names of what it is called with; none where it is no function, or where they do not matter.
    """

    name: str
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True)
class Surface:
    """The public names of one module of TVM.

    Attributes:
        text: The names, apart by white space, each followed by its parameters in parentheses where it is called:
            `"IRModule(functions, attrs) structural_equal(lhs, rhs, map_free_vars)"`.
        refused: Names that we do not have although they belong to our subject, and a sentence on what to use instead;
            `"*"` for a module as a whole.
        not_ours: Names that serve another purpose, and which one.
    """

    text: str
    refused: Mapping[str, str] = field(default_factory=dict)
    not_ours: Mapping[str, str] = field(default_factory=dict)

    def names(self) -> Iterator[PublicName]:
        """The names in the order of the text."""
        for name, parameters in _ENTRY.findall(re.sub(r",\s+", ",", self.text)):
            yield PublicName(name, tuple(filter(None, parameters.split(","))))

    def reason(self, name: str) -> str | None:
        """Why a name, or the module (`"*"`), is not here; None where nothing is said about it."""
        for reasons in (self.refused, self.not_ours):
            if name in reasons:
                return reasons[name]
        return None
