"""Programs as JSON and back."""

from __future__ import annotations

import json

import numpy as np
import pytest

from eutectic.ir.json_form import load_json, make_node, save_json
from eutectic.ir.module import IRModule
from eutectic.ir.structural import assert_structural_equal
from eutectic.relax.analysis import well_formed
from eutectic.relax.expr import Constant
from eutectic.relax.transform import AnnotateTIROpPattern as Annotate
from eutectic.relax.transform import FuseOps, FuseTIR, LegalizeOps
from eutectic.script import ir as I
from eutectic.script import relax as R
from eutectic.script import tir as T
from eutectic.support.errors import LoadError

WEIGHT = np.arange(8, dtype="float32").reshape(2, 4)


@I.ir_module
class Module:
    I.module_attrs({"list": [1, 2.5, "x"], "nested": {"k": True}})
    I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice({"kind": "llvm", "mcpu": "haswell"}, 1)]})

    @T.prim_func(private=True)
    def total(A: T.Buffer((4, 4), "float32"), var_B: T.handle):
        n = T.int32()
        B = T.match_buffer(var_B, (n,), "float32")
        for i, k in T.grid(4, 4):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.where(i < n)
                with T.init():
                    B[vi] = T.float32("-inf")
                B[vi] = T.max(B[vi], T.Select(A[vi, vk] > T.float32("nan"), A[vi, vk], T.exp(A[vi, vk])))

    @R.function
    def main(x: R.Tensor(("n", 2), "float32", "llvm:1"), flag: R.Tensor((), "bool"), size: R.Shape(["n"])) -> R.Tuple(
        R.Tensor(("n", 4), "float32"), R.Object
    ):
        n = T.int64()
        with R.dataflow():
            y = R.matmul(x, R.const(WEIGHT))
            z = R.reshape(y, R.shape([n * 4]))
            w = R.reshape(z, R.shape([n, 4]))
            R.output(w)
        if flag:  # noqa: SIM108 - graphs have no conditional expressions
            q = R.nn.relu(w)
        else:
            q = R.clip(w, R.prim_value(0), R.prim_value(6))
        return (q, size)


def test_a_module_comes_back_as_it_was():
    text = save_json(Module)
    again = load_json(text)
    assert isinstance(again, IRModule)
    assert_structural_equal(again, Module)
    assert again.script() == Module.script()  # names, too
    assert well_formed(again)
    assert save_json(again) == text


def test_lowered_programs_come_back():
    mod = Module
    for step in (LegalizeOps(), Annotate(), FuseOps(), FuseTIR()):
        mod = step(mod)
        assert_structural_equal(load_json(save_json(mod)), mod)


def test_what_is_shared_stays_shared():
    x = Constant(WEIGHT)
    first, second = load_json(save_json([x, x]))
    assert first is second
    main = load_json(save_json(Module))["main"]
    assert main.body.blocks[0].bindings[0].value.args[0] is main.params[0]


def test_plain_values_and_arrays():
    values = [None, True, 3, "x", (2.5, float("inf")), {"a": [1]}, np.array([[1, 2]], "int8")]
    again = load_json(save_json(values))
    assert again[:6] == values[:6]
    np.testing.assert_array_equal(again[6], values[6])
    assert np.isnan(load_json(save_json(float("nan"))))


def test_depth_costs_no_stack():
    expr = make_node("ir.IntImm", dtype="bool", value=0)
    for _ in range(20_000):
        expr = make_node("tir.Not", a=expr)
    assert load_json(save_json(expr)).type_key == "tir.Not"


def test_nodes_are_made_by_the_names_of_their_classes():
    assert make_node("relax.expr.StringImm", value="x").value == "x"
    with pytest.raises(ValueError, match=r"no class of nodes is registered under 'tir\.Nothing'"):
        make_node("tir.Nothing")


def test_what_has_no_form_is_named():
    with pytest.raises(TypeError, match=r"builtins\.function has no form in JSON"):
        save_json([lambda: None])


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: "{}",
        lambda text: text[:-20],
        lambda text: text.replace('"relax.Call"', '"relax.Nothing"'),
        lambda text: text.replace('"name_hint"', '"title"'),
        lambda text: json.dumps({**json.loads(text), "root": {"node": 10**6}}),
        lambda text: json.dumps({**json.loads(text), "root": {"strange": 1}}),
    ],
)
def test_damaged_texts_are_refused(spoil):
    with pytest.raises(LoadError):
        load_json(spoil(save_json(Module)))
