"""export_model: torch.export with the checks before it, and its errors told in terms of the user's model."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import nn
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from eutectic.ir.span import Span
from eutectic.relax.frontend.torch.complex_parts import is_of_parts, parts_of
from eutectic.relax.frontend.torch.dtypes import dtype_name
from eutectic.relax.frontend.torch.dynamic import check_dynamic_shapes, check_inputs
from eutectic.relax.frontend.torch.python_state import advise_of, state_kept
from eutectic.relax.frontend.torch.spans import is_user_file
from eutectic.relax.frontend.torch.tracing import tracing
from eutectic.relax.frontend.torch.training import refuse_training_mode
from eutectic.support.errors import ExportFailedError, FrontendError, UnsupportedTypeError
from eutectic.support.plain_memory import as_tensor, plain
from eutectic.support.shown import kind_of, shown

_ADVERT: Final = "The error above occurred when calling torch.export.export"
_LINES: Final = 3  # of torch's message that are shown
_WIDTH: Final = 240  # of one of them


def export_model(
    model: Any,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
) -> ExportedProgram:
    """Export a module with `torch.export.export`; the module is not changed.

    Args:
        model: A module in inference mode; an exported program is returned as it is.
        args: Example arguments: tensors, arrays, containers of them, and numbers, which become part of
            the program.
        kwargs: Example keyword arguments.
        dynamic_shapes: Sizes that may vary, as `torch.export.export` takes them.

    Returns:
        The exported program. What forward changes in Python is warned of: calls of the program do not change it.

    Raises:
        FrontendError: not a module, or no example arguments.
        ModelStateError: a part that behaves differently in training is in training mode.
        UnsupportedTypeError: parameters or inputs that are not dense CPU tensors of a supported dtype.
        ExportFailedError: torch cannot export the model; its error is the cause.
    """
    if isinstance(model, ExportedProgram):
        return model
    module = _module(model)
    examples = _examples(module, args, kwargs)
    check_inputs(module, *examples)
    check_dynamic_shapes(module, dynamic_shapes, *examples)
    refuse_training_mode(module)
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        _check_numbers(tensor, f"parameter {name}" if isinstance(tensor, nn.Parameter) else f"buffer {name}")
    try:
        with tracing(), state_kept(module) as changes:
            program = torch.export.export(module, *examples, dynamic_shapes=dynamic_shapes)
    except Exception as error:
        raise _explained(error) from error
    advise_of(changes)
    return program


def _module(model: Any) -> nn.Module:
    """The module to export; of a `torch.compile`d one the original.

    Raises:
        FrontendError: not a module that can be exported.
    """
    inner = getattr(model, "_orig_mod", model)
    if isinstance(inner, torch.jit.ScriptModule):
        raise FrontendError(
            f"a {type(inner).__name__} of TorchScript cannot be exported",
            help="pass the original torch.nn.Module",
        )
    if isinstance(inner, nn.Module):
        return inner
    if isinstance(inner, type) and issubclass(inner, nn.Module):
        raise FrontendError(
            f"expected a torch.nn.Module, got the class {inner.__name__}", help=f"pass an object: {inner.__name__}(...)"
        )
    raise FrontendError(
        f"expected a torch.nn.Module or a torch.export.ExportedProgram, got {_told(inner)}", help=_instead(inner)
    )


def _told(received: Any) -> str:
    name = getattr(received, "__name__", None)
    if callable(received) and isinstance(name, str) and not isinstance(received, type):
        return f"the function {name}"
    return kind_of(received)


def _instead(received: Any) -> str:
    """What to do for the things that are given in place of a model most often."""
    if isinstance(received, (str, Path)):
        return "load the model first: make the module and call its load_state_dict, or torch.export.load(path)"
    if isinstance(received, Mapping):
        return "these are weights without a model: make the module and call its load_state_dict"
    if isinstance(received, torch.Tensor):
        return "the model comes first, then its example inputs: eutectic.compile(model, (x,))"
    if callable(received):
        return "make a module of it: class Model(torch.nn.Module), with the function as its forward"
    return "pass model.eval(), where model is an object of a class of torch.nn.Module"


def _examples(
    module: nn.Module, args: Sequence[Any] | None, kwargs: Mapping[str, Any] | None
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Checked example arguments; arrays as tensors, and tensors without gradients.

    Raises:
        FrontendError: they are missing, or not in a sequence.
        UnsupportedTypeError: one of them is something that cannot be an input.
    """
    if args is None and not kwargs:
        raise FrontendError(
            f"a torch module needs example inputs, and none are given for {type(module).__name__}",
            help="pass a tuple of them after the model, such as (torch.randn(1, 3, 224, 224),)",
        )
    if args is not None and not isinstance(args, (tuple, list)):
        raise FrontendError(
            f"the example inputs must be a tuple with an entry per input, got {kind_of(args)}: {shown(args)}",
            help="write (x,) for a single input x; inputs by name are given as kwargs={...}",
        )
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise FrontendError(
            f"the example keyword arguments must be a dict, got {kind_of(kwargs)}: {shown(kwargs)}",
            help='write kwargs={"mask": mask}',
        )
    examples = (tuple(args or ()), dict(kwargs or {}))
    leaves, spec = pytree.tree_flatten(examples)
    parameters = list(inspect.signature(module.forward).parameters.values())
    names = [_name(path, parameters) for path, _ in pytree.tree_flatten_with_path(examples)[0]]
    checked = [_example(leaf, f"input {name}") for leaf, name in zip(leaves, names, strict=True)]
    positional, keywords = pytree.tree_unflatten(_apart(checked), spec)
    return tuple(positional), dict(keywords)


def _apart(examples: Sequence[Any]) -> list[Any]:
    """Examples that are no views of one tensor: torch would take it that they always are, where the model writes."""
    seen: set[int] = set()
    apart = []
    for value in examples:
        if isinstance(value, torch.Tensor) and not value.is_meta:
            memory = value.untyped_storage().data_ptr()
            value = value.clone() if memory in seen else value
            seen.add(memory)
        apart.append(value)
    return apart


def _name(path: tuple[Any, ...], parameters: Sequence[inspect.Parameter]) -> str:
    """Name of an argument in the module's forward, and the place inside it."""
    which, key, *rest = path
    name = str(key.key) if which.idx else f"[{key.idx}]"
    if not which.idx and key.idx < len(parameters):
        parameter = parameters[key.idx]
        is_own = parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        name = parameter.name if is_own else name
    return name + pytree.keystr(tuple(rest))


def _example(value: Any, name: str) -> Any:
    if isinstance(value, np.ndarray):
        try:
            return as_tensor(value)
        except (TypeError, ValueError) as error:
            raise UnsupportedTypeError(f"{name} has dtype {value.dtype}, which is not supported") from error
    if isinstance(value, torch.Tensor):
        _check_numbers(value, name)
        return value.detach()
    if value is None or isinstance(value, (bool, int, float, str, torch.dtype, torch.device)):
        return value
    raise UnsupportedTypeError(
        f"{name} is a {type(value).__name__}, which cannot be an input",
        help="inputs are tensors, NumPy arrays, numbers, text, None, and containers of these",
    )


def _check_numbers(tensor: torch.Tensor, name: str) -> None:
    _check_tensor(parts_of(tensor) if is_of_parts(tensor) else tensor, name)


def _check_tensor(tensor: torch.Tensor, name: str) -> None:
    plain(tensor if tensor.is_meta else tensor.detach(), name, UnsupportedTypeError)
    dtype_name(tensor.dtype, name)


# Words of torch's messages -> what to do. Asked in order.
_CURES: Final = (
    (
        ("data-dependent", "Data dependent", "data dependent"),
        "the model decides by the values of a tensor: use torch.where for both cases; or leave the "
        'decision to Python with torch.compile(model, backend="eutectic"), which compiles what is around it',
    ),
    (
        ("Constraints violated", "marked dynamic", "was inferred to be a constant", "not in the range"),
        "the model needs that size as it is: leave it out of dynamic_shapes, or give its Dim the range that is named",
    ),
    (
        ("expected FakeTensor, got",),
        "forward may assign tensors to a buffer (self.cache = x), and nothing else",
    ),
    (("not linked with support for cuda", "CUDA"), "only the CPU is compiled for: take the .cuda() and devices out"),
    (
        ("not a known type", "Unsupported input type", "not a supported"),
        "let forward take and return tensors, numbers, None, and tuples, lists and dicts of them",
    ),
)
_OTHERWISE: Final = "call the model itself on these inputs: if that fails, too, the model or its inputs are wrong"


def _explained(error: Exception) -> ExportFailedError:
    """torch's error with the innermost line of the user's model and the first lines of its message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and _ADVERT not in line]
    lines = [line for line in lines if not line.startswith(("Caused by: (", "For more information"))]
    frames = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if is_user_file(frame.f_code.co_filename)
    ]
    at = Span(*frames[-1]).excerpt() if frames else None
    whole = str(error)
    cure = next((cure for words, cure in _CURES if any(word in whole for word in words)), _OTHERWISE)
    return ExportFailedError(
        f"torch.export cannot export the model: {_said(error, lines)}",
        at=at,
        notes=[line[:_WIDTH] for line in lines[1:_LINES]],
        help=f"{cure}; torch's own error, with all details, is the cause of this one",
    )


def _said(error: Exception, lines: Sequence[str]) -> str:
    """The first sentence of torch's message; Python's own errors say little without their names."""
    first = lines[0] if lines else ""
    if len(first) > _WIDTH:
        first = f"{first[:_WIDTH].rsplit(' ', 1)[0]} ..."
    is_pythons = type(error).__module__ == "builtins" and not isinstance(error, RuntimeError)
    return f"{type(error).__name__}: {first}".rstrip(": ") if is_pythons or not first else first
