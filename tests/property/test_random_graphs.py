"""Random convolutional graphs: partitioning, preparing and compiling keep what they compute."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eutectic
from eutectic.backend.dnnl.patterns import patterns
from eutectic.backend.llvm.layouts import layout_offers
from eutectic.backend.llvm.machine import machine_of
from eutectic.backend.registry import backend
from eutectic.driver.pipeline import prepare
from eutectic.ir.module import IRModule
from eutectic.ir.structural import structural_equal, structural_hash
from eutectic.ir.transform import PassContext
from eutectic.relax import op
from eutectic.relax.analysis import problems_of
from eutectic.relax.base import Expr
from eutectic.relax.dpl.roles import roles_of
from eutectic.relax.dpl.table import get_pattern
from eutectic.relax.transform import (
    AssignLayouts,
    BindRegionConstants,
    FoldConstant,
    FuseOpsByPattern,
    MergeCompositeFunctions,
    RunCodegen,
)
from eutectic.relax.transform.layouts import offers
from eutectic.relax.transform.layouts.offers import LayoutOffer
from eutectic.target import Target
from eutectic.testing.graphs import arrays, assert_close, assert_same_results, evaluate, graph, weights

PATTERNS = patterns()
Pick = Callable[[Any], Any]


class Growth:
    """Adds one random operator after the other; every value is `(1, channels, size, size)`."""

    def __init__(self, bb: Any, pick: Pick, x: Expr) -> None:
        self.bb, self.pick, self.values = bb, pick, [x]

    def shape(self, value: Expr) -> tuple[int, ...]:
        return value.struct_info.static_shape

    def conv2d(self, x: Expr) -> Expr:
        _, channels, size, _ = self.shape(x)
        out, kernel = self.pick([2, 4]), self.pick([1, 3] if size > 1 else [1])
        weight = weights(out, channels, kernel, kernel, seed=self.pick([0, 1]))
        made = op.nn.conv2d(x, weight, padding=kernel // 2)
        bias = self.pick(["none", "reshaped", "plain", "not per channel"])
        if bias == "reshaped":
            return op.add(made, op.reshape(weights(out), (1, out, 1, 1)))
        if bias == "none":
            return made
        return op.add(made, weights(1, out, 1, 1) if bias == "plain" else weights(1, 1, 1, size))

    def binary(self, x: Expr) -> Expr:
        same = [value for value in self.values if self.shape(value) == self.shape(x)]
        return self.pick([op.add, op.multiply])(x, self.pick(same))

    def activation(self, x: Expr) -> Expr:
        return self.pick([op.nn.relu, op.sigmoid, op.tanh, lambda v: op.clip(v, 0, 6), lambda v: op.clip(v, -1, 2)])(x)

    def concat(self, x: Expr) -> Expr:
        same = [value for value in self.values if self.shape(value)[2:] == self.shape(x)[2:]]
        return op.concat([x, self.pick(same)], axis=1)

    def max_pool(self, x: Expr) -> Expr:
        return op.nn.max_pool2d(x, (2, 2), strides=(2, 2)) if self.shape(x)[2] > 1 else x

    def split(self, x: Expr) -> Expr:
        if self.shape(x)[1] % 2:
            return x
        return self.bb.emit(op.split(x, 2, axis=1))[self.pick([0, 1])]

    def step(self) -> None:
        common, rare = [self.conv2d, self.binary, self.activation], [self.concat, self.max_pool, self.split]
        grow = self.pick([*common, *common, *rare])
        self.values.append(self.bb.emit(grow(self.pick(self.values[-3:]))))


def build(choices: list[int], outputs: int) -> IRModule:
    """The graph that a list of choices stands for; the same list gives the same graph."""

    def body(bb: Any, x: Expr) -> list[Expr]:
        rest = list(choices)

        def pick(options: Any) -> Any:
            return options[rest.pop() % len(options) if rest else -1]

        growth = Growth(bb, pick, x)
        while rest:
            growth.step()
        return growth.values[-outputs:]

    return graph({"x": (1, 4, 4, 4)}, body)


MODULES = st.builds(build, st.lists(st.integers(0, 40), min_size=3, max_size=45), st.integers(1, 3))


@given(MODULES)
def test_partitioning_keeps_every_bit(mod: IRModule):
    text = mod.script()
    with PassContext(verify=True):
        fused = FuseOpsByPattern(PATTERNS, bind_constants=True)(mod)
        merged = MergeCompositeFunctions()(fused)
    assert_same_results(mod, fused)
    assert_same_results(mod, merged)
    assert mod.script() == text


@given(MODULES)
def test_passing_constants_keeps_every_bit(mod: IRModule):
    fused = FuseOpsByPattern(PATTERNS, bind_constants=False)(mod)
    assert problems_of(fused) == []
    assert_same_results(mod, fused)
    assert FuseOpsByPattern(PATTERNS, bind_constants=False)(fused) is fused


@given(MODULES)
def test_every_preparing_pass_keeps_results_and_its_input(mod: IRModule):
    for step in prepare():
        text = mod.script()
        with PassContext(verify=True):
            after = step(mod)
        assert mod.script() == text, step.info.name
        assert_same_results(mod, after, exact=False)
        mod = after


@given(MODULES, st.integers(0, 2**31))
def test_layouts_keep_every_bit(mod: IRModule, seed: int):
    """Whatever the offers cost; the references undo layouts. Vectors of four floats make blocks of what there is."""
    rng, machine = np.random.default_rng(seed), machine_of(Target("llvm -mcpu=x86-64"))

    def ask(call: Any, target: Target) -> list[LayoutOffer]:
        return [replace(offer, cost=float(rng.integers(0, 9)) * 1000) for offer in layout_offers(call, machine)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(offers.LAYOUT_OFFERS._providers, "c", ask)
        with PassContext(verify=True):
            after = AssignLayouts("c")(mod)
            folded = FoldConstant()(after)
    assert_same_results(mod, after)
    assert_same_results(mod, folded)


@given(MODULES)
def test_every_stage_prints_as_python(mod: IRModule):
    outline = backend("dnnl").outline("default")
    for step in (*prepare(), *outline, BindRegionConstants(), RunCodegen()):
        mod = step(mod)
        text = mod.script(show_meta=True)
        ast.parse(text)
        assert mod.script(show_meta=True) == text
        assert all(function.script() for function in mod.functions.values())


@given(MODULES, st.integers(0, 3))
def test_compiled_graphs_agree_with_the_interpreter(mod: IRModule, seed: int):
    inputs = arrays(mod["main"], seed)
    fast = eutectic.compile(mod, threads=1)
    want = evaluate(mod, *inputs)
    for _ in range(2):
        for one, other in zip(fast(*inputs), want, strict=True):
            assert_close(one, np.asarray(other), 2e-5)


@given(st.lists(st.integers(0, 40), min_size=3, max_size=45), st.integers(1, 3))
def test_equal_programs_have_equal_hashes_and_text(choices: list[int], outputs: int):
    one, other = build(choices, outputs), build(choices, outputs)
    assert structural_equal(one, other)
    assert structural_hash(one) == structural_hash(other)
    assert one.script(show_meta=True) == other.script(show_meta=True)


@given(MODULES, MODULES)
def test_unequal_hashes_mean_unequal_programs(one: IRModule, other: IRModule):
    assert structural_equal(one, other) == (structural_hash(one) == structural_hash(other))


@given(MODULES)
def test_roles_are_what_the_pattern_names_in_the_composite(mod: IRModule):
    fused = FuseOpsByPattern(PATTERNS, annotate_roles=True)(mod)
    for composite in (f for f in fused.functions.values() if f.attr("Composite")):
        entry = get_pattern(composite.attr("Composite"))
        values = {b.var: b.value for block in composite.body.blocks for b in block.bindings}
        matched = entry.pattern.extract_matched_expr(composite.body.body, values)
        named = {pattern.name: value for pattern, value in matched.items() if pattern.name is not None}
        roles = {name: values.get(part, part) for name, part in roles_of(composite).items()}
        assert roles.keys() == named.keys()
        assert all(roles[name] is named[name] for name in roles)
