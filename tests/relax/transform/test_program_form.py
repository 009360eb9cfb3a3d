"""Passes about the form of programs: dataflow blocks, names, local and private functions, signatures, reshapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eutectic
from eutectic.ir.module import IRModule
from eutectic.ir.structural import assert_structural_equal
from eutectic.relax import transform as passes
from eutectic.relax.analysis import well_formed
from eutectic.relax.interpret import Interpreter
from eutectic.script import ir as I
from eutectic.script import relax as R
from eutectic.support.errors import CallError, PassError

X = np.arange(6, dtype="float32").reshape(2, 3)
Y = np.ones(4, "float32")


@I.ir_module
class Plain:
    @R.function
    def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        with R.dataflow():
            lv = R.add(x, x)
            gv = R.exp(lv)
            R.output(gv)
        return gv


@I.ir_module
class Private:
    @R.function(private=True)
    def helper(
        t: R.Tuple(R.Tensor((2, 3), "float32"), R.Tensor((2, 3), "float32")), unused: R.Tensor((4,), "float32")
    ) -> R.Tensor((2, 3), "float32"):
        with R.dataflow():
            a = R.add(t[0], t[1])
            gv = R.exp(a)
            R.output(gv)
        return gv

    @R.function
    def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((4,), "float32")) -> R.Tensor((2, 3), "float32"):
        cls = Private
        with R.dataflow():
            a = cls.helper((x, x), y)
            gv = R.add(a, x)
            R.output(gv)
        return gv


@I.ir_module
class Local:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), z: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        @R.function
        def inner(y: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
            return R.subtract(x, y)

        return inner(z)


def value(mod: IRModule, *arrays: np.ndarray) -> Any:
    return Interpreter(mod).run("main", *arrays)


def keeps(run_pass: Any, mod: IRModule, *arrays: np.ndarray) -> IRModule:
    after = run_pass(mod)
    assert well_formed(after)
    np.testing.assert_array_equal(value(after, *arrays), value(mod, *arrays))
    return after


def test_dataflow_there_and_back():
    plain = keeps(passes.ToNonDataflow(), Plain, X)
    assert "R.dataflow" not in plain.script()
    assert_structural_equal(passes.ConvertToDataflow()(plain), Plain)
    assert passes.ToNonDataflow()(plain) is plain
    assert passes.ConvertToDataflow()(Plain) is Plain
    assert "R.dataflow" not in passes.ConvertToDataflow(min_size=3)(plain).script()


def test_impure_calls_stay_outside_of_dataflow():
    @I.ir_module
    class Loud:
        @R.function(pure=False)
        def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
            a = R.add(x, x)
            b = R.exp(a)
            R.print(b, format="{}")
            c = R.exp(b)
            return R.add(c, a)

    after = keeps(passes.ConvertToDataflow(), Loud, X)
    kinds = [type(block).__name__ for block in after["main"].body.blocks]
    assert kinds == ["DataflowBlock", "BindingBlock", "DataflowBlock"]


def test_memory_of_results():
    lowered = passes.ToNonDataflow()(passes.LegalizeOps()(Plain))
    text = passes.CallTIRRewrite()(lowered).script()
    assert text.count("R.builtin.alloc_tensor") == 2
    assert "cls.add(x, x, alloc)" in text
    assert "R.call_tir" not in text
    with pytest.raises(PassError, match="inside a dataflow block"):
        passes.CallTIRRewrite()(passes.LegalizeOps()(Plain))


def test_signatures_of_private_functions():
    after = keeps(passes.RemoveUnusedParameters(), Private, X, Y)
    assert [p.name_hint for p in after["helper"].params] == ["t"]
    after = keeps(passes.ExpandTupleArguments(), after, X, Y)
    assert [p.name_hint for p in after["helper"].params] == ["t_0", "t_1"]
    assert passes.RemoveUnusedParameters()(after) is after
    assert passes.ExpandTupleArguments()(after) is after
    assert passes.RemoveUnusedParameters()(Plain) is Plain


def test_private_functions_inlined():
    after = keeps(passes.InlinePrivateFunctions(), Private, X, Y)
    assert [gv.name_hint for gv in after.get_global_vars()] == ["main"]
    assert passes.InlinePrivateFunctions()(after) is after


def test_local_functions_lifted():
    after = keeps(passes.LambdaLift(), Local, X, X + 1)
    assert [gv.name_hint for gv in after.get_global_vars()] == ["main", "main_inner"]
    assert [p.name_hint for p in after["main_inner"].params] == ["y", "x"]
    assert passes.LambdaLift()(after) is after


def test_global_symbols():
    named = passes.AttachGlobalSymbol()(Private)
    assert named["helper"].attrs["global_symbol"] == "helper"
    assert passes.AttachGlobalSymbol()(named) is named
    other = IRModule({"entry": Plain["main"], "main": Private["helper"]})
    renamed = passes.NormalizeGlobalVar()(other)
    assert [gv.name_hint for gv in renamed.get_global_vars()] == ["main", "main_1"]
    assert renamed["main"].attrs["global_symbol"] == "main"
    assert passes.NormalizeGlobalVar()(renamed) is renamed


def test_reshapes_in_a_row():
    @I.ir_module
    class Reshaped:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((3, 2), "float32"):
            a = R.reshape(x, (6,))
            b = R.reshape(a, (1, 6))
            return R.reshape(b, (3, 2))

    after = keeps(passes.RemoveRedundantReshape(), Reshaped, X)
    assert after.script().count("R.reshape") == 1
    assert passes.RemoveRedundantReshape()(after) is after


def test_purity_is_not_checked_any_more():
    after = keeps(passes.RemovePurityChecking(), Plain, X)
    assert after["main"].attrs["relax.force_pure"]
    assert passes.RemovePurityChecking()(after) is after


def test_parameters_in_a_tuple():
    mod = IRModule({"main": Private["main"].with_attr("num_input", 1), "helper": Private["helper"]})
    after = passes.BundleModelParams("weights")(mod)
    assert [p.name_hint for p in after["main"].params] == ["x", "weights"]
    np.testing.assert_array_equal(value(after, X, (Y,)), value(Private, X, Y))
    assert passes.BundleModelParams()(Private) is Private


def test_programs_that_a_script_adds():
    @I.ir_module
    class Added:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
            a = R.emit_te(eutectic.topi.add, x, x)
            return R.add(a, x)

    assert [gv.name_hint for gv in Added.get_global_vars()] == ["add", "main"]
    np.testing.assert_array_equal(value(Added, X), 3 * X)


def test_registered_functions_in_compiled_programs():
    eutectic.register_global_func("tests.fill", lambda x, out: out.copyfrom(x.numpy() * 3), override=True)

    @I.ir_module
    class Calls:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
            y = R.call_dps_packed("tests.fill", (x,), out_sinfo=R.Tensor((2, 3), "float32"))
            return R.call_pure_packed("tests.unknown", y, sinfo_args=(R.Tensor((2, 3), "float32"),))

    vm = eutectic.relax.VirtualMachine(eutectic.relax.build(Calls, "llvm"), eutectic.cpu())
    with pytest.raises(CallError, match=r"no global function is called 'tests.unknown'"):
        vm["main"](X)
    eutectic.register_global_func("tests.unknown", lambda x: eutectic.runtime.tensor.tensor(x.numpy() + 1))
    np.testing.assert_array_equal(vm["main"](X).numpy(), X * 3 + 1)
