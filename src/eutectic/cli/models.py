"""MODEL on the command line: a file or a factory becomes a model with example arguments."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from eutectic.support.errors import FrontendError, LoadError
from eutectic.support.spelling import did_you_mean


@dataclass(frozen=True)
class Subject:
    """A model with arguments to call it with.

    Attributes:
        name: What output calls it.
        model: A torch module, an exported program, a module of ours, or a compiled model out of a file.
        args: Example arguments.
        kwargs: Example keyword arguments.
    """

    name: str
    model: Any
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_compiled(self) -> bool:
        """Whether it was read from an artefact."""
        return not hasattr(self.model, "graph_signature") and hasattr(self.model, "executable")


def open_model(text: str) -> Subject:
    """The model that MODEL names.

    A factory takes nothing and returns a torch module with its example arguments, as `(module, args)` or
    `(module, args, kwargs)`; or an exported program; or a module of ours.

    Raises:
        EutecticError: there is no such file or factory, or it gives something else.
    """
    if text.endswith((".pt2", ".eut")):
        if not Path(text).is_file():
            raise LoadError(f"there is no file {text}", help="MODEL is a .pt2 or .eut file, or package.module:factory")
        return _exported(Path(text)) if text.endswith(".pt2") else _artefact(Path(text))
    if ":" not in text:
        raise LoadError(
            f"{text!r} names no model",
            help="MODEL is a .pt2 or .eut file, or package.module:factory, such as nets:small",
        )
    return _made(text)


def compiled(subject: Subject, **options: Any) -> Any:
    """The model, compiled unless it is already."""
    from eutectic import compile  # the whole compiler

    if subject.is_compiled:
        return subject.model
    if hasattr(subject.model, "script") and not hasattr(subject.model, "forward"):
        return compile(subject.model, **{key: value for key, value in options.items() if key != "fallback"})
    return compile(subject.model, subject.args, kwargs=dict(subject.kwargs), **options)


def arguments_for(model: Any, seed: int = 0) -> tuple[Any, ...]:
    """Random arguments for a compiled model, as its signature says; sizes that vary are 2, or the least allowed."""
    from eutectic.runtime.arguments import TensorArgument

    signature, rng = model.signature, np.random.default_rng(seed)
    arguments = getattr(signature, "arguments", None)
    if arguments is None:
        raise LoadError("the model says nothing of the shapes of its arguments", help="give them with --input")
    return tuple(_random(leaf, rng) if isinstance(leaf, TensorArgument) else leaf.value for leaf in arguments.leaves)


def with_inputs(subject: Subject, inputs: Sequence[str]) -> Subject:
    """The subject with arguments out of files.

    Args:
        subject: The model.
        inputs: `NAME=FILE.npy`, or `FILE.npy` in the order of the arguments.

    Raises:
        LoadError: a file cannot be read.
    """
    if not inputs:
        return subject
    args, kwargs = [], {}
    for text in inputs:
        name, _, path = text.rpartition("=")
        try:
            array = np.load(path, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise LoadError(f"{path} cannot be read as an array: {error}", help="write it with numpy.save") from None
        if name:
            kwargs[name] = array
        else:
            args.append(array)
    return Subject(subject.name, subject.model, tuple(args), kwargs)


def _random(leaf: Any, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    shape = tuple(size if isinstance(size, int) else _least(leaf, size) for size in leaf.shape)
    if leaf.dtype.kind in "biu":
        return rng.integers(0, 2, shape).astype(leaf.dtype)
    return rng.standard_normal(shape).astype(leaf.dtype)


def _least(leaf: Any, size: Any) -> int:
    low, _ = leaf.ranges.get(size, (None, None)) if isinstance(size, str) else (None, None)
    return max(2, low or 0)


def _exported(path: Path) -> Subject:
    import torch

    try:
        program = torch.export.load(path)
    except Exception as error:  # whatever torch says of a damaged file
        raise LoadError(f"torch cannot read {path}: {str(error).splitlines()[0] if str(error) else error!r}") from error
    args, kwargs = program.example_inputs or ((), {})
    return Subject(path.stem, program, tuple(args), dict(kwargs))


def _artefact(path: Path) -> Subject:
    from eutectic import load

    model = load(path)
    return Subject(path.stem, model, arguments_for(model))


def _made(text: str) -> Subject:
    where, _, name = text.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(where)
    except ModuleNotFoundError as error:
        raise LoadError(
            f"there is no module {error.name} for {text}", help="it is looked for here and in sys.path"
        ) from None
    factory = getattr(module, name, None)
    if not callable(factory):
        near = did_you_mean(name, [key for key in vars(module) if not key.startswith("_")])
        raise LoadError(f"{where} has no factory {name}", help=near)
    return _subject(name, factory(), text)


def _subject(name: str, value: Any, text: str) -> Subject:
    match value:
        case (model, (tuple() | list()) as args):
            return Subject(name, model, tuple(args))
        case (model, (tuple() | list()) as args, dict() as kwargs):
            return Subject(name, model, tuple(args), kwargs)
        case _ if hasattr(value, "graph_signature"):
            args, kwargs = value.example_inputs or ((), {})
            return Subject(name, value, tuple(args), dict(kwargs))
        case _ if hasattr(value, "functions_items"):
            return Subject(name, value)
        case _:
            raise FrontendError(
                f"{text} gives a {type(value).__name__}, and no arguments to call it with",
                help="return (module, args) or (module, args, kwargs) from the factory",
            )
