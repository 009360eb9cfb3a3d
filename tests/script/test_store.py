"""Programs as files: text, and constants beside it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from eutectic.ir.structural import assert_structural_equal
from eutectic.relax import const, op
from eutectic.relax.transform import RunCodegen
from eutectic.script import load, save
from eutectic.support.errors import LoadError, ScriptError
from eutectic.testing.graphs import graph, weights

DTYPES = ["float16", "float32", "float64", "bfloat16", "int8", "int32", "int64", "uint8", "bool"]


def model():
    return graph({"x": (2, 4)}, lambda bb, x: op.nn.relu(op.add(op.matmul(x, weights(4, 3)), weights(3, seed=1))))


def test_modules_come_back(tmp_path: Path):
    mod = model()
    path = save(mod, tmp_path / "net.py")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net.py", "net.safetensors"]
    assert_structural_equal(load(path), mod)


@pytest.mark.parametrize("dtype", DTYPES)
def test_constants_of_every_dtype(dtype: str, tmp_path: Path):
    data = const(np.array([[0, 1, 2], [1, 0, 1]]), dtype)
    mod = graph({"x": ((2, 3), dtype)}, lambda bb, x: op.where(op.equal(x, data), x, data))
    assert_structural_equal(load(save(mod, tmp_path / "m.py")), mod)


def test_functions_and_programs_without_constants(tmp_path: Path):
    function = graph({"x": (2,)}, lambda bb, x: op.exp(x))["main"]
    save(model(), tmp_path / "f.py")
    path = save(function, tmp_path / "f.py")
    assert not (tmp_path / "f.safetensors").exists()
    assert_structural_equal(load(path), function)


def test_what_is_missing_or_damaged_is_said(tmp_path: Path):
    path = save(model(), tmp_path / "net.py")
    with pytest.raises(LoadError, match="cannot be read"):
        load(tmp_path / "other.py")
    constants = tmp_path / "net.safetensors"
    whole = constants.read_bytes()
    constants.write_bytes(whole[:40])
    with pytest.raises(LoadError, match="damaged"):
        load(path)
    constants.unlink()
    with pytest.raises(ScriptError, match="metadata"):
        load(path)


def test_compiled_code_is_not_text(tmp_path: Path):
    from eutectic.backend.dnnl.partition import partition_for_dnnl

    built = RunCodegen()(partition_for_dnnl(model()))
    with pytest.raises(ScriptError, match="before RunCodegen"):
        save(built, tmp_path / "net.py")
