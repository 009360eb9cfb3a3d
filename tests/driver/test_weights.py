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


CHANGES = [scaled, loaded, assigned, replaced, of_a_buffer]


@pytest.mark.parametrize("change", CHANGES)
def test_live_weights_are_followed(change):
    model = net()
    compiled = eutectic.compile(model, (X,), weights="live")
    torch.testing.assert_close(compiled(X), model(X))
    for _ in range(2):
        change(model)
        for _ in range(17):  # that something was replaced is looked at every so often
            received = compiled(X)
        torch.testing.assert_close(received, model(X))


@pytest.mark.parametrize("change", CHANGES)
def test_frozen_weights_stay_and_that_is_said_once(change):
    model = net()
    compiled = eutectic.compile(model, (X,))
    before = compiled(X)
    change(model)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(40):
            time.sleep(1e-3)
            torch.testing.assert_close(compiled(X), before, rtol=0, atol=0)
    (warning,) = [item for item in caught if issubclass(item.category, EutecticAdvice)]
    assert 'weights="live"' in str(warning.message)
    assert warning.filename == __file__


def test_changes_in_place_are_seen_by_the_next_call():
    model = net()
    compiled = eutectic.compile(model, (X,))
    compiled(X)
    scaled(model)
    time.sleep(1e-3)  # looking at all tensors takes time, so it is not done more often
    with pytest.warns(EutecticAdvice, match="changed after it was compiled"):
        compiled(X)


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
