"""Who knows in which ways something can be computed, by kind of target; whoever makes code for a kind says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from eutectic.ir.services import Speeds
from eutectic.ir.transform import PassContext
from eutectic.support.registry import load_providers, note_addition
from eutectic.target import Target

Asked = TypeVar("Asked")
Offer = TypeVar("Offer")
Provider: TypeAlias = Callable[..., Sequence[Offer]]  # takes what is asked, the target, and speeds if there are any


@dataclass(frozen=True)
class ChoiceRemark:
    """A choice between ways to compute an operator, or a model, in `PassContext.remarks`.

    Attributes:
        workload: What the operator is known by in a database of decisions: a text with its sizes.
        point: What is chosen, such as `winograd`.
        chosen: What is done.
        source: `default`, or `tuned` for what the services of the context have.
        alternatives: What is worth a measurement beside that.
        reach: Operators that the choice is for.
    """

    workload: str
    point: str
    chosen: Mapping[str, Any]
    source: str
    alternatives: tuple[Mapping[str, Any], ...]
    reach: int = 1

    def __str__(self) -> str:
        values = ", ".join(f"{name}={str(value).lower()}" for name, value in self.chosen.items())
        return f"{self.point} of {self.workload}: {values} ({self.source})"


def tuned_choice(
    ctx: PassContext, workload: str, point: str, ways: Sequence[Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    """What the services of a context have for an operator; None when they have nothing that could be done.

    Args:
        ctx: The context.
        workload: The operator.
        point: What is chosen.
        ways: Everything that could be done.
    """
    given = ctx.services.measured.decisions.get(workload, {}).get(point)
    return given if given is not None and dict(given) in [dict(way) for way in ways] else None


def note_choice(
    ctx: PassContext,
    workload: str,
    point: str,
    chosen: Mapping[str, Any],
    ways: Sequence[Mapping[str, Any]],
    reach: int = 1,
) -> None:
    """Leave a remark about a choice, where the context collects remarks.

    Args:
        ctx: The context.
        workload: The operator.
        point: What is chosen.
        chosen: What is done.
        ways: Everything that could be done.
        reach: Operators that the choice is for.
    """
    if ctx.collect_remarks and len(ways) > 1:
        source = "default" if tuned_choice(ctx, workload, point, ways) is None else "tuned"
        others = tuple(way for way in ways if dict(way) != dict(chosen))
        ctx.remarks.append(ChoiceRemark(workload, point, chosen, source, others, reach))


class OffersByKind(Generic[Asked, Offer]):
    """A registry of those who offer ways to compute something.

    Args:
        name: Of the registry, for the modules that fill it.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._providers: dict[str, Provider[Offer]] = {}

    def register(self, kind: str, provider: Provider[Offer]) -> None:
        """Say who knows for a kind of target.

        Args:
            kind: As in `Target.kind.name`.
            provider: Gives the ways to compute what it is asked about; takes that, the target, and, where the speeds
                of the processor were measured, these.
        """
        note_addition(f"{self._name} for {kind}")
        self._providers[kind] = provider

    def ask(self, asked: Asked, target: Target, speeds: Speeds | None = None) -> Sequence[Offer]:
        """The ways to compute something for a target; none where nobody knows.

        Args:
            asked: What is to be computed.
            target: What for.
            speeds: What its processor was measured to do; None has estimates reckon with what is usual.
        """
        load_providers(self._name)
        provider = self._providers.get(target.kind.name)
        if provider is None:
            return ()
        return provider(asked, target) if speeds is None else provider(asked, target, speeds)
