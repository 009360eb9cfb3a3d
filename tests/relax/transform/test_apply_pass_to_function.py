"""ApplyPassToFunction: what a pass does to some functions, and that the others are as they were."""

from __future__ import annotations

import pytest

from eutectic.ir.module import IRModule
from eutectic.ir.transform import PassContext, module_pass
from eutectic.relax.transform import ApplyPassToFunction, DeadCodeElimination, LegalizeOps
from eutectic.script import ir as I
from eutectic.script import relax as R
from eutectic.support.errors import PassError


@I.ir_module
class Module:
    @R.function(private=True)
    def helper(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        _ = R.add(x, x)
        return R.multiply(x, x)

    @R.function(pure=False)
    def effect(x: R.Tensor((4,), "float32")) -> R.Object:
        return R.call_packed("log", x, sinfo_args=R.Object)

    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Module
        _ = R.add(x, x)
        return cls.helper(x)


@pytest.fixture(autouse=True)
def verified():
    with PassContext(verify=True):
        yield


def test_only_the_functions_whose_name_matches_change():
    after = ApplyPassToFunction(DeadCodeElimination(), "main")(Module)
    assert "R.add" not in after["main"].script()
    assert after["helper"] is Module["helper"]
    assert after["effect"] is Module["effect"]


def test_a_private_function_stays_though_nothing_calls_it_and_is_private_again():
    after = ApplyPassToFunction(DeadCodeElimination(), "help.*")(Module)
    assert "R.add" not in after["helper"].script()
    assert after["helper"].attr("global_symbol") is None
    assert after["main"] is Module["main"]


def test_new_functions_are_kept():
    after = ApplyPassToFunction(LegalizeOps(), "helper")(Module)
    assert sorted(gv.name_hint for gv in after.functions) == ["add", "effect", "helper", "main", "multiply"]
    assert after["main"] is Module["main"]


def test_other_functions_are_not_seen():
    seen: dict[str, str] = {}

    @module_pass(opt_level=0)
    def look(mod: IRModule, ctx: PassContext) -> IRModule:
        seen.update({gv.name_hint: function.script() for gv, function in mod.functions.items()})
        return mod

    ApplyPassToFunction(look, "main")(Module)
    assert "R.multiply" not in seen["helper"]
    assert "R.add" in seen["main"]


def test_no_match():
    assert ApplyPassToFunction(LegalizeOps(), "mai")(Module) is Module
    with pytest.raises(PassError, match="no function matches 'mai'; the module has: effect, helper, main"):
        ApplyPassToFunction(LegalizeOps(), "mai", error_if_no_function_matches_regex=True)(Module)
