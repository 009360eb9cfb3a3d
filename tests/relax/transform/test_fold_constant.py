"""FoldConstant on calls of tensor programs; on operators it is tested with the other graph passes."""

from __future__ import annotations

import numpy as np
import pytest

from eutectic import relax, topi
from eutectic.ir.services import Services
from eutectic.ir.transform import PassContext
from eutectic.relax import transform
from eutectic.testing.graphs import evaluate, graph


class WithoutCompiler(Services):
    """Nobody who runs programs as compiled code."""

    def program_runner(self, scheduled: bool = True) -> None:
        """None is there."""


def test_calls_of_tensor_programs_on_constants_are_run():
    """By compiled code when a compiler is loaded, by the reference interpreter otherwise: the same value."""
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((3, 2), "float32"))
    with builder.function("main", [x]), builder.dataflow():
        turned = builder.emit_te(topi.transpose, relax.const(data))
        out = builder.emit_output(relax.op.add(x, turned))
        builder.emit_func_output(out)
    mod = builder.get()
    for services in (Services(), WithoutCompiler()):
        with PassContext(services=services):
            folded = transform.FoldConstant()(mod)["main"]
        (binding,) = folded.body.blocks[0].bindings[:1]
        np.testing.assert_array_equal(binding.value.args[1].data, data.T)


def _windows(_):
    """Numbers of regions, written piece by piece."""
    lines = [relax.op.full((2, 6), relax.const(float(k))) for k in range(2)]
    return relax.op.concat([relax.op.permute_dims(line) for line in lines], 1)


MADE = {
    "arange": lambda _: relax.op.multiply(relax.op.arange(0, 24, 1, "float32"), relax.op.full((24,), relax.const(2.0))),
    "mask": lambda _: relax.op.astype(relax.op.less(relax.op.arange(0, 6), relax.op.full((6,), 3, "int64")), "float32"),
    "pieces": _windows,
}


@pytest.mark.parametrize("name", MADE)
def test_what_is_made_of_numbers_is_a_constant_for_those_that_read_it(name: str):
    mod = graph({"x": ((1,), "float32")}, lambda _, x: relax.op.add(MADE[name](x), x))
    folded = transform.FoldConstant()(mod)
    (binding,) = folded["main"].body.blocks[0].bindings[:1]
    assert isinstance(binding.value.args[0], relax.Constant)
    x = np.ones(1, np.float32)
    np.testing.assert_array_equal(evaluate(folded, x), evaluate(mod, x))


def test_what_is_the_same_everywhere_needs_no_memory():
    zeros = graph(
        {"x": ((2, 3), "float32")},
        lambda _, x: relax.op.add(x, relax.op.strided_slice(relax.op.zeros((2, 8), "float32"), [1], [2], [5])),
    )
    function = transform.FoldConstant()(zeros)["main"]
    calls = [b.value for b in function.body.blocks[0].bindings if isinstance(b.value, relax.Call)]
    assert [call.op.name for call in calls] == ["relax.full", "relax.add"]
    assert str(function.ret_struct_info) == str(zeros["main"].ret_struct_info)


def test_what_is_large_is_made_when_it_is_needed():
    mod = graph(
        {"x": ((1,), "float32")},
        lambda _, x: relax.op.add(relax.op.negative(relax.op.arange(0, 3 << 20, 1, "float32")), x),
    )
    calls = [b.value for b in transform.FoldConstant()(mod)["main"].body.blocks[0].bindings]
    assert not any(isinstance(arg, relax.Constant) and arg.data.size > 1 for call in calls for arg in call.args)
