"""A function for each piece of a batch: what is computed, as text, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eutectic
from eutectic.ir.module import GlobalVar
from eutectic.relax import BlockBuilder, op
from eutectic.relax.expr import Var
from eutectic.relax.op.map_batch import pieces
from eutectic.relax.struct_info import TensorStructInfo, tensor
from eutectic.support.errors import TypeInferenceError
from eutectic.testing.graphs import evaluate
from eutectic.testing.round_trip import check_round_trip

X = np.arange(24, dtype=np.float32).reshape(6, 4)
W = np.array([1.0, -1.0, 0.5, 2.0], np.float32)


def of_pairs(size: int = 2) -> Any:
    """A module that gives, for each piece, the cumulative sum of its rows by weights, and their maximum."""
    bb = BlockBuilder()
    part, weights = Var("part", tensor((size, 4), "float32")), Var("weights", tensor((4,), "float32"))
    with bb.function("piece", [part, weights], private=True), bb.dataflow():
        rows = bb.emit(op.multiply(part, weights))
        sums, most = bb.emit_output(op.cumsum(rows, 0)), bb.emit_output(op.max(rows, 1))
        bb.emit_func_output((sums, most))
    x, w = Var("x", tensor((6, 4), "float32")), Var("w", tensor((4,), "float32"))
    with bb.function("main", [x, w]), bb.dataflow():
        infos = [tensor((6, 4), "float32"), tensor((6,), "float32")]
        gv = bb.get().get_global_var("piece")
        both = bb.emit(op.map_batch(gv, [x], [w], size, sinfo_args=infos))
        bb.emit_func_output(bb.emit_output(both))
    return bb.get()


def expected(size: int) -> tuple[np.ndarray, np.ndarray]:
    rows = X * W
    return np.concatenate([np.cumsum(part, 0) for part in rows.reshape(-1, size, 4)]), rows.max(1)


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_the_meaning(size: int):
    for got, want in zip(evaluate(of_pairs(size), X, W), expected(size), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_native_code_computes_each_piece(size: int):
    model = eutectic.compile(of_pairs(size))
    for got, want in zip(model(X, W), expected(size), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)
    assert model.report.host_operators == ()


def test_text_says_everything():
    mod = of_pairs()
    assert "R.map_batch(cls.piece, (x,), (w,), size=2, sinfo_args=" in mod.script()
    check_round_trip(mod)


def test_how_many_pieces_there_are():
    x = Var("x", tensor((6, 4), "float32"))
    assert pieces(op.map_batch(GlobalVar("f"), [x], [], 3, sinfo_args=tensor((6,), "float32"))) == 2


REFUSED = {
    "nothing is cut": (
        lambda x: op.map_batch(GlobalVar("f"), [], [], 1, sinfo_args=x.struct_info),
        "nothing that is cut",
    ),
    "a size that does not divide": (
        lambda x: op.map_batch(GlobalVar("f"), [x], [], 4, sinfo_args=x.struct_info),
        "of 6 in pieces of 4",
    ),
    "several batches": (
        lambda x: op.map_batch(
            GlobalVar("f"), [x, Var("y", tensor((3, 4), "float32"))], [], 3, sinfo_args=x.struct_info
        ),
        "of 6, 3 in pieces of 3",
    ),
    "an unknown size": (
        lambda x: op.map_batch(
            GlobalVar("f"), [Var("y", TensorStructInfo(dtype="float32", ndim=2))], [], 1, sinfo_args=x.struct_info
        ),
        "whose first size is known",
    ),
    "no type of the result": (
        lambda x: op.map_batch(GlobalVar("f"), [x], [], 1, sinfo_args=["float32"]),
        "must be StructInfo, got str",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str):
    make, reason = REFUSED[name]
    with pytest.raises(TypeInferenceError, match=reason):
        make(Var("x", tensor((6, 4), "float32")))
