"""Pattern tables: a pattern with its name and check, and the registry of backends' tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from eutectic.relax.base import Expr
from eutectic.relax.dpl.pattern import DFPattern
from eutectic.relax.dpl.remarks import Refusal
from eutectic.relax.expr import Call, Var
from eutectic.support.errors import PatternError
from eutectic.support.registry import load_providers, note_addition
from eutectic.support.shown import shown
from eutectic.support.spelling import did_you_mean


@dataclass(frozen=True)
class PatternCheckContext:
    """What a check sees of a match.

    Attributes:
        matched_expr: Call at the root.
        annotated_expr: Values by name: of annotation patterns and of patterns with `named`, those that took part.
        matched_bindings: Bindings that would join the group, by variable.
        var_usages: Users of each variable, over the whole function.
        value_to_bound_var: Variable of each bound value.
        bound_values: Value of each variable, over the whole function.
    """

    matched_expr: Call
    annotated_expr: Mapping[str, Expr]
    matched_bindings: Mapping[Var, Expr]
    var_usages: Mapping[Var, Sequence[Var]]
    value_to_bound_var: Mapping[Expr, Var]
    bound_values: Mapping[Var, Expr] = field(default_factory=dict)

    @property
    def parts(self) -> Mapping[str, Expr]:
        """The same as `annotated_expr`."""
        return self.annotated_expr


Check = Callable[[PatternCheckContext], bool | Refusal | None]
AttrsGetter = Callable[[Mapping[str, Expr]], Mapping[str, Any]]


@dataclass(frozen=True)
class FusionPattern:
    """An entry of a pattern table.

    Attributes:
        name: Composite name, `<codegen>.<what>`.
        pattern: What the graph must look like.
        annotation_patterns: Parts the check can refer to by name.
        check: Returns True or None to take the match, False or a `Refusal` not to.
        attrs_getter: Further attributes of the composite, from the named parts.

    Raises:
        PatternError: the name or the pattern has the wrong type.
    """

    name: str
    pattern: DFPattern
    annotation_patterns: Mapping[str, DFPattern] = field(default_factory=dict)
    check: Check | None = None
    attrs_getter: AttrsGetter | None = None

    def __post_init__(self) -> None:
        if not self.name or not isinstance(self.name, str):
            raise PatternError(f"a fusion pattern needs a name, got {shown(self.name)}")
        if not isinstance(self.pattern, DFPattern):
            raise PatternError(f"fusion pattern {self.name}: expected a pattern, got {type(self.pattern).__name__}")
        if self.annotation_patterns is None:
            object.__setattr__(self, "annotation_patterns", {})
        if not isinstance(self.annotation_patterns, Mapping):
            kind = type(self.annotation_patterns).__name__
            raise PatternError(f"fusion pattern {self.name}: annotation patterns are a dict by name, got a {kind}")
        for what, hook in (("check", self.check), ("attrs_getter", self.attrs_getter)):
            if hook is not None and not callable(hook):
                raise PatternError(f"fusion pattern {self.name}: {what} must be a function, got {hook!r}")

    @property
    def codegen(self) -> str:
        """The backend that takes the composite.

        Raises:
            PatternError: the name does not say.
        """
        return codegen_of(self.name)


def codegen_of(name: str) -> str:
    """The backend in a composite's name: the part before the first dot.

    Raises:
        PatternError: the name has no dot.
    """
    prefix, dot, _ = name.partition(".")
    if not dot or not prefix:
        raise PatternError(
            f"pattern name {name!r} does not say which backend takes it",
            help='name it "<backend>.<what>", such as "dnnl.conv2d_relu"',
        )
    return prefix


def as_fusion_pattern(entry: Any) -> FusionPattern:
    """A table entry as a `FusionPattern`; tuples are splatted into it.

    Raises:
        PatternError: the entry is neither.
    """
    if isinstance(entry, FusionPattern):
        return entry
    if isinstance(entry, tuple):
        return FusionPattern(*entry)
    raise PatternError(f"expected a FusionPattern or a tuple for one, got {type(entry).__name__}")


_REGISTRY: Final[list[FusionPattern]] = []
_SOURCES: Final[dict[str, Callable[[], object]]] = {}


def pattern_source(prefix: str, load: Callable[[], object]) -> None:
    """Name what registers the patterns of a backend, so that it is imported when somebody asks for them.

    Args:
        prefix: What their names begin with, such as `dnnl.`.
        load: Registers them when it is called first, and does nothing afterwards.
    """
    _SOURCES[prefix] = load


def _load_sources(prefix: str) -> None:
    """Register the patterns that may have a prefix."""
    load_providers("backends")
    for known, load in list(_SOURCES.items()):
        if known.startswith(prefix) or prefix.startswith(known):
            load()


def register_patterns(patterns: Iterable[FusionPattern | tuple[Any, ...]]) -> None:
    """Add entries to the registry; entries registered later come first when asked for.

    Raises:
        TypeError: an entry is neither a `FusionPattern` nor a tuple.
    """
    for entry in patterns:
        if not isinstance(entry, (FusionPattern, tuple)):
            raise TypeError(f"cannot register a {type(entry).__name__} as a pattern")
        pattern = as_fusion_pattern(entry)
        note_addition(f"pattern {pattern.name}")
        _load_sources(pattern.name)  # what is built in comes before it, whoever asks first
        _REGISTRY.append(pattern)


def get_patterns_with_prefix(prefix: str) -> list[FusionPattern]:
    """Registered patterns whose name starts with `prefix`, the latest first."""
    _load_sources(prefix)
    return [entry for entry in reversed(_REGISTRY) if entry.name.startswith(prefix)]


def get_pattern(name: str) -> FusionPattern | None:
    """The latest registered pattern called `name`, or None."""
    _load_sources(name)
    return next((entry for entry in reversed(_REGISTRY) if entry.name == name), None)


def require_pattern(name: str) -> FusionPattern:
    """The pattern called `name`.

    Raises:
        PatternError: there is none.
    """
    pattern = get_pattern(name)
    if pattern is None:
        raise PatternError(f"no pattern is called {name!r}", help=did_you_mean(name, (p.name for p in _REGISTRY)))
    return pattern
