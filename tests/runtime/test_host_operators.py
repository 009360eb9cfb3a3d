"""Operators that run in Python without the compiler mean what the operators' references say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.runtime.test_load_only import read_elsewhere

import eutectic
from eutectic.driver.compiled import CompiledModel
from eutectic.driver.report import HostRecord
from eutectic.ir.span import Span
from eutectic.relax import op
from eutectic.relax.interpret import apply_op
from eutectic.relax.op.registry import op_def
from eutectic.runtime.encoding import to_bytes
from eutectic.runtime.host_operators import HOST_OPERATORS, LEFT_TO_TORCH, run_host_operator
from eutectic.runtime.instructions import HostCall
from eutectic.support.errors import LoadError
from eutectic.testing.graphs import graph

DTYPES = ("float32", "float64", "float16", "int64", "int8", "bool", ml_dtypes.bfloat16)
SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40)


class Attrs(dict[str, Any]):
    """Attributes as the references read them, and as the runtime does."""

    __getattr__ = dict.__getitem__


def array(dtype: Any, *shape: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    found = rng.standard_normal(shape) * 50
    if not np.issubdtype(np.dtype(dtype), np.integer):
        found.reshape(-1)[: min(found.size, 6)] = rng.permutation(SPECIAL)[: found.size]
    with np.errstate(all="ignore"):
        return found.astype(dtype)


def bits(value: Any) -> bytes:
    """The bits of a result, where all NaNs are one."""
    found = np.array(value)
    if found.dtype.kind not in "biu":
        found[np.isnan(found)] = np.nan
    return found.tobytes()


def cases(dtype: Any) -> list[tuple[str, Attrs, tuple[Any, ...]]]:
    x, y, row = array(dtype, 3, 4), array(dtype, 3, 4, seed=1), array(dtype, 4, seed=2)
    found: list[tuple[str, dict[str, Any], tuple[Any, ...]]] = [
        ("relax.shape_of", {}, (x,)),
        ("relax.tensor_to_shape", {}, (np.array([2, 0, 5], np.int64),)),
        ("relax.shape_to_tensor", {}, ((3, 0, 7),)),
        ("relax.reshape", {}, (x, (2, 6))),
        ("relax.reshape", {}, (array(dtype), (1, 1))),
        ("relax.flatten", {}, (x,)),
        ("relax.expand_dims", {"axis": (0, 2)}, (x,)),
        ("relax.squeeze", {"axis": None}, (x[:1],)),
        ("relax.squeeze", {"axis": (0,)}, (x[:1],)),
        ("relax.permute_dims", {"axes": None}, (x,)),
        ("relax.permute_dims", {"axes": (1, 0)}, (array(dtype, 300, 200),)),
        ("relax.broadcast_to", {}, (row, (3, 4))),
        ("relax.concat", {"axis": 1}, ((x, y),)),
        ("relax.concat", {"axis": None}, ((x, row),)),
    ]
    if dtype != "bool":
        found += [
            (f"relax.{name}", {}, pair) for name in ("add", "subtract", "multiply") for pair in ((x, y), (x, row))
        ]
        found += [(f"relax.{name}", {}, (x, 3)) for name in ("add", "subtract", "multiply")]
        found.append(("relax.nn.relu", {}, (x,)))
    return [(name, Attrs(attrs), operands) for name, attrs, operands in found]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_they_give_the_bits_of_the_references(dtype: Any):
    seen = set()
    for name, attrs, operands in cases(dtype):
        definition = op_def(name)
        assert definition is not None
        assert definition.reference_fn is not None
        want, got = definition.reference_fn(attrs, *operands), run_host_operator(name, attrs, operands)
        assert type(got) is type(want), name
        assert (np.asarray(got).dtype, np.shape(got)) == (np.asarray(want).dtype, np.shape(want)), name
        assert bits(got) == bits(want), name
        if isinstance(got, np.ndarray):
            assert got.flags.c_contiguous
            assert not any(isinstance(x, np.ndarray) and np.shares_memory(got, x) for x in operands), name
        seen.add(name)
    if dtype != "bool":
        assert seen == set(HOST_OPERATORS) - {LEFT_TO_TORCH}  # whose definition is torch itself


def unknown_shape(bb: Any, x: Any) -> Any:
    """A shape that is computed, hence known to nobody before; what follows runs in Python."""
    sizes = bb.emit(op.shape_to_tensor(bb.emit(op.shape_of(x))))
    y = bb.emit(op.reshape(x, bb.emit(op.tensor_to_shape(sizes)), span=Span("net.py", 7, module="head")))
    return op.nn.relu(bb.emit(op.permute_dims(bb.emit(op.add(y, y)), [1, 0])))


def test_a_program_with_them_is_written_and_runs_without_the_compiler(tmp_path: Path):
    model = eutectic.compile(graph({"x": (3, 4)}, unknown_shape), target="llvm")
    assert HostRecord("relax.reshape", "head", "net.py:7") in model.report.host_operators
    assert any(isinstance(step, HostCall) for step in model.executable.instructions)
    x = array("float32", 3, 4)
    with np.errstate(all="ignore"):
        want = np.maximum((x + x).T, 0)
    for made in (model, CompiledModel.from_bytes(model.to_bytes())):
        np.testing.assert_array_equal(made(x), want)
    (got,) = read_elsewhere(to_bytes(model.executable.program), [x], tmp_path)
    np.testing.assert_array_equal(got, want)


def test_another_operator_is_refused_by_name_module_and_line():
    def body(bb: Any, x: Any) -> Any:
        return op.sin(bb.emit(unknown_shape(bb, x)), span=Span("net.py", 9, module="head.wave"))

    model = eutectic.compile(graph({"x": (3, 4)}, body), target="llvm")
    with pytest.raises(LoadError) as error:
        model.to_bytes()
    assert "relax.sin (in module head.wave, net.py:9) runs in Python, by the compiler's definition" in str(error.value)
    assert "relax.concat" in str(error.value)
    assert "model.report.host_operators" in (error.value.help or "")


def test_a_program_that_names_another_operator_is_refused():
    with pytest.raises(LoadError, match=r"nothing here computes the operator 'os\.system'"):
        HostCall("os.system", {}, (), 0)


def test_the_interpreter_agrees():
    call = op.add(eutectic.relax.const(np.ones(2, np.float32)), eutectic.relax.const(np.ones(2, np.float32)))
    x = array("float32", 2)
    np.testing.assert_array_equal(apply_op(call, (x, x)), run_host_operator("relax.add", {}, (x, x)))
