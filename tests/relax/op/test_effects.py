"""Operators whose results are no tensors of known shape: effects, closures, what data decides; and their refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.relax.op.oracle import symbolic

from eutectic.relax import op
from eutectic.relax.base import StructInfo
from eutectic.relax.block_builder import BlockBuilder
from eutectic.relax.expr import Tuple, Var, const
from eutectic.relax.interpret import Interpreter
from eutectic.relax.op import nn
from eutectic.relax.struct_info import ObjectStructInfo, TensorStructInfo, TupleStructInfo
from eutectic.relax.transform import DeadCodeElimination
from eutectic.script import from_source
from eutectic.support.errors import CallError, TypeInferenceError

X = np.array([[3, 0, 1], [0, 3, 3]], "float32")


def run(build: Any, *arrays: np.ndarray) -> Any:
    """The value by the references, of a program that is also printed and parsed back."""
    params = [symbolic(*a.shape, dtype=str(a.dtype), name=f"x{i}") for i, a in enumerate(arrays)]
    bb = BlockBuilder()
    with bb.function("main", params, pure=False):
        bb.emit_func_output(bb.emit(build(*params)))
    text = bb.get().script()
    assert from_source(text).script() == text
    return Interpreter(bb.get()).run("main", *arrays)


def test_print_writes_when_the_program_runs(capsys: pytest.CaptureFixture[str]):
    assert run(lambda x: op.print(x, format="values {}"), X[0]) == ()
    assert capsys.readouterr().out == "values [3. 0. 1.]\n"
    with pytest.raises(TypeInferenceError, match="does not fit 1 values"):
        op.print(symbolic(2), format="{} and {}")


def test_assert_op_ends_the_program():
    assert run(lambda x: op.assert_op(const(True), [x], "of {}"), X[0]) == ()
    with pytest.raises(AssertionError, match=r"Assertion Failed: of \[3\. 0\. 1\.\]"):
        run(lambda x: op.assert_op(const(False), [x], "of {}"), X[0])
    with pytest.raises(TypeInferenceError, match="must be one bool"):
        op.assert_op(symbolic(2))


def test_impure_operators_are_not_dropped():
    bb = BlockBuilder()
    x = symbolic(2)
    with bb.function("main", [x], pure=False):
        bb.emit(op.print(x, format="{}"))
        bb.emit_func_output(x)
    assert DeadCodeElimination()(bb.get())["main"].body.blocks


def test_closures_pass_what_they_hold_last():
    bb = BlockBuilder()
    info: StructInfo = TensorStructInfo((3,), "float32")
    a, b, x = (Var(name, info) for name in "abx")
    with bb.function("inner", [a, b], private=True):
        gv = bb.emit_func_output(bb.emit(op.subtract(a, b)))
    with bb.function("main", [x], pure=False):
        closure = bb.emit(op.make_closure(gv, Tuple((x,))))
        assert closure.struct_info == ObjectStructInfo()
        first = bb.emit(op.invoke_pure_closure(closure, Tuple((const(X[1]),)), info))
        bb.emit_func_output(bb.emit(op.invoke_closure(closure, Tuple((first,)), info)))
    np.testing.assert_array_equal(Interpreter(bb.get()).run("main", X[0]), X[1] - X[0] - X[0])


def test_what_data_decides():
    np.testing.assert_array_equal(run(op.nonzero, X), np.stack(np.nonzero(X)))
    np.testing.assert_array_equal(run(op.unique, X), [0, 1, 3])
    values, first, places, counts = run(lambda x: op.unique(x, False, True, True, True), X)
    np.testing.assert_array_equal(values, [3, 0, 1])
    np.testing.assert_array_equal(first, [0, 1, 2])
    np.testing.assert_array_equal(values[places].reshape(X.shape), X)
    np.testing.assert_array_equal(counts, [3, 2, 1])
    begin, end, step = (np.array(v, "int64") for v in ((0, 2), (2, -4), (1, -2)))
    np.testing.assert_array_equal(run(op.dynamic_strided_slice, X, begin, end, step), X[0:2, 2:-4:-2])


def test_types_of_what_data_decides():
    x = symbolic(2, 3)
    assert op.nonzero(x).struct_info == TensorStructInfo(dtype="int64", ndim=2)
    both = op.unique(x, return_counts=True, axis=0).struct_info
    assert isinstance(both, TupleStructInfo)
    assert [info.ndim for info in both.fields] == [2, 1]
    assert op.null_value().struct_info == ObjectStructInfo()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: op.eye_like(op.flatten(x)), "eye_like needs two axes"),
        (lambda x: op.outer(x, x), "outer needs vectors"),
        (lambda x: op.meshgrid([x], "ab"), "no indexing 'ab'"),
        (lambda x: op.one_hot(x, 1, 0, 3), "one_hot needs integers, got float32"),
        (lambda x: op.one_hot(op.astype(x, "int32"), 1, 0.5, 3), "two scalars of one dtype"),
        (lambda x: op.collapse_sum_to(x, (4, 3)), "does not broadcast"),
        (lambda x: op.topk(x, 4), "topk with k=4 of 3 elements"),
        (lambda x: op.topk(x, ret_type="all"), "no ret_type 'all'"),
        (lambda x: op.argsort(x, dtype="float32"), "must be of an integer dtype"),
        (lambda x: op.median(x, [0, 1]), "median along 2 axes"),
        (lambda x: op.bucketize(x, x), "needs a vector of float32"),
        (lambda x: op.gather_nd(x, op.zeros((2, 3), "int64")), "3 indices after 0 shared axes"),
        (lambda x: op.index_tensor(x, [x]), "must be integers, got float32"),
        (lambda x: op.scatter_elements(x, op.zeros((2, 3), "int64"), x, 2), "axis 2 of scatter_elements"),
        (lambda x: op.scatter_nd(x, op.zeros((1, 1), "int64"), x), "scatter_nd at"),
        (lambda x: op.slice_scatter(x, op.zeros((2, 2), "float32"), 0, 1), "slice_scatter of"),
        (lambda x: op.hamming_window(3, True, 0.5, 0.5, "int32"), "needs a float dtype"),
        (lambda x: op.hint_on_device(x, "cuda:0"), "programs run on the processor"),
        (lambda x: nn.nll_loss(x, op.zeros((3,), "int64")), "needs targets"),
        (lambda x: nn.nll_loss(x, op.zeros((2,), "int64"), reduction="all"), "no reduction 'all'"),
        (lambda x: nn.cross_entropy_with_logits(x, op.zeros((3, 2), "float32")), "cross_entropy_with_logits of"),
        (lambda x: nn.pixel_shuffle(op.zeros((3, 2, 2), "float32"), 2), "3 channels do not divide"),
        (lambda x: op.call_inplace_packed("f", x, inplace_indices=[1], sinfo_args=x.struct_info), "of 1 arguments"),
    ],
)
def test_refusals(build: Any, message: str):
    with pytest.raises(TypeInferenceError, match=message):
        build(symbolic(2, 3))


@pytest.mark.parametrize(
    ("build", "arrays", "message"),
    [
        (op.gather_nd, (X, np.array([[2, 0]])), "index 2 is out of range"),
        (lambda x, i: op.index_tensor(x, [i]), (X, np.array([5])), "index 5 is out of range"),
        (lambda x, i: op.scatter_elements(x, i, x), (X, np.full((2, 3), 9)), "index 9 is out of range"),
        (lambda x, y: op.slice_scatter(x, y, 0, 2, 1), (X, X[:1].copy()), "into slices of"),
        (nn.nll_loss, (X, np.array([0, 7])), "none of the 3 classes"),
    ],
)
def test_refusals_when_the_program_runs(build: Any, arrays: Any, message: str):
    with pytest.raises(CallError, match=message):
        run(build, *arrays)
