"""Translation validation: a wrong pass is caught, with the element, both values and a script; right ones pass."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import eutectic
from eutectic import relax
from eutectic.driver.pipeline import kernels
from eutectic.ir.transform import Pass, PassContext
from eutectic.relax import op, transform
from eutectic.relax.expr import Call
from eutectic.relax.expr_functor import PyExprMutator, mutator
from eutectic.support.errors import PassError
from eutectic.testing.graphs import graph, weights
from eutectic.tir import Var as SizeSymbol


@mutator
class _Swap(PyExprMutator):
    """Replaces one operator by another."""

    def __init__(self, mod, old, new):
        super().__init__(mod)
        self.old, self.new = old, new

    def visit_call_(self, call):
        call = self.visit_expr_post_order(call)
        return self.new(*call.args) if isinstance(call, Call) and call.op.name == self.old else call


@dataclass(frozen=True)
class Wrong(Pass):
    """A pass that changes what is computed."""

    old: str
    new: object

    def run(self, mod, ctx):
        out = mod.clone()
        for gv, function in mod.functions_items():
            out.update_func(gv, _Swap(mod, self.old, self.new).visit_expr(function))
        return out


def small():
    return graph({"x": (2, 3), "y": (2, 3)}, lambda bb, x, y: op.nn.relu(op.subtract(x, y)))


def fails(step: Pass, mod) -> PassError:
    with PassContext(validate=True), pytest.raises(PassError) as caught:
        step(mod)
    return caught.value


def test_another_operator_is_caught():
    error = fails(Wrong("relax.subtract", op.add), small())
    assert re.search(
        r"pass Wrong changes what main computes: the result\[\d, \d\] was \S+ and is \S+ \(\d of 6", error.message
    )


def test_a_lost_nan_is_caught():
    """The two agree on numbers: only the special values tell them apart."""
    error = fails(
        Wrong("relax.nn.relu", lambda x: op.where(op.greater(x, relax.const(0.0)), x, relax.const(0.0))), small()
    )
    assert "the inputs were special values" in str(error)
    assert "was nan" in error.message


def test_the_reproducer_shows_it_again():
    error = fails(Wrong("relax.subtract", op.add), small())
    script = Path(re.search(r"python (\S+)", str(error)).group(1))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    before, after = done.stdout.split("after\n")
    assert before.startswith("before\n")
    assert before.removeprefix("before\n") != after


def test_without_validate_nothing_is_run():
    Wrong("relax.subtract", op.add)(small())


def test_folding_of_constants_with_symbolic_sizes():
    n = SizeSymbol("n", "int64")
    mod = graph({"x": ((n, 4), "float32")}, lambda bb, x: op.add(x, op.reshape(weights(2, 2), (4,))))
    with PassContext(validate=True):
        folded = transform.FoldConstant()(mod)
    assert folded is not mod


def test_the_whole_way_to_kernels():
    def body(bb, x):
        a = bb.emit(op.nn.relu(op.add(op.nn.conv2d(x, weights(4, 3, 3, 3), padding=1), weights(1, 4, 1, 1))))
        return op.nn.softmax(op.reshape(op.mean(a, (2, 3)), (1, 4)))

    mod = graph({"x": (1, 3, 6, 6)}, body)
    with PassContext(validate=True, verify=True) as ctx:
        for step in kernels():
            mod = step(mod)
    assert len(ctx.records) == len(kernels())


def test_compile_can_validate():
    model = eutectic.compile(small(), validate=True)
    x, y = np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)
    np.testing.assert_array_equal(model(x, y), x)
