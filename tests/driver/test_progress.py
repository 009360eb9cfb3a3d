"""How far compilations are: told to functions, shown where somebody looks, and nowhere else."""

from __future__ import annotations

import io
import time

import pytest
import torch
from rich.console import Console
from torch import nn

import eutectic
from eutectic.driver.progress import bar, reports
from eutectic.support.errors import EutecticError

NET, X = nn.Linear(3, 2).eval(), torch.randn(1, 3)


def terminal() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=100)


def text_of(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_bar_with_step_and_count_appears_after_the_delay_and_goes():
    console = terminal()
    with bar("compiling", console, delay=0.05) as report:
        assert report is not None
        report("import", 0, 7)
        time.sleep(0.6)
        report("FuseTIR", 3, 7)
        time.sleep(0.3)
    text = text_of(console)
    assert "compiling: import" in text
    assert "compiling: FuseTIR" in text
    assert "3/7" in text
    assert text.endswith("\x1b[2K")  # the line is erased


def test_what_is_done_at_once_shows_nothing():
    console = terminal()
    with bar("compiling", console, delay=5) as report:
        assert report is not None
        report("import", 0, 7)
    assert text_of(console) == ""


def test_nothing_is_shown_where_nobody_looks(capfd: pytest.CaptureFixture[str]):
    with bar("compiling", Console(file=io.StringIO()), delay=0) as report:
        assert report is None
    eutectic.compile(NET, (X,), progress=True)
    assert capfd.readouterr() == ("", "")


def test_notebooks_have_a_bar():
    console = Console(file=io.StringIO(), force_jupyter=True)
    with bar("compiling", console, delay=5) as report:
        assert report is not None


def test_an_error_ends_the_bar():
    console = terminal()

    def fails() -> None:
        with bar("compiling", console, delay=0.01):
            time.sleep(0.3)
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert text_of(console).endswith("\x1b[2K")


@pytest.mark.parametrize("nothing", [None, False])
def test_no_progress(nothing: bool | None):
    with reports(nothing) as report:
        assert report is None


def test_a_function_is_called_before_and_after_each_step_of_torch_models():
    steps: list[tuple[str, int, int]] = []
    eutectic.compile(NET, (X,), progress=lambda *step: steps.append(step))
    assert [done for _, done, _ in steps] == sorted(done for _, done, _ in steps)
    assert (steps[0][:2], steps[-1][0]) == (("import", 0), "load")
    assert steps[-1][1] == steps[-1][2]


def test_anything_else_is_refused():
    with pytest.raises(EutecticError, match="progress"):
        eutectic.compile(NET, (X,), progress=1)  # type: ignore[arg-type]
    with pytest.raises(EutecticError, match=r"progress .*expected True"), reports("yes"):  # type: ignore[arg-type]
        pass
