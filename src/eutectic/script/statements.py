"""What the statement-like names of `R` and `I` give: plain records that the parsers act on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Dataflow:
    """`with R.dataflow():`."""

    def __enter__(self) -> None:
        raise TypeError("R.dataflow() is part of a script: use it in a function under @R.function")

    def __exit__(self, *_: object) -> None:
        """Never reached."""


@dataclass(frozen=True)
class Output:
    """`R.output(x, y)`: the variables of a dataflow block that are visible after it."""

    values: tuple[Any, ...]


@dataclass(frozen=True)
class FuncAttrs:
    """`R.func_attr({...})` or `T.func_attr({...})`."""

    values: dict[str, Any]


@dataclass(frozen=True)
class MatchCastOf:
    """`R.match_cast(value, info)`."""

    value: Any
    struct_info: Any


@dataclass(frozen=True)
class ModuleAttrs:
    """`I.module_attrs({...})`."""

    values: dict[str, Any]


@dataclass(frozen=True)
class ModuleInfos:
    """`I.module_global_infos({...})`."""

    values: dict[str, Any]


@dataclass(frozen=True)
class EmitTE:
    """`R.emit_te(function, *args)`: a tensor program that a function of tensors defines, and the call of it."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    keywords: Mapping[str, Any]
