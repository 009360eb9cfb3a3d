"""Programs go to bytes and come back: the same results, nothing but what was written, and damage is noticed."""

from __future__ import annotations

import dataclasses
import struct
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eutectic
from eutectic.backend.dnnl.library import availability
from eutectic.backend.dnnl.loading import load
from eutectic.relax import op
from eutectic.runtime.encoding import VERSION, from_bytes, to_bytes
from eutectic.runtime.executable import Executable
from eutectic.runtime.instructions import CallHost, RunNative
from eutectic.runtime.loading import Loading
from eutectic.runtime.params import TensorParam
from eutectic.runtime.program import Program
from eutectic.runtime.sizes import SizeExpr
from eutectic.support.errors import EutecticError, LoadError
from eutectic.testing.graphs import graph, weights

TARGETS = ["llvm", *(["llvm -libs=dnnl"] if availability().ok else [])]
X = np.random.default_rng(0).standard_normal((1, 3, 6, 6)).astype(np.float32)


def network():
    def body(bb, x):
        a = bb.emit(op.nn.relu(op.add(op.nn.conv2d(x, weights(4, 3, 3, 3)), weights(1, 4, 1, 1))))
        b = bb.emit(op.nn.relu(op.nn.conv2d(a, weights(4, 4, 1, 1))))
        return op.nn.softmax(op.add(b, a), axis=1)

    return graph({"x": (1, 3, 6, 6)}, body)


def loaded(data: bytes) -> Executable:
    return Executable(from_bytes(data), Loading(lambda name: load))


@cache
def model_for(target: str) -> eutectic.CompiledModel:
    return eutectic.compile(network(), target=target)


@cache
def data_of(target: str) -> bytes:
    return to_bytes(model_for(target).executable.complete())


@pytest.mark.parametrize("target", TARGETS)
def test_a_read_program_gives_the_same_bits(target: str):
    (got,) = loaded(data_of(target))(X)
    np.testing.assert_array_equal(got, model_for(target)(X))


@pytest.mark.parametrize("target", TARGETS)
def test_writing_what_was_read_gives_the_same_bytes(target: str):
    assert to_bytes(from_bytes(data_of(target))) == data_of(target)


@pytest.mark.filterwarnings("ignore:.*an input holds NaN:eutectic.EutecticAdvice")
@pytest.mark.parametrize("target", TARGETS)
def test_calls_with_nan_are_part_of_what_is_written(target: str):
    x = X.copy()
    x[0, 1, 2, 2] = np.nan
    (got,) = loaded(data_of(target))(x)
    np.testing.assert_array_equal(got, model_for(target)(x))
    assert np.isnan(got).any()


@pytest.mark.skipif(not availability().ok, reason="oneDNN is not there")
def test_a_program_without_other_code_says_so():
    bare = loaded(to_bytes(model_for("llvm -libs=dnnl").executable.program))
    x = X.copy()
    x[0, 0, 0, 0] = np.inf
    with pytest.warns(eutectic.EutecticAdvice), pytest.raises(EutecticError, match="the program has no other code"):
        bare(x)


def test_equal_constants_are_written_once():
    table = np.arange(1 << 16, dtype="float32")
    params = (TensorParam("x", np.dtype("float32"), (2,), 1, {}),)
    program = Program(params, (), 3, {1: table, 2: table.copy()}, (1, 2), (1, 2))
    data = to_bytes(program)
    assert table.nbytes < len(data) < table.nbytes + 4096
    for got in loaded(data)(np.ones(2, "float32")):
        np.testing.assert_array_equal(got, table)


def test_sizes_and_ranges_come_back():
    size = SizeExpr("floordiv", (SizeExpr("add", ("n", 3)), 2))
    param = TensorParam("x", np.dtype("int64"), ("n", size), 2, {"n": (2, None)})
    (got,) = from_bytes(to_bytes(Program((param,), (), 1, {}, (0,)))).params
    assert got == param


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), 1e300, -0.0])
def test_numbers_come_back(value: float):
    program = from_bytes(to_bytes(Program((), (), 1, {0: np.float64(value)}, (0,))))
    assert repr(float(program.constants[0])) == repr(value)


# ---- refusals


def test_what_runs_in_python_cannot_be_written():
    step = CallHost("relax.unique", lambda x: x, (0,), 1)
    with pytest.raises(LoadError, match=r"relax\.unique runs in Python"):
        to_bytes(Program((), (step,), 2, {}, (1,)))


def test_code_for_another_processor_is_refused():
    program = model_for("llvm").executable.program
    (step,) = program.instructions
    assert isinstance(step, RunNative)
    strange = dataclasses.replace(step, code=dataclasses.replace(step.code, features=("avx2", "warp-drive")))
    with pytest.raises(LoadError, match=r"this one lacks .*warp-drive"):
        loaded(to_bytes(dataclasses.replace(program, instructions=(strange,))))


def test_other_files_and_versions_are_refused():
    data = bytearray(data_of("llvm"))
    with pytest.raises(LoadError, match="begins with other bytes"):
        from_bytes(b"PK\3\4" + bytes(100))
    struct.pack_into("<I", data, 8, VERSION + 1)
    with pytest.raises(LoadError, match=f"version {VERSION + 1} of the format"):
        from_bytes(bytes(data))


def test_unknown_parts_are_refused():
    text = data_of("llvm").replace(b'"of":"RunNative"', b'"of":"os.system"'.ljust(16))
    with pytest.raises(LoadError, match="damaged"):
        from_bytes(text)


@given(st.floats(0, 1, exclude_max=True), st.integers(1, 255))
def test_damage_never_gets_through(place: float, change: int):
    """Any changed byte is noticed, or does not matter: padding between the parts."""
    data = bytearray(data_of("llvm"))
    at = int(place * len(data))
    data[at] ^= change
    try:
        program = from_bytes(bytes(data))
    except LoadError:
        return
    assert to_bytes(program) == data_of("llvm") or _is_description(at)


def _is_description(at: int) -> bool:
    """Whether a byte is in the description, where a number may be changed into another one."""
    (length,) = struct.unpack_from("<Q", data_of("llvm"), 12)
    return at < 20 + length


@given(st.floats(0, 1, exclude_max=True))
def test_cut_off_data_is_refused(share: float):
    with pytest.raises(LoadError):
        from_bytes(data_of("llvm")[: int(share * (len(data_of("llvm")) - 64))])
