"""Checks of `dynamic_shapes` and of the example inputs against the model, before torch sees them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Final

from torch import nn

from eutectic.ir.span import Span
from eutectic.relax.frontend.torch.spans import is_user_file
from eutectic.support.errors import FrontendError
from eutectic.support.shown import kind_of, shown
from eutectic.support.spelling import did_you_mean

_EXAMPLE: Final = 'such as {"x": {0: torch.export.Dim("batch")}}, by the names of the parameters of forward'


def check_dynamic_shapes(module: nn.Module, shapes: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Refuse what cannot be the sizes that vary.

    Raises:
        FrontendError: no container, names that forward does not have, or another number of entries than inputs.
    """
    if shapes is None or hasattr(shapes, "dynamic_shapes"):  # the latter are torch's own ways to write it
        return
    if not isinstance(shapes, (Mapping, tuple, list)):
        raise FrontendError(
            f"dynamic_shapes must be a dict by input, or a tuple with an entry per input, got {shown(shapes)}",
            help=_EXAMPLE,
        )
    names = _names(module, args, kwargs)
    if isinstance(shapes, Mapping):
        unknown = [name for name in shapes if name not in names]
        missing = [name for name in names if name not in shapes]
        if unknown and names:
            near = did_you_mean(str(unknown[0]), names)
            raise FrontendError(
                f"dynamic_shapes names {shown(unknown[0])}, which is no input: they are {', '.join(names)}",
                help=near or _EXAMPLE,
            )
        if missing:
            raise FrontendError(
                f"dynamic_shapes has no entry for input {missing[0]}", help=f"add {missing[0]!r}: None to fix its sizes"
            )
        return
    bound = inspect.signature(module.forward).bind(*args, **kwargs)
    if len(shapes) != len(bound.arguments):
        raise FrontendError(
            f"dynamic_shapes has {_count(len(shapes), 'entry', 'entries')} for "
            f"{_count(len(bound.arguments), 'input', 'inputs')}",
            help=_help_of_count(bound),
        )


def check_inputs(module: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Refuse example inputs that the module's forward cannot be called with.

    Raises:
        FrontendError: one is missing, or unknown, or there are too many.
    """
    signature = inspect.signature(module.forward)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        takes = list(signature.parameters)
        unknown = [name for name in kwargs if name not in takes]
        near = did_you_mean(unknown[0], takes) if unknown else None
        said = str(error).replace("a required argument: ", "an example of ")
        raise FrontendError(
            f"the example inputs do not fit {type(module).__name__}.forward: {said}",
            at=_place(module),
            notes=[f"forward takes {', '.join(takes) or 'nothing'}", f"given are {_given(args, kwargs)}"],
            help=near or "give an example of every input: inputs=(x, ...), or by name: kwargs={...}",
        ) from None


def _given(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    kinds = [kind_of(arg) for arg in args] + [f"{name}={kind_of(value)}" for name, value in kwargs.items()]
    return ", ".join(kinds[:6]) + (f" and {len(kinds) - 6} more" if len(kinds) > 6 else "") if kinds else "none"


def _names(module: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[str]:
    """The names of the inputs that are given; empty when forward takes any."""
    bound = inspect.signature(module.forward).bind(*args, **kwargs)
    kinds = {p.kind for name, p in bound.signature.parameters.items() if name in bound.arguments}
    if kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
        return []
    return list(bound.arguments)


def _help_of_count(bound: inspect.BoundArguments) -> str:
    """How many entries torch wants, to which `*args` is one input."""
    kinds = {parameter.kind: name for name, parameter in bound.signature.parameters.items()}
    name = kinds.get(inspect.Parameter.VAR_POSITIONAL)
    if name not in bound.arguments:
        return "give one entry per input, None for an input of fixed sizes"
    return f"give one entry per parameter of forward; that of *{name} is a tuple with an entry per input"


def _place(module: nn.Module) -> Any:
    code = getattr(getattr(type(module), "forward", None), "__code__", None)
    return (
        None
        if code is None or not is_user_file(code.co_filename)
        else Span(code.co_filename, code.co_firstlineno).excerpt()
    )


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
