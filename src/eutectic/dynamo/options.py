"""Options of the backend of torch.compile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from eutectic.support.choices import check_choice
from eutectic.support.errors import PassError
from eutectic.support.shown import shown
from eutectic.support.spelling import did_you_mean


@dataclass(frozen=True)
class Options:
    """What `torch.compile(..., options={...})` may say.

    Attributes:
        target: What code is made for; see `eutectic.compile`.
        threads: Threads of each call; None takes `EUTECTIC_THREADS`, else what OpenMP would use.
        precision: `default`, `strict`, `bf16` or `f16`; see `eutectic.compile`.
        weights: `live`: parameters become part of the code, and a change of them is followed at the next call; who
            changes them again and again gets code that takes them as inputs. `inputs`: that code from the beginning.
        fallback: `eager`: what cannot be compiled runs in torch, and a warning says so. `error`: it is refused.
        tuned: Measured choices; see `eutectic.compile`.
    """

    target: str | None = None
    threads: int | None = None
    precision: str = "default"
    weights: str = "live"
    fallback: str = "eager"
    tuned: Any = True

    def __post_init__(self) -> None:
        for name, choices in (("weights", ("live", "inputs")), ("fallback", ("eager", "error"))):
            value = getattr(self, name)
            check_choice(f"option {name}={shown(value)} of the backend eutectic", value, choices)


def options_of(received: Mapping[str, Any] | None) -> Options:
    """Checked options.

    Raises:
        PassError: one is unknown, or has a value that is.
    """
    names = [field.name for field in fields(Options)]
    unknown = [name for name in received or {} if name not in names]
    if unknown:
        raise PassError(
            f"the backend eutectic has no option {unknown[0]!r}",
            notes=[f"it has {', '.join(names)}"],
            help=did_you_mean(unknown[0], names),
        )
    return Options(**(received or {}))
