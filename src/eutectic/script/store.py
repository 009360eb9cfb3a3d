"""Modules as files: the text, and the constants it refers to beside it in safetensors. Reading runs nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from eutectic.ir.module import BaseFunc, IRModule
from eutectic.ir.services import register_module_writer
from eutectic.relax.expr import Constant
from eutectic.script.printer.metadata import Metadata
from eutectic.script.printer.module import print_with_metadata
from eutectic.script.text import from_source
from eutectic.support.errors import LoadError, ScriptError

_CONSTANT: Final = "relax.expr.Constant"
_ARRAY: Final = "numpy.ndarray"
SUFFIX: Final = ".safetensors"


def save(program: IRModule | BaseFunc, path: str | Path) -> Path:
    """Write a program as text, and its constants beside it.

    Args:
        program: Module or function.
        path: File of the text; the constants get the same name with `.safetensors`.

    Returns:
        The path of the text.

    Raises:
        ScriptError: it holds values that cannot be stored, such as modules of compiled code.
    """
    target = Path(path)
    text, metadata = print_with_metadata(program)
    arrays: dict[str, Any] = {}
    for kind, values in metadata.items():
        if kind not in (_CONSTANT, _ARRAY):
            raise ScriptError(
                f"a {kind} cannot be stored as text",
                help="store the module before RunCodegen, which adds compiled code to it",
            )
        for i, value in enumerate(values):
            arrays[f"{kind}.{i}"] = np.ascontiguousarray(value.data if isinstance(value, Constant) else value)
    target.write_text(text, encoding="utf-8")
    beside = target.with_suffix(SUFFIX)
    if arrays:
        save_file(arrays, beside)
    else:
        beside.unlink(missing_ok=True)
    return target


def load(path: str | Path) -> IRModule | BaseFunc:
    """Read a program that `save` wrote.

    Args:
        path: File of the text.

    Raises:
        LoadError: a file is missing or damaged.
        ScriptError: the text is not well written.
    """
    source = Path(path)
    try:
        text = source.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LoadError(f"{source} cannot be read: {error}") from error
    return from_source(text, metadata=_constants(source.with_suffix(SUFFIX)), file=str(source))


def _constants(path: Path) -> Metadata:
    metadata = Metadata()
    if not path.exists():
        return metadata
    try:
        arrays = load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise LoadError(f"{path} is damaged: {error}") from error
    for kind in (_CONSTANT, _ARRAY):
        for i in range(len(arrays)):
            array = arrays.get(f"{kind}.{i}")
            if array is None:
                break
            metadata.add(kind, Constant(array) if kind == _CONSTANT else array)
    return metadata


register_module_writer(save)
