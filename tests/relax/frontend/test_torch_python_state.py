"""What forward changes in Python is said, and undone: the program is one run of it."""

from __future__ import annotations

import copy
import warnings
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

import eutectic
from eutectic.relax.frontend.torch import export_model
from eutectic.relax.frontend.torch.state_holders import holders
from eutectic.support.errors import EutecticAdvice, ExportFailedError

CALLS = [0]
TOTAL = 0


@dataclass
class Record:
    calls: int = 0


def helper() -> None:
    CALLS[0] += 1


class Keeps(nn.Module):
    """A module that keeps one of everything."""

    def __init__(self, change: Callable[[Keeps, torch.Tensor], Any]) -> None:
        super().__init__()
        self.change = change
        self.count, self.last = 0, torch.zeros(2)
        self.history: list[Any] = []
        self.cache: dict[str, Any] = {"nested": [1]}
        self.seen: set[int] = set()
        self.queue: deque[int] = deque([1, 2], maxlen=2)
        self.record = Record()
        self.part = nn.Linear(2, 2)
        self.register_buffer("total", torch.zeros(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.change(self, x)
        return x + 1


def count_calls(module: Keeps, x: torch.Tensor) -> None:
    global TOTAL
    TOTAL += 1


def count_around() -> Callable[[Keeps, torch.Tensor], None]:
    calls = 0

    def change(module: Keeps, x: torch.Tensor) -> None:
        nonlocal calls
        calls += 1

    return change


CHANGES: dict[str, tuple[Callable[[Keeps, torch.Tensor], Any], str]] = {
    "a number": (lambda m, x: setattr(m, "count", m.count + 1), "count: 0 became 1"),
    "a tensor": (
        lambda m, x: setattr(m, "last", x * 2),
        r"last: torch.Tensor of shape \(2,\) and dtype float32 became",
    ),
    "a new tensor": (lambda m, x: setattr(m, "new", x * 2), r"new: nothing became torch.Tensor of shape \(2,\)"),
    "none left": (lambda m, x: delattr(m, "count"), "count: 0 became nothing"),
    "a list": (lambda m, x: m.history.append(3), r"history: \[\] became \[3\]"),
    "a list of tensors": (lambda m, x: m.history.append(x), r"history: \[\] became \[torch.Tensor of shape \(2,\)"),
    "a dict": (lambda m, x: m.cache.update(key=1), "cache: {'nested': .*} became {'key': 1,"),
    "a list in a dict": (lambda m, x: m.cache["nested"].append(2), r"cache\['nested'\]: \[1\] became \[1, 2\]"),
    "a set": (lambda m, x: m.seen.add(1), r"seen: set\(\) became {1}"),
    "a queue": (lambda m, x: m.queue.append(3), r"queue: \[1, 2\] became \[2, 3\]"),
    "a record": (lambda m, x: setattr(m.record, "calls", 1), "record.calls: 0 became 1"),
    "a part's": (lambda m, x: setattr(m.part, "calls", 1), "part.calls: nothing became 1"),
    "the mode": (lambda m, x: m.part.train(), "part.training: False became True"),
    "a new buffer": (lambda m, x: m.register_buffer("made", x * 2), "made: nothing became 'registered'"),
    "a new part": (lambda m, x: setattr(m, "part", nn.Identity()), "part: Linear.* became Identity"),
    "a global": (count_calls, "the global TOTAL of .*: 0 became 1"),
    "a global's items": (lambda m, x: helper(), r"the global CALLS of .*: \[0\] became \[1\]"),
    "a variable around": (count_around(), "calls around count_around.<locals>.change: 0 became 1"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_forward_changes_is_said_and_undone(name: str):
    change, said = CHANGES[name]
    model = Keeps(change).eval()
    before = copy.deepcopy({key: value for key, value in vars(model).items() if key != "change"})
    held = {key: id(value) for key, value in vars(model).items()}
    with pytest.warns(EutecticAdvice, match=said) as told:
        export_model(model, (torch.ones(2),))
    assert len(told) == 1
    assert told[0].filename == __file__
    assert {key: id(value) for key, value in vars(model).items()} == held
    for key in ("count", "history", "cache", "seen", "queue", "record", "training"):
        assert vars(model)[key] == before[key]
    assert not hasattr(model.part, "calls")
    assert not model.part.training
    assert set(model._buffers) == {"total"}
    assert isinstance(model.part, nn.Linear)
    assert CALLS == [0]
    assert TOTAL == 0
    assert not model._forward_hooks
    assert not model._forward_pre_hooks


def test_the_same_again_is_no_change():
    def change(module: Keeps, x: torch.Tensor) -> None:
        module.count, module.cache = 0, {"nested": [1]}
        module.nan = float("nan")

    model = Keeps(change).eval()
    model.nan = float("nan")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        export_model(model, (torch.ones(2),))


class Makes(OrderedDict[str, Any]):
    """A dict that makes something of its items, as transformers' table of activations does."""

    def __getitem__(self, key: str) -> Any:
        raise AssertionError(key)


def test_only_the_items_of_a_container_are_read():
    model = Keeps(lambda m, x: None).eval()
    model.__dict__["table"] = Makes(gelu=nn.GELU)
    export_model(model, (torch.ones(2),))
    assert list(vars(model)["table"]) == ["gelu"]


def test_what_holds_one_thing_is_found_once():
    found = holders(Keeps(lambda m, x: None))
    assert 10 < len(found) < 200


def test_a_failed_trace_changes_nothing():
    def change(module: Keeps, x: torch.Tensor) -> None:
        module.history.append(x)
        assert x.sum() > 0

    model = Keeps(change).eval()
    with pytest.raises(ExportFailedError):
        export_model(model, (torch.ones(2),))
    assert model.history == []
    assert not model._forward_hooks


def test_assigned_buffers_are_written():
    class Assigns(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.total = self.total + x
            return self.total * 2

    model, eager = Assigns().eval(), Assigns().eval()
    compiled = eutectic.compile(model, (torch.ones(2),))
    for step in range(3):
        x = torch.full((2,), float(step))
        torch.testing.assert_close(compiled(x), eager(x))
        torch.testing.assert_close(model.total, eager.total)


def test_a_buffer_that_is_assigned_something_else_is_refused():
    model = Keeps(lambda m, x: setattr(m, "total", None)).eval()
    with pytest.raises(ExportFailedError, match="may assign tensors to a buffer"):
        export_model(model, (torch.ones(2),))
    assert isinstance(model.total, torch.Tensor)
