"""FoldConstant on calls of tensor programs; on operators it is tested with the other graph passes."""

from __future__ import annotations

import numpy as np

from eutectic import relax, topi
from eutectic.ir.services import Services
from eutectic.ir.transform import PassContext
from eutectic.relax import transform


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
