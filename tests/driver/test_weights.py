"""Weights of torch modules: frozen with a warning when they change, or followed."""

from __future__ import annotations

import gc
import time
import warnings
import weakref

import pytest
import torch
from torch import nn

import eutectic
from eutectic import EutecticAdvice
from eutectic.driver import live
from eutectic.driver import weights as driver_weights
from eutectic.support.errors import PassError

X = torch.linspace(-1, 1, 12).reshape(3, 4)


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)).eval()


def scaled(model: nn.Module) -> None:
    with torch.no_grad():
        model[0].weight.mul_(3)


def loaded(model: nn.Module) -> None:
    model.load_state_dict(net().state_dict())


def assigned(model: nn.Module) -> None:
    model.load_state_dict(net().state_dict(), assign=True)


def replaced(model: nn.Module) -> None:
    model[3].bias = nn.Parameter(torch.ones(2))


def of_a_buffer(model: nn.Module) -> None:
    model[1].running_mean.add_(1)


def assert_followed(compiled, model: nn.Module) -> None:
    """After some calls a model computes with the weights of now: replaced ones are looked for every so often."""
    for _ in range(17):
        received = compiled(X)
    torch.testing.assert_close(received, model(X))


CHANGES = [scaled, loaded, assigned, replaced, of_a_buffer]


@pytest.mark.parametrize("change", CHANGES)
def test_live_weights_are_followed(change):
    model = net()
    compiled = eutectic.compile(model, (X,), weights="live")
    torch.testing.assert_close(compiled(X), model(X))
    for _ in range(2):
        change(model)
        assert_followed(compiled, model)


@pytest.mark.parametrize("change", CHANGES)
def test_frozen_weights_stay_and_that_is_said_once(change):
    model = net()
    compiled = eutectic.compile(model, (X,))
    before = compiled(X)
    change(model)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(40):
            time.sleep(driver_weights.LONGEST_PAUSE / 32)
            torch.testing.assert_close(compiled(X), before, rtol=0, atol=0)
    (warning,) = [item for item in caught if issubclass(item.category, EutecticAdvice)]
    assert 'weights="live"' in str(warning.message)
    assert warning.filename == __file__


@pytest.mark.parametrize("change", CHANGES)
def test_weights_that_go_on_changing_are_inputs(change, monkeypatch):
    """Two changes compile again, the third makes weights inputs, and nothing is compiled after it."""
    model = net()
    compiled = eutectic.compile(model, (X,), weights="live")
    compiled(X)
    for _ in range(3):
        change(model)
        assert_followed(compiled, model)
    assert "0.weight" in compiled.state_dict()
    monkeypatch.setattr(live.Live, "__getattribute__", _not_compiled)
    for follow in (scaled, loaded, of_a_buffer, change, scaled):
        follow(model)
        assert_followed(compiled, model)


def _not_compiled(self, name):
    raise AssertionError(f"{name}: compiled once more")


def test_a_loop_that_trains_is_followed_by_every_call():
    model = net()
    compiled = eutectic.compile(model, (X,), weights="live")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(8):
        optimizer.zero_grad()
        model(X).square().sum().backward()
        optimizer.step()
        with torch.no_grad():
            torch.testing.assert_close(compiled(X), model(X))


def test_a_replaced_weight_and_then_a_change_in_place():
    model = net()
    compiled = eutectic.compile(model, (X,), weights="live")
    for change in (replaced, scaled, replaced, scaled, scaled):
        change(model)
        assert_followed(compiled, model)


def test_inputs_of_another_dtype_are_compiled_anew():
    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("scale", torch.ones(4))

        def forward(self, x):
            return (x * self.scale).float()

    model = Scale().eval()
    compiled = eutectic.compile(model, (X,), weights="live")
    for step in range(9):
        if step == 5:
            model.scale = torch.full((4,), 0.5, dtype=torch.float64)
        else:
            model.scale.add_(1)
        assert_followed(compiled, model)


def test_weights_beside_state_are_followed_and_become_inputs(monkeypatch):
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x):
            self.count += 1
            return self.linear(x) * self.count

    model, other = Counting().eval().requires_grad_(False), Counting().eval().requires_grad_(False)
    other.load_state_dict(model.state_dict())
    compiled = eutectic.compile(model, (X,), weights="live")
    for step in range(6):
        for each in (model, other):
            each.linear.weight.add_(0.5)
        if step == 3:
            monkeypatch.setattr(live.Live, "__getattribute__", _not_compiled)
        torch.testing.assert_close(compiled(X), other(X))
        assert torch.equal(model.count, other.count)
    for each in (model, other):
        each.count = torch.full((1,), 7.0)  # another tensor, which the next call writes
    torch.testing.assert_close(compiled(X), other(X))
    assert model.count.item() == 8
    assert set(compiled.state_dict()) == {"count", "linear.weight", "linear.bias"}


def test_a_copy_of_a_model_whose_weights_are_inputs_goes_on_by_itself():
    model = net()
    compiled = eutectic.compile(model, (X,), weights="live")
    for _ in range(4):
        scaled(model)
        compiled(X)
    twin = eutectic.CompiledModel.from_bytes(compiled.to_bytes())
    before = twin(X)
    torch.testing.assert_close(before, model(X))
    scaled(model)
    torch.testing.assert_close(twin(X), before, rtol=0, atol=0)
    torch.testing.assert_close(compiled(X), model(X))


def test_changes_in_place_are_seen_by_the_next_call():
    model = net()
    compiled = eutectic.compile(model, (X,))
    compiled(X)
    scaled(model)
    time.sleep(driver_weights.LONGEST_PAUSE)  # looking at all tensors takes time, so it is not done more often
    with pytest.warns(EutecticAdvice, match="changed after it was compiled"):
        compiled(X)


class Clock:
    """A clock that goes on by a step with each look at it."""

    def __init__(self, monkeypatch, step: float) -> None:
        self.now, self.step = 1.0, step
        monkeypatch.setattr(driver_weights, "perf_counter", self)

    def __call__(self) -> float:
        self.now += self.step
        return self.now


class Looks:
    """Counts how many tensors are asked for their number of changes, which takes time if there is a clock."""

    def __init__(self, monkeypatch, clock: Clock | None = None) -> None:
        self.count, self.clock = 0, clock
        monkeypatch.setattr(driver_weights, "_VERSION", self)

    def __call__(self, tensor: torch.Tensor) -> int:
        self.count += 1
        if self.clock is not None:
            self.clock.now += 5e-6
        return tensor._version


def test_a_large_module_is_looked_at_in_parts_between_rare_looks_at_all_of_it(monkeypatch):
    """MobileNetV2 has 314 tensors: to ask all before each call took 3 % of it, as its kernels empty the caches."""
    model = nn.ModuleList([nn.Linear(2, 2) for _ in range(100)])
    clock = Clock(monkeypatch, 0.0)
    looks = Looks(monkeypatch, clock)
    look = driver_weights.warning_of_changes(driver_weights.Watch(model), "the model")

    def seen_by_calls(count: int) -> list[int]:
        """How many tensors were looked at before each call of 3 ms; a look at one takes 5 us."""
        seen = []
        for _ in range(count):
            looks.count = 0
            fine = look()
            seen.append(looks.count if fine else -1)
            clock.now += 3e-3
        return seen

    first, *others = seen_by_calls(80)  # a quarter of a second: looking at all of them took a millisecond
    assert first == 200
    assert max(others) == 4
    assert 15 <= sum(map(bool, others)) <= 25  # of 79: the time that a look took is one part in 512
    with torch.no_grad():
        model[40].bias.add_(1)
    with pytest.warns(EutecticAdvice, match="the model changed after it was compiled"):
        assert -1 in seen_by_calls(20)


def test_a_change_of_all_tensors_of_a_large_module_is_seen_by_the_next_look(monkeypatch):
    model = nn.ModuleList([nn.Linear(2, 2) for _ in range(100)])
    Clock(monkeypatch, 1e-3)
    look = driver_weights.warning_of_changes(driver_weights.Watch(model), "the model")
    assert look()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.9)
    with pytest.warns(EutecticAdvice, match="changed after it was compiled"):
        assert not look()


def test_a_tensor_of_a_large_module_that_is_replaced_is_seen_by_the_next_look_at_all(monkeypatch):
    model = nn.ModuleList([nn.Linear(2, 2) for _ in range(100)])
    clock = Clock(monkeypatch, 1e-3)
    look = driver_weights.warning_of_changes(driver_weights.Watch(model), "the model")
    assert look()
    model[40].bias = nn.Parameter(torch.ones(2))
    assert look()
    clock.now += 0.3
    with pytest.warns(EutecticAdvice, match="changed after it was compiled"):
        assert not look()


def test_a_look_that_was_interrupted_delays_the_next_one_by_half_a_second_only(monkeypatch):
    """The system may stop a thread for milliseconds amid a look: changes went unseen for seconds after that."""
    model = net()
    clock = Clock(monkeypatch, 0.1)
    look = driver_weights.warning_of_changes(driver_weights.Watch(model), "the model")
    assert look()
    scaled(model)
    clock.step, clock.now = 1e-6, clock.now + driver_weights.LONGEST_PAUSE
    with pytest.warns(EutecticAdvice, match="changed after it was compiled"):
        assert not look()


def test_a_frozen_model_keeps_nothing_of_the_module():
    model = net()
    compiled = eutectic.compile(model, (X,))
    before, alive = compiled(X), weakref.ref(model[0].weight)
    del model
    gc.collect()
    assert alive() is None
    torch.testing.assert_close(compiled(X), before)


def test_a_copy_goes_on_by_itself():
    model = net()
    compiled = eutectic.compile(model, (X,), weights="live")
    twin = eutectic.CompiledModel.from_bytes(compiled.to_bytes())
    before = twin(X)
    scaled(model)
    torch.testing.assert_close(compiled(X), model(X))
    torch.testing.assert_close(twin(X), before)


def test_other_words_are_refused():
    with pytest.raises(PassError, match="weights='alive'"):
        eutectic.compile(net(), (X,), weights="alive")
