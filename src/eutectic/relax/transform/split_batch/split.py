"""SplitBatch: the beginning of a network for a few images at a time, where caches hold what these need."""

from __future__ import annotations

from dataclasses import dataclass

from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.transform import Pass, PassContext, with_functions
from eutectic.relax.analysis.uses import is_call_of, walk_calls
from eutectic.relax.block_builder import BlockBuilder
from eutectic.relax.expr import DataflowBlock, Function
from eutectic.relax.op.map_batch import MAP_BATCH
from eutectic.relax.transform.entry import is_fused
from eutectic.relax.transform.offers_by_kind import note_choice, tuned_choice
from eutectic.relax.transform.split_batch.choice import BATCH_OFFERS, POINT, BatchOffer, BatchSizes
from eutectic.relax.transform.split_batch.piece import Piece
from eutectic.relax.transform.split_batch.steps import batch_of, step_sizes
from eutectic.target import Target, target_or_current


@dataclass(frozen=True)
class SplitBatch(Pass):
    """Compute the beginning of a network for a piece of the batch at a time, each piece through all of its operators.

    The tensors between operators that a whole batch needs are larger than caches, those of an image mostly are not.
    From the first operator on, those are taken that compute each image by itself; how many, and how many images at a
    time, is what whoever makes the kernels for the target estimates to be fastest, or what was measured: the services
    of the context know it then, at the choice point `split_batch`. Sizes that vary are left alone, and so are
    functions that call `map_batch` already.

    before:                                   after:
        lv = nn.conv2d(x, w)                      lv1 = map_batch(main_piece, (x,), (), size=1)
        lv1 = nn.relu(lv)                         lv2 = flatten(lv1)
        lv2 = flatten(lv1)                        gv = matmul(lv2, w1)
        gv = matmul(lv2, w1)

    The function `main_piece` has the convolution and the activation, of one image.

    Cost: linear in the size of the function.

    Attributes:
        target: What for, as the text of a target; when empty, the current target, else this machine.
        threads: Threads of a call, which share the work of each piece.
    """

    target: str = ""
    threads: int = 1

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Cut the batch of each function that others can call."""
        target = target_or_current(self.target or None)
        out = mod
        for gv, function in mod.functions_items():
            if isinstance(function, Function) and function.attr("global_symbol") and not is_fused(function):
                found = self._cut(function, target, ctx)
                if found is not None:
                    inner = GlobalVar(BlockBuilder(out).get_unique_global(f"{gv.name_hint}_piece"))
                    out = with_functions(out, {inner: found.function, gv: found.calling(inner)})
        return out

    def _cut(self, function: Function, target: Target, ctx: PassContext) -> Piece | None:
        """What is computed piece by piece; None where none is worth it."""
        block = next(iter(function.body.blocks), None)
        batch = None if any(is_call_of(call, MAP_BATCH) for call in walk_calls(function)) else batch_of(function)
        if batch is None or not isinstance(block, DataflowBlock):
            return None
        steps = step_sizes(batch)
        offer = _chosen(BatchSizes(batch.images, steps, self.threads), target, ctx)
        return None if offer is None else Piece.of(function, batch.first(offer.steps), offer.size)


def _chosen(sizes: BatchSizes, target: Target, ctx: PassContext) -> BatchOffer | None:
    """How a network is cut, if that was measured, or else is estimated, to be faster."""
    workload, measured = sizes.workload(target), ctx.services.measured
    offers = BATCH_OFFERS.ask(sizes, target, measured.speeds)
    whole = {"size": sizes.batch, "steps": 0}
    ways = [whole, *map(_way, offers)]
    tuned = tuned_choice(ctx, workload, POINT, ways)
    wanted = (offer for offer in offers if (offer.worthwhile if tuned is None else _way(offer) == dict(tuned)))
    chosen = next(wanted, None)
    note_choice(ctx, workload, POINT, whole if chosen is None else _way(chosen), ways)
    return chosen


def _way(offer: BatchOffer) -> dict[str, int]:
    """What a database of decisions knows an offer by."""
    return {"size": offer.size, "steps": offer.steps}
