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


PLACED: dict[str, Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "index_copy": lambda x, i, rows: x.index_copy(0, i, rows),
    "index_put": lambda x, i, rows: x.index_put((i,), rows),
    "index_fill": lambda x, i, rows: x.index_fill(0, i, 3.0),
    "scatter": lambda x, i, rows: x.scatter(0, i[:, None].expand_as(rows), rows),
}


@pytest.mark.parametrize("name", PLACED)
def test_places_that_values_decide_may_be_none(name: str):
    def function(x: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        places = chosen.nonzero().view(-1)
        return PLACED[name](x, places, x.index_select(0, places).cos())

    chosen = torch.tensor([True, False, True, False])
    compiled = quietly(Of(function).eval(), (X, chosen))
    for mask in (chosen, torch.zeros_like(chosen), torch.ones_like(chosen), ~chosen):
        torch.testing.assert_close(compiled(X, mask), function(X, mask))


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


LABELS = torch.tensor([[0, 1, -1, 2, 3, 4]] * 4)
POOL = nn.functional
WHOLE: dict[str, tuple[str, Callable[[torch.Tensor], Any]]] = {
    "indices": ("max_pool2d_with_indices", lambda x: POOL.max_pool2d(x.sin()[None], 2, return_indices=True)),
    "indices alone": ("max_pool1d_with_indices", lambda x: POOL.max_pool1d(x, 2, return_indices=True)[1] + 1),
    "indices and unpooling": (
        "max_pool2d_with_indices",
        lambda x: POOL.max_unpool2d(*POOL.max_pool2d(x[None], 2, return_indices=True), 2),
    ),
    "indices of adaptive windows": ("adaptive_max_pool1d", lambda x: POOL.adaptive_max_pool1d(x, 4, True)),
    "statistics of a layer": ("native_layer_norm", lambda x: torch.native_layer_norm(x, [6], None, None, 1e-5)),
    "statistics of a batch": (
        "_native_batch_norm_legit_no_training",
        lambda x: torch.native_batch_norm(x, None, None, x[0], x[0].exp(), False, 0.1, 1e-5),
    ),
    "sizes of bags": ("embedding_bag", lambda x: torch.embedding_bag(x, LABELS[0, :5].abs(), LABELS[0, :2])),
    "labels after a -1": ("multilabel_margin_loss", lambda x: POOL.multilabel_margin_loss(x, LABELS)),
}


@pytest.mark.parametrize("name", WHOLE)
def test_operators_that_torch_runs_as_a_whole(name: str):
    """Those of whose results a converter lacks one that is read, and one that torch takes apart into a wrong result."""
    operator, function = WHOLE[name]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compiled = eutectic.compile(Of(function).eval(), (X,))
    (warning,) = [item for item in caught if issubclass(item.category, EutecticAdvice)]
    assert f"  aten.{operator}." in str(warning.message)
    assert [item.op.split(".")[1] for item in compiled.report.eager_operators] == [operator]
    for x in (X, X.flip(0) * 1.5, -X):
        torch.testing.assert_close(compiled(x), function(x), rtol=1e-4, atol=1e-5)


# Operators whose converters need to know a number that here only a call knows.
NUMBERS: dict[str, Callable[[torch.Tensor, Any], torch.Tensor]] = {
    "threshold": lambda x, n: nn.functional.threshold(x, 0.5, n),
    "leaky_relu": lambda x, n: nn.functional.leaky_relu(x, n),
    "softplus": lambda x, n: nn.functional.softplus(x, n),
    "celu": lambda x, n: nn.functional.celu(x, n),
    "addcmul": lambda x, n: torch.addcmul(x, x, x, value=n),
}
OF_A_CALL: dict[str, Callable[[torch.Tensor], Any]] = {
    "a size": lambda x: x.shape[0],
    "computed from a size": lambda x: 1.5 / x.shape[0],
    "out of a tensor": lambda x: x[0, 0],
}


@pytest.mark.parametrize("number", OF_A_CALL)
def test_numbers_that_only_a_call_knows(number: str):
    def results(x: torch.Tensor) -> list[torch.Tensor]:
        return [function(x, OF_A_CALL[number](x)) for function in NUMBERS.values()]

    compiled = quietly(Of(results).eval(), (X,), dynamic_shapes=(({0: torch.export.Dim.DYNAMIC},),))
    assert {item.op.split(".")[1] for item in compiled.report.eager_operators} >= set(NUMBERS)
    for x in (X + 3, X[:3] * 2 + 5):
        torch.testing.assert_close(compiled(x), results(x))
    with pytest.raises(UnsupportedOperatorError, match=r"aten\."):
        eutectic.compile(Of(results).eval(), (X,), dynamic_shapes=(({0: torch.export.Dim.DYNAMIC},),), fallback="error")


def test_results_that_are_not_read_leave_nothing_to_torch():
    compiled = eutectic.compile(Of(lambda x: POOL.max_pool1d(x, 2, return_indices=True)[0]).eval(), (X,))
    assert not compiled.report.eager_operators


@pytest.mark.parametrize("kind", ["avg", "max"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_adaptive_windows_of_an_axis_that_varies(rank: int, kind: str):
    pool, varies = getattr(POOL, f"adaptive_{kind}_pool{rank}d"), {2: torch.export.Dim.DYNAMIC}
    x = torch.randn(1, 2, *[8] * rank)
    compiled = quietly(Of(lambda x: pool(x, 3)).eval(), (x,), dynamic_shapes=((varies,),))
    for data in (x, x[:, :, :5], x[:, :, :3]):
        torch.testing.assert_close(compiled(data), pool(data, 3))
    sizes = [1] + [3] * (rank - 1)  # a window over the whole of the axis is compiled
    compiled = eutectic.compile(
        Of(lambda x: pool(x, sizes)).eval(), (x,), dynamic_shapes=((varies,),), fallback="error"
    )
    torch.testing.assert_close(compiled(x[:, :, :5]), pool(x[:, :, :5], sizes))


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


def test_literals_keep_the_sign_of_nan():
    def first(x: torch.Tensor, literal: float) -> torch.Tensor:
        return torch.segment_reduce(x, "max", lengths=torch.tensor([0, 24]), initial=literal)

    nan = float("nan")
    literals = [-nan, nan, -0.0, 0.0]
    x = X.flatten()
    for literal in literals:
        got = quietly(Of(lambda x, literal=literal: first(x, literal)).eval(), (x,))(x)
        assert torch.equal(torch.signbit(got), torch.signbit(first(x, literal)))


def test_integers_of_tensors_may_be_negative():
    def results(x: torch.Tensor, n: torch.Tensor) -> list[torch.Tensor]:
        number = n.item()
        return [x * number, x.clamp(min=number), x[:, number:], x.select(0, number), x + abs(number) // 2, x.int() - n]

    model, (two, less) = Of(results).eval(), (torch.tensor(2), torch.tensor(-3))
    compiled = quietly(model, (X, two))
    for n in (two, less):
        for got, want in zip(compiled(X, n), results(X, n), strict=True):
            torch.testing.assert_close(got, want)


def test_arithmetic_with_an_integer_of_a_tensor_is_compiled():
    model = Of(lambda x, n: x * n.item() + n.item()).eval()
    compiled = quietly(model, (X, torch.tensor(-2)))
    assert "aten.mul" not in compiled.script()
    torch.testing.assert_close(compiled(X, torch.tensor(-5)), X * -5 - 5)
