"""Elements in order, medians, modes and running extremes, as in eager; also with sizes that vary, and without torch."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.relax.frontend.torch_compare import Wrapped, check, equal, rand, special, together
from torch.export import Dim

import eutectic

Function = Callable[..., Any]

SORTS: dict[str, Function] = {
    "sort": lambda x: (*x.sort(stable=True), *x.sort(dim=0, descending=True, stable=True), x.sort(descending=True)[0]),
    "argsort": lambda x: (x.argsort(stable=True), x.argsort(dim=0, descending=True, stable=True)),
    "msort": lambda x: torch.msort(x),
    "topk": lambda x: (x.topk(2)[0], x.topk(3, 0, False, False)[0].sum(0), x.topk(0)[0]),
}
PICKED: dict[str, Function] = {
    "topk": lambda x: (*x.topk(3), *x.topk(2, 0, largest=False)),
    "kthvalue": lambda x: (*x.kthvalue(2), *x.kthvalue(3, 0, keepdim=True)),
    "median": lambda x: (x.median(), *x.median(0), *x.median(1, keepdim=True)),
    "nanmedian": lambda x: (x.nanmedian(), *x.nanmedian(0), *x.nanmedian(1, keepdim=True)),
}
RUNNING: dict[str, Function] = {
    "cummax": lambda x: (*x.cummax(0), *x.cummax(-1)),
    "cummin": lambda x: (*x.cummin(0), *x.cummin(-1)),
}
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.uint8]


def distinct(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Different numbers, of which torch leaves no place open."""
    count = int(np.prod(shape))
    return torch.randperm(count, generator=torch.Generator().manual_seed(count)).reshape(shape).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype: torch.dtype) -> None:
    check(together(SORTS), rand(5, 7, dtype=dtype))
    check(together(PICKED), distinct(5, 7, dtype=dtype))
    check(together(RUNNING), rand(5, 7, dtype=dtype))


def test_bool() -> None:
    check(lambda x: (*x.sort(stable=True), *x.cummax(1), *x.cummin(0)), rand(5, 7) > 0)


def test_special_values() -> None:
    x = torch.cat([special(), special().flip(0)]).reshape(4, 6)
    check(together(SORTS | RUNNING), x)
    check(lambda x: (x.median(), x.median(1)[0], x.nanmedian(), x.nanmedian(1)[0], x.kthvalue(5)[0]), x)
    check(lambda x: (x.logcumsumexp(0), x.logcumsumexp(1)), x)
    check(lambda x: x.nanmedian(0), torch.full((2, 3), torch.nan))


def test_without_axes() -> None:
    functions = {
        "sort": lambda x: (*x.sort(), x.argsort(), *x.topk(1), *x.topk(0), *x.kthvalue(1), *x.mode()),
        "median": lambda x: (x.median(), *x.median(0), x.nanmedian(), *x.nanmedian(0)),
        "running": lambda x: (*x.cummax(0), *x.cummin(-1), x.logcumsumexp(0)),
    }
    check(together(functions), torch.tensor(2.5))


def test_no_elements() -> None:
    check(lambda x: (*x.sort(), *x.sort(0), *x.cummax(1), x.logcumsumexp(0), x.median(), *x.topk(0)), torch.zeros(3, 0))
    check(lambda x: (*x.sort(), *x.topk(2), *x.median(1), *x.kthvalue(2), *x.mode(1)), torch.zeros(0, 3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.bool])
def test_mode(dtype: torch.dtype) -> None:
    """Of several places of one value any may be given."""
    x = (rand(3, 9, 4) * 1.5).round().to(dtype)
    check(lambda x: (x.mode(1)[0], x.mode(0, keepdim=True)[0], x.mode()[0]), x)
    check(lambda x: x.gather(1, x.mode(1, keepdim=True)[1]), x)


def test_log_sums_and_quantiles() -> None:
    check(lambda x: (x.logcumsumexp(0), x.logcumsumexp(1)), rand(5, 7) * 30)
    check(lambda x: x.logcumsumexp(1), rand(5, 7, dtype=torch.bfloat16))
    check(lambda x: (x.quantile(0.3, 1), x.nanquantile(0.7, 0), x.quantile(0.5)), rand(5, 7))


VARYING: dict[str, Function] = {
    "sort": lambda x: (*x.sort(stable=True), *x.sort(dim=0, descending=True, stable=True)),
    "topk": lambda x: (*x.topk(4), *x.topk(x.shape[1] - 1, largest=False)),
    "kthvalue": lambda x: (*x.kthvalue(4), *x.kthvalue(2, 0)),
    "median": lambda x: (x.median(), *x.median(1), x.nanmedian(), *x.nanmedian(0)),
    "mode": lambda x: (x.round().mode(1)[0], x.round().mode(0)[0]),
    "running": lambda x: (*x.cummax(1), *x.cummin(0), x.logcumsumexp(1)),
}


def test_sizes_that_vary() -> None:
    rows, columns = Dim("rows", min=2, max=99), Dim("columns", min=5, max=999)
    function = together(VARYING)
    model = eutectic.compile(Wrapped(function), (rand(4, 9),), dynamic_shapes=(({0: rows, 1: columns},),))
    assert not model.report.eager_operators
    assert not model.report.host_operators
    for shape in ((4, 9), (2, 5), (17, 16), (3, 33), (5, 999)):
        x = distinct(*shape)
        equal(model(x), function(x))


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
import numpy as np
from eutectic.driver.compiled import CompiledModel
model = CompiledModel.from_bytes(open(sys.argv[1], "rb").read())
np.savez(sys.argv[3], *model(np.load(sys.argv[2])))
"""


def test_a_model_that_sorts_is_called_where_torch_is_not_installed(tmp_path: Path) -> None:
    x = rand(3, 50)

    def function(x: torch.Tensor) -> Any:
        return (*x.sort(stable=True), *x.topk(3), x.kthvalue(2)[0])

    model = eutectic.compile(Wrapped(function), (x,))
    assert not model.report.eager_operators
    assert not model.report.host_operators
    (tmp_path / "model").write_bytes(model.to_bytes())
    np.save(tmp_path / "x.npy", x.numpy())
    paths = [str(tmp_path / name) for name in ("model", "x.npy", "out.npz")]
    env = {**os.environ, "PYTHONPATH": str(Path(eutectic.__file__).parents[1])}
    command = [sys.executable, "-c", WITHOUT_TORCH, *paths]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "out.npz") as found:
        for place, want in enumerate(function(x)):
            np.testing.assert_array_equal(found[f"arr_{place}"], want.numpy())
