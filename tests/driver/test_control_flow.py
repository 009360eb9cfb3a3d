"""Control flow of torch is one call of torch in the program; numbers that values decide are results like tensors."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim

import eutectic
from eutectic import EutecticAdvice
from eutectic.support.eager_call import eager_call
from eutectic.support.errors import FrontendError, LoadError, UnsupportedOperatorError

X = torch.linspace(-2, 2.5, 24).reshape(4, 6)


class Branches(nn.Module):
    """A branch with parameters, a tensor from outside, and two results."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.register_buffer("scale", torch.full((6,), 3.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 2

        def positive(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return (self.linear(a) + y).relu(), a * self.scale

        def negative(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.linear(a).sin(), a + y.size(0)

        first, second = torch.cond(x.sum() > 0, positive, negative, (x,))
        return first * second + 1


class Nested(nn.Module):
    """A branch in a branch."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def inner(a: torch.Tensor) -> torch.Tensor:
            return torch.cond(a.sum() > 5, lambda b: b + 1, lambda b: b.sin(), (a,))

        return torch.cond(x.sum() > 0, inner, lambda a: a - 1, (x,)).relu()


class Loop(nn.Module):
    """As often as values say."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        steps, value = while_loop(
            lambda i, a: (i < 5) & (a.abs().sum() < 100), lambda i, a: (i + 1, a * 2), (torch.tensor(0), x)
        )
        return steps, value.exp().clamp(max=9)


class Scan(nn.Module):
    """A running sum."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return scan(lambda carry, row: (carry + row, carry * row), x[0] * 0, x, dim=0)


class Rows(nn.Module):
    """A function of each row, and of a tensor from outside."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return map_rows(lambda row, other: (row * other).cumsum(0), x, x[0] * 2) + 1


class Shapes(nn.Module):
    """Branches whose results have sizes of values."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda a: a[a > 0], lambda a: a.sin().flatten(), (x,)) * 2


class Noise(nn.Module):
    """Random numbers in a branch and after it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.cond(x.sum() > 0, lambda a: a + torch.rand_like(a), lambda a: a.sin(), (x,))
        return y + torch.rand_like(x)


CASES: dict[type[nn.Module], str] = {
    Branches: "cond",
    Nested: "cond",
    Loop: "while_loop",
    Scan: "scan",
    Rows: "map_impl",
    Shapes: "cond",
    Noise: "cond",
}


def seeded(function: Callable[..., Any], *args: Any) -> Any:
    torch.manual_seed(0)
    with torch.no_grad():
        return function(*args)


@pytest.mark.slow
@pytest.mark.parametrize("is_dynamic", [False, True])
@pytest.mark.parametrize("kind", CASES)
def test_control_flow_is_one_call_of_torch(kind: type[nn.Module], is_dynamic: bool):
    model = kind().eval()
    shapes = ({0: Dim("rows", min=2, max=9)},) if is_dynamic else None
    with pytest.warns(EutecticAdvice, match=rf"higher_order\.{CASES[kind]}.*values decide") as caught:
        compiled = eutectic.compile(model, (X,), dynamic_shapes=shapes)
    assert len([item for item in caught if issubclass(item.category, EutecticAdvice)]) == 1
    operators = [record.op for record in compiled.report.eager_operators]
    assert operators.count(f"higher_order.{CASES[kind]}") == 1
    again = copy.deepcopy(compiled)
    for x in (X, -X, X * 7, *((X[:3], -X[1:]) if is_dynamic else ())):
        expected = seeded(model, x)
        torch.testing.assert_close(seeded(compiled, x), expected, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(seeded(again, x), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", CASES)
def test_control_flow_under_torch_compile(kind: type[nn.Module]):
    torch._dynamo.reset()
    model = kind().eval()
    compiled = torch.compile(model, backend="eutectic", fullgraph=True)
    with pytest.warns(EutecticAdvice, match="between compiled parts") as caught:
        seeded(compiled, X)
    for x in (X, -X, X * 7):
        torch.testing.assert_close(seeded(compiled, x), seeded(model, x), rtol=1e-4, atol=1e-5)
    assert not [item for item in caught if "the whole model" in str(item.message)]


def test_what_surrounds_control_flow_is_compiled():
    with pytest.warns(EutecticAdvice):
        compiled = eutectic.compile(Branches().eval(), (X,), target="llvm")
    assert compiled.report.regions
    assert len(compiled.report.eager_operators) == 1


def test_a_file_of_a_model_with_control_flow(tmp_path: Any):
    model = Branches().eval()
    with pytest.warns(EutecticAdvice):
        compiled = eutectic.compile(model, (X,))
    loaded = eutectic.load(compiled.save(tmp_path / "m.eut"))
    for x in (X, -X):
        assert torch.equal(loaded(x), compiled(x))


def test_control_flow_is_refused_on_request():
    with pytest.raises(UnsupportedOperatorError, match="cond"):
        eutectic.compile(Branches().eval(), (X,), fallback="error")


def test_a_tensor_of_numbers_in_a_branch_is_named():
    class Literal(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, lambda a: a + torch.tensor([1.0]), lambda a: a - 1, (x,))

    with pytest.raises(FrontendError, match="makes a tensor out of numbers") as caught:
        eutectic.compile(Literal().eval(), (X,))
    assert "make the tensor before" in str(caught.value)


def test_graphs_are_called_as_they_were_written():
    graph = '{"graph": {"inputs": 1, "calls": [["aten.neg.default", [{"value": 0}], {}]], "results": [{"value": 1}]}}'
    flow = f'[[{{"tensor": 0}}, {graph}, {graph}, [{{"tensor": 1}}]], {{}}]'
    holds = torch.tensor(True)
    (result,) = eager_call("higher_order.cond", flow, ("array",), [holds.numpy(), X.numpy()], [])
    assert torch.equal(torch.from_numpy(result), -X)
    with pytest.raises(LoadError, match=r"no operator higher_order\.out_dtype"):
        eager_call("higher_order.out_dtype", flow, ("array",), [holds.numpy(), X.numpy()], [])
    with pytest.raises(LoadError, match="damaged: value"):
        eager_call("aten.neg.default", '[[{"value": 0}], {}]', ("array",), [], [])


class Of(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def counted(x: torch.Tensor) -> Any:
    count = (x > 0).sum().item()
    torch._check(count >= 0)
    torch._check(count <= 1000)
    return count * 2 + 1, torch.arange(count), x.shape[0] * count, None


NUMBERS: dict[str, Callable[[torch.Tensor], Any]] = {
    "a float alone": lambda x: x.round().sum().item(),
    "a float beside a tensor": lambda x: (x.round().sum().item(), x, x * 2),
    "an integer in a dict": lambda x: {"place": x.argmax().item(), "rest": [x * 2, 7]},
    "computed numbers": lambda x: (x.round().sum().item() * 2 + 1, x.round().sum().item() > 0),
    "sizes of values": counted,
    "a condition": lambda x: (x > 2).any().item(),
    "a list": lambda x: x[0].tolist(),
    "nothing": lambda x: None,
    "nothing and constants": lambda x: (None, 1, 2.5, "text", True, x * 2, x.shape),
    "an empty tuple": lambda x: (),
}


def plain(value: Any) -> Any:
    """A result with lists for tensors, and kinds for numbers."""
    if isinstance(value, torch.Tensor):
        return (value.dtype, value.tolist())
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, tuple):  # torch.export makes one of a torch.Size
        return tuple(map(plain, value))
    if isinstance(value, list):
        return list(map(plain, value))
    return (type(value), value)


@pytest.mark.slow
@pytest.mark.parametrize("is_dynamic", [False, True])
@pytest.mark.parametrize("name", NUMBERS)
def test_results_that_are_numbers(name: str, is_dynamic: bool):
    model = Of(NUMBERS[name]).eval()
    shapes = ({0: Dim("rows", min=2, max=9)},) if is_dynamic else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EutecticAdvice)
        compiled = eutectic.compile(model, (X,), dynamic_shapes=shapes)
    again = copy.deepcopy(compiled)
    for x in (X, -X, X.flip(0) * 3, *((X[:3],) if is_dynamic else ())):
        assert plain(compiled(x)) == plain(model(x))
        assert plain(again(x)) == plain(model(x))


@cache
def extremes() -> eutectic.CompiledModel:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EutecticAdvice)
        return eutectic.compile(Of(lambda x: (x.max().item(), x.argmin().item(), x.isnan().any().item())), (X[0],))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(width=32, allow_nan=False), min_size=6, max_size=6))
def test_numbers_are_the_bits_of_eager(values: list[float]):
    x = torch.tensor(values)
    assert extremes()(x) == (x.max().item(), x.argmin().item(), False)
