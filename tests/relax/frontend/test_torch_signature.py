"""Signatures of torch programs: arguments in, results out, with the structure, the aliasing and the errors of eager."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.relax.frontend.torch_compare import Imported, check, equal, export_model, imported, rand
from torch import nn
from torch.export import Dim

from eutectic.support.errors import CallError, FrontendError

Pair = namedtuple("Pair", ["left", "right"])


class Tree(nn.Module):
    def forward(self, x: torch.Tensor, more: dict[str, Any], factor: int = 3, *, bias: Any = None) -> Any:
        y = x * factor + more["shift"][0]
        y = y if bias is None else y + bias
        return Pair({"y": y, "none": None}, [x.shape[0], (y.sum(), factor)])


def _tree(**options: Any) -> Imported:
    args = (rand(2, 3), {"shift": [rand(3)]}, 4)
    return imported(Tree(), args, {"bias": rand(3)}, **options)


def test_structures_of_arguments_and_results():
    model = _tree()
    args, kwargs = (rand(2, 3, seed=1), {"shift": [rand(3, seed=2)]}, 4), {"bias": rand(3, seed=3)}
    equal(model(*args, **kwargs), Tree()(*args, **kwargs))


def test_arguments_in_any_way_that_python_allows():
    model, want = _tree(), Tree()(rand(2, 3), {"shift": [rand(3)]}, 4, bias=rand(3))
    equal(model(rand(2, 3), more={"shift": [rand(3)]}, factor=4, bias=rand(3)), want)
    equal(model(bias=rand(3), factor=4, more={"shift": [rand(3)]}, x=rand(2, 3)), want)


def test_none_and_flags_are_part_of_the_program():
    class Switch(nn.Module):
        def forward(self, x: torch.Tensor, double: bool, mask: Any = None, name: str = "a") -> torch.Tensor:
            return x * 2 if double else x + 1

    model = imported(Switch(), (rand(3), True, None, "a"))
    equal(model(rand(3), True, None, "a"), rand(3) * 2)
    for args, name in (((rand(3), False, None, "a"), "double"), ((rand(3), 1, None, "a"), "double")):
        with pytest.raises(CallError, match=f"argument {name} is .*, but the model was compiled for True"):
            model(*args)
    with pytest.raises(CallError, match="argument name is 'b', but the model was compiled for 'a'"):
        model(rand(3), True, None, "b")


ERRORS: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "rank": ((rand(3), {"shift": [rand(3)]}, 4), {"bias": rand(3)}, "argument x must have 2 axes, got 1: shape (3,)"),
    "size": (
        (rand(2, 4), {"shift": [rand(3)]}, 4),
        {"bias": rand(3)},
        "argument x must have size 3 on axis 1, got 4: shape (2, 4)",
    ),
    "dtype": (
        (rand(2, 3).double(), {"shift": [rand(3)]}, 4),
        {"bias": rand(3)},
        "argument x must be float32, got float64",
    ),
    "nested": (
        (rand(2, 3), {"shift": [rand(3).int()]}, 4),
        {"bias": rand(3)},
        "argument more['shift'][0] must be float32, got int32",
    ),
    "kind": (
        (2.0, {"shift": [rand(3)]}, 4),
        {"bias": rand(3)},
        "argument x must be a tensor or a NumPy array, got float",
    ),
    "number": (
        (rand(2, 3), {"shift": [rand(3)]}, 5),
        {"bias": rand(3)},
        "argument factor is 5, but the model was compiled for 4",
    ),
    "missing": ((rand(2, 3), {"shift": [rand(3)]}), {"bias": rand(3)}, "argument factor is missing"),
    "missing keyword": ((rand(2, 3), {"shift": [rand(3)]}, 4), {}, "argument bias is missing"),
    "unknown": (
        (rand(2, 3), {"shift": [rand(3)]}, 4),
        {"bias": rand(3), "z": 1},
        "argument z is unknown: the model takes x, more, factor, bias",
    ),
    "twice": ((rand(2, 3), {"shift": [rand(3)]}, 4), {"bias": rand(3), "x": 1}, "argument x is given twice"),
    "too many": ((rand(2, 3), {"shift": [rand(3)]}, 4, rand(3), 1), {}, "the model takes 4 arguments, got 5"),
    "tree": (
        (rand(2, 3), {"shift": (rand(3),)}, 4),
        {"bias": rand(3)},
        "argument more has another structure than the example: expected {'shift': [value]}, got {'shift': (value)}",
    ),
    "sparse": (
        (rand(2, 3).to_sparse(), {"shift": [rand(3)]}, 4),
        {"bias": rand(3)},
        "argument x is a sparse tensor (sparse_coo)",
    ),
    "device": (
        (torch.empty(2, 3, device="meta"), {"shift": [rand(3)]}, 4),
        {"bias": rand(3)},
        "argument x is on device meta: it has no elements",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_name_the_argument(name: str):
    args, kwargs, message = ERRORS[name]
    with pytest.raises(CallError) as error:
        _tree()(*args, **kwargs)
    assert error.value.message == message
    assert error.value.help


def test_gradients_are_refused_unless_switched_off():
    model, x = imported(nn.Linear(3, 2), (rand(2, 3),)), rand(2, 3).requires_grad_()
    with pytest.raises(CallError) as error:
        model(x)
    assert error.value.message == "argument input requires grad, and compiled models do not record gradients"
    assert error.value.help == "call under torch.no_grad(), or pass its .detach()"
    with torch.no_grad():
        assert not model(x).requires_grad
    model(x.detach())


def test_subclasses_of_tensor_are_refused():
    class Tagged(torch.Tensor):
        pass

    with pytest.raises(CallError, match="argument input is a Tagged, a subclass of Tensor"):
        imported(nn.Linear(3, 2), (rand(2, 3),))(rand(2, 3).as_subclass(Tagged))


def test_dynamic_sizes_are_checked():
    class Two(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x + y[:, :1]

    batch = Dim("batch", min=2, max=8)
    args = (rand(4, 3), rand(4, 3))
    model = Imported(export_model(Two(), args, dynamic_shapes=({0: batch}, {0: batch})))
    equal(model(rand(5, 3), rand(5, 3)), rand(5, 3) + rand(5, 3)[:, :1])
    with pytest.raises(CallError, match="argument x must have a size from 2 to 8 on axis 0, got 9"):
        model(rand(9, 3), rand(9, 3))
    with pytest.raises(CallError, match="argument y must have size 6 "):
        model(rand(6, 3), rand(5, 3))


def test_dynamic_sizes_of_any_number_of_arguments_are_one_entry():
    class Sum(nn.Module):
        def forward(self, *args: torch.Tensor) -> torch.Tensor:
            return args[0] + args[1]

    args, varies = (rand(4, 3), rand(4, 3)), {0: Dim.AUTO}
    shapes: Any
    for shapes in (((varies, varies),), {"args": (varies, varies)}):
        model = Imported(export_model(Sum(), args, dynamic_shapes=shapes))
        equal(model(rand(5, 3), rand(5, 3)), rand(5, 3) * 2)
    with pytest.raises(FrontendError, match="2 entries for 1 input") as error:
        export_model(Sum(), args, dynamic_shapes=(varies, varies))
    assert "that of *args is a tuple" in str(error.value)


def test_arrays_in_arrays_out():
    model = imported(nn.Linear(3, 2), (rand(2, 3),))
    out = model(rand(2, 3).numpy())
    assert isinstance(out, np.ndarray)
    np.testing.assert_array_equal(out, model(rand(2, 3)).numpy())
    with pytest.raises(CallError, match="must be float32, got float64"):
        model(np.zeros((2, 3)))


def test_inputs_are_not_copied_when_contiguous():
    model, x = imported(nn.Linear(3, 2), (rand(2, 3),)), rand(2, 3)
    (array,) = model.signature.flatten((x,))
    assert array.ctypes.data == x.data_ptr()
    (array,) = model.signature.flatten((rand(3, 2).t(),))
    assert array.flags.c_contiguous


@given(st.sampled_from(["transposed", "channels_last", "expanded", "offset", "stepped"]))
@settings(max_examples=10)
def test_strides_do_not_matter(kind: str):
    x = {
        "transposed": rand(5, 4, 3, 2).permute(3, 2, 1, 0),
        "channels_last": rand(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "expanded": rand(1, 3, 1, 5).expand(2, 3, 4, 5),
        "offset": rand(3, 3, 4, 5)[1:],
        "stepped": rand(4, 3, 4, 10)[::2, :, :, ::2],
    }[kind]
    model = imported(lambda t: (t * 2, t.flatten(1)), (rand(2, 3, 4, 5),))
    equal(model(x), (x * 2, x.flatten(1)))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.uint8, torch.bool])
def test_dtypes_go_in_and_out(dtype: torch.dtype):
    check(lambda x: (x.flip(0), x[1:]), rand(3, 4, dtype=dtype))


def test_an_argument_that_is_returned_is_the_same_object():
    model = imported(lambda x, y: (x, x + y, y, x), (rand(3), rand(3)))
    x, y = rand(3), rand(3, seed=1)
    out = model(x, y)
    assert out[0] is x
    assert out[2] is y
    assert out[3] is x
    array = x.numpy()
    assert model(array, y.numpy())[0] is array


def test_views_of_arguments_share_their_memory():
    def function(x: torch.Tensor) -> Any:
        return x.view(-1), x[1:], x.t(), x.clone(), x + 0, x.reshape(3, 2), nn.functional.dropout(x, 0.5, False)

    model, x = imported(function, (rand(2, 3),)), rand(2, 3)
    for mine, theirs in zip(model(x), function(x), strict=True):
        equal(mine, theirs)
        assert (mine.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()) == (
            theirs.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        )
    strided = rand(3, 2).t()
    for mine, theirs in zip(model(strided)[:3:2], (strided.reshape(-1), strided.t()), strict=True):
        equal(mine, theirs)


def test_views_by_the_shape_of_another_tensor_share_memory():
    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        return x.expand_as(y), x.view_as(y[0]), x.ravel(), x.real, (x + 1).ravel()

    x, y = rand(2, 3), rand(4, 2, 3)
    model = imported(function, (x, y))
    for mine, theirs in zip(model(x, y), function(x, y), strict=True):
        equal(mine, theirs)
        assert mine.stride() == theirs.stride()
        assert (mine.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()) == (
            theirs.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        )


def test_outputs_alias_each_other_as_in_eager():
    def function(x: torch.Tensor) -> Any:
        y = x + 1
        return y, y, y.view(-1), y[0], y.clone(), y * 1

    out = imported(function, (rand(2, 3),))(rand(2, 3))
    equal(out, function(rand(2, 3)))
    assert out[0] is out[1]
    out[0].zero_()
    assert not out[2].any()
    assert not out[3].any()
    assert out[4].any()
    assert out[5].any()


def test_new_results_are_never_the_memory_of_an_argument():
    model, x = imported(lambda t: (t.clone(), t.clone().view(-1), t.contiguous().clone()), (rand(3, 2),)), rand(3, 2)
    for out in model(x):
        out.zero_()
    equal(x, rand(3, 2))


def test_parameters_that_are_returned_are_copies():
    layer = nn.Linear(2, 2)

    class Returns(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: torch.Tensor) -> Any:
            return self.layer(x), self.layer.weight.detach()

    model = imported(Returns(), (rand(1, 2),))
    first = model(rand(1, 2))
    first[1].zero_()
    equal(model(rand(1, 2))[1], layer.weight.detach())


def test_arguments_changed_in_place():
    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        x.add_(1)
        y[0] = x[0]
        return x.view(-1), x, (x * 2).relu_(), y.sum()

    check(function, rand(2, 3), rand(2, 3, seed=4))
    model = imported(function, (rand(2, 3), rand(2, 3)))
    x, y = rand(3, 2).t(), rand(2, 3, seed=4)
    want_x, want_y = x.contiguous(), y.clone()
    want = function(want_x, want_y)
    out = model(x, y)
    equal((out, x, y), (want, want_x, want_y))
    assert out[1] is x
    array = rand(2, 3).numpy()
    model(array, rand(2, 3).numpy())
    np.testing.assert_array_equal(array, rand(2, 3).numpy() + 1)


def test_overlapping_arguments_of_a_model_that_writes_are_refused():
    model, x = imported(lambda a, b: a.add_(b), (rand(3), rand(3))), rand(3)
    with pytest.raises(CallError, match="share memory, and the model changes"):
        model(x, x)


def test_in_place_operators_on_values_read_later():
    def function(x: torch.Tensor) -> Any:
        y = x * 2
        view = y[0]
        z = y + 1
        view.relu_()
        y.mul_(3)
        return y, z, view + 0

    check(function, rand(3, 4))


def test_the_same_argument_twice_and_unused_arguments():
    model, x = imported(lambda a, b, c: a + b, (rand(3), rand(3, seed=1), rand(2))), rand(3)
    equal(model(x, x, rand(2)), x + x)


def test_no_tensor_results():
    model = imported(lambda x: (None, 3, "text", x.shape[0]), (rand(3),))
    assert model(rand(3)) == (None, 3, "text", 3)


def test_a_second_call_with_other_values_is_right():
    model = imported(lambda x: torch.where(x > 0, x, -x), (rand(4),))
    for seed in range(3):
        equal(model(rand(4, seed=seed)), rand(4, seed=seed).abs())
