"""Target: what code is made for, as a short description such as `llvm -mcpu=haswell -mattr=+fma`."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from eutectic.support.deep import carried
from eutectic.support.errors import CodegenError
from eutectic.support.registry import load_providers
from eutectic.support.shown import kind_of
from eutectic.support.spelling import did_you_mean

KINDS: Final = ("llvm", "cuda", "c")
_OPTIONS: Final = ("libs", "mcpu", "mattr", "mtriple", "num-cores", "keys", "arch", "max_num_threads", "opt-level")
_LIBRARIES: Final[set[str]] = set()
_ACTIVE = carried(threading.local())


@dataclass(frozen=True)
class TargetKind:
    """A family of targets."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, init=False)
class Target:
    """What code is made for.

    `Target("llvm")` is the machine that the compiler runs on. `with target:` makes it the current one.

    Attributes:
        kind: The family; its `name` is one of `llvm`, `cuda`, `c`.
        mcpu: LLVM's name of a processor; empty for the host's.
        mattr: Features to add (`+avx2`) or take away (`-fma`).
        mtriple: LLVM's name of a platform; empty for the host's.
        options: Everything else that was given, by name.

    Raises:
        CodegenError: an unknown kind or option.
    """

    kind: TargetKind
    mcpu: str = ""
    mattr: tuple[str, ...] = ()
    mtriple: str = ""
    options: tuple[tuple[str, str], ...] = field(default=())

    def __init__(self, target: str | Target | Mapping[str, Any] = "llvm", host: Any = None) -> None:
        """Read a description.

        Args:
            target: `kind -option=value ...`, a mapping with `kind` and options, or another target.
            host: Accepted for the sake of scripts; a CPU target is its own host.
        """
        if isinstance(target, Target):
            kind, options = target.kind.name, target.as_options()
        elif isinstance(target, Mapping):
            options = {str(key): _text(value) for key, value in target.items() if key != "kind"}
            kind = str(target.get("kind", "llvm"))
        elif isinstance(target, str):
            kind, options = _parse(target)
        else:
            raise CodegenError(
                f"a target is text, a dict or a Target, got {kind_of(target)}",
                help='such as "llvm" or "llvm -libs=dnnl"',
            )
        if kind not in KINDS:
            raise CodegenError(
                f"unknown target {kind!r}", help=did_you_mean(kind, KINDS) or f"one of {', '.join(KINDS)}"
            )
        for name in options:
            if name not in _OPTIONS:
                raise CodegenError(
                    f"unknown option -{name} of target {kind}",
                    help=did_you_mean(name, _OPTIONS) or f"options are {', '.join(_OPTIONS)}",
                )
        for name in options.get("libs", "").split(","):
            if name:
                _check_library(name)
        set_field = object.__setattr__
        set_field(self, "kind", TargetKind(kind))
        set_field(self, "mcpu", options.pop("mcpu", ""))
        set_field(self, "mattr", tuple(part for part in options.pop("mattr", "").split(",") if part))
        set_field(self, "mtriple", options.pop("mtriple", ""))
        set_field(self, "options", tuple(sorted(options.items())))

    @property
    def libs(self) -> tuple[str, ...]:
        """Libraries whose kernels are used where they take an operator: `-libs=dnnl`."""
        return tuple(name for name in dict(self.options).get("libs", "").split(",") if name)

    def as_options(self) -> dict[str, str]:
        """What describes it beside its kind, by name."""
        named = {"mcpu": self.mcpu, "mattr": ",".join(self.mattr), "mtriple": self.mtriple}
        return {**{name: value for name, value in named.items() if value}, **dict(self.options)}

    def with_options(self, **options: str) -> Target:
        """The same target with other options, by name; an empty text takes one away."""
        known = {**self.as_options(), **options}
        return Target({"kind": self.kind.name, **{name: value for name, value in known.items() if value}})

    def __str__(self) -> str:
        return " ".join([self.kind.name, *(f"-{name}={value}" for name, value in self.as_options().items())])

    def __enter__(self) -> Target:
        _stack().append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _stack().pop()

    @staticmethod
    def current(allow_none: bool = True) -> Target | None:
        """The target of the innermost `with`.

        Raises:
            CodegenError: there is none and `allow_none` is False.
        """
        if _stack():
            return _stack()[-1]
        if not allow_none:
            raise CodegenError("there is no current target", help='use `with eutectic.target.Target("llvm"):`')
        return None


def target_or_current(target: str | Target | None) -> Target:
    """The target that is meant: the given one, else the current one, else the machine that the compiler runs on.

    Raises:
        CodegenError: a text that describes none.
    """
    return Target(target) if target is not None else Target.current() or Target()


def register_library(name: str) -> None:
    """Make a name known to `-libs=`."""
    _LIBRARIES.add(name)


def _check_library(name: str) -> None:
    if name not in _LIBRARIES:
        load_providers("backends")
    if name not in _LIBRARIES:
        known = sorted(_LIBRARIES)
        raise CodegenError(
            f"unknown library {name!r} in -libs",
            help=did_you_mean(name, known) or f"known are {', '.join(known)}; register_backend adds one",
        )


def _stack() -> list[Target]:
    if not hasattr(_ACTIVE, "stack"):
        _ACTIVE.stack = []
    stack: list[Target] = _ACTIVE.stack
    return stack


def _parse(text: str) -> tuple[str, dict[str, str]]:
    words = shlex.split(text)
    options: dict[str, str] = {}
    for word in words[1:]:
        name, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("-") or not equals:
            raise CodegenError(f"target {text!r}: expected -option=value, got {word!r}")
        options[name] = value
    return (words[0] if words else ""), options


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return ",".join(map(str, value)) if isinstance(value, Iterable) else str(value)
