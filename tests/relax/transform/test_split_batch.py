"""The beginning of a network becomes a function of a piece of the batch, and what is computed stays the same."""

from __future__ import annotations

from typing import Any

import pytest
from tests.relax.transform.rewriting import assert_stays, ops, ops_after

from eutectic.ir.module import IRModule
from eutectic.ir.prim_expr import Var as Size
from eutectic.ir.services import Measured, Services, Speeds
from eutectic.ir.transform import PassContext
from eutectic.relax import op
from eutectic.relax.analysis.uses import walk_calls
from eutectic.relax.expr import Expr, Function
from eutectic.relax.transform import SplitBatch
from eutectic.relax.transform.split_batch import split
from eutectic.relax.transform.split_batch.choice import BatchOffer, BatchSizes
from eutectic.target import Target
from eutectic.testing.graphs import graph, weights

SHAPE = (4, 3, 6, 6)


class Offers:
    """Pieces of one size, of as many operators as there are up to some end; what was asked for."""

    def __init__(self) -> None:
        self.asked: list[BatchSizes] = []
        self.size, self.end = 1, -1

    def __call__(self, sizes: BatchSizes, target: Target, speeds: Speeds | None) -> list[BatchOffer]:
        self.asked.append(sizes)
        ends = [number for number, step in enumerate(sizes.steps, 1) if step.may_end]
        return [BatchOffer(self.size, ends[self.end], 0.0, 1.0)]


@pytest.fixture(autouse=True)
def offers(monkeypatch: pytest.MonkeyPatch) -> Offers:
    made = Offers()
    monkeypatch.setattr(split.BATCH_OFFERS, "ask", made)
    return made


def network(body: Any, **shapes: tuple[Any, ...]) -> IRModule:
    return graph({"x": SHAPE, **shapes}, lambda bb, *tensors: body(bb, *tensors))


def convolved(x: Expr, channels: int = 3) -> Expr:
    return op.nn.relu(op.add(op.nn.conv2d(x, weights(5, channels, 3, 3), padding=1), weights(1, 5, 1, 1)))


def piece(mod: IRModule) -> list[str]:
    """Names of the operators that are computed for each part."""
    after = SplitBatch()(mod)
    inner = [f for _, f in after.functions_items() if isinstance(f, Function) and not f.attr("global_symbol")]
    return [call.op.name.removeprefix("relax.") for function in inner for call in walk_calls(function)]


def chain(bb: Any, x: Expr) -> Expr:
    x = bb.emit(op.nn.max_pool2d(bb.emit(convolved(x)), 2, 2))
    return bb.emit(op.matmul(bb.emit(op.reshape(x, (4, 45))), weights(45, 7)))


@pytest.mark.parametrize("size", [1, 2])
def test_all_of_a_network(offers: Offers, size: int):
    offers.size = size
    assert ops_after(SplitBatch(), network(chain)) == ["map_batch"]
    assert piece(network(chain)) == ["nn.conv2d", "add", "nn.relu", "nn.max_pool2d", "reshape", "matmul"]


def test_the_beginning_of_a_network(offers: Offers):
    offers.end = 0
    assert ops_after(SplitBatch(), network(chain)) == ["map_batch", "nn.max_pool2d", "reshape", "matmul"]


def test_pieces_end_behind_what_is_fused(offers: Offers):
    piece(network(chain))
    (sizes,) = offers.asked
    assert [step.may_end for step in sizes.steps] == [False, False, True, False, True, True, True]


def test_what_steps_read_and_write(offers: Offers):
    SplitBatch(threads=3)(network(chain))
    (sizes,) = offers.asked
    image, filtered, pooled = (4 * 4 * count for count in (3 * 36, 5 * 36, 5 * 9))
    moved = [image + filtered, 0, 0, filtered + pooled, 0, pooled + 4 * 4 * 7]
    assert [step.activations for step in sizes.steps[:6]] == moved
    assert [step.weights for step in sizes.steps[:6]] == [4 * 5 * 27, 4 * 5, 0, 0, 0, 4 * 45 * 7]
    assert sizes.steps[0].work == 2.0 * 4 * 36 * 5 * 27
    assert sizes.steps[0].convolution is not None
    assert (sizes.batch, sizes.threads) == (4, 3)


def test_residuals_count_what_they_read_besides(offers: Offers):
    def body(bb: Any, x: Expr) -> Expr:
        first = bb.emit(convolved(x))
        return bb.emit(op.add(bb.emit(op.nn.conv2d(first, weights(5, 5, 1, 1))), first))

    piece(network(body))
    assert offers.asked[0].steps[4].activations == 4 * 4 * 5 * 36


def test_several_results_and_values_of_the_whole(offers: Offers):
    offers.end = 1

    def body(bb: Any, x: Expr, w: Expr) -> Expr:
        first = bb.emit(op.multiply(bb.emit(op.nn.conv2d(x, weights(5, 3, 1, 1))), w))
        second = bb.emit(op.nn.max_pool2d(first, 3, padding=1))
        return bb.emit(op.concat([bb.emit(op.sum(second, [0])), bb.emit(op.sum(first, [0]))], 1))

    mod = network(body, w=(5, 1, 1))
    assert ops_after(SplitBatch(), mod) == ["map_batch", "sum", "sum", "concat"]


def test_branches_that_come_together(offers: Offers):
    def body(bb: Any, x: Expr) -> Expr:
        halves = bb.emit(op.split(bb.emit(op.nn.conv2d(x, weights(4, 3, 1, 1))), 2, 1))
        joined = bb.emit(op.concat([bb.emit(op.nn.relu(halves[1])), halves[0], x], 1))
        return bb.emit(op.mean(joined, [2, 3]))

    assert ops_after(SplitBatch(), network(body)) == ["map_batch"]


def test_several_batches(offers: Offers):
    offers.size = 2
    mod = network(lambda bb, x, y: bb.emit(op.add(bb.emit(convolved(x)), y)), y=(4, 5, 6, 6))
    assert ops_after(SplitBatch(), mod) == ["map_batch"]


def test_it_stops_where_places_meet(offers: Offers):
    def body(bb: Any, x: Expr) -> Expr:
        centred = bb.emit(op.subtract(x, bb.emit(op.mean(x, [0], keepdims=True))))
        return bb.emit(op.add(bb.emit(convolved(centred)), bb.emit(convolved(x))))

    assert piece(network(body)) == ["nn.conv2d", "add", "nn.relu"]
    assert ops_after(SplitBatch(), network(body))[:3] == ["map_batch", "mean", "subtract"]


def test_a_function_that_is_called_so_is_left_alone():
    after = SplitBatch()(network(chain))
    assert_stays(SplitBatch(), after)
    assert ops(after) == ["map_batch"]


@pytest.mark.parametrize("count", [1, Size("n", "int64")])
def test_one_image_or_an_unknown_number(offers: Offers, count: Any):
    assert_stays(SplitBatch(), graph({"x": (count, 3, 6, 6)}, lambda bb, x: bb.emit(convolved(x))))
    assert offers.asked == []


def test_nobody_offers(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(split.BATCH_OFFERS, "ask", lambda sizes, target, speeds: [])
    assert_stays(SplitBatch(), network(chain))


def test_not_worthwhile(monkeypatch: pytest.MonkeyPatch):
    offer = BatchOffer(1, 3, 1.0, 1.0, worthwhile=False)
    monkeypatch.setattr(split.BATCH_OFFERS, "ask", lambda sizes, target, speeds: [offer])
    assert_stays(SplitBatch(), network(chain))


@pytest.mark.parametrize("steps", [3, 0])
def test_what_was_measured_counts(monkeypatch: pytest.MonkeyPatch, steps: int):
    offers = [BatchOffer(1, 7, 0.0, 1.0), BatchOffer(2, 3, 0.5, 1.0, worthwhile=False)]
    monkeypatch.setattr(split.BATCH_OFFERS, "ask", lambda sizes, target, speeds: offers)
    with PassContext(remarks=True) as ctx:
        SplitBatch("llvm")(network(chain))
    (remark,) = ctx.remarks
    assert (dict(remark.chosen), remark.source) == ({"size": 1, "steps": 7}, "default")
    assert [dict(way) for way in remark.alternatives] == [{"size": 4, "steps": 0}, {"size": 2, "steps": 3}]
    decision = {"size": 2, "steps": 3} if steps else {"size": 4, "steps": 0}
    with PassContext(services=Services(Measured({remark.workload: {"split_batch": decision}}))):
        after = SplitBatch("llvm")(network(chain))
    assert ops(after) == (["map_batch"] if steps else []) + ops(network(chain))[steps:]


def test_functions_of_libraries_are_left_alone():
    mod = network(chain)
    mod["main"] = mod["main"].with_attr("Codegen", "dnnl")
    assert_stays(SplitBatch(), mod)


def test_names_of_other_functions_stay():
    mod = network(chain)
    mod["main_piece"] = mod["main"].with_attr("global_symbol", "main_piece")
    assert {gv.name_hint for gv in SplitBatch()(mod).get_global_vars()} == {
        "main",
        "main_piece",
        "main_piece1",
        "main_piece_piece",
    }


def test_a_function_that_gives_what_it_is_given(offers: Offers):
    assert_stays(SplitBatch(), graph({"x": SHAPE}, lambda bb, x: x))
    assert offers.asked == []
