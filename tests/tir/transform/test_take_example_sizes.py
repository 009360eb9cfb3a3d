"""What sizes that vary are in the example: from the model to the tensor programs, and what is decided by it."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

import eutectic
from eutectic import te, topi
from eutectic.backend.llvm.machine import machine_of
from eutectic.ir.module import IRModule
from eutectic.ir.prim_expr import floordiv
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.relax.transform.layouts.offers import likely_sizes
from eutectic.target import Target
from eutectic.testing.graphs import graph
from eutectic.tir import PrimFunc, Var
from eutectic.tir.analysis.example_sizes import size_in_example
from eutectic.tir.function_attributes import EXAMPLE_SIZES, example_sizes
from eutectic.tir.schedule.rules.stage import stages_of
from eutectic.tir.schedule.rules.tile_size import TileAxes, choose_tile
from eutectic.tir.schedule.rules.walk import walk_of
from eutectic.tir.transform import TakeExampleSizes

N = Var("n", "int64")
AVX2 = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v3")


def product(rows: Var = N) -> PrimFunc:
    x, w = te.placeholder((rows, 64), "float32", "x"), te.placeholder((64, 32), "float32", "w")
    return te.create_prim_func([x, w, topi.matmul(x, w)])


def module(sizes: dict[str, int] | None) -> IRModule:
    mod = graph({"x": (N, 4)}, lambda bb, x: x)
    mod["main"] = mod["main"].with_attr(EXAMPLE_SIZES, sizes) if sizes else mod["main"]
    return IRModule({**dict(mod.functions_items()), "f": product(), "g": product(Var("m", "int64"))})


def test_programs_get_their_own_sizes():
    taken = TakeExampleSizes()(module({"n": 12, "k": 3}))
    assert example_sizes(taken["f"]) == {"n": 12}
    assert not example_sizes(taken["g"])
    assert TakeExampleSizes()(taken) is taken
    mod = module({"n": 12})
    mod["f"] = mod["f"].with_attr(EXAMPLE_SIZES, {"n": 5})
    assert example_sizes(TakeExampleSizes()(mod)["f"]) == {"n": 5}
    mod = module(None)
    assert TakeExampleSizes()(mod) is mod


def test_sizes_are_computed():
    assert size_in_example(floordiv(N + 1, 2) * 3, {"n": 7}) == 12
    assert size_in_example(N + Var("m", "int64"), {"n": 7}) is None
    info = TensorStructInfo((N, 8, floordiv(N, 2), Var("m", "int64")), "float32")
    assert likely_sizes(info, {"n": 10}) == [10, 8, 5, 32]
    assert likely_sizes(info) == [1, 8, 32, 32]


@pytest.mark.parametrize(("rows", "height"), [(4, 4), (8, 4), (10, 5), (2, 6), (3, 6), (40, 6), (None, 6)])
def test_tiles_divide_few_rows_of_the_example(rows: int | None, height: int):
    """Remainders are cut into halves: of eight rows in sixes two would be left, one by one. Two are any number."""
    func = product() if rows is None else product().with_attr(EXAMPLE_SIZES, {"n": rows})
    staged = stages_of(func)
    assert staged is not None
    span, vector = walk_of(staged[0][0]).spatial
    assert span.likely == rows
    assert span.size is None
    assert choose_tile(TileAxes(vector, span, shares=True), machine_of(AVX2)).rows == height


def test_a_model_says_what_its_example_had():
    model = torch.nn.Linear(8, 4).eval()
    varying = ({0: Dim("n", min=2, max=64)},)
    fast = eutectic.compile(model, (torch.randn(6, 8),), dynamic_shapes=varying)
    (known,) = {tuple(example_sizes(func).values()) for _, func in fast.lowered.functions_items()}
    assert known == (6,)
    torch.testing.assert_close(fast(x := torch.randn(9, 8)), model(x))


def test_images_that_vary_are_tiled_as_those_of_the_example():
    """Of 7 x 7 points tiles of two are worth it, and tiles of four are not; a likely size would be larger."""
    torch.manual_seed(0)
    model = torch.nn.Conv2d(512, 512, 3, padding=1).eval()
    varying = ({2: Dim("h", min=3, max=64), 3: Dim("w", min=3, max=64)},)
    fast = eutectic.compile(model, (torch.randn(1, 512, 7, 7),), target="llvm -mcpu=x86-64-v3", dynamic_shapes=varying)
    programs = [func for _, func in fast.lowered.functions_items() if isinstance(func, PrimFunc)]
    shapes = [
        tuple(getattr(size, "value", 0) for size in buffer.shape)
        for func in programs
        for buffer in func.buffer_map.values()
    ]
    assert (4, 4, 32, 64, 8, 16) in shapes
    x = torch.randn(1, 512, 9, 6)
    torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-4)
