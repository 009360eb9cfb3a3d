"""A user's value in a message: short, on one line, and never an error itself."""

from __future__ import annotations

import reprlib
import sys
from collections.abc import Mapping
from typing import Any, Final

MOST: Final = 80  # characters of a value; a message is read, not searched
SENTENCE: Final = 400
_ITEMS: Final = 6  # of a container


class _Short(reprlib.Repr):
    """Python's own shortening, with tensors by shape and one limit for everything else."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = self.maxdeque = self.maxarray = _ITEMS
        self.maxdict, self.maxlevel = _ITEMS, 3
        self.maxstring = self.maxlong = self.maxother = MOST

    def repr1(self, x: Any, level: int) -> str:
        """The text of a value inside of others."""
        shape, dtype = getattr(x, "shape", None), getattr(x, "dtype", None)
        if shape is not None and dtype is not None and not isinstance(x, type):
            return self._tensor(x, shape, dtype)
        return super().repr1(x, level)

    def _tensor(self, x: Any, shape: Any, dtype: Any) -> str:
        kind = f"{type(x).__module__.partition('.')[0]}.{type(x).__name__}"
        if not kind.startswith(("numpy.", "torch.")):
            return self.repr_instance(x, 1)
        if not tuple(shape) and kind.startswith("numpy."):
            return super().repr1(x.item(), 1) if hasattr(x, "item") else repr(x)
        return f"{kind} of shape {tuple(shape)} and dtype {str(dtype).removeprefix('torch.')}"

    def repr_instance(self, x: Any, level: int) -> str:
        """The text of anything that is none of Python's containers."""
        try:
            text = repr(x)
        except Exception:  # a repr that fails must not hide the message it is for
            return f"<{type(x).__name__}>"
        text = " ".join(text.split())
        return text if len(text) <= MOST else f"{text[: MOST - 25]}... ({type(x).__name__})"

    def repr_int(self, x: int, level: int) -> str:
        """The text of a number; one of many digits by its size."""
        return repr(x) if x.bit_length() <= 128 else f"a number of {x.bit_length()} bits"


def shown(value: Any) -> str:
    """The text of a value for a message: at most some 80 characters, in one line.

    Long containers and texts say how long they are; tensors and arrays are told by shape and dtype.
    """
    text = " ".join(_Short().repr(value).split())
    if len(text) > MOST:
        text = f"{text[: MOST - 3]}..."
    if isinstance(value, (str, bytes)) and len(value) > MOST:
        return f"{text} ({len(value)} characters)"
    if isinstance(value, (list, tuple, set, frozenset, Mapping)) and len(value) > _ITEMS:
        return f"{text} ({type(value).__name__} of {len(value)})"
    return text


def kind_of(value: Any) -> str:
    """What sort of thing a value is, as a user would say it: its class, or which class it is."""
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return "a torch.Tensor"
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def clipped(text: str) -> str:
    """A sentence with somebody's values in it, cut where nobody reads on."""
    return text if len(text) <= SENTENCE else f"{text[:SENTENCE]}... ({len(text)} characters)"
