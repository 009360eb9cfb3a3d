"""TorchSignature: between a user's arguments and results, and the arrays of a compiled function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.export import ExportedProgram

from eutectic.ir.dtype import to_numpy
from eutectic.relax.frontend.torch.arguments import Arguments, Number
from eutectic.relax.frontend.torch.decompose import functional
from eutectic.relax.frontend.torch.dtypes import to_tensor
from eutectic.relax.frontend.torch.results import Results
from eutectic.support.errors import CallError

Array = npt.NDArray[Any]


class TorchSignature:
    """How a compiled function is called like the module it was exported from.

    Tensors or NumPy arrays go in, in any way that the module's forward accepts; what comes out has the
    structure that eager returns, with tensors for tensors and arrays when there was no tensor.
    Contiguous inputs are not copied. Results are new memory, except that, as in eager, an argument that
    is returned is the same object, and a view of an argument or of another output shares its memory.
    Outputs that are views of one hidden tensor do not share memory here.

    Args:
        program: The exported program that `from_exported_program` imported.
    """

    def __init__(self, program: ExportedProgram) -> None:
        self._arguments = Arguments(program)
        self._results = Results(program, functional(program))
        lone = self._arguments.lone_tensor()
        self._lone_shape = None if lone is None else lone.static_shape
        self._lone_dtype = None if lone is None else to_numpy(lone.dtype)
        self._returns_lone = lone is not None and self._results.is_lone

    def flatten(self, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> list[Array]:
        """The tensor arguments as arrays, in the order of the parameters of `main`.

        Raises:
            CallError: an argument does not fit; names it, what was expected and what to do.
        """
        if self._lone_shape is not None and not kwargs and len(args) == 1 and type(args[0]) is torch.Tensor:
            try:
                array: Array | None = args[0].numpy() if args[0].data_ptr() else None
            except (RuntimeError, TypeError):
                array = None  # the checks below say why
            if array is not None and self._is_lone(array):
                return [array]
        values = self._arguments.flatten(args, kwargs or {})
        arrays, _ = self._arguments.arrays(values)
        if self._results.mutates:
            self._check_overlap(arrays)
        return arrays

    def _is_lone(self, array: Array) -> bool:
        return array.shape == self._lone_shape and array.dtype == self._lone_dtype and array.flags.c_contiguous

    def unflatten(self, results: Sequence[Array], args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> Any:
        """The results of `main`, in order, as what eager returns for these arguments.

        Arguments that the model changes in place get their new values here.
        """
        if self._returns_lone and len(args) == 1 and type(args[0]) is torch.Tensor:
            return to_tensor(results[0])
        values = self._arguments.flatten(args, kwargs or {})
        sizes = self._arguments.arrays(values)[1] if self._results.needs_sizes else {}
        return self._results.build(results, values, sizes, self._is_array(values))

    def quick(self, direct: Any) -> Callable[..., Any] | None:
        """A short way for models that take one tensor and return one.

        Args:
            direct: A native function, called with the input and the result, and `outputs`, shape and dtype of each.
        """
        if not self._returns_lone or self._lone_shape is None or len(direct.outputs) != 1:
            return None
        function, (shape, dtype) = direct.function, direct.outputs[0]
        like = to_tensor(np.empty(shape, dtype))
        wanted = torch.Size(self._lone_shape)
        empty, tensor = torch.empty_like, torch.Tensor  # the quickest of torch's ways to new memory

        def call(x: Any) -> Any:
            if type(x) is not tensor or x.shape != wanted or not x.is_contiguous() or x.requires_grad:
                raise TypeError  # the long way says why, or makes it fit; the function's own refusal is slow
            if not x.data_ptr() or x.is_neg():
                raise TypeError  # its memory is none, or does not hold its elements
            out = empty(like)
            function(x, out)
            return out

        return call

    def _is_array(self, values: Sequence[Any]) -> bool:
        """Whether the caller works with NumPy: arrays among the arguments, and no tensor."""
        tensors = [v for leaf, v in zip(self._arguments.leaves, values, strict=True) if not isinstance(leaf, Number)]
        return bool(tensors) and all(isinstance(value, np.ndarray) for value in tensors)

    def _check_overlap(self, arrays: Sequence[Array]) -> None:
        """Refuse arguments that share memory when the model writes to one: the others would change too."""
        if any(np.may_share_memory(a, b) for a, b in combinations(arrays, 2)):
            raise CallError(
                "the model changes an argument in place, and two of the arguments share memory",
                help="pass a clone of one of them",
            )
