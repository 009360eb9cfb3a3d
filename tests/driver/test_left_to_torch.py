"""What cannot be imported runs in torch between compiled parts; buffers that are written are the module's."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import eutectic
from eutectic import EutecticAdvice
from eutectic.driver.report import CompileReport
from eutectic.ir.structural import structural_equal
from eutectic.support.errors import FrontendError, PassError, UnsupportedOperatorError

X = torch.linspace(-2, 2, 24).reshape(4, 6)


class Of(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


class Cache(nn.Module):
    """Keeps what it has seen, in a buffer of the root and in one of a child."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(6))
        self.inner = nn.Module()
        self.inner.register_buffer("last", torch.zeros(4, 6), persistent=False)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        before = self.inner.last.clone()
        self.total += x.sum(0)
        self.inner.last.copy_(x * 2)
        return before + self.total, self.total.relu()


def quietly(model: nn.Module, *args: Any, **options: Any) -> eutectic.CompiledModel:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EutecticAdvice)
        return eutectic.compile(model, *args, **options)


def sized(x: torch.Tensor) -> torch.Tensor:
    count = (x > 0).sum().item()
    torch._check(count >= 0)
    torch._check(count <= x.numel())
    return torch.arange(count) * 2


LEFT: dict[str, Callable[[torch.Tensor], Any]] = {
    "one result": lambda x: torch.linalg.inv(x @ x.T + torch.eye(4)).relu(),
    "several results": lambda x: tuple(torch.linalg.qr(x.relu() + 1)),
    "complex numbers between": lambda x: torch.fft.irfft(torch.fft.rfft(x * 2) * 3) + 1,
    "a size that values decide": lambda x: x[torch.nonzero(x > 0.5)[:, 0]] * 2,
    "a mask": lambda x: torch.masked_select(x, x > 0) + 1,
    "a number of data": lambda x: x * x.sum().item() + 1,
    "a size out of a tensor": sized,
    "unique values": lambda x: torch.unique(x.round(), return_counts=True),
    "bytes in fixed point": lambda x: torch.nn.functional.interpolate(
        (x.abs() * 60).to(torch.uint8)[None, None], (7, 9), mode="bilinear"
    ),
    "nothing before and after": lambda x: torch.linalg.svdvals(x),
    "strides of what is read": lambda x: torch.as_strided(torch.special.i0(x).t() * 2, (3, 2), (5, 1), 1),
    "the operand itself": lambda x: torch.ops.aten.lift_fresh(torch.special.i0(x)),
}


@pytest.mark.slow
@pytest.mark.parametrize("target", [None, "llvm"])
@pytest.mark.parametrize("name", LEFT)
def test_values_are_those_of_eager(name: str, target: str | None):
    model = Of(LEFT[name]).eval()
    with pytest.warns(EutecticAdvice, match="run in torch eager"):
        compiled = eutectic.compile(model, (X,), target=target)
    assert compiled.report.eager_operators
    for x in (X, X.flip(0) * 1.5, -X):
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)


def test_the_warning_names_operator_line_reason_and_share():
    class Inner(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.special.i0(x)

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = Inner()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.block(x.relu()) + self.block(x)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compiled = eutectic.compile(Outer().eval(), (X,))
    (warning,) = [item for item in caught if issubclass(item.category, EutecticAdvice)]
    text = str(warning.message)
    assert warning.filename == __file__
    assert "2 of 4 operators" in text
    assert "aten.i0.default (2 times)" in text
    assert "test_left_to_torch.py:" in text
    assert "in block" in text
    assert "no converter" in text
    (first, _) = compiled.report.eager_operators
    assert (first.op, first.module) == ("aten.i0.default", "block")
    assert not compiled.report.host_operators


def test_refused_on_request():
    with pytest.raises(UnsupportedOperatorError, match=r"aten\.i0"):
        eutectic.compile(Of(torch.special.i0).eval(), (X,), fallback="error")
    with pytest.raises(PassError, match="fallback='eagr'"):
        eutectic.compile(Of(torch.relu).eval(), (X,), fallback="eagr")


def test_python_that_decides_by_values_is_referred_to_torch_compile():
    with pytest.raises(FrontendError, match=r'torch\.compile\(model, backend="eutectic"\)'):
        eutectic.compile(Of(lambda x: x if x.sum() > 0 else -x).eval(), (X,))


def test_random_operators_draw_what_eager_draws_in_its_order():
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.rand_like(x) - 2 * torch.rand_like(x) + torch.bernoulli(torch.full_like(x, 0.5)) * x

    compiled = quietly(Of(function).eval(), (X,))
    for seed in range(3):
        torch.manual_seed(seed)
        received = compiled(X)
        torch.manual_seed(seed)
        torch.testing.assert_close(received, function(X))


def test_a_converter_of_the_user():
    def convert(node: Any, context: Any) -> Any:
        from eutectic.relax.op import exp

        (x,) = context.retrieve_args(node)
        return context.call(exp, x)

    compiled = eutectic.compile(
        Of(torch.special.i0).eval(), (X,), custom_convert_map={"special_i0": convert, "i0": convert}
    )
    torch.testing.assert_close(compiled(X), X.exp())


def test_a_model_with_such_operators_is_data():
    model = Of(LEFT["several results"]).eval()
    compiled = quietly(model, (X,))
    again = eutectic.CompiledModel.from_bytes(compiled.to_bytes())
    torch.testing.assert_close(again(X), compiled(X), rtol=0, atol=0)
    assert again.report.eager_operators == compiled.report.eager_operators
    assert CompileReport.from_json(compiled.report.to_json()) == compiled.report


def test_the_text_of_such_a_module_is_parsed_back():
    compiled = quietly(Of(LEFT["a mask"]).eval(), (X,))
    module = eutectic.script.from_source(compiled.script())
    assert structural_equal(module, compiled.module)


def test_custom_operators_of_the_user():
    @torch.library.custom_op("eutectic_tests::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @twice.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    compiled = quietly(Of(lambda x: twice(x.relu()) + 1).eval(), (X,))
    torch.testing.assert_close(compiled(X), X.relu() * 2 + 1)


@pytest.mark.parametrize("target", [None, "llvm"])
def test_buffers_that_a_model_writes_are_those_of_the_module(target: str | None):
    model = Cache().eval()
    other = copy.deepcopy(model)
    compiled = eutectic.compile(model, (X,), target=target)
    for x in (X, X + 1, -X):
        torch.testing.assert_close(compiled(x), other(x))
        torch.testing.assert_close(model.total, other.total)
        torch.testing.assert_close(model.inner.last, other.inner.last)
    model.total = torch.ones(6)
    other.total = torch.ones(6)
    torch.testing.assert_close(compiled(X), other(X))


def test_a_buffer_is_written_by_models_of_exported_programs():
    program = torch.export.export(Cache().eval(), (X,))
    compiled, other = eutectic.compile(program), Cache().eval()
    for x in (X, X + 1):
        torch.testing.assert_close(compiled(x), other(x))
