"""Thirty networks with two sizes that vary: one executable computes what eager computes at each of them."""

from __future__ import annotations

import random

import pytest

from eutectic.testing.dynamic import DYNAMIC, check_sizes

QUICK = ("bert", "llama", "t5 encoder", "unet", "shufflenet")


def test_there_are_thirty():
    assert len(DYNAMIC) == 30


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_some_networks_at_three_sizes(name: str):
    check_sizes(DYNAMIC[name], DYNAMIC[name].sizes(random.Random(0), 3))


@pytest.mark.slow
@pytest.mark.parametrize("target", ["default", "llvm"])
@pytest.mark.parametrize("name", DYNAMIC)
def test_every_network_at_six_sizes(name: str, target: str):
    options = {} if target == "default" else {"target": target}
    check_sizes(DYNAMIC[name], DYNAMIC[name].sizes(random.Random(1), 6), **options)
