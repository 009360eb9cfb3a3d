"""Advice is given at the user's line, not at ours that found what to say."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any, Final

from eutectic.support.errors import EutecticAdvice

_PACKAGES: Final = Path(__file__).resolve().parents[1]
_NOT_THE_USER: Final = (
    str(_PACKAGES / "artefact"),
    str(_PACKAGES / "driver"),
    str(_PACKAGES / "relax"),
    str(_PACKAGES / "support"),
    str(_PACKAGES / "dynamo"),
    "<",
)


def advise(text: str) -> None:
    """Warn at the line outside of this package, and of torch, that led here."""
    torch: Any = sys.modules.get("torch")
    between = _NOT_THE_USER if torch is None else (*_NOT_THE_USER, str(Path(torch.__file__).parent))
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(between):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, EutecticAdvice, stacklevel=level)
