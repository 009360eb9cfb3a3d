"""A compiled model has its weights once, as the library wants them; the plain ones are made when asked for."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import eutectic
from eutectic.backend.dnnl.library import availability
from eutectic.driver.compiled import CompiledModel
from eutectic.driver.pipeline import pipeline
from eutectic.driver.pipeline_text import Pipeline
from eutectic.ir.structural import structural_equal
from eutectic.ir.visit import post_order
from eutectic.relax import op
from eutectic.relax.expr import Constant, Function
from eutectic.relax.interpret import Interpreter
from eutectic.runtime.constants import Constants, same_bits
from eutectic.testing.graphs import arrays, graph, weights

pytestmark = pytest.mark.skipif(not availability().ok, reason=f"oneDNN: {availability().reason}")
TARGET = "llvm -libs=dnnl"


def network(bb: Any, x: Any) -> Any:
    """Weights that are padded, split into groups, transposed, and added."""
    y = bb.emit(op.nn.relu(op.add(op.nn.conv2d(x, weights(20, 3, 3, 3)), weights(1, 20, 1, 1, seed=2))))
    y = bb.emit(op.nn.conv2d(y, weights(20, 1, 3, 3, seed=3), groups=20))
    y = bb.emit(op.nn.conv2d_transpose(y, weights(20, 8, 2, 2, seed=4)))
    y = bb.emit(op.nn.max_pool2d(y, pool_size=(2, 2)))
    rows = bb.emit(op.reshape(y, (1, -1)))
    size = rows.struct_info.static_shape[1]
    transposed = bb.emit(op.permute_dims(eutectic.relax.const(np.ascontiguousarray(numbers(40, size))), [1, 0]))
    return op.add(op.matmul(rows, transposed), weights(40, seed=6))


def numbers(*shape: int) -> np.ndarray:
    found: np.ndarray = np.random.default_rng(5).standard_normal(shape).astype("float32")
    found.reshape(-1)[:3] = (-0.0, 1e-42, 3e38)
    return found


def compiled() -> tuple[Any, CompiledModel, list[np.ndarray]]:
    """Transposed convolutions stay, so that the library gets their weights."""
    mod = graph({"x": (1, 3, 12, 12)}, network)
    steps = tuple(step for step in pipeline(TARGET) if step.info.name != "DecomposeConvTranspose")
    return mod, eutectic.compile(mod, target=TARGET, pipeline=Pipeline(steps, "kept")), arrays(mod["main"])


def kernels(model: CompiledModel) -> list[Constants]:
    return [kernel.constants for kernel in model.executable._kernels()]


def constants(mod: Any) -> list[np.ndarray]:
    return [node.data for node in kept_constants(mod)]


def test_the_plain_weights_are_gone_and_come_back_with_their_bits():
    mod, model, _ = compiled()
    derived = [(held, name) for held in kernels(model) for name in held if held.is_derived(name)]
    assert len(derived) >= 6
    wanted = [array for array in constants(mod) if array.size > 1]
    for held, name in derived:
        found = held[name]
        assert any(
            same_bits(found.reshape(-1), np.ascontiguousarray(array).reshape(-1))
            for array in wanted + [array.T for array in wanted if array.ndim == 2]
        ), name


def test_nothing_keeps_the_arrays_that_were_given():
    mod, model, inputs = compiled()
    given = [weakref.ref(array if array.base is None else array.base) for array in constants(mod) if array.size > 100]
    assert given
    want = model(*inputs)
    del mod
    gc.collect()
    assert sum(ref() is not None for ref in given) <= 1  # the transposed one, which the library packs from a copy
    np.testing.assert_array_equal(model(*inputs), want)


def test_modules_are_kept_without_their_weights():
    mod, model, _ = compiled()
    made = model._made()
    shelves = (made.partitioned, made.lowered)
    held = {id(node.data): node.data for shelved in shelves for node in kept_constants(shelved.stripped)}
    plain = sum(array.nbytes for array in held.values() if any(array.strides))
    assert plain < sum(array.nbytes for array in constants(mod)) / 20


def kept_constants(mod: Any) -> list[Constant]:
    functions = [f for _, f in mod.functions_items() if isinstance(f, Function)]
    functions += [region.function for region in mod.attrs.get("external_mods", ())]
    return [node for function in functions for node in post_order(function) if isinstance(node, Constant)]


def test_modules_are_given_with_their_weights():
    (mod, model, inputs), (_, plain, _) = compiled(), compiled()
    for one, other in ((model.module, plain.module), (model.lowered, plain.lowered)):
        assert [gv.name_hint for gv in one.functions] == [gv.name_hint for gv in other.functions]
        assert all(map(structural_equal, one.functions.values(), other.functions.values()))
        assert not [array for array in constants(one) if array.size > 1 and not any(array.strides)]
    assert len(constants(model.lowered)) == len(constants(plain.lowered)) > 6
    want = Interpreter(mod).run("main", *inputs)
    np.testing.assert_allclose(model(*inputs), want, rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore::eutectic.EutecticAdvice")  # of the first such call
def test_what_needs_the_plain_weights_has_them():
    mod, model, (x,) = compiled()
    made = CompiledModel.from_bytes(model.to_bytes())
    assert made.to_bytes() == model.to_bytes()
    np.testing.assert_array_equal(made(x), model(x))
    broken = x.copy()
    broken[0, 1, 4, 4] = np.nan
    want = Interpreter(mod).run("main", broken)
    for one in (model, made):
        np.testing.assert_allclose(one(broken), want, rtol=1e-4, atol=1e-4)
    assert [step.name for step in model.profile(x)]


def test_a_file_leaves_no_plain_weights_behind():
    _, model, _ = compiled()
    (held, name), *_ = ((held, name) for held in kernels(model) for name in held if held.is_derived(name))
    made: list[weakref.ref[Any]] = []
    original = held._values[name]
    assert callable(original)

    def watched() -> np.ndarray:
        found = original()
        made.append(weakref.ref(found))
        return found

    held.derive(name, watched)
    model.to_bytes()
    gc.collect()
    assert made
    assert not [ref for ref in made if ref() is not None]


def test_a_value_is_made_again_whenever_it_is_asked_for():
    value = np.arange(3.0)
    held = Constants({"a": value, "b": value})
    assert (held["a"] is value, held.is_derived("a"), len(held), list(held)) == (True, False, 2, ["a", "b"])
    held.derive("a", lambda: np.arange(3.0))
    assert held.is_derived("a")
    assert same_bits(held["a"], value)
    with pytest.raises(KeyError):
        held["c"]


@pytest.mark.parametrize(
    "other", [np.array([0.0, 1.0]), np.array([-0.0, 1.0], "float32"), np.array([[0.0, 1.0]], "float32")]
)
def test_other_bits(other: np.ndarray):
    zero = np.array([0.0, 1.0], "float32")
    assert same_bits(zero, zero.copy())
    assert not same_bits(zero, other)


def test_native_code_and_modules_share_constants():
    x = np.ones((2, 30), np.float32)
    table = np.zeros(30 * 50 * 4 + 64, np.uint8)
    start = (8 - table.__array_interface__["data"][0]) % 64  # not where native code wants it
    weight = table[start : start + 30 * 50 * 4].view(np.float32).reshape(30, 50)
    weight[...] = numbers(30, 50)
    mod = graph({"x": (2, 30)}, lambda bb, given: op.matmul(given, eutectic.relax.const(weight)))
    model = eutectic.compile(mod, target="llvm")
    (code,) = (step.code for step in model.executable.instructions)
    loaded = model.executable._loading.native(code)
    for one in (model.module, model.lowered):
        (held,) = (array for array in constants(one) if array.shape == (30, 50))
        assert any(np.shares_memory(held, array) for array in loaded._arrays)
    np.testing.assert_allclose(model(x), x @ weight, rtol=1e-5)
