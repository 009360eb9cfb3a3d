"""Who knows in which ways something can be computed, by kind of target; whoever makes code for a kind says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeAlias, TypeVar

from eutectic.support.registry import load_providers
from eutectic.target import Target

Asked = TypeVar("Asked")
Offer = TypeVar("Offer")
Provider: TypeAlias = Callable[[Asked, Target], Sequence[Offer]]


class OffersByKind(Generic[Asked, Offer]):
    """A registry of those who offer ways to compute something.

    Args:
        name: Of the registry, for the modules that fill it.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._providers: dict[str, Provider[Asked, Offer]] = {}

    def register(self, kind: str, provider: Provider[Asked, Offer]) -> None:
        """Say who knows for a kind of target.

        Args:
            kind: As in `Target.kind.name`.
            provider: Gives the ways to compute what it is asked about.
        """
        self._providers[kind] = provider

    def ask(self, asked: Asked, target: Target) -> Sequence[Offer]:
        """The ways to compute something for a target; none where nobody knows."""
        load_providers(self._name)
        provider = self._providers.get(target.kind.name)
        return () if provider is None else provider(asked, target)
