"""Concats that nothing is done for, as their parts are computed in their places; and those that are copies still."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import eutectic
from eutectic import te, topi
from eutectic.relax.analysis import get_var2val
from eutectic.relax.analysis.concat_pattern import concat_axis
from eutectic.relax.expr import Call


def views_of(fast) -> int:
    """How many concats cost nothing."""
    return sum(group.kind == "view" and group.name == "relax.concat" for group in fast.report.plan.groups)


def compiled(model: nn.Module | Callable[..., object], *inputs: torch.Tensor, threads: int = 2):
    """A model, after its results were compared with those of torch."""
    module = model if isinstance(model, nn.Module) else Called(model)
    fast = eutectic.compile(module.eval(), inputs, threads=threads)
    with torch.no_grad():
        for _ in range(2):  # the second call has the memory of the first
            wanted, got = module(*inputs), fast(*inputs)
            for one, other in zip(leaves(wanted), leaves(got), strict=True):
                torch.testing.assert_close(other, one, rtol=1e-5, atol=1e-5)
    return fast


def leaves(value):
    return [value] if isinstance(value, torch.Tensor) else [x for part in value for x in leaves(part)]


class Called(nn.Module):
    """A function as a model, with convolutions, whose results are kernels of their own."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.function = function
        self.three = nn.ModuleList(nn.Conv2d(16, 16, 3, padding=1) for _ in range(6))
        self.wide = nn.Conv2d(32, 16, 1)

    def forward(self, *inputs: torch.Tensor) -> object:
        return self.function(self, *inputs)


X = torch.randn(1, 16, 9, 9)


def fire(net: Called, x: torch.Tensor) -> torch.Tensor:
    return net.wide(torch.cat([net.three[0](x).relu(), net.three[1](x).relu()], 1)).relu()


def nested(net: Called, x: torch.Tensor) -> torch.Tensor:
    a = net.three[0](x).relu()
    b = torch.cat([a, net.three[1](a).relu()], 1)
    return torch.cat([b, net.three[2](net.wide(b)).relu()], 1).square() + 1


def given_twice(net: Called, x: torch.Tensor) -> torch.Tensor:
    a = net.three[0](x).relu()
    return net.wide(torch.cat([a, a], 1)).relu()


def part_of_two(net: Called, x: torch.Tensor) -> torch.Tensor:
    a, b, c = (net.three[k](x).relu() for k in range(3))
    return net.wide(torch.cat([a, b], 1)).relu() + net.wide(torch.cat([c, a], 1)).relu()


def part_is_result(net: Called, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    a, b = net.three[0](x).relu(), net.three[1](x).relu()
    return net.wide(torch.cat([a, b], 1)).relu(), a


def whole_is_result(net: Called, x: torch.Tensor) -> torch.Tensor:
    return torch.cat([net.three[0](x).relu(), net.three[1](x).relu()], 1)


def with_input(net: Called, x: torch.Tensor) -> torch.Tensor:
    return net.wide(torch.cat([net.three[0](x).relu(), x], 1)).relu()


def read_elsewhere(net: Called, x: torch.Tensor) -> torch.Tensor:
    a = net.three[0](x).relu()
    b = net.three[1](a).relu()  # reads a part while another one is computed
    return net.wide(torch.cat([a, b], 1)).relu() + a


@pytest.mark.parametrize(
    ("function", "views"),
    [(fire, 1), (nested, 1), (given_twice, 0), (part_of_two, 1), (with_input, 0), (read_elsewhere, 1)],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_values_are_those_of_torch(function, views: int):
    assert views_of(compiled(function, X)) == views


@pytest.mark.parametrize("function", [part_is_result, whole_is_result])
@pytest.mark.parametrize("threads", [1, 2])
def test_what_is_returned_has_memory_of_its_own(function, threads: int):
    fast = compiled(function, X, threads=threads)
    first = leaves(fast(X))
    kept = [value.clone() for value in first]
    fast(X * 2)
    for value, copy in zip(first, kept, strict=True):
        assert torch.equal(value, copy)


@pytest.mark.filterwarnings("ignore::eutectic.support.errors.EutecticAdvice")
def test_parts_of_another_piece_of_native_code_are_copied():
    """Something in between runs elsewhere, so that one part is made before the memory of the whole is there."""

    def function(net: Called, x: torch.Tensor) -> torch.Tensor:
        a = net.three[0](x).relu()
        share = torch.nonzero(x[0, 0, :, 0] > 0).float().mean()
        return net.wide(torch.cat([a, (net.three[1](x) * share).relu()], 1)).relu()

    assert views_of(compiled(function, X)) == 1


def test_several_images_are_copied():
    assert views_of(compiled(fire, X.repeat(3, 1, 1, 1))) == 0


def test_channels_of_half_a_vector():
    """Parts that do not begin where a line of memory does."""

    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(1)
            self.parts = nn.ModuleList(nn.Conv2d(3, n, 3, padding=1) for n in (3, 5, 7))
            self.last = nn.Conv2d(15, 4, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.last(torch.cat([part(x).relu() for part in self.parts], 1))

    compiled(Odd(), torch.randn(1, 3, 7, 5))


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_random_graphs(data: st.DataObject):
    """Convolutions and concats of whatever is there, some of it returned."""
    choices = [
        data.draw(st.tuples(st.integers(0, 9), st.integers(0, 9), st.booleans()), label=f"step {k}") for k in range(5)
    ]

    def function(net: Called, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values, returned = [x], []
        for k, (first, second, leaves_it) in enumerate(choices):
            a = net.three[k](values[first % len(values)]).relu()
            joined = torch.cat([a, values[second % len(values)]], 1)
            values += [a, net.wide(joined).relu()]
            returned += [joined] if leaves_it else []
        return (values[-1], *returned)

    compiled(function, X)


def program(axis: int, *shapes: tuple[int, ...], reverse: bool = False):
    given_ = [te.placeholder(shape, "float32", f"A{k}") for k, shape in enumerate(shapes)]
    return te.create_prim_func([*given_, topi.concatenate(given_[::-1] if reverse else given_, axis)])


def test_which_programs_put_parts_one_after_another():
    same = (1, 4, 3)
    assert concat_axis(program(1, same, (1, 2, 3))) == 1
    assert concat_axis(program(0, (2, 3), (1, 3))) == 0
    assert concat_axis(program(1, *[same] * 24)) == 1
    assert concat_axis(program(2, same, (1, 4, 5))) is None  # rows of both take turns
    assert concat_axis(program(1, same, same, reverse=True)) is None  # in another order than they are given
    a = te.placeholder(same, "float32", "A")
    assert concat_axis(te.create_prim_func([a, topi.nn.relu(a)])) is None
    assert concat_axis(te.create_prim_func([a, topi.concatenate([a, a], 1)])) is None
    b = te.placeholder(same, "float32", "B")
    assert concat_axis(te.create_prim_func([a, b, topi.nn.relu(topi.concatenate([a, b], 1))])) is None


def test_the_concat_stays_an_operator_of_the_graph():
    fast = compiled(fire, X)
    calls = [value for value in get_var2val(fast.lowered["main"]).values() if isinstance(value, Call)]
    assert sum(call.op.name == "relax.concat" for call in calls) == 1
    assert "one after another in memory, which costs nothing" in str(fast.explain(X))
