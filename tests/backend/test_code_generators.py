"""Code generators by kind of target: how one is found, added, asked and refused."""

from __future__ import annotations

import numpy as np
import pytest

import eutectic
from eutectic.backend import registry
from eutectic.backend.contract import CodeGenerator
from eutectic.backend.registry import code_forms, code_generator, register_code_generator
from eutectic.driver.inspect import kernel_source
from eutectic.relax import op
from eutectic.support.errors import CodegenError
from eutectic.target import Target, target_or_current
from eutectic.testing.graphs import assert_close, evaluate, graph
from eutectic.tir.function import PrimFunc


class Listening(CodeGenerator):
    """Has another generator do its work, and notes what it was asked."""

    def __init__(self, other: CodeGenerator) -> None:
        self.kind, self.forms, self.other, self.asked = other.kind, {"plain": "text"}, other, []

    def machine(self, target):
        return self.other.machine(target)

    def cached(self, func, target):
        return None

    def kernel(self, func, target, name="", lowered=None):
        self.asked.append(("kernel", name, lowered is None))
        return self.other.kernel(func, target, name, lowered)

    def program(self, plan, arrays, target, **options):
        self.asked.append(("program", plan.name))
        return self.other.program(plan, arrays, target, **options)

    def with_code(self, kernel, target):
        return self.other.with_code(kernel, target)

    def source(self, func: PrimFunc, name: str, target: Target, form: str) -> str:
        return f"{form} of {name}"

    def spills(self, func, name, target):
        return 7


@pytest.fixture
def listening(monkeypatch: pytest.MonkeyPatch) -> Listening:
    made = Listening(code_generator(Target()))
    monkeypatch.setattr(registry, "_GENERATORS", dict(registry._GENERATORS))
    register_code_generator(made, override=True)
    return made


def _small() -> eutectic.IRModule:
    return graph({"x": (3, 5)}, lambda bb, x: bb.emit(op.nn.relu(op.add(x, x))))


def test_the_driver_asks_the_generator_of_the_kind(listening: Listening):
    mod, x = _small(), np.linspace(-1, 1, 15, dtype="float32").reshape(3, 5)
    made = eutectic.compile(mod, target="llvm")
    assert_close(made(x), evaluate(mod, x))
    assert listening.asked == [("kernel", "fused_add_relu", False), ("program", "main_0")]


def test_tensor_programs_are_made_by_the_generator(listening: Listening):
    a = eutectic.te.placeholder((4,), "float32", "a")
    func = eutectic.te.create_prim_func([a, eutectic.te.compute((4,), lambda i: a[i] + 1.0)])
    out = np.zeros(4, "float32")
    eutectic.build(func)(np.ones(4, "float32"), out)
    assert out.tolist() == [2.0] * 4
    assert listening.asked == [("kernel", "", True), ("program", "main")]
    assert kernel_source(func) == "plain of main"
    assert eutectic.driver.inspect.kernel_spills(func) == {"main": 7}
    with pytest.raises(CodegenError, match=r"unknown kind of code 'asm'"):
        kernel_source(func, None, "asm")


def test_forms_are_those_of_all_generators():
    assert code_forms() == {"llvm": "llvm", "asm": "gas"}


def test_the_current_target_is_meant_when_none_is_given():
    assert target_or_current(None) == Target()
    with Target("cuda"):
        assert target_or_current(None) == Target("cuda")
        assert target_or_current("llvm -mcpu=haswell").mcpu == "haswell"


def _of_kind(kind: str) -> Listening:
    made = Listening(code_generator(Target()))
    made.kind = kind
    return made


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda: code_generator(Target("cuda")), "target cuda is not one that native code is made for"),
        (lambda: register_code_generator(object()), "object is no code generator: it has no kind, forms, machine"),
        (lambda: register_code_generator(_of_kind("lvm")), r"for a kind of target, got 'lvm'(.|\n)*did you mean llvm"),
        (lambda: register_code_generator(_of_kind("llvm")), "code for 'llvm' has a generator already"),
    ],
)
def test_refusals(act, said: str):
    with pytest.raises(CodegenError, match=said):
        act()
