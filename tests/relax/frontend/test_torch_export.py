"""export_model: what is checked before, what torch says told in terms of the user's model, nothing changed."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tests.relax.frontend.torch_compare import Wrapped, rand
from torch import nn
from torch.export import ExportedProgram
from torch.nn import functional

import eutectic
from eutectic.relax.frontend.torch import export_model
from eutectic.support.errors import ExportFailedError, FrontendError, ModelStateError, UnsupportedTypeError


def test_the_model_is_not_changed():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=True), nn.Linear(4, 2))
    calls = []
    model[0].register_forward_hook(lambda *args: calls.append(1))
    before = copy.deepcopy(model.state_dict())
    hooks = len(model[0]._forward_hooks)
    program = export_model(model, (rand(1, 3),))
    assert isinstance(program, ExportedProgram)
    assert model.training
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert len(model[0]._forward_hooks) == hooks
    assert torch.is_grad_enabled()


def test_training_mode_is_refused_only_where_it_matters():
    with pytest.raises(ModelStateError) as error:
        export_model(nn.Sequential(nn.Dropout(0.1), nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.2)), (rand(2, 3),))
    assert error.value.message == "the model is in training mode: 0 (Dropout), 2 (BatchNorm1d), 3 (Dropout)"
    assert error.value.help == "call model.eval() before compiling"
    harmless = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.0), nn.LayerNorm(3)).train()
    export_model(harmless, (rand(2, 3),))


BAD: dict[str, tuple[Any, Any, type[Exception], str]] = {
    "class": (nn.Linear, (rand(1, 3),), FrontendError, "expected a torch.nn.Module, got the class Linear"),
    "function": (
        torch.relu,
        (rand(1, 3),),
        FrontendError,
        "expected a torch.nn.Module or a torch.export.ExportedProgram, got the function relu",
    ),
    "no inputs": (
        nn.Linear(3, 3),
        None,
        FrontendError,
        "a torch module needs example inputs, and none are given for Linear",
    ),
    "lone tensor": (
        nn.Linear(3, 3),
        rand(1, 3),
        FrontendError,
        "the example inputs must be a tuple with an entry per input, got a torch.Tensor: "
        "torch.Tensor of shape (1, 3) and dtype float32",
    ),
    "object": (
        nn.Linear(3, 3),
        (object(),),
        UnsupportedTypeError,
        "input input is a object, which cannot be an input",
    ),
    "sparse input": (
        nn.Linear(3, 3),
        (rand(1, 3).to_sparse(),),
        UnsupportedTypeError,
        "input input is a sparse tensor (sparse_coo)",
    ),
    "meta parameter": (
        nn.Linear(3, 3, device="meta"),
        (rand(1, 3),),
        UnsupportedTypeError,
        "parameter weight is on device meta: it has no elements",
    ),
    "array of text": (
        nn.Linear(3, 3),
        (np.array(["a"]),),
        UnsupportedTypeError,
        "input input has dtype <U1, which is not supported",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name: str):
    model, args, kind, message = BAD[name]
    with pytest.raises(kind) as error:
        export_model(model, args)
    assert error.value.message == message  # type: ignore[attr-defined]


def test_quantized_tensors_are_refused():
    model = Wrapped(torch.relu)
    model.register_buffer("scale", torch.zeros(2).to_sparse())
    with pytest.raises(UnsupportedTypeError, match="buffer scale is a sparse tensor"):
        export_model(model, (rand(2),))


def test_dtypes_that_are_not_ours_are_refused():
    model = Wrapped(torch.relu)
    model.register_buffer("scale", torch.zeros(2).to(torch.float8_e4m3fnuz))
    with pytest.raises(UnsupportedTypeError, match="buffer scale has dtype float8_e4m3fnuz, which is not supported"):
        export_model(model, (rand(2),))


def test_what_torch_says_points_to_the_users_line():
    class Branches(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.sum() > 0:  # the line in question
                return x
            return -x

    with pytest.raises(ExportFailedError) as error:
        export_model(Branches(), (rand(3),))
    assert error.value.at is not None
    assert error.value.at.text.strip() == "if x.sum() > 0:  # the line in question"
    assert "data-dependent" in error.value.message
    assert error.value.__cause__ is not None


def test_an_exported_program_passes():
    program = export_model(nn.Linear(3, 3), (rand(1, 3),))
    assert export_model(program) is program


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_arrays_and_compiled_modules_are_accepted():
    model = nn.Linear(3, 3)
    export_model(model, (rand(1, 3).numpy(),))
    export_model(torch.compile(model), (rand(1, 3),))


def test_example_inputs_may_require_gradients():
    export_model(nn.Linear(3, 3), (rand(1, 3).requires_grad_(),))


class Adds(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a.add_(1) * b


def test_examples_that_are_one_tensor_say_nothing_of_later_calls():
    x = torch.ones(3, 4)
    model = eutectic.compile(Adds().eval(), (x, x))
    assert (x == 1).all()
    a, b = torch.zeros(3, 4), torch.full((3, 4), 2.0)
    torch.testing.assert_close(model(a, b), torch.full((3, 4), 2.0))
    assert (a == 1).all()


@pytest.mark.parametrize("change", [lambda x: x.t_(), lambda x: x.resize_(2, 6)], ids=["t_", "resize_"])
def test_inputs_that_get_another_shape_in_place(change: Callable[[torch.Tensor], torch.Tensor]):
    with pytest.raises(FrontendError, match="torch cannot express the program without operators that write in place"):
        eutectic.compile(Wrapped(change).eval(), (torch.ones(3, 4),))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_arguments_that_torch_loses_when_it_exports(reduction: str):
    x, target, weight = rand(3, 4), rand(3, 4), rand(3, 4)
    handle = functional.handle_torch_function

    def loss(x: Any, target: Any, weight: Any) -> Any:
        return functional.l1_loss(x, target, reduction=reduction, weight=weight)

    compiled = eutectic.compile(Wrapped(loss), (x, target, weight))
    torch.testing.assert_close(compiled(x, target, weight), loss(x, target, weight))
    assert functional.handle_torch_function is handle
