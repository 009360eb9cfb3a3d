"""What a user reads when a model cannot be compiled: whole texts, and no output of torch beside them."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import eutectic
from eutectic.support.errors import CallError, EutecticError, FrontendError, UnsupportedOperatorError


class Of(nn.Module):
    """A module whose forward is a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.eval()

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


class Scaled(nn.Module):
    def forward(self, image: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return image * scale


class Decides(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x
        return -x


X = torch.arange(12.0).reshape(3, 4)
TEXTS: dict[str, Callable[[], Any]] = {
    "a tensor in place of a tuple": lambda: eutectic.compile(nn.Linear(4, 2).eval(), X),
    "no inputs": lambda: eutectic.compile(nn.Linear(4, 2).eval()),
    "one input too few": lambda: eutectic.compile(Scaled().eval(), (X,)),
    "a misspelled input": lambda: eutectic.compile(Scaled().eval(), (X,), kwargs={"scal": X}),
    "training mode": lambda: eutectic.compile(nn.Sequential(nn.Linear(4, 2), nn.Dropout()), (X,)),
    "a class": lambda: eutectic.compile(Scaled, (X, X)),
    "a function": lambda: eutectic.compile(torch.relu, (X,)),
    "weights": lambda: eutectic.compile(nn.Linear(4, 2).state_dict(), (X,)),
    "a path": lambda: eutectic.compile("model.pt", (X,)),
    "dynamic_shapes is True": lambda: eutectic.compile(nn.Linear(4, 2).eval(), (X,), dynamic_shapes=True),
    "dynamic_shapes of too many": lambda: eutectic.compile(nn.Linear(4, 2).eval(), (X,), dynamic_shapes=[None, None]),
    "dynamic_shapes of another name": lambda: eutectic.compile(
        Scaled().eval(), (X, X), dynamic_shapes={"imag": {}, "scale": {}}
    ),
    "a misspelled option": lambda: eutectic.compile(nn.Linear(4, 2).eval(), (X,), thread=2),
    "a misspelled precision": lambda: eutectic.compile(nn.Linear(4, 2).eval(), (X,), precision="strikt"),
    "threads as text": lambda: eutectic.compile(nn.Linear(4, 2).eval(), (X,), threads="two"),
    "a wrong keyword of a call": lambda: eutectic.compile(Scaled().eval(), (X, X))(imag=X, scale=X),
    "an item as result": lambda: eutectic.compile(Of(lambda x: x.sum().item()), (X,), fallback="error"),
    "an inverse": lambda: eutectic.compile(Of(lambda x: torch.linalg.inv(x @ x.T)), (X,), fallback="error"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_whole_text(name: str, golden: Any, capfd: pytest.CaptureFixture[str]):
    with pytest.raises(EutecticError) as caught:
        TEXTS[name]()
    text = re.sub(r"(--> |at )\S*(test_torch_refusals.py):\d+", r"\1\2", str(caught.value))
    golden(re.sub(r"(?m)^ +(\d+ )?\|", "  |", text))
    assert capfd.readouterr() == ("", "")


def test_a_decision_by_data(capfd: pytest.CaptureFixture[str]):
    """torch prints the graph that it has so far; its message is shown, with the line and what to do."""
    with pytest.raises(FrontendError, match=r"torch\.export cannot export the model: .*data-dependent") as caught:
        eutectic.compile(Decides().eval(), (X,))
    text = str(caught.value)
    assert "if x.sum() > 0:" in text
    assert "use torch.where for both cases" in text
    assert len(text.splitlines()) <= 8
    assert caught.value.__cause__ is not None
    assert capfd.readouterr() == ("", "")


DATA: dict[str, Callable[[torch.Tensor], Any]] = {
    "item": lambda x: x.sum().item(),
    "item of an index": lambda x: x.argmax().item(),
    "item in arithmetic": lambda x: x * x.sum().item(),
    "tolist": lambda x: torch.tensor(x.tolist()),
    "tensor_split": lambda x: torch.tensor_split(x, torch.tensor([1, 2])),
}


@pytest.mark.parametrize("name", DATA)
def test_numbers_of_data_are_refused_where_they_come_from(name: str):
    with pytest.raises(UnsupportedOperatorError, match=r"aten\.item\.default \(\d+ time") as caught:
        eutectic.compile(Of(DATA[name]), (X,), fallback="error")
    assert "depends on the values of a tensor" in str(caught.value)
    assert len(str(caught.value)) < 1500


@pytest.mark.parametrize("ends", ["none", "both"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.bool])
def test_no_difference_is_the_tensor_itself(dtype: torch.dtype, ends: str):
    def zeroth(x: torch.Tensor) -> torch.Tensor:
        return torch.diff(x, n=0) if ends == "none" else torch.diff(x, n=0, prepend=x, append=x)

    x = torch.arange(6).reshape(2, 3).to(dtype)
    assert torch.equal(eutectic.compile(Of(zeroth), (x,))(x), x)


def test_values_are_shortened():
    class Twice(nn.Module):
        def forward(self, x: torch.Tensor, mode: str) -> torch.Tensor:
            return 2 * x

    model = eutectic.compile(Twice().eval(), (X, "a" * 5000))
    for wrong in ("b" * 5000, list(range(100_000)), {str(i): i for i in range(10_000)}, 10**5000):
        with pytest.raises(CallError) as caught:
            model(X, wrong)
        assert len(str(caught.value)) < 900


def test_what_a_model_prints_is_printed(capfd: pytest.CaptureFixture[str]):
    def loud(x: torch.Tensor) -> torch.Tensor:
        print("forward is traced")
        return x + 1

    eutectic.compile(Of(loud), (X,))
    assert capfd.readouterr() == ("forward is traced\n", "")


def test_four_threads_compile_at_once():
    """torch.export cannot run twice at once; each thread gets its own model, and a refusal does not disturb others."""
    found: dict[int, Any] = {}
    start = threading.Barrier(4)

    def work(number: int) -> None:
        start.wait()
        for turn in range(2):
            weight = torch.full((4, 2 + number), float(number + turn + 1))
            model = Of(lambda x, weight=weight, number=number: torch.relu(x @ weight) + number)
            try:
                found[10 * number + turn] = (
                    eutectic.compile(model, (X,), threads=1)(X),
                    torch.relu(X @ weight) + number,
                )
                with pytest.raises(FrontendError):
                    eutectic.compile(Decides().eval(), (X,))
            except BaseException as error:
                found[10 * number + turn] = error

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    for pair in found.values():
        assert isinstance(pair, tuple), pair
        np.testing.assert_array_equal(pair[0].numpy(), pair[1].numpy())
