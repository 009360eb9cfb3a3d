"""Pipelines as data: a tuple of passes with their options, which prints as text and is parsed back.

    FoldBatchnormToConv2D,Partition{backend=dnnl},LegalizeOps,FuseOps{fuse_opt_level=2}

An option is written when it is not the default. Its value is `true`, `false`, `none`, a number, a word, text in
double quotes as in JSON, or several of these in square brackets.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import eutectic.relax.transform as _graph
import eutectic.tir.transform as _programs
from eutectic.backend.choose_precision import ChoosePrecision
from eutectic.backend.partition import Partition
from eutectic.ir.transform import Pass, PassContext, PassInfo, run_pass
from eutectic.support.annotations import accepts, described, hints_of
from eutectic.support.errors import Excerpt, PassError
from eutectic.support.shown import shown
from eutectic.support.spelling import did_you_mean

_WORDS: Final[dict[str, Any]] = {"true": True, "false": False, "none": None}
_TOKEN: Final = re.compile(r'\s*(?:(?P<mark>[,{}=\[\]])|(?P<text>"(?:[^"\\]|\\.)*")|(?P<word>[^\s,{}=\[\]"]+))')
_NUMBER: Final = re.compile(r"[+-]?(?:\d+(?P<float>\.\d*)?(?:[eE][+-]?\d+)?|inf|nan)")
_PLAIN_WORD: Final = re.compile(r"[A-Za-z_][\w.]*")


@dataclass(frozen=True)
class Pipeline(Pass):
    """Passes that run one after another, as `Sequential` runs them.

    Attributes:
        passes: The members, in order; a pipeline among them counts as its passes.
        name: Name in records.

    Raises:
        PassError: a member is not a pass.
    """

    passes: tuple[Pass, ...]
    name: str = dataclasses.field(default="pipeline", compare=False)

    def __post_init__(self) -> None:
        members: list[Any] = list(self.passes)
        for member in members:
            if not isinstance(member, Pass):
                raise PassError(
                    f"a pipeline consists of passes, got {type(member).__name__}", help="call the pass class first"
                )
        flat = [list(member) if isinstance(member, Pipeline) else [member] for member in members]
        object.__setattr__(self, "passes", tuple(step for steps in flat for step in steps))

    @property
    def info(self) -> PassInfo:
        """Name and level."""
        return PassInfo(self.name)

    def __iter__(self) -> Iterator[Pass]:
        return iter(self.passes)

    def __len__(self) -> int:
        return len(self.passes)

    def __str__(self) -> str:
        return ",".join(map(_pass_text, self.passes))

    def split(self, name: str) -> tuple[Pipeline, Pipeline]:
        """What runs before the first pass of a name, and the rest from it on.

        Raises:
            PassError: there is no such pass in it.
        """
        names = [member.info.name for member in self.passes]
        if name not in names:
            raise PassError(f"no pass {shown(name)} is in the pipeline {self}", help=did_you_mean(name, names))
        at = names.index(name)
        return Pipeline(self.passes[:at]), Pipeline(self.passes[at:])

    def run(self, mod: Any, ctx: PassContext) -> Any:
        """Run the members that the context lets run."""
        for member in members_to_run(self, ctx):
            mod = run_pass(member, mod, ctx)
        return mod

    @classmethod
    def parse(cls, text: str) -> Pipeline:
        """The pipeline that a text describes; the inverse of `str`.

        Raises:
            PassError: the text is none, or names an unknown pass or option, or a value does not fit.
        """
        return cls(tuple(_Parser(text).passes()))

    @staticmethod
    def known_passes() -> list[str]:
        """Names of the passes that a text can have."""
        return sorted(_passes())

    @staticmethod
    def names_a_pass(text: str) -> bool:
        """Whether a text is the name of one pass."""
        return text.strip() in _passes()


def members_to_run(pipeline: Pipeline, ctx: PassContext) -> Iterator[Pass]:
    """The passes that a context has not disabled, and whose level it reaches."""
    for member in pipeline.passes:
        name, level = member.info.name, member.info.opt_level
        if name not in ctx.disabled_pass and (level <= ctx.opt_level or name in ctx.required_pass):
            yield member


def _passes() -> dict[str, type[Pass]]:
    """Every pass that is a dataclass by name: all that are exported, and what else was imported; ours come first."""
    for package in (_graph, _programs):
        for name in package.__all__:
            getattr(package, name)
    kinds: list[type[Pass]] = [Pass, ChoosePrecision, Partition]
    for kind in kinds:
        kinds += [sub for sub in kind.__subclasses__() if sub not in kinds]
    known = [kind for kind in kinds if "__dataclass_fields__" in vars(kind) and kind is not Pipeline]
    known.sort(key=lambda kind: kind.__module__.startswith("eutectic."))
    return {kind.__name__: kind for kind in known}


def _options(kind: Any) -> dict[str, dataclasses.Field[Any]]:
    return {f.name: f for f in dataclasses.fields(kind) if f.init} if dataclasses.is_dataclass(kind) else {}


# ---- to text


def _pass_text(member: Pass) -> str:
    """A pass as text; what no text can say is in angle brackets, which parsing refuses."""
    kind = type(member)
    if _passes().get(kind.__name__) is not kind:
        return f"<{member.info.name}>"
    values = {name: getattr(member, name) for name in _options(kind)}
    listed = [f"{name}={_value_text(v)}" for name, v in values.items() if not _is_default(_options(kind)[name], v)]
    return kind.__name__ + ("{" + ",".join(listed) + "}" if listed else "")


def _is_default(option: dataclasses.Field[Any], value: Any) -> bool:
    return type(value) is type(option.default) and bool(value == option.default)


def _value_text(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return f"[{','.join(map(_plain_text, value))}]"
    return _plain_text(value)


def _plain_text(value: Any) -> str:
    for word, meant in _WORDS.items():
        if value is meant:
            return word
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        is_plain = _PLAIN_WORD.fullmatch(value) and value not in _WORDS and not _NUMBER.fullmatch(value)
        return value if is_plain else json.dumps(value)
    return f"<{type(value).__name__}>"


# ---- from text


class _Parser:
    """Reads one text from left to right."""

    def __init__(self, text: Any) -> None:
        if not isinstance(text, str):
            raise PassError(f"a pipeline is parsed from text, got {type(text).__name__}")
        self._text, self._at, self._next = text, 0, 0

    def passes(self) -> Iterator[Pass]:
        while True:
            yield self._pass()
            if not self._text[self._next :].strip():
                return
            self._expect(",", "between passes")

    def _pass(self) -> Pass:
        name, at = self._word("the name of a pass"), self._at
        known = _passes()
        if name not in known:
            near = did_you_mean(name, known)
            raise self._error(f"unknown pass {name!r}", at, help=near or "docs/passes.md lists them")
        values: dict[str, Any] = {}
        if self._take("{"):
            while not self._take("}"):
                if values:
                    self._expect(",", f"between options of {name}")
                self._option(known[name], values)
        lacking = [o.name for o in _options(known[name]).values() if _is_required(o) and o.name not in values]
        if lacking:
            raise self._error(f"pass {name} needs {', '.join(lacking)}, which a text cannot give", at)
        return known[name](**values)

    def _option(self, kind: type[Pass], values: dict[str, Any]) -> None:
        name, at = self._word(f"an option of {kind.__name__}"), self._at
        options = _options(kind)
        if name not in options:
            listed = f"its options are {', '.join(options)}" if options else "it has none"
            raise self._error(f"pass {kind.__name__} has no option {name!r}", at, did_you_mean(name, options) or listed)
        if name in values:
            raise self._error(f"option {name} of {kind.__name__} is given twice", at)
        self._expect("=", f"after the option {name}")
        values[name] = value = self._value()
        hint = hints_of(kind).get(name, Any)
        if not accepts(hint, value) or (isinstance(value, bool) and hint in (int, float)):
            raise self._error(f"option {name} of {kind.__name__} is {described(hint)}, got {shown(value)}", at)

    def _value(self) -> Any:
        if not self._take("["):
            return self._plain()
        items: list[Any] = []
        while not self._take("]"):
            if items:
                self._expect(",", "between values")
            items.append(self._plain())
        return tuple(items)

    def _plain(self) -> Any:
        token = self._token()
        if token is None or token.group("mark"):
            raise self._error("a value is missing", self._next)
        self._at, self._next = token.start(token.lastgroup or 0), token.end()
        if (text := token.group("text")) is not None:
            return self._quoted(text)
        word = token.group("word")
        if word.startswith("<"):
            raise self._error(f"{word} has no text: it was given as a Python object", self._at)
        number = _NUMBER.fullmatch(word)
        if number is None:
            return _WORDS.get(word, word)
        return int(word) if word.lstrip("+-").isdigit() else float(word)

    def _quoted(self, text: str) -> str:
        try:
            return str(json.loads(text))
        except json.JSONDecodeError as error:
            raise self._error(f"{text} is no text as JSON has it", self._at) from error

    def _token(self) -> re.Match[str] | None:
        return _TOKEN.match(self._text, self._next)

    def _take(self, mark: str) -> re.Match[str] | None:
        """The next token if it is this mark, which is read then."""
        token = self._token()
        if token is None or token.group("mark") != mark:
            return None
        self._next = token.end()
        return token

    def _expect(self, mark: str, where: str) -> None:
        if not self._take(mark):
            raise self._error(f"expected {mark!r} {where}", self._next)

    def _word(self, what: str) -> str:
        token = self._token()
        word = token.group("word") if token else None
        if token is None or not word:
            raise self._error(f"expected {what}", self._next)
        if word.startswith("<"):
            raise self._error(f"{word} has no text: it was given as a Python object", token.start("word"))
        self._at, self._next = token.start("word"), token.end()
        return word

    def _error(self, message: str, at: int, help: str | None = None) -> PassError:
        text = self._text
        at += len(text[at:]) - len(text[at:].lstrip())
        end = _TOKEN.match(text, at)
        width = (end.end() if end else len(text)) - at
        return PassError(message, at=Excerpt("pipeline", text, 1, at, width), help=help)


def _is_required(option: dataclasses.Field[Any]) -> bool:
    return option.default is dataclasses.MISSING and option.default_factory is dataclasses.MISSING
