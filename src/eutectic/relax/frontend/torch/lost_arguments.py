"""Arguments that torch's own functions lose on the way through a mode, and so in every program that it exports.

`torch.nn.functional.l1_loss` of torch 2.13 hands on all its arguments but the weight, when anything overrides functions
of torch, as `torch.export` does: the program computes the loss without it. No other function there loses one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch.nn.functional as F


@contextmanager
def keeping_arguments() -> Iterator[None]:
    """Let the weight of `l1_loss` be handed on; for one thread at a time."""
    module: Any = F
    handle = module.handle_torch_function

    @wraps(handle)
    def keeping(function: Any, relevant: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        if function is F.l1_loss and len(relevant) == 3:  # what could override it: input, target, weight
            kwargs.setdefault("weight", relevant[2])
        return handle(function, relevant, *args, **kwargs)

    module.handle_torch_function = keeping
    try:
        yield
    finally:
        module.handle_torch_function = handle
