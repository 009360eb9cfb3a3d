"""Programs that are read as torch exported them: writes in place keep their meaning, or torch makes them functional."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.relax.frontend.torch_compare import Wrapped, equal, imported
from torch import nn
from torch.export import ExportedProgram

import eutectic
from eutectic.relax.frontend.torch import export_model, from_exported_program
from eutectic.relax.frontend.torch.as_exported import Rewritten, as_exported
from eutectic.relax.frontend.torch.table import TABLE, Context
from eutectic.testing.models import MODELS

X = torch.arange(-6.0, 6.0).reshape(3, 4)


def view_before(x: torch.Tensor) -> torch.Tensor:
    y = x + 1.0
    seen = y.view(4, 3)
    y.relu_()
    return seen * 2.0


def view_used_up(x: torch.Tensor) -> torch.Tensor:
    y = x + 1.0
    total = y.view(4, 3) * 2.0
    y.relu_()
    return y + total.view(3, 4)


def view_after(x: torch.Tensor) -> torch.Tensor:
    y = (x + 1.0).relu_()
    return y.view(4, 3) * 2.0


def part_is_written(x: torch.Tensor) -> torch.Tensor:
    y = x + 1.0
    y[0].mul_(5.0)
    return y


def no_dropout(x: torch.Tensor) -> torch.Tensor:
    y = x + 1.0
    same = nn.functional.dropout(y, 0.5, training=False)
    y.relu_()
    return same


def casts_to_itself(x: torch.Tensor) -> torch.Tensor:
    y = x + 1.0
    same = y.to(torch.float32)
    y.relu_()
    return same


def wide_operand(x: torch.Tensor) -> torch.Tensor:
    return (x + 1.0).add_(x.double())


def compared(x: torch.Tensor) -> torch.Tensor:
    return (x + 1.0).lt_(0.0)


def written_behind_dropout(x: torch.Tensor) -> torch.Tensor:
    y = x + 1.0
    z = nn.functional.dropout(y, 0.5, training=False).relu_()
    return z + y


def chain(x: torch.Tensor) -> torch.Tensor:
    y = x + 1.0
    z = y.relu_()
    z.add_(x).mul_(y)
    return y - z.sum()


def argument(x: torch.Tensor) -> torch.Tensor:
    return x.relu_() + 1.0


def view_of_argument(x: torch.Tensor) -> torch.Tensor:
    return x.view(4, 3).relu_() + 1.0


def written_and_returned(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x + 1.0
    return y, y.relu_()


def into_an_output(x: torch.Tensor) -> torch.Tensor:
    y = x + 1.0
    torch.mul(x, x, out=y)
    return y


def pieces(x: torch.Tensor) -> torch.Tensor:
    y = x + 1.0
    a, b = y.chunk(2, 1)
    a.relu_()
    return y + b.sum()


# Function -> whether it can be read as it was exported.
WRITES: dict[Callable[..., Any], bool] = {
    view_before: False,
    view_used_up: True,
    view_after: True,
    part_is_written: False,
    no_dropout: True,
    casts_to_itself: False,
    wide_operand: False,
    compared: False,
    written_behind_dropout: True,
    chain: True,
    argument: False,
    view_of_argument: False,
    written_and_returned: True,
    into_an_output: False,
    pieces: False,
}


@pytest.mark.parametrize("function", WRITES, ids=lambda function: function.__name__)
def test_writes_in_place(function: Callable[..., Any]):
    program = export_model(Wrapped(function).eval(), (X.clone(),))
    assert (as_exported(program) is not None) is WRITES[function]
    ours, theirs = X.clone(), X.clone()
    equal(imported(function, (X.clone(),))(ours), function(theirs))
    equal(ours, theirs)


B, Y = X > 0, X.flip(0)
# Operators that the functional form has under another name, on arguments that tell them from others.
RENAMED: dict[str, Callable[..., Any]] = {
    "__and__": lambda: B & (X < 4),
    "__or__": lambda: B | (X < -4),
    "__xor__": lambda: B ^ (X < 4),
    "__and__ of a number": lambda: X.long() & 3,
    "max.other": lambda: torch.max(X, Y),
    "min.other": lambda: torch.min(X, Y),
    "to.other": lambda: X.to(torch.ones(1, dtype=torch.float64)),
    "to.device": lambda: B.to(torch.device("cpu"), torch.float32),
    "to.dtype_layout": lambda: B.to(torch.float32, copy=True) + X.to(device="cpu", dtype=torch.float64),
    "type_as": lambda: B.type_as(X),
    "movedim": lambda: X.reshape(1, 3, 4).movedim(0, 2) + X.reshape(1, 3, 4).movedim((0, 1), (2, 0)),
    "upsample_nearest2d": lambda: nn.functional.interpolate(X.reshape(1, 1, 3, 4), scale_factor=2.0),
    "upsample_bilinear2d": lambda: nn.functional.interpolate(X.reshape(1, 1, 3, 4), (5, 6), mode="bilinear"),
    "where": lambda: torch.where(B, 1.0, 2.0) + torch.where(B, X, 2.0) + torch.where(B, 1.0, X),
    "broadcast_to": lambda: X.broadcast_to(2, 3, 4),
    "expand_as": lambda: X[:1].expand_as(X),
    "clip": lambda: torch.clip(X, -2.0, 3.0),
    "concat": lambda: torch.concat([X, Y], 1),
    "diff": lambda: torch.diff(X * X) + torch.diff(X, n=2, dim=0, prepend=X, append=Y).sum(),
    "transposed": lambda: X.mT + X.T + X.swapaxes(0, 1) + X.swapdims(1, 0),
    "narrow": lambda: X.narrow(1, 1, 2),
    "relu6": lambda: nn.functional.relu6(2 * X),
    "rms_norm": lambda: nn.functional.rms_norm(X, (4,), X[0], 1e-5),
    "reshape_as": lambda: X.mT.reshape_as(X) + X.view_as(Y),
    "split": lambda: X.split([1, 3], 1)[1],
    "square": lambda: torch.square(X),
    "tile": lambda: X.tile(2, 3),
    "true_divide": lambda: torch.true_divide(X, Y + 0.5),
    "detach_": lambda: (X + 1.0).detach_() * 2.0,
}


class Applied(nn.Module):
    """A function of what is named X, Y and B here, as operators of a program."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, y: torch.Tensor, b: torch.Tensor) -> Any:
        values = {**self.function.__globals__, "X": x, "Y": y, "B": b}
        return FunctionType(self.function.__code__, values)()


@pytest.mark.parametrize("name", RENAMED)
def test_other_names_of_operators(name: str, monkeypatch: pytest.MonkeyPatch):
    """They are read as they were exported, and compute what eager does."""
    model = Applied(RENAMED[name]).eval()
    program = export_model(model, (X, Y, B))
    assert as_exported(program) is not None
    monkeypatch.delattr(ExportedProgram, "run_decompositions")
    equal(eutectic.compile(program, target="llvm")(X, Y, B), model(X, Y, B))


def _step(draw: st.DrawFn, values: list[Callable[[list[torch.Tensor]], torch.Tensor]]) -> Callable[..., torch.Tensor]:
    """One operator on values made before, which are given by their places."""
    place, other = (draw(st.integers(0, len(values) - 1)) for _ in range(2))
    kind = draw(st.sampled_from(["new", "new", "flip", "row", "relu_", "add_", "mul_", "clamp_", "same"]))
    steps: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
        "new": lambda a, b: a * 0.5 + b,
        "flip": lambda a, b: a.transpose(0, 1),
        "row": lambda a, b: a[:2].reshape(2, 4).unsqueeze(0).expand(2, 2, 4).reshape(4, 4),
        "relu_": lambda a, b: a.relu_(),
        "add_": lambda a, b: a.add_(b, alpha=2),
        "mul_": lambda a, b: a.mul_(b),
        "clamp_": lambda a, b: a.clamp_(-1.0, 1.5),
        "same": lambda a, b: a.contiguous(),
    }
    return lambda made: steps[kind](made[place], made[other])


@st.composite
def programs(draw: st.DrawFn) -> Callable[[torch.Tensor], list[torch.Tensor]]:
    """Functions that make values of one shape from each other, write to some of them, and return some."""
    steps: list[Callable[..., torch.Tensor]] = [lambda made: made[0] + 1.0]
    for _ in range(draw(st.integers(2, 9))):
        steps.append(_step(draw, [lambda made: made[0], *steps]))
    returned = draw(st.lists(st.integers(1, len(steps)), min_size=1, max_size=3, unique=True))

    def run(x: torch.Tensor) -> list[torch.Tensor]:
        made = [x]
        for step in steps:
            made.append(step(made))
        return [made[place] * 1.0 for place in returned]

    return run


@settings(max_examples=20)
@given(programs())
def test_random_writes(function: Callable[[torch.Tensor], list[torch.Tensor]]):
    """Whichever way a program is read, it computes what eager does, also for its argument."""
    x = torch.linspace(-2.0, 2.0, 16).reshape(4, 4)
    ours, theirs = x.clone(), x.clone()
    equal(imported(function, (x.clone(),))(ours), function(theirs))
    equal(ours, theirs)


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "mlp"])
def test_networks_are_not_traced_again(name: str, monkeypatch: pytest.MonkeyPatch):
    if not MODELS[name].available:
        pytest.skip(f"no weights of {name}")
    model, inputs = MODELS[name].build()
    program = export_model(model, inputs)
    monkeypatch.delattr(ExportedProgram, "run_decompositions")
    assert from_exported_program(program)["main"].params


def test_the_copy_keeps_names_and_places():
    program = export_model(Wrapped(chain).eval(), (X,))
    found = as_exported(program)
    assert isinstance(found, Rewritten)
    assert [node.name for node in found.graph.nodes] == [node.name for node in program.graph.nodes]
    assert [node.meta.get("stack_trace") for node in found.graph.nodes] == [
        node.meta.get("stack_trace") for node in program.graph.nodes
    ]
    assert not any(str(node.target).split(".")[1:2] == ["relu_"] for node in found.graph.nodes)


def test_what_is_refused_as_exported_is_asked_of_torch(monkeypatch: pytest.MonkeyPatch):
    """A converter that refuses an operator of the exported form does not decide about the functional one."""

    def refuse(ctx: Context, *_: Any) -> None:
        ctx.refuse("not as it was exported")

    model = nn.Sequential(nn.BatchNorm2d(2), nn.Flatten()).eval()
    x = torch.from_numpy(np.arange(16, dtype="float32").reshape(2, 2, 2, 2))
    monkeypatch.setitem(TABLE, "aten.batch_norm.default", refuse)
    with torch.no_grad():
        equal(imported(model, (x,))(x), model(x))
