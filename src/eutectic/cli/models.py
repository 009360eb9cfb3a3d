"""MODEL on the command line: a file or a factory becomes a model with example arguments."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from eutectic.cli.factory import FORMS, call_factory
from eutectic.cli.session import progress
from eutectic.support.errors import FrontendError, LoadError
from eutectic.support.shown import shown

if TYPE_CHECKING:
    import numpy as np

LEAST_SIZE: Final = 2  # of an axis that varies; 1 is special in many operators


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
            raise LoadError(f"there is no file {text}", help=FORMS)
        return _exported(Path(text)) if text.endswith(".pt2") else _artefact(Path(text))
    if ":" not in text:
        raise LoadError(f"{text!r} names no model", help=FORMS)
    return _subject(text.partition(":")[2], call_factory(text), text)


def compiled(subject: Subject, **options: Any) -> Any:
    """The model, compiled unless it is already; says how far that is."""
    from eutectic import compile  # the whole compiler

    if subject.is_compiled:
        return subject.model
    with progress(f"compiling {subject.name}") as say:
        if hasattr(subject.model, "script") and not hasattr(subject.model, "forward"):
            own = {key: value for key, value in options.items() if key != "fallback"}
            return compile(subject.model, progress=say, **own)
        return compile(subject.model, subject.args, kwargs=dict(subject.kwargs), progress=say, **options)


def arguments_for(model: Any, seed: int = 0) -> tuple[Any, ...]:
    """Random arguments for a compiled model, as its signature says; sizes that vary are 2, or the least allowed.

    Args:
        model: The model; one that was made of a module of ours does not say its shapes, which gives no arguments.
        seed: Of the random numbers.
    """
    import numpy as np  # --help loads none of this

    from eutectic.runtime.arguments import TensorArgument  # --help loads none of this
    from eutectic.runtime.trees import built

    arguments, rng = getattr(model.signature, "arguments", None), np.random.default_rng(seed)
    if arguments is None:
        return ()
    leaves = iter(_random(leaf, rng) if isinstance(leaf, TensorArgument) else leaf.value for leaf in arguments.leaves)
    return tuple(built(tree, leaves) for tree in arguments.trees)


def arguments_of(module: Any, seed: int = 0) -> tuple[Any, ...]:
    """Random arguments for `main` of a module of ours, as its parameters say; sizes that vary are 2.

    Args:
        module: The module.
        seed: Of the random numbers.
    """
    import numpy as np  # --help loads none of this

    from eutectic.runtime.arguments import TensorArgument  # --help loads none of this

    rng = np.random.default_rng(seed)
    arguments = []
    for parameter in module["main"].params:
        info = parameter.struct_info
        sizes = [getattr(size, "value", size) for size in getattr(info, "shape", None) or ()]
        if not getattr(info, "dtype", "") or getattr(info, "ndim", -1) != len(sizes):
            return ()
        shape = tuple(size if isinstance(size, int) else LEAST_SIZE for size in sizes)
        arguments.append(_random(TensorArgument(parameter.name_hint, np.dtype(info.dtype), shape, (), {}), rng))
    return tuple(arguments)


def with_inputs(subject: Subject, inputs: Sequence[str]) -> Subject:
    """The subject with arguments out of files.

    Args:
        subject: The model.
        inputs: `NAME=FILE.npy`, or `FILE.npy` in the order of the arguments.

    Raises:
        LoadError: a file cannot be read.
    """
    import numpy as np  # --help loads none of this

    if not inputs:
        return subject
    args, kwargs = [], {}
    for text in inputs:
        name, _, path = text.rpartition("=")
        try:
            array = np.load(path, allow_pickle=False)
        except (OSError, EOFError, ValueError) as error:
            raise LoadError(f"{path} cannot be read as an array: {error}", help="write it with numpy.save") from None
        if not isinstance(array, np.ndarray):
            array.close()
            raise LoadError(f"{path} has several arrays, expected one", help="write it with numpy.save: FILE.npy")
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
    return max(LEAST_SIZE, low or 0)


@contextmanager
def _silent_torch() -> Iterator[None]:
    """Without the traceback that torch logs, too, when it raises an error about a file."""
    logger = logging.getLogger("torch.export")
    logger.addFilter(_nothing)
    try:
        yield
    finally:
        logger.removeFilter(_nothing)


def _nothing(record: logging.LogRecord) -> bool:
    return False


def _exported(path: Path) -> Subject:
    import torch  # --help loads none of this

    try:
        with _silent_torch():
            program = torch.export.load(path)
    except Exception as error:  # whatever torch says of a damaged file
        said = str(error).strip("'").splitlines()
        raise LoadError(
            f"torch cannot read {path}: {said[0] if said else type(error).__name__}",
            help="write it again with torch.export.save, with the version of torch that is installed here",
        ) from error
    args, kwargs = program.example_inputs or ((), {})
    return Subject(path.stem, program, tuple(args), dict(kwargs))


def _artefact(path: Path) -> Subject:
    from eutectic import load  # --help loads none of this

    model = load(path)
    return Subject(path.stem, model, arguments_for(model))


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
            return Subject(name, value, arguments_of(value))
        case _:
            raise FrontendError(
                f"{text} gives {shown(value)}, and no arguments to call it with",
                help="return (module, args) or (module, args, kwargs) from the factory",
            )
