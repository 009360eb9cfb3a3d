"""Calls with sizes that vary: the short way gives what the long one gives, and refuses what that refuses."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

import eutectic
from eutectic.backend.dnnl.library import availability
from eutectic.runtime.sized_call import KEPT_SHAPES, SizedCall
from eutectic.support.errors import CallError, EutecticAdvice

N, M = Dim("n", min=2, max=40), Dim("m", max=9)


class Lone(nn.Module):
    def forward(self, x):
        return x * 2 + 1


class Summed(nn.Module):
    """The shape of the result is fixed."""

    def forward(self, x):
        return x.sum(0)


class Joined(nn.Module):
    """Sizes of results are sums and products of symbols, and some are results themselves."""

    def forward(self, x, y):
        joined = torch.cat([x, y])
        return {"joined": joined, "rows": joined.shape[0], "none": None, "flat": [(x * 2).reshape(-1), 7]}


class Shared(nn.Module):
    def forward(self, x, y):
        return x + y, x * y


class Related(nn.Module):
    """One argument is longer by one, another one four times as long."""

    def forward(self, x, y, z):
        return x * 2, x.sum(0) + y.sum(0) + z.sum(0)


class Decode(nn.Module):
    """Grows a cache that lies in containers, and takes a number and None."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 12)

    def forward(self, x, scale, cache, mask=None):
        q, k, v = (self.linear(x) * scale).chunk(3, -1)
        keys, values = torch.cat([cache[0], k], 1), torch.cat([cache[1]["v"], v], 1)
        return torch.softmax(q @ keys.transpose(1, 2), -1) @ values, (keys, {"v": values})


class Swapped(nn.Module):
    """Native code may take its inputs in another order."""

    def forward(self, x, y):
        return (y + 1).sum(1), x - y.to(torch.float32)


def rows(n: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return (torch.arange(3.0 * n) % 7 - 2.5).reshape(n, 3).to(dtype)


def cache_of(n: int) -> tuple[Any, ...]:
    return (
        rows(4).reshape(1, 3, 4)[:, :1].clone(),
        2,
        (torch.ones(1, n, 4), {"v": torch.linspace(0, 1, 4 * n).reshape(1, n, 4)}),
    )


# A model, which of its sizes vary, and arguments for two numbers.
MODELS: dict[str, tuple[nn.Module, Any, Callable[[int, int], tuple[Any, ...]]]] = {
    "lone": (Lone(), ({0: N},), lambda n, m: (rows(n),)),
    "summed": (Summed(), ({0: N},), lambda n, m: (rows(n),)),
    "joined": (Joined(), ({0: N}, {0: M}), lambda n, m: (rows(n), rows(m))),
    "shared": (Shared(), ({0: N}, {0: N}), lambda n, m: (rows(n), rows(n) + 1)),
    "related": (Related(), ({0: N}, {0: N + 1}, {0: 4 * N}), lambda n, m: (rows(n), rows(n + 1), rows(4 * n))),
    "decode": (Decode(), ({}, None, ({1: N}, {"v": {1: N}}), None), lambda n, m: (*cache_of(n), None)),
    "swapped": (Swapped(), ({0: N}, {0: N}), lambda n, m: (rows(n), rows(n, torch.int64))),
}


@cache
def compiled(name: str) -> Any:
    model, sizes, inputs = MODELS[name]
    torch.manual_seed(0)
    return eutectic.compile(model.eval(), inputs(5, 4), dynamic_shapes=sizes, target="llvm")


def long_way(model: Any, *args: Any) -> Any:
    """Results of a call as if there were no short way."""
    quick, model._quick = model._quick, None
    try:
        return model(*args)
    finally:
        model._quick = quick


def leaves(value: Any) -> list[Any]:
    return torch.utils._pytree.tree_leaves(value)


def as_arrays(value: Any) -> Any:
    return torch.utils._pytree.tree_map(lambda x: x.numpy() if isinstance(x, torch.Tensor) else x, value)


def check_same(got: Any, want: Any) -> None:
    """Equal structures, kinds, shapes, strides and bits."""
    assert torch.utils._pytree.tree_structure(got) == torch.utils._pytree.tree_structure(want)
    for a, b in zip(leaves(got), leaves(want), strict=True):
        assert type(a) is type(b)
        if isinstance(a, torch.Tensor):
            assert (a.dtype, a.stride(), a.is_contiguous()) == (b.dtype, b.stride(), True)
            assert torch.equal(a, b)
        elif isinstance(a, np.ndarray):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b, strict=True)
        else:
            assert a == b


@pytest.mark.parametrize("name", MODELS)
def test_all_sizes_give_what_the_long_way_gives(name: str):
    fast, inputs, chosen = compiled(name), MODELS[name][2], random.Random(0)
    sizes = [(2, 1), (40, 9), *((chosen.randint(2, 40), chosen.randint(1, 9)) for _ in range(6)), (2, 1)]
    assert isinstance(fast._quick, SizedCall)
    for n, m in sizes:
        args = inputs(n, m)
        for given in (args, as_arrays(args)):
            check_same(fast._quick(*given), long_way(fast, *given))
        with torch.no_grad():
            torch.testing.assert_close(fast(*args), MODELS[name][0](*args))


REFUSED: dict[str, tuple[str, Callable[[], tuple[Any, ...]]]] = {
    "below the range": ("lone", lambda: (rows(1),)),
    "above the range": ("lone", lambda: (rows(41),)),
    "above the range of an array": ("lone", lambda: (rows(41).numpy(),)),
    "rank": ("lone", lambda: (rows(5)[0],)),
    "fixed size": ("lone", lambda: (torch.ones(5, 4),)),
    "dtype": ("lone", lambda: (rows(5).double(),)),
    "dtype of an array": ("lone", lambda: (rows(5).double().numpy(),)),
    "device": ("lone", lambda: (rows(5).to("meta"),)),
    "sparse": ("lone", lambda: (rows(5).to_sparse(),)),
    "gradients": ("lone", lambda: (rows(5).requires_grad_(),)),
    "subclass": ("lone", lambda: (rows(5).as_subclass(type("Own", (torch.Tensor,), {})),)),
    "freed": ("lone", lambda: (freed(rows(5), 0),)),
    "freed partly": ("lone", lambda: (freed(rows(5), 40),)),
    "no tensor": ("lone", lambda: ("x",)),
    "none": ("lone", lambda: (None,)),
    "too few": ("shared", lambda: (rows(5),)),
    "too many": ("shared", lambda: (rows(5), rows(5), rows(5))),
    "symbols that differ": ("shared", lambda: (rows(5), rows(6))),
    "second of two": ("shared", lambda: (rows(5), rows(5).double())),
    "range of the second": ("joined", lambda: (rows(5), rows(10))),
    "not longer by one": ("related", lambda: (rows(5), rows(5), rows(20))),
    "no multiple": ("related", lambda: (rows(5), rows(6), rows(21))),
    "another multiple": ("related", lambda: (rows(5), rows(6), rows(24))),
    "above the range of all": ("related", lambda: (rows(41), rows(42), rows(164))),
    "caches that differ": ("decode", lambda: (*cache_of(5)[:2], (cache_of(6)[2][0], cache_of(5)[2][1]), None)),
    "other number": ("decode", lambda: (cache_of(5)[0], 3, *cache_of(5)[2:], None)),
    "number for none": ("decode", lambda: (*cache_of(5), 1)),
    "list for a tuple": ("decode", lambda: (*cache_of(5)[:2], list(cache_of(5)[2]), None)),
    "other key": ("decode", lambda: (*cache_of(5)[:2], (torch.ones(1, 5, 4), {"w": torch.ones(1, 5, 4)}), None)),
    "longer tuple": ("decode", lambda: (*cache_of(5)[:2], (*cache_of(5)[2], rows(5)), None)),
}  # fmt: skip


def freed(x: torch.Tensor, nbytes: int) -> torch.Tensor:
    x.untyped_storage().resize_(nbytes)
    return x


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_gets_the_message_of_the_long_way(case: str):
    name, given = REFUSED[case]
    fast, args = compiled(name), given()
    fast(*MODELS[name][2](5, 4))  # sizes that were met before make no difference
    with pytest.raises(Exception):  # noqa: B017, PT011 - whichever
        fast._quick(*args)
    with pytest.raises(CallError) as wanted:
        long_way(fast, *args)
    for _ in range(2):
        with pytest.raises(CallError) as said:
            fast(*args)
        assert str(said.value) == str(wanted.value)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.t().contiguous().t(),
        lambda x: torch.cat([x, x], 1)[:, :3],
        lambda x: torch.cat([x, x], 1)[:, ::2],
        lambda x: torch._neg_view(-x),
        lambda x: nn.Parameter(x.clone(), requires_grad=False),
        lambda x: np.asfortranarray(x.numpy()),
        lambda x: np.frombuffer(x.numpy().tobytes(), "float32").reshape(-1, 3),  # read-only
        lambda x: np.frombuffer(bytearray(b"\0" + x.numpy().tobytes()), "float32", offset=1).reshape(-1, 3),
        lambda x: x.numpy().astype(">f4"),
    ],
)
def test_other_tensors_go_the_long_way(change: Callable[[torch.Tensor], Any]):
    fast, x = compiled("lone"), rows(5)
    torch.testing.assert_close(fast(x), x * 2 + 1)
    given = change(rows(5))
    with pytest.raises((TypeError, BufferError)):
        fast._quick(given)
    check_same(fast(given), long_way(fast, given))


def test_gradients_are_fine_where_none_are_recorded():
    x = rows(5).requires_grad_()
    with torch.no_grad():
        torch.testing.assert_close(compiled("lone")(x), x.detach() * 2 + 1)


def test_parts_of_a_larger_tensor_are_read_in_place():
    x = rows(30)[10:15]
    check_same(compiled("lone")._quick(x), x * 2 + 1)


def test_integers_do_not_stand_for_the_bits_of_bfloat16():
    fast = eutectic.compile(Lone(), (rows(5, torch.bfloat16),), dynamic_shapes=({0: N},), target="llvm")
    torch.testing.assert_close(fast._quick(rows(6, torch.bfloat16)), rows(6, torch.bfloat16) * 2 + 1)
    with pytest.raises(CallError, match="must be bfloat16, got uint16"):
        fast(torch.ones(6, 3).to(torch.uint16))


@pytest.mark.parametrize("name", ["lone", "decode"])
def test_results_are_new_each_time(name: str):
    fast, args = compiled(name), MODELS[name][2](5, 4)
    first, second = leaves(fast(*args)), leaves(fast(*args))
    assert len({x.data_ptr() for x in first + second}) == len(first) + len(second)
    arrays = as_arrays(args)
    assert not np.shares_memory(leaves(fast(*arrays))[0], leaves(fast(*arrays))[0])


def test_names_and_arrays_beside_tensors_go_the_long_way():
    fast, (x, y) = compiled("shared"), MODELS["shared"][2](6, 1)
    want = (x + y, x * y)
    for results in (fast(x.numpy(), y), fast(x, y.numpy()), fast(x, y=y), fast(y=y, x=x)):
        torch.testing.assert_close(tuple(map(torch.as_tensor, results)), want)


def test_of_many_shapes_a_few_are_kept():
    fast = compiled("lone")
    for n in [*range(2, 41), *range(2, 41)]:
        assert torch.equal(fast._quick(rows(n)), rows(n) * 2 + 1)
    assert len(fast._quick._derived) == KEPT_SHAPES


def test_an_argument_that_nothing_reads_is_looked_at():
    class Ignores(nn.Module):
        def forward(self, x, y):
            return x + 1

    fast = eutectic.compile(Ignores(), (rows(5), rows(5)), dynamic_shapes=({0: N}, {0: N}), target="llvm")
    torch.testing.assert_close(fast(rows(6), rows(6)), rows(6) + 1)
    with pytest.raises(CallError, match="argument y must be float32"):
        fast(rows(6), rows(6).double())


def test_an_argument_that_is_returned_is_the_same_object():
    class Same(nn.Module):
        def forward(self, x):
            return x, x + 1

    fast, x = eutectic.compile(Same(), (rows(5),), dynamic_shapes=({0: N},), target="llvm"), rows(6)
    assert fast(x)[0] is x


def test_an_argument_that_is_changed_gets_its_values():
    class Changes(nn.Module):
        def forward(self, x):
            x.add_(1)
            return x * 2

    fast, x = eutectic.compile(Changes(), (rows(5),), dynamic_shapes=({0: N},), target="llvm"), rows(6)
    torch.testing.assert_close(fast(x), (rows(6) + 1) * 2)
    torch.testing.assert_close(x, rows(6) + 1)


@pytest.mark.parametrize("name", ["joined", "decode"])
def test_eight_threads_with_different_sizes(name: str):
    fast, (model, _, inputs) = compiled(name), MODELS[name]
    sizes = [(2 + i % 39, 1 + i % 9) for i in range(60)]  # more than are kept

    def work(seed: int) -> None:
        for n, m in random.Random(seed).sample(sizes, len(sizes)):
            with torch.no_grad():
                torch.testing.assert_close(fast._quick(*inputs(n, m)), model(*inputs(n, m)))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))


@pytest.mark.parametrize("name", ["lone", "joined", "related", "decode"])
def test_models_that_are_read_are_called_the_same_way(name: str, tmp_path: Path):
    fast, inputs = compiled(name), MODELS[name][2]
    for read in (
        eutectic.load(fast.save(tmp_path / "model.eut")),
        eutectic.artefact.model.LoadedModel.from_bytes(fast.to_bytes()),
    ):
        assert isinstance(read._quick, SizedCall)
        for n, m in [(2, 1), (17, 3), (40, 9)]:
            check_same(read._quick(*inputs(n, m)), long_way(fast, *inputs(n, m)))
    for case, given in REFUSED.values():
        if case == name:
            with pytest.raises(CallError) as wanted:
                long_way(fast, *given())
            with pytest.raises(CallError) as said:
                read(*given())
            assert str(said.value) == str(wanted.value)


@pytest.mark.skipif(not availability().ok, reason="needs oneDNN")
def test_libraries_are_prepared_for_the_sizes_of_each_call():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 32)).eval()
    fast = eutectic.compile(model, (torch.ones(5, 64),), dynamic_shapes=({0: N},), target="llvm -libs=dnnl")
    assert fast.executable.instructions[0].code.varies
    for n in [*range(2, 41, 2), 5, 40, 2]:
        x = torch.randn(n, 64)
        check_same(fast._quick(x), long_way(fast, x))
    x[0, 0] = torch.nan
    with torch.no_grad(), pytest.warns(EutecticAdvice, match="holds NaN"):
        torch.testing.assert_close(fast(x), model(x), equal_nan=True)
