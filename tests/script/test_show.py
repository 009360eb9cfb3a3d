"""show(): plain where nobody sees colours, coloured on a terminal."""

from __future__ import annotations

import sys

import pytest

from eutectic.relax import op
from eutectic.testing.graphs import graph

MOD = graph({"x": (2,)}, lambda bb, x: op.exp(x))


def test_plain_text_when_not_on_a_terminal(capsys: pytest.CaptureFixture[str]):
    MOD.show()
    MOD["main"].show(black_format=False)
    first, second = capsys.readouterr().out.split("@R.function")[0], MOD.script()
    assert first in second
    assert "\x1b" not in first


def test_colours_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda self: True, raising=False)
    MOD.show()
    coloured = capsys.readouterr().out
    assert "\x1b[" in coloured
    MOD.show(style="plain")
    assert capsys.readouterr().out == MOD.script() + "\n"


def test_unknown_options_are_refused():
    with pytest.raises(TypeError, match="colour"):
        MOD.script(colour=True)
