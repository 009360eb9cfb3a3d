"""Operators that may give back their input, with a write in place before or after, whichever way a program is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.relax.frontend.torch_compare import Imported, Wrapped, equal, export_model
from torch import nn

from eutectic.relax.frontend.torch import decompose
from eutectic.support.errors import FrontendError

T = torch.Tensor
X = torch.arange(-6.0, 6.0).reshape(3, 4)

OPERATORS: dict[str, Callable[[T], T]] = {
    "adjoint": lambda y: y.adjoint(),
    "alpha_dropout": lambda y: F.alpha_dropout(y, 0.5, training=False),
    "atleast_2d": lambda y: torch.atleast_2d(y),
    "atleast_2d of several": lambda y: torch.atleast_2d([y, y])[0],
    "broadcast_tensors": lambda y: torch.broadcast_tensors(y, torch.ones(1))[0],
    "broadcast_to": lambda y: torch.broadcast_to(y, (3, 4)),
    "cat": lambda y: torch.cat([y]),
    "chunk": lambda y: y.chunk(2, 1)[0],
    "clone": lambda y: y.clone(),
    "contiguous": lambda y: y.contiguous(),
    "contiguous of a view": lambda y: y.t().contiguous(),
    "detach": lambda y: y.detach(),
    "dropout": lambda y: F.dropout(y, 0.5, training=False),
    "dropout of nothing": lambda y: torch.dropout(y, 0.0, True),
    "dropout2d": lambda y: F.dropout2d(y[None, None], 0.5, training=False),
    "einsum": lambda y: torch.einsum("ij->ij", y),
    "einsum transposed": lambda y: torch.einsum("ij->ji", y),
    "expand": lambda y: y.expand(3, 4),
    "feature_alpha_dropout": lambda y: F.feature_alpha_dropout(y, 0.5, training=False),
    "feature_dropout": lambda y: torch.feature_dropout(y, 0.5, False),
    "flatten": lambda y: y.flatten(),
    "flatten nothing": lambda y: y.flatten(0, 0),
    "float": lambda y: y.float(),
    "identity": lambda y: nn.Identity()(y),
    "index": lambda y: y[...],
    "mT": lambda y: y.mT,
    "narrow": lambda y: y.narrow(0, 1, 2),
    "pad": lambda y: F.pad(y, (0, 0)),
    "positive": lambda y: +y,
    "ravel": lambda y: y.ravel(),
    "real": lambda y: torch.real(y),
    "repeat": lambda y: y.repeat(1, 1),
    "reshape": lambda y: y.reshape(4, 3),
    "reshape of a view": lambda y: y.t().reshape(12),
    "reshape to itself": lambda y: y.reshape(3, 4),
    "resolve_conj": lambda y: y.resolve_conj(),
    "select": lambda y: y[1],
    "slice": lambda y: y[1:],
    "to": lambda y: y.to(torch.float32),
    "to a copy": lambda y: y.to(torch.float32, copy=True),
    "to another dtype": lambda y: y.to(torch.float64),
    "to channels last": lambda y: y[None, None].to(memory_format=torch.channels_last),
    "type_as": lambda y: y.type_as(y),
    "unflatten": lambda y: y.unflatten(1, (2, 2)),
    "view": lambda y: y.view(12),
    "view_as": lambda y: y.view_as(y),
}


def _written_after(y: T, operator: Callable[[T], T]) -> Any:
    seen = operator(y)
    y.relu_()
    return seen, y


def _written_before(y: T, operator: Callable[[T], T]) -> Any:
    y.relu_()
    return operator(y), y


def _result_is_written(y: T, operator: Callable[[T], T]) -> Any:
    seen = operator(y)
    seen.mul_(-2.0)
    return y, seen


def _both_are_written(y: T, operator: Callable[[T], T]) -> Any:
    seen = operator(y)
    y.relu_()
    seen.mul_(-2.0)
    y.add_(1.0)
    return seen, y


WRITES = (_written_after, _written_before, _result_is_written, _both_are_written)


def _compare(function: Callable[[T], Any]) -> None:
    model = Imported(export_model(Wrapped(function).eval(), (X.clone(),)))
    ours, theirs = X.clone(), X.clone()
    equal(model(ours), function(theirs))
    equal(ours, theirs)


@pytest.fixture(params=["as it was exported, where it can be", "in the functional form of torch"])
def reading(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param.startswith("in"):
        monkeypatch.setattr(decompose, "as_exported", lambda program: None)


@pytest.mark.usefixtures("reading")
@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__.strip("_"))
def test_new_memory_that_is_written_to(write: Callable[..., Any]):
    """All operators in one program, each on a value of its own."""
    _compare(lambda x: {name: write(x + 1.0, operator) for name, operator in OPERATORS.items()})


@pytest.mark.usefixtures("reading")
def test_an_argument_that_is_written_to():
    def function(x: T) -> Any:
        seen = {name: operator(x) for name, operator in OPERATORS.items()}
        x.relu_()
        return seen

    _compare(function)


@pytest.mark.slow
@pytest.mark.usefixtures("reading")
@pytest.mark.parametrize("name", OPERATORS)
def test_each_operator_alone(name: str):
    """A program of its own may be read in another way than one with others."""
    for write in WRITES:
        _compare(lambda x, write=write: write(x + 1.0, OPERATORS[name]))
        _compare(lambda x, write=write: write(x, OPERATORS[name]))


def test_arguments_that_are_exchanged_in_place():
    def function(x: T, y: T) -> T:
        before = x.clone()
        x.copy_(y)
        y.copy_(before)
        return before

    model = Imported(export_model(Wrapped(function).eval(), (X.clone(), X + 7.0)))
    x, y = X.clone(), X + 7.0
    equal(model(x, y), X)
    equal((x, y), (X + 7.0, X))


def test_an_operator_whose_schema_is_wrong_is_refused_where_it_matters():
    def function(x: T) -> T:
        seen = torch.native_dropout(x, 0.5, False)[0]
        return seen + x.relu_()

    with pytest.raises(FrontendError, match=r"aten\.native_dropout\.default gives back its input in inference"):
        Imported(export_model(Wrapped(function).eval(), (X.clone(),)))
    _compare(lambda x: torch.native_dropout(x, 0.5, False)[0] + x)


def test_the_program_of_the_user_is_left_as_it_was():
    program = export_model(Wrapped(lambda x: F.dropout(x + 1.0, 0.5, False).relu_()).eval(), (X,))
    before = str(program.graph)
    decompose.decomposed(program)
    assert str(program.graph) == before


VARYING: dict[str, Callable[[T], T]] = {
    "where": lambda y: torch.where(y > 3, 0.0, -1.0),
    "transposed convolution": lambda y: F.conv_transpose2d(y, torch.ones(3, 2, 3, 3)),
    "same padding": lambda y: F.conv2d(y, torch.ones(2, 3, 3, 3), padding="same"),
    "einsum": lambda y: torch.einsum("nchw,nchv->nhv", y, y),
    "instance_norm": lambda y: F.instance_norm(y),
    "a tensor of the program": lambda y: y * torch.tensor([0.5]),
    "outer": lambda y: torch.outer(y[:, 0, 0, 0], y[:, 0, 0, 1]),
    "selu": lambda y: F.selu(y),
    "mse_loss": lambda y: F.mse_loss(y, y + 1),
}


@pytest.mark.parametrize("name", VARYING)
def test_sizes_that_vary_still_do(name: str):
    """Asking torch about an operator with the sizes of the example must not make them those of the program."""

    def function(x: T) -> T:
        return VARYING[name]((x + 1.0).relu_())

    sizes = ({0: torch.export.Dim("n", min=1, max=9), 3: torch.export.Dim.DYNAMIC},)
    model, x = Wrapped(function).eval(), torch.rand(3, 3, 4, 5)
    program = torch.export.export(model, (x,), dynamic_shapes=(sizes,))
    read = Imported(program)
    *_, shape = (node.meta["val"].shape for node in program.graph.nodes if node.op == "placeholder")
    assert [isinstance(size, int) for size in shape] == [False, True, True, False]
    other = torch.rand(2, 3, 4, 7)
    equal(read(other), model(other))
