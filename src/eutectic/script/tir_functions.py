"""Scalar functions as scripts call them: with the dtype of the result, where old scripts name it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any


@functools.cache
def as_written(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of `eutectic.tir` under `T`: `dtype=` may be named in any call.

    Scripts of older versions write `T.exp(x, dtype="float32")` and `T.call_extern("f", x, dtype="int32")`. In the
    first the dtype follows from the operands, and what is named is left out, as TVM does; in the second it is the
    first argument.
    """
    if inspect.isclass(function) or not callable(function):
        return function
    named = "dtype" in inspect.signature(function).parameters

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        if "dtype" in options:
            dtype = options.pop("dtype")
            if named:
                return function(*args, dtype=dtype, **options) if _at_its_place(function) else function(dtype, *args)
        return function(*args, **options)

    return call


def _at_its_place(function: Callable[..., Any]) -> bool:
    """Whether `dtype` is not the first parameter, so that positional arguments do not take its place."""
    return next(iter(inspect.signature(function).parameters)) != "dtype"
