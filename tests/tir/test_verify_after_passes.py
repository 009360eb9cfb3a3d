"""Under verify=True a pass that breaks a tensor program is named."""

from __future__ import annotations

import pytest

from eutectic.ir.module import IRModule
from eutectic.ir.transform import PassContext, module_pass
from eutectic.support.errors import WellFormedError
from eutectic.tir import Buffer, BufferStore, PrimFunc, Var

A = Buffer("A", (8,))


@module_pass(opt_level=0, name="Break")
def break_it(mod: IRModule, ctx: PassContext) -> IRModule:
    return IRModule({"f": PrimFunc((A,), BufferStore(A, 1.0, (Var("unbound"),)))})


def test_the_pass_is_named():
    mod = IRModule({"f": PrimFunc((A,), BufferStore(A, 1.0, (0,)))})
    break_it(mod)
    with PassContext(verify=True), pytest.raises(WellFormedError, match="unbound") as caught:
        break_it(mod)
    assert any("Break" in note for note in caught.value.facts)
