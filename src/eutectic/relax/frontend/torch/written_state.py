"""Tensors of a module that torch cannot make functional when the module writes to them in place.

torch.export gives each name an input of its own, and torch cannot make a program functional that writes to one input
and has the same memory in another; it says so by an assertion about its own graphs. Tensors that are neither buffers
nor arguments are constants to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from typing import Final

import torch
from torch.export import ExportedProgram

from eutectic.support.errors import FrontendError

_CONSTANT: Final = "is mutated in the forward method"  # of torch's message


@contextmanager
def telling_of_writes(program: ExportedProgram) -> Iterator[None]:
    """Say in terms of the model why torch failed at making a program functional that writes in place.

    Raises:
        FrontendError: two tensors of the model share memory, the one that is written to is no buffer, or an input gets
            another shape; torch's error is the cause.
    """
    try:
        yield
    except AssertionError as error:
        shared = _shared(program)
        if shared is None:  # torch 2.13 checks its own notes of what changes
            raise FrontendError(
                "torch cannot express the program without operators that write in place",
                notes=[f"torch says: {error}"],
                help="do not give an input another shape in place (x.t_(), x.resize_()); work on x.clone()",
            ) from error
        raise FrontendError(
            f"{shared[0]} and {shared[1]} of the model share memory, and the model writes in place to what they share",
            help="keep one of them, and read the other one from it in forward; a part of the model that writes to its "
            "buffers must be called under one name",
        ) from error
    except RuntimeError as error:
        if _CONSTANT not in str(error):
            raise
        raise FrontendError(
            "the model writes in place to a tensor that is neither a buffer of it nor an argument, which makes it a "
            f"constant ({_named(error)})",
            help="register the tensor with register_buffer",
        ) from error


def _named(error: RuntimeError) -> str:
    """What torch calls the constant: the attribute, or a name that it made up for a tensor that none has."""
    return next(word for word in str(error).partition("Constant")[2].split())


def _shared(program: ExportedProgram) -> tuple[str, str] | None:
    """The first two names of tensors that are parts of one memory."""
    tensors = {**program.state_dict, **program.constants}
    names = [spec.target for spec in program.graph_signature.input_specs if spec.target in tensors]
    known = [(str(name), tensors[name]) for name in names if isinstance(tensors[name], torch.Tensor)]
    pairs = ((a, b) for (a, x), (b, y) in combinations(known, 2) if _same_memory(x, y))
    return next(pairs, None)


def _same_memory(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Whether two tensors are parts of one memory."""
    return bool(x.numel() and y.numel()) and x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()
