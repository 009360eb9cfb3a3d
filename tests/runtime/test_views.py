"""Views as data: of an array and of a tensor they are the same elements, in shared memory where torch shares it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from eutectic.runtime.views import VIEWS, TorchName, View
from eutectic.support.errors import LoadError

X = np.arange(2 * 3 * 4, dtype="float32").reshape(2, 3, 4)

# Family, overload, operands by position, operands by name.
CASES: list[tuple[str, str, tuple[Any, ...], dict[str, Any]]] = [
    ("alias", "default", (), {}),
    ("chunk", "default", (2, 1), {}),
    ("chunk", "default", (5, -1), {}),
    ("contiguous", "default", (), {}),
    ("contiguous", "default", (), {"memory_format": TorchName("memory_format", "contiguous_format")}),
    ("detach", "default", (), {}),
    ("diagonal", "default", (), {}),
    ("diagonal", "default", (1, -1, 0), {}),
    ("diagonal", "default", (-1, 1, 2), {}),
    ("expand", "default", ([5, 2, 3, 4],), {}),
    ("expand", "default", ([5, -1, -1, 4],), {"implicit": False}),
    ("flatten", "using_ints", (), {}),
    ("flatten", "using_ints", (1, -1), {}),
    ("flatten", "using_ints", (-3, 1), {}),
    ("mT", "default", (), {}),
    ("moveaxis", "int", (0, -1), {}),
    ("movedim", "intlist", ([0, 1], [2, 0]), {}),
    ("narrow", "default", (1, 1, 2), {}),
    ("narrow", "default", (-1, -3, 2), {}),
    ("numpy_T", "default", (), {}),
    ("permute", "default", ([2, 0, -2],), {}),
    ("reshape", "default", ([4, -1],), {}),
    ("select", "int", (1, 2), {}),
    ("select", "int", (-1, -4), {}),
    ("slice", "Tensor", (1, 1), {}),
    ("slice", "Tensor", (2, -3, 9223372036854775807, 2), {}),
    ("slice", "Tensor", (0, 5), {"end": None}),
    ("split", "Tensor", (3, 2), {}),
    ("split", "sizes", ([1, 3], -1), {}),
    ("split_with_sizes", "default", ([1, 2], 1), {}),
    ("squeeze", "default", (), {}),
    ("squeeze", "dim", (1,), {}),
    ("squeeze", "dims", ([0, 1],), {}),
    ("swapaxes", "default", (0, -1), {}),
    ("swapdims", "default", (1, 2), {}),
    ("t", "default", (), {}),
    ("tensor_split", "indices", ([1, -1], 2), {}),
    ("tensor_split", "sections", (3, -1), {}),
    ("to", "dtype", (TorchName("dtype", "float32"),), {}),
    ("transpose", "int", (-1, 0), {}),
    ("unbind", "int", (), {}),
    ("unbind", "int", (-1,), {}),
    ("unflatten", "int", (2, [2, -1]), {}),
    ("unfold", "default", (2, 2, 1), {}),
    ("unfold", "default", (-2, 3, 2), {}),
    ("unsqueeze", "default", (-1,), {}),
    ("unsqueeze", "default", (1,), {}),
    ("view", "default", ([6, 4],), {}),
    ("view", "dtype", (TorchName("dtype", "int16"),), {}),
]
SHAPES = [(2, 3, 4), (3, 4), (1, 3, 1), (5,), (), (2, 0, 4)]


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1]}-{case[2]}")
@pytest.mark.parametrize("strided", [False, True])
def test_views_of_arrays_are_those_of_tensors(case: Any, strided: bool):
    """For every shape that torch takes: the same shape, the same elements, and memory is shared where torch shares."""
    view, taken = View(*case), 0
    for shape in SHAPES:
        array = np.arange(2 * np.prod(shape), dtype="float32").reshape(*shape, 2)
        array = array[..., 0] if strided else np.ascontiguousarray(array[..., 0]).reshape(shape)
        try:
            want = _list(view.of_tensor(torch.from_numpy(array)))
        except (RuntimeError, IndexError):
            continue
        got, taken = _list(view.of_array(array)), taken + 1
        assert len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(a, b.numpy())
            assert np.shares_memory(a, array) == np.shares_memory(b.numpy(), array) or view.family == "reshape"
            assert a.flags.writeable
    assert taken or (strided and case[1] == "dtype")


def test_every_view_has_a_case():
    assert {case[0] for case in CASES} == set(VIEWS) - {"getitem"}
    assert View("getitem", "", (1,), {}).of_array([X, X[0]]) is not X


def test_what_is_no_view_is_refused():
    with pytest.raises(LoadError, match="'add_' is no view of a tensor"):
        View("add_", "Tensor", (1,), {})
    with pytest.raises(LoadError, match="operand of kind 'module'"):
        TorchName("module", "os")
    with pytest.raises(LoadError, match="has no dtype save"):
        View("to", "dtype", (TorchName("dtype", "save"),), {}).of_tensor(torch.ones(2))
