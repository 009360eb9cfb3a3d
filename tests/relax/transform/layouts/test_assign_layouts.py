"""AssignLayouts: which layouts values get, and that the graph computes the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from eutectic.ir.module import IRModule
from eutectic.ir.prim_expr import Var as SizeVar
from eutectic.ir.structural import structural_equal
from eutectic.ir.transform import PassContext
from eutectic.relax import op
from eutectic.relax.analysis import problems_of
from eutectic.relax.analysis.uses import walk_bindings
from eutectic.relax.block_builder import BlockBuilder
from eutectic.relax.expr import Tuple, TupleGetItem, Var
from eutectic.relax.op import nn
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.relax.transform import AssignLayouts, FoldConstant
from eutectic.relax.transform.layouts import offers
from eutectic.relax.transform.layouts.choice import copy_cost
from eutectic.relax.transform.layouts.offers import ROW_MAJOR, LayoutOffer, offers_of
from eutectic.script import from_source
from eutectic.target import Target
from eutectic.testing.graphs import assert_same_results, evaluate, graph, weights

WIDE = "llvm -mcpu=x86-64-v4"  # vectors of 16 floats


def conv(bb: Any, x: Any, filters: int, kernel: int = 3, groups: int = 1, **options: Any) -> Any:
    depth = x.struct_info.static_shape[1] // groups
    made = bb.emit(
        nn.conv2d(
            x, weights(filters, depth, kernel, kernel, seed=filters), padding=kernel // 2, groups=groups, **options
        )
    )
    return bb.emit(op.add(made, weights(1, filters, 1, 1)))


def relu(bb: Any, x: Any) -> Any:
    return bb.emit(nn.relu(x))


def chain(bb: Any, x: Any) -> Any:
    x = relu(bb, conv(bb, x, 32, strides=2))
    x = bb.emit(nn.max_pool2d(relu(bb, conv(bb, x, 32, groups=32)), 2, 2))
    x = bb.emit(nn.adaptive_avg_pool2d(relu(bb, conv(bb, x, 48, 1)), 1))
    return op.matmul(bb.emit(op.reshape(x, (1, 48))), weights(48, 5))


def diamond(bb: Any, x: Any) -> Any:
    """Two ways of unlike channels, which are joined."""
    x = relu(bb, conv(bb, x, 64))
    return op.concat([relu(bb, conv(bb, x, 96, 1)), conv(bb, x, 16, 3)], axis=-3)


def residual(bb: Any, x: Any) -> Any:
    x = relu(bb, conv(bb, x, 64))
    for stride in (1, 2):
        way = x if stride == 1 else conv(bb, x, 64, 1, strides=stride)
        inside = conv(bb, relu(bb, conv(bb, x, 64, strides=stride)), 64)
        x = relu(bb, bb.emit(op.add(inside, way)))
    return x


def gated(bb: Any, x: Any) -> Any:
    """Channels that are cut and joined, rows that are mirrored at the ends and cut off."""
    both = bb.emit(op.split(conv(bb, x, 64), 2, axis=1))
    x, gate = (bb.emit(TupleGetItem(both, k)) for k in range(2))
    x = bb.emit(op.multiply(x, bb.emit(op.sigmoid(gate))))
    x = bb.emit(nn.pad(x, [0, 0, 0, 0, 1, 1, 1, 1], pad_mode="reflect"))
    x = bb.emit(op.strided_slice(conv(bb, x, 64), [1, 2], [32, 1], [64, -1]))
    return conv(bb, x, 32, 1)


GRAPHS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "chain": (chain, (1, 3, 16, 16)),
    "diamond": (diamond, (2, 32, 7, 7)),
    "gated": (gated, (1, 16, 7, 7)),
    "residual": (residual, (1, 16, 7, 7)),
}


@pytest.fixture(params=sorted(GRAPHS))
def before(request: pytest.FixtureRequest) -> IRModule:
    make, shape = GRAPHS[request.param]
    return graph({"x": shape}, make)


def names_of(mod: IRModule) -> list[str]:
    return [b.value.op.name.removeprefix("relax.") for b in walk_bindings(mod["main"]) if hasattr(b.value, "op")]


def test_text(before: IRModule, golden):
    golden(FoldConstant()(AssignLayouts(WIDE)(before)).script())


def test_the_same_is_computed(before: IRModule):
    """By the references the very same: they undo the layouts."""
    after = AssignLayouts(WIDE)(before)
    assert "layout_transform" in names_of(after)
    assert_same_results(before, after)
    with PassContext(validate=True, verify=True):
        FoldConstant()(AssignLayouts(WIDE)(before))


def test_again_changes_nothing(before: IRModule):
    after = FoldConstant()(AssignLayouts(WIDE)(before))
    assert AssignLayouts(WIDE)(after) is after


@pytest.mark.parametrize("before", ["chain", "gated", "residual"], indirect=True)
def test_copies_are_left_at_the_ends_only(before: IRModule):
    after = FoldConstant()(AssignLayouts(WIDE)(before))
    assert names_of(after).count("layout_transform") <= 1


@pytest.mark.parametrize("channels", [(3, 5), (12, 7), (17, 9)])
def test_odd_channels_stay(channels: tuple[int, int]):
    mod = graph({"x": (1, channels[0], 7, 7)}, lambda bb, x: relu(bb, conv(bb, x, channels[1])))
    assert AssignLayouts(WIDE)(mod) is mod


def test_channels_last_of_a_user_stays():
    mod = graph(
        {"x": (1, 7, 7, 32)},
        lambda bb, x: nn.conv2d(x, weights(32, 3, 3, 32), data_layout="NHWC", kernel_layout="OHWI"),
    )
    assert AssignLayouts(WIDE)(mod) is mod


def test_what_does_not_need_it_stays():
    mod = graph({"x": (1, 64, 7, 7)}, lambda bb, x: op.exp(relu(bb, x)))
    assert AssignLayouts(WIDE)(mod) is mod


def test_a_batch_of_any_size():
    n = SizeVar("n", "int64")
    mod = graph({"x": (n, 16, 7, 7)}, lambda bb, x: relu(bb, _dynamic(bb, _dynamic(bb, x))))
    after = AssignLayouts(WIDE)(mod)
    assert "layout_transform" in names_of(after)
    for size in (1, 3):
        x = np.random.default_rng(size).standard_normal((size, 16, 7, 7)).astype("float32")
        np.testing.assert_array_equal(evaluate(after, x), evaluate(mod, x))


def _dynamic(bb: Any, x: Any) -> Any:
    return bb.emit(op.add(bb.emit(nn.conv2d(x, weights(16, 16, 3, 3), padding=1)), weights(16, 1, 1)))


def test_results_and_parameters_keep_their_types(before: IRModule):
    after = AssignLayouts(WIDE)(before)
    for this, other in zip(before["main"].params, after["main"].params, strict=True):
        assert structural_equal(this.struct_info, other.struct_info)
    assert structural_equal(before["main"].ret_struct_info, after["main"].ret_struct_info)


def test_values_that_are_results_and_are_read_on():
    def body(bb: Any, x: Any) -> Any:
        first = bb.emit_output(nn.relu(conv(bb, x, 32)))
        return [first, conv(bb, first, 32)]

    mod = graph({"x": (1, 32, 7, 7)}, body)
    after = AssignLayouts(WIDE)(mod)
    assert after is not mod
    assert_same_results(mod, after)


def test_regions_and_groups_are_left_alone():
    mod = graph({"x": (1, 16, 7, 7)}, residual)
    for name in ("Codegen", "Composite", "Primitive"):
        inside = IRModule({"main": mod["main"].with_attr(name, "some" if name != "Primitive" else True)})
        assert AssignLayouts(WIDE)(inside) is inside


def test_copies_do_not_leave_branches():
    source = """
@R.function
def main(x: R.Tensor((1, 2, 3, 3), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((1, 2, 3, 3), "float32"):
    y = R.exp(x)
    if c:
        z = R.sin(y)
    else:
        u = R.sin(y)
        z = R.cos(u)
    w = R.cos(y)
    v = R.add(w, z)
    return v
"""
    mod = from_source(source)
    mod = mod if isinstance(mod, IRModule) else IRModule({"main": mod})
    with pytest.MonkeyPatch.context() as patch:
        cheap = [LayoutOffer(cost=1e6), LayoutOffer(("NCHW2c",), ("NCHW2c",))]
        patch.setitem(
            offers.LAYOUT_OFFERS._providers,
            "c",
            lambda call, target: cheap if call.op.name == "relax.exp" else [ROW_MAJOR],
        )
        with PassContext(verify=True):
            after = AssignLayouts("c")(mod)
    assert after is not mod
    assert problems_of(after) == []
    x = np.linspace(-1, 1, 18, dtype="float32").reshape(1, 2, 3, 3)
    for c in (False, True):
        np.testing.assert_array_equal(evaluate(after, x, np.array(c)), evaluate(mod, x, np.array(c)))


def test_weights_that_are_parameters_are_copied_in_each_call():
    mod = graph(
        {"x": (1, 512, 7, 7), "w": (512, 512, 3, 3)}, lambda bb, x, w: relu(bb, bb.emit(nn.conv2d(x, w, padding=1)))
    )
    after = AssignLayouts(WIDE)(mod)
    assert after is mod or names_of(after)[0] == "layout_transform"
    assert_same_results(mod, after)


@pytest.mark.parametrize(
    "computed",
    [
        lambda w: op.multiply(w, w),
        lambda w: op.exp(w),
        lambda w: op.divide(w, op.sqrt(op.sum(op.multiply(w, w), axis=[1, 2, 3], keepdims=True))),
        lambda w: nn.avg_pool2d(w, 3, 1, padding=1),
        lambda w: nn.conv2d(w, weights(64, 64, 1, 1)),
    ],
    ids=["product", "pointwise", "weight norm", "pool", "convolution"],
)
def test_weights_may_be_computed_by_what_has_layouts_of_images(computed: Callable[..., Any]):
    """Layouts of images and of weights are not copied into each other."""

    def body(bb: Any, x: Any, w: Any) -> Any:
        return relu(bb, bb.emit(nn.conv2d(relu(bb, conv(bb, x, 64)), bb.emit(computed(w)), padding=1)))

    mod = graph({"x": (1, 64, 28, 28), "w": (64, 64, 3, 3)}, body)
    after = AssignLayouts(WIDE)(mod)
    assert "layout_transform" in names_of(after)
    assert_same_results(mod, after)


# ---- costs


@pytest.fixture
def cost(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Nanoseconds that exp saves in blocks of two channels, by kind of target `c`, where others are offered both."""
    saved: dict[str, float] = {"relax.exp": 0.0}

    def ask(call: Any, target: Target) -> list[LayoutOffer]:
        spent = 1e6 - saved.get(call.op.name, 0.0)
        blocked = LayoutOffer(("NCHW2c",) * len(call.args), ("NCHW2c",), spent)
        return [LayoutOffer(cost=1e6), blocked] if call.op.name not in ("relax.sin", "relax.cos") else [ROW_MAJOR]

    monkeypatch.setitem(offers.LAYOUT_OFFERS._providers, "c", ask)
    return saved


def _between(bb: Any, x: Any) -> Any:
    return op.sin(bb.emit(op.exp(bb.emit(op.sin(x)))))


def test_copies_are_made_when_they_pay(cost: dict[str, float]):
    mod = graph({"x": (1, 4, 50, 50)}, _between)
    copies = 2 * copy_cost(mod["main"].params[0].struct_info, "", "NCHW2c")
    cost["relax.exp"] = copies - 1
    assert AssignLayouts("c")(mod) is mod
    cost["relax.exp"] = copies + 1
    after = AssignLayouts("c")(mod)
    assert names_of(after) == ["sin", "layout_transform", "exp", "layout_transform", "sin"]
    assert_same_results(mod, after)


def test_one_copy_serves_all_readers(cost: dict[str, float]):
    """Each alone would not pay for it."""

    def body(bb: Any, x: Any) -> Any:
        x = bb.emit(op.sin(x))
        return [bb.emit(op.sin(bb.emit(op.exp(x)))), bb.emit(op.sin(bb.emit(op.exp(op.exp(x)))))]

    mod = graph({"x": (1, 4, 50, 50)}, body)
    cost["relax.exp"] = 1.2 * copy_cost(mod["main"].params[0].struct_info, "", "NCHW2c")
    after = AssignLayouts("c")(mod)
    assert names_of(after).count("layout_transform") == 3
    assert_same_results(mod, after)


def test_copies_do_not_leave_their_blocks(cost: dict[str, float]):
    """Of a value that two blocks read in another layout, each has a copy."""
    x = Var("x", TensorStructInfo((1, 4, 5, 5), "float32"))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        results = []
        for _ in range(2):
            with bb.dataflow():
                results.append(bb.emit_output(op.sin(bb.emit(op.exp(x)))))
            results.append(bb.emit(op.cos(x)))
        bb.emit_func_output(Tuple(tuple(results)))
    mod = bb.get()
    cost["relax.exp"] = 1e6
    after = AssignLayouts("c")(mod)
    assert names_of(after) == ["layout_transform", "exp", "layout_transform", "sin", "cos"] * 2
    assert problems_of(after) == []
    assert_same_results(mod, after)


def test_tuples_that_are_variables_stay(cost: dict[str, float]):
    def body(bb: Any, x: Any) -> Any:
        return op.exp(bb.emit(op.concat(bb.emit(Tuple((x, x))), axis=1)))

    mod = graph({"x": (1, 32, 7, 7)}, body)
    cost["relax.exp"] = cost["relax.concat"] = 1e6
    after = AssignLayouts("c")(mod)
    assert names_of(after)[0] == "concat"
    assert_same_results(mod, after)


def test_the_same_value_twice(cost: dict[str, float]):
    mod = graph({"x": (1, 4, 50, 50)}, lambda bb, x: op.exp(bb.emit(op.add(x, x))))
    cost["relax.exp"] = cost["relax.add"] = 1e6
    after = AssignLayouts("c")(mod)
    assert names_of(after) == ["layout_transform", "add", "exp", "layout_transform"]
    assert_same_results(mod, after)


def test_what_moves_nothing_costs_nothing():
    info = graph({"x": (1, 64, 1, 1)}, lambda bb, x: x)["main"].params[0].struct_info
    assert copy_cost(info, "", "NCHW16c") == copy_cost(info, "NCHW16c", "NCHW32c") == 0.0
    wide = graph({"x": (1, 64, 10, 10)}, lambda bb, x: x)["main"].params[0].struct_info
    assert copy_cost(wide, "", "NCHW16c") == 2 * 4 * 6400 / 10 + 500
    assert copy_cost(wide, "NCHW16c", "NHWC") == copy_cost(wide, "NHWC", "")


def test_nobody_knows_layouts_for_some_targets():
    mod = graph({"x": (1, 16, 7, 7)}, residual)
    assert list(offers_of(Target("cuda"))(next(walk_bindings(mod["main"])).value)) == [ROW_MAJOR]
    with Target("cuda"):
        assert AssignLayouts()(mod) is mod
