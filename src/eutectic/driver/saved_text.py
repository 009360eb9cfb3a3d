"""Graphs as text with the values that it refers to, as saved models have them, and back."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from eutectic.ir.module import IRModule
from eutectic.relax.expr import Constant
from eutectic.runtime.packed_array import plain
from eutectic.runtime.saved import SavedModel
from eutectic.script import from_source, print_with_metadata
from eutectic.support.errors import LoadError

_CONSTANT: Final = "relax.expr.Constant"


def constants_of(module: IRModule) -> dict[str, tuple[np.ndarray[Any, Any], ...]]:
    """The arrays that the text of a module refers to, by kind and number.

    Kinds that are no arrays are left out: a text with these is not compiled again, and the parser says which it lacks.
    """
    constants = {}
    for kind, values in print_with_metadata(module)[1].items():
        arrays = [value.data if isinstance(value, Constant) else value for value in values]
        if all(isinstance(array, np.ndarray) for array in arrays):
            constants[kind] = tuple(arrays)
    return constants


def graph_of(saved: SavedModel) -> IRModule:
    """The graph that a model was made from, as it was when its regions were found.

    Raises:
        LoadError: its text is no module.
        ScriptError: it does not parse.
    """
    metadata = {
        kind: [Constant(plain(array)) if kind == _CONSTANT else plain(array) for array in arrays]
        for kind, arrays in saved.constants.items()
    }
    module = from_source(saved.text, metadata=metadata, file="the text of the model")
    if not isinstance(module, IRModule):
        raise LoadError("the text of the model is a function, expected a module", help="save the model again")
    return module
