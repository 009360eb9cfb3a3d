"""A report prints as a table, in terminals and notebooks."""

from __future__ import annotations

import torch
from torch import nn

import eutectic
from eutectic.driver.report import CompileReport, HostRecord


def test_print_is_a_table_and_repr_is_short():
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Softmax(-1)).eval()
    report = eutectic.compile(model, [torch.randn(2, 8)], target="llvm").report
    text = str(report)
    assert "4 operators in 2 groups, compiled in " in text
    assert "matmul + add + relu" in text
    assert "float32[2, 8]" in text
    assert max(map(len, text.splitlines())) <= 120
    assert "\x1b" not in text
    assert repr(report).startswith("CompileReport(4 operators in 2 groups")
    assert len(repr(report)) < 100


def test_notebooks_get_html():
    report = CompileReport(notes=("a <b> & c",), host_operators=(HostRecord("relax.unique", "", "net.py:3"),))
    page = report._repr_html_()
    assert page.startswith("<table>")
    assert "a &lt;b&gt; &amp; c" in page
    assert "relax.unique runs in Python (net.py:3)" in page
