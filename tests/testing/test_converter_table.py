"""The page of converters is what the command writes, and what it says of operators holds when they are imported."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from eutectic.relax.analysis.uses import walk_bindings
from eutectic.relax.expr import Call
from eutectic.relax.frontend.torch import TABLE, from_exported_program
from eutectic.testing.converter_table import PAGE, graph_operators, page

ROOT = Path(__file__).parents[2]
ADDED_BY_THE_CONTEXT = {"relax.astype", "relax.reshape", "relax.shape_to_tensor"}
X = torch.linspace(0.1, 2, 24).reshape(2, 3, 4)

USES: dict[str, Callable[[torch.Tensor], Any]] = {
    "aten.relu.default": torch.relu,
    "aten.exp.default": torch.exp,
    "aten.gt.Scalar": lambda x: x > 1,
    "aten.conv1d.default": lambda x: nn.functional.conv1d(x, torch.ones(2, 3, 1)),
    "aten.softmax.int": lambda x: x.softmax(-1),
    "aten.max_pool1d.default": lambda x: nn.functional.max_pool1d(x, 2),
    "aten.cumsum.default": lambda x: x.cumsum(1),
    "aten.addcdiv.default": lambda x: torch.addcdiv(x, x, x + 1, value=2.0),
    "aten.index_select.default": lambda x: x.index_select(2, torch.tensor([1, 0])),
}


class Of(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def test_the_page_is_what_the_command_writes(tmp_path: Path):
    written = tmp_path / "aten.md"
    subprocess.run([sys.executable, "-m", "eutectic.testing.converter_table", str(written)], check=True, timeout=120)
    text = written.read_text(encoding="utf-8")
    assert text == page()
    assert text == (ROOT / PAGE).read_text(encoding="utf-8"), f"python -m eutectic.testing.converter_table {PAGE}"


def test_every_converter_has_one_row():
    rows = [line.split("`")[1] for line in page().splitlines() if line.startswith("| `")]
    assert sorted(rows) == sorted(TABLE)


@pytest.mark.parametrize("name", USES)
def test_operators_of_an_import_are_those_of_the_page(name: str):
    program = torch.export.export(Of(USES[name]).eval(), (X,))
    assert name in {str(node.target) for node in program.graph.nodes}
    main = from_exported_program(program)["main"]
    calls = [binding.value for binding in walk_bindings(main) if isinstance(binding.value, Call)]
    received = {call.op.name for call in calls} - ADDED_BY_THE_CONTEXT
    said = {operator for node in program.graph.nodes for operator in _said(str(node.target))}
    assert received
    assert received <= said
    assert received & set(graph_operators(name))


def _said(name: str) -> list[str]:
    return graph_operators(name) if name in TABLE else []


def test_tables_are_looked_up_by_the_operator():
    assert graph_operators("aten.exp.default") == ["relax.exp"]
    assert graph_operators("aten.tanh.default") == ["relax.tanh"]
    assert graph_operators("aten.dropout.default") == []
    with pytest.raises(KeyError, match="no_such"):
        graph_operators("aten.no_such.default")
