"""torch eager as the yardstick: numpy in, numpy out, so that callers need not import torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

Array = npt.NDArray[Any]


def tensor(array: Array) -> torch.Tensor:
    """A tensor over the memory of a contiguous array."""
    return torch.from_numpy(np.ascontiguousarray(array))


def logits(model: Callable[..., Any], *inputs: torch.Tensor) -> Array:
    """Call a network that has one output, without gradients; the result as an array of its own."""
    with torch.no_grad():
        out = model(*inputs)
    return np.array(out.detach().cpu().numpy() if isinstance(out, torch.Tensor) else out)


def without_gradients(model: Callable[..., Any], inputs: tuple[torch.Tensor, ...]) -> Callable[[], Any]:
    """A call to measure: the network on fixed inputs, as one would run it for inference."""

    def call() -> Any:
        with torch.inference_mode():
            return model(*inputs)

    return call


@contextmanager
def threads(number: int | None) -> Iterator[int]:
    """Let torch use so many threads for a while; None changes nothing. Gives the number in use."""
    before = torch.get_num_threads()
    if number is not None:
        torch.set_num_threads(number)
    try:
        yield torch.get_num_threads()
    finally:
        torch.set_num_threads(before)
