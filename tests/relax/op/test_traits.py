"""Traits of operators are true of their references, for every operator that has one."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import tests.relax.op.cases_elementwise
import tests.relax.op.cases_nn
import tests.relax.op.cases_places
import tests.relax.op.cases_quantized
import tests.relax.op.cases_shape  # noqa: F401  # the modules register their cases when imported
from hypothesis import given
from hypothesis import strategies as st
from tests.relax.op.oracle import CASES, Feeds, evaluate

from eutectic.ir.node import replace
from eutectic.relax import op
from eutectic.relax.base import Expr
from eutectic.relax.op.registry import Trait, all_ops, has_trait, infer_call, is_identity, work_of
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.relax.transform import RemoveIdentityOps
from eutectic.testing.graphs import graph

SRC = Path(__file__).parents[3] / "src" / "eutectic"


def having(trait: Trait) -> list[str]:
    return sorted(name for name, definition in all_ops().items() if trait in definition.traits)


def same(got: np.ndarray, want: np.ndarray) -> None:
    np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))


@pytest.mark.parametrize("name", [name for name, found in sorted(all_ops().items()) if found.identity_fn is not None])
@given(data=st.data())
def test_with_the_same_type_they_give_their_operand(name: str, data: st.DataObject):
    call = CASES[name](feeds := Feeds(data.draw)).call
    out, first = call.struct_info, call.args[0].struct_info
    if not isinstance(out, TensorStructInfo) or not is_identity(call):
        return
    if (out.static_shape, out.dtype) == (first.static_shape, first.dtype):
        same(evaluate(call, feeds.values), evaluate(call.args[0], feeds.values))


@pytest.mark.parametrize("name", having("view"))
@given(data=st.data())
def test_views_keep_the_order_of_their_elements(name: str, data: st.DataObject):
    call = CASES[name](feeds := Feeds(data.draw)).call
    got, x = evaluate(call, feeds.values), evaluate(call.args[0], feeds.values)
    same(got.reshape(-1), x.reshape(-1))


@pytest.mark.parametrize("name", having("commutative"))
@given(data=st.data())
def test_operands_can_change_places(name: str, data: st.DataObject):
    call = CASES[name](feeds := Feeds(data.draw)).call
    definition = all_ops()[name]
    a, b = (evaluate(arg, feeds.values) for arg in call.args)
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        same(definition.reference_fn(None, a, b), definition.reference_fn(None, b, a))


@pytest.mark.parametrize("name", having("pointwise"))
@given(data=st.data())
def test_pointwise_operators_are_the_same_when_axes_change_places(name: str, data: st.DataObject):
    """Which is what a layout does."""
    call = CASES[name](feeds := Feeds(data.draw)).call
    rank = len(call.struct_info.static_shape)

    def turned(arg: Expr) -> Expr:
        info = arg.struct_info
        if not isinstance(info, TensorStructInfo):
            return arg
        return op.permute_dims(op.expand_dims(arg, list(range(rank - info.ndim))) if rank > info.ndim else arg)

    made = infer_call(replace(call, args=tuple(map(turned, call.args)), struct_info=None))
    got, want = evaluate(made, feeds.values), evaluate(call, feeds.values)
    np.testing.assert_array_equal(got.tobytes(), np.ascontiguousarray(want.T).tobytes())


def test_families():
    assert having("convolution") == sorted(f"relax.nn.conv{n}d{t}" for n in (1, 2, 3) for t in ("", "_transpose"))
    assert having("transposed") == [name for name in having("convolution") if "transpose" in name]
    assert len(having("calls")) == 8
    assert len(having("attention")) == 4
    assert having("view") == ["relax.expand_dims", "relax.flatten", "relax.reshape", "relax.squeeze"]


def test_asking():
    call = op.matmul(*(op.zeros((n, 3, 3), "float32") for n in (1, 2)))
    assert has_trait(call, "contraction")
    assert has_trait("relax.matmul", "contraction")
    assert not has_trait("relax.nothing", "contraction")
    assert not has_trait(None, "view")
    assert work_of(call) == 2 * 3 * 18
    assert work_of(op.zeros((3,), "float32")) == 0


@pytest.mark.parametrize("make", [op.squeeze, op.flatten, lambda x: op.nn.adaptive_max_pool1d(x, 3)])
def test_identities_of_every_kind_go(make):
    shape = (5,) if make is op.flatten else (2, 3, 3)
    mod = graph({"x": shape}, lambda bb, x: op.erf(make(x)))
    (block,) = RemoveIdentityOps()(mod)["main"].body.blocks
    assert [b.value.op.name for b in block.bindings if hasattr(b.value, "op")] == ["relax.erf"]


def test_a_pool_to_another_layout_stays():
    """Of equal sizes: the type is that of the operand, and the values have other places."""
    made = graph({"x": (1, 3, 3, 3)}, lambda bb, x: op.nn.adaptive_avg_pool2d(x, (3, 3), "NHWC", "NCHW"))
    assert RemoveIdentityOps()(made) is made


# What is about the operators themselves: their definitions, patterns of them, and their counterparts elsewhere.
ABOUT_OPERATORS = re.compile(
    r"relax/(op|dpl|frontend)/|backend/\w+/(patterns|algorithms|decode_matmul|codegen)\.py|runtime/host_operators\.py|testing/converter_table\.py"
)
# File -> the trait whose operators it lists all the same.
ALLOWED: dict[str, Trait] = {
    "relax/transform/fold_scale_into_weights.py": "commutative",  # a bias is added, a factor multiplies: no third one
    "relax/transform/attention/scores.py": "commutative",  # likewise of a mask and a factor
}


@functools.cache
def operators_named() -> dict[str, frozenset[str]]:
    """By file, the operators whose names, or the beginnings of them, are among its string constants."""
    names, found = set(all_ops()), {}
    for path in sorted(SRC.rglob("*.py")):
        texts = set(re.findall(r'"(relax\.[a-z][\w.]*)"', path.read_text(encoding="utf-8")))
        found[path.relative_to(SRC).as_posix()] = frozenset(
            n for n in names for t in texts if n == t or (t not in names and n.startswith(t))
        )
    return found


# What is pointwise is half of all operators, and patterns are made of them.
@pytest.mark.parametrize("trait", sorted(set(get_args(Trait)) - {"calls", "pointwise"}))
def test_who_asks_for_a_family_asks_for_its_trait(trait: Trait):
    """A pass may be about one operator; what lists two of a family should not have to be changed for the third."""
    family = set(having(trait))
    for name, named in operators_named().items():
        if not ABOUT_OPERATORS.search(name) and ALLOWED.get(name) != trait:
            assert len(named & family) < 2, name
