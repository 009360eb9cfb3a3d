"""Suggestions for names that nobody knows: computed for messages, and not beside."""

from __future__ import annotations

import difflib

import pytest

import eutectic
from eutectic.script import tir as T
from eutectic.support.spelling import did_you_mean

TEXT = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in T.serial(8):
        with T.sblock("b"):
            vi = T.axis.spatial(8, i)
            B[vi] = T.max(T.exp(A[vi]), T.float32(0))
"""


def test_the_nearest_names_are_named():
    assert did_you_mean("relux", ["relu", "matmul", "softmax"]) == "did you mean relu?"
    assert did_you_mean("tensor", ["relu", "matmul"]) is None


@pytest.mark.parametrize("name", ["__wrapped__", "__test__"])
def test_what_python_asks_for_is_no_mistake(name: str):
    assert did_you_mean(name, ["__wraped__", "__tests__"]) is None
    with pytest.raises(AttributeError):
        getattr(T, name)


def test_names_that_are_known_are_compared_with_no_others(monkeypatch: pytest.MonkeyPatch):
    """A text asks its namespaces for nothing but what is written in it: comparing names took most of its time."""
    monkeypatch.setattr(difflib, "get_close_matches", lambda *args, **kwargs: pytest.fail("names were compared"))
    eutectic.script.from_source(TEXT)
