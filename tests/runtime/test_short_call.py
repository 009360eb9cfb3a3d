"""Calls with plain tensors: the short way gives what the long one gives, and takes nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import eutectic
from eutectic.support.errors import CallError


class Lone(nn.Module):
    def forward(self, x):
        return x * 2 + 1


class Sum(nn.Module):
    def forward(self, x, y):
        return x + y.to(torch.float32)


class Pair(nn.Module):
    def forward(self, x, y):
        return x + y, x * y


class Named(nn.Module):
    def forward(self, x, y):
        return {"sum": x + y, "parts": [x * y, x - y]}


class Same(nn.Module):
    def forward(self, x, y):
        return x, x + y


X, Y = torch.arange(6.0).reshape(2, 3), torch.full((2, 3), 0.5)
MODELS = {"lone": (Lone(), (X,)), "sum": (Sum(), (X, torch.ones(3, dtype=torch.int64))), "pair": (Pair(), (X, Y))}
MODELS |= {"named": (Named(), (X, Y)), "same": (Same(), (X, Y))}


def compiled(name: str) -> tuple[Any, nn.Module, tuple[torch.Tensor, ...]]:
    model, inputs = MODELS[name]
    return eutectic.compile(model, inputs, target="llvm"), model, inputs


def leaves(value: Any) -> list[Any]:
    return torch.utils._pytree.tree_leaves(value)


@pytest.mark.parametrize("name", MODELS)
def test_tensors_and_arrays(name: str):
    fast, model, inputs = compiled(name)
    assert (fast._quick is None) == (name == "same")  # an argument that is returned is the same object
    want = model(*inputs)
    for _ in range(2):
        results = fast(*inputs)
        torch.testing.assert_close(results, want)
        assert type(results) is type(want)
        arrays = leaves(fast(*(x.numpy() for x in inputs)))
        assert all(isinstance(array, np.ndarray) for array in arrays)
        torch.testing.assert_close([torch.as_tensor(array) for array in arrays], leaves(want))
    if name == "same":
        assert results[0] is inputs[0]


def test_an_argument_that_nothing_reads_is_looked_at():
    class Ignores(nn.Module):
        def forward(self, x, y):
            return x + 1

    fast = eutectic.compile(Ignores(), (X, Y), target="llvm")
    torch.testing.assert_close(fast(X, Y), X + 1)
    with pytest.raises(CallError, match="argument y must be float32"):
        fast(X, Y.double())


@pytest.mark.parametrize("name", ["lone", "pair"])
def test_results_are_new_each_time(name: str):
    fast, _, inputs = compiled(name)
    first, second = leaves(fast(*inputs)), leaves(fast(*inputs))
    pointers = {x.data_ptr() for x in first + second}
    assert len(pointers) == len(first) + len(second)
    arrays = tuple(x.numpy() for x in inputs)
    assert not np.shares_memory(leaves(fast(*arrays))[0], leaves(fast(*arrays))[0])


@pytest.mark.parametrize("name", ["lone", "pair"])
@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.t().contiguous().t(),
        lambda x: torch.empty(2, 6)[:, ::2].copy_(x),
        lambda x: x.clone().requires_grad_(),
        lambda x: torch._neg_view(-x),
        lambda x: nn.Parameter(x.clone()),
        lambda x: np.asfortranarray(x.numpy()),
        lambda x: np.frombuffer(x.numpy().tobytes(), "float32").reshape(2, 3),  # read-only
        lambda x: x.numpy().astype(">f4"),
    ],
)
def test_other_tensors_go_the_long_way(name: str, change: Any):
    fast, model, inputs = compiled(name)
    args = tuple(change(x) for x in inputs)
    with pytest.raises((TypeError, BufferError)):
        fast._quick(*args)
    with torch.no_grad():
        results = [torch.as_tensor(x) for x in leaves(fast(*args))]
        torch.testing.assert_close(results, leaves(model(*inputs)))


def test_arrays_beside_tensors_and_names():
    fast, model, (x, y) = compiled("pair")
    want = model(x, y)
    for results in (fast(x.numpy(), y), fast(x, y.numpy()), fast(x, y=y), fast(y=y, x=x)):
        torch.testing.assert_close(tuple(map(torch.as_tensor, results)), want)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((X,), "argument y is missing"),
        ((X, Y, Y), "takes 2 arguments, got 3"),
        ((X, Y[:1]), "argument y must have size 2 on axis 0"),
        ((X.numpy(), Y.numpy()[:, :2]), "argument y must have size 3 on axis 1"),
        ((X, Y.double()), "argument y must be float32, got float64"),
        ((X.numpy(), Y.numpy().astype("int32")), "argument y must be float32, got int32"),
        ((X, Y.to(torch.uint16)), "argument y must be float32, got uint16"),
        ((X, None), "argument y"),
        ((None, Y), "argument x"),
        ((torch.zeros(2, 3, device="meta"), Y), "argument x"),
    ],
)
def test_what_does_not_fit_is_named(args: tuple[Any, ...], message: str):
    fast, _, _ = compiled("pair")
    with pytest.raises(CallError, match=message):
        fast(*args)


@pytest.mark.parametrize("count", [1, 2])
def test_integers_do_not_stand_for_the_bits_of_bfloat16(count: int):
    model, x = (Lone(), Pair())[count - 1], X.to(torch.bfloat16)
    fast = eutectic.compile(model, (x,) * count, target="llvm")
    torch.testing.assert_close(fast(*(x,) * count), model(*(x,) * count))
    with pytest.raises(CallError, match="must be bfloat16, got uint16"):
        fast(*(X.to(torch.uint16),) * count)


@pytest.mark.parametrize("name", ["lone", "pair"])
def test_a_storage_that_lost_a_part_is_refused(name: str):
    fast, _, inputs = compiled(name)
    short = X.clone()
    short.untyped_storage().resize_(20)
    with pytest.raises(CallError, match="argument x needs 24 bytes of storage, which has 20"):
        fast(short, *inputs[1:])
