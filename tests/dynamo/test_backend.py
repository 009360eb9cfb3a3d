"""torch.compile with this project as its backend: equal to eager, weights followed, what is not compiled is said."""

from __future__ import annotations

import copy
import threading
import warnings

import pytest
import torch
from torch import nn

from eutectic import EutecticAdvice
from eutectic.dynamo import backend
from eutectic.dynamo.options import options_of
from eutectic.support.errors import PassError


class Net(nn.Module):
    """A convolution, a normalisation, a branch that torch breaks the graph at, and a view of a result."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.norm(self.conv(x)).relu()
        if y.sum() > 1e9:
            y = y + 1
        return self.head(y.mean((2, 3))), y.permute(0, 2, 3, 1)


class Counting(nn.Module):
    """Changes a buffer of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += x.sum(0)
        return x * self.seen


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def assert_equal(received: object, expected: object) -> None:
    torch.testing.assert_close(received, expected, rtol=1e-5, atol=1e-6)


def run(compiled: object, *inputs: torch.Tensor) -> object:
    with torch.no_grad():
        return compiled(*inputs)


def test_a_model_is_equal_to_eager_at_several_sizes():
    model = Net().eval()
    compiled = torch.compile(model, backend="eutectic")
    for n, size in ((2, 8), (3, 9), (4, 10), (2, 8)):
        x = torch.randn(n, 3, size, size)
        received, expected = run(compiled, x), run(model, x)
        assert_equal(received, expected)
        assert [t.stride() for t in received] == [t.stride() for t in expected]


def test_dynamic_sizes_are_compiled_once():
    model = nn.Sequential(nn.Linear(8, 8), nn.Softmax(-1)).eval()
    frames = []

    def counted(graph_module, inputs, **options):
        frames.append(graph_module)
        return backend(graph_module, inputs, **options)

    compiled = torch.compile(model, backend=counted, dynamic=True)
    for n in (3, 5, 17):
        x = torch.randn(n, 8)
        assert_equal(run(compiled, x), run(model, x))
    assert len(frames) == 1


def test_a_size_that_no_tensor_tells():
    def function(x: torch.Tensor, n: int) -> torch.Tensor:
        return x.sum() + torch.arange(n).float()

    compiled = torch.compile(function, backend="eutectic", dynamic=True)
    for n in (4, 7, 11):
        x = torch.randn(5)
        assert_equal(run(compiled, x, n), function(x, n))


def test_a_size_that_no_tensor_tells_decides_a_number_that_is_returned():
    def function(x: torch.Tensor, n: int) -> torch.Tensor:
        y = torch.nn.functional.pad(x, (n, n // 2), "reflect")
        end = y.shape[-1] - n // 2
        torch._dynamo.graph_break()
        return y[..., :end] + n

    compiled = torch.compile(function, backend="eutectic", dynamic=True)
    for n, size in ((2, 20), (4, 9), (6, 24)):
        x = torch.randn(2, 3, size)
        assert_equal(run(compiled, x, n), function(x, n))


@pytest.mark.parametrize("weights", ["live", "inputs"])
def test_weights_are_followed(weights: str):
    model = nn.Linear(4, 3).eval()
    compiled = torch.compile(model, backend="eutectic", options={"weights": weights})
    x = torch.randn(2, 4)
    for _ in range(5):
        assert_equal(run(compiled, x), run(model, x))
        with torch.no_grad():
            model.weight.mul_(1.5)
            model.bias.add_(1)
    model.load_state_dict(nn.Linear(4, 3).state_dict())
    assert_equal(run(compiled, x), run(model, x))


def test_a_module_stays_a_module():
    compiled = torch.compile(Net().eval(), backend="eutectic")
    run(compiled, torch.randn(1, 3, 8, 8))
    assert not compiled.eval().training
    assert "_orig_mod.head.weight" in compiled.state_dict() or "head.weight" in compiled.state_dict()


def test_inputs_and_buffers_that_are_written():
    model, other = Counting(), Counting()

    def function(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x.t()

    compiled, written = torch.compile(model, backend="eutectic"), torch.compile(function, backend="eutectic")
    for _ in range(3):
        x = torch.randn(3, 4)
        assert_equal(run(compiled, x), run(other, x))
        assert_equal(model.seen, other.seen)
        y, z = x.clone(), x.clone()
        assert_equal(run(written, y), function(z))
        assert_equal(y, z)


def test_autocast_decides_about_the_dtype():
    model = nn.Linear(8, 8).eval()
    compiled = torch.compile(model, backend="eutectic")
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        x = torch.randn(2, 8)
        received, expected = compiled(x), model(x)
    assert received.dtype == expected.dtype == torch.bfloat16
    torch.testing.assert_close(received, expected, rtol=2e-2, atol=2e-2)


def test_inference_mode():
    with torch.inference_mode():
        model = nn.Linear(8, 8).eval()
        x = torch.randn(2, 8)
        assert_equal(torch.compile(model, backend="eutectic")(x), model(x))


def test_graphs_that_record_gradients_run_in_torch_with_one_warning():
    model = nn.Linear(4, 3)
    compiled = torch.compile(model, backend="eutectic")
    x = torch.randn(2, 4)
    with pytest.warns(EutecticAdvice, match=r"records gradients.*torch.no_grad"):
        compiled(x).sum().backward()
    assert model.weight.grad is not None
    with warnings.catch_warnings():
        warnings.simplefilter("error", EutecticAdvice)
        assert_equal(compiled(x), model(x))


def test_a_group_norm_needs_no_torch():
    """In these graphs it has another name than in exported ones."""
    model = torch.nn.Sequential(torch.nn.GroupNorm(3, 6), torch.nn.ReLU()).eval()
    x = torch.randn(2, 6, 5, 7)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", EutecticAdvice)
        torch.testing.assert_close(torch.compile(model, backend="eutectic")(x), model(x))


def test_operators_without_converter_run_in_torch():
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.fft.rfft(x.relu()).abs() * 2

    x = torch.randn(3, 8)
    with pytest.warns(EutecticAdvice, match="aten._fft_r2c.default"):
        received = run(torch.compile(function, backend="eutectic"), x)
    assert_equal(received, function(x))


def test_random_operators_draw_what_eager_draws():
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.rand_like(x) - torch.rand_like(x) * x

    compiled = torch.compile(function, backend="eutectic")
    x = torch.randn(16)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EutecticAdvice)
        torch.manual_seed(1)
        received = run(compiled, x)
    torch.manual_seed(1)
    assert_equal(received, function(x))


def test_threads_call_one_function():
    model = Net().eval()
    compiled = torch.compile(model, backend="eutectic")
    x = torch.randn(2, 3, 8, 8)
    expected, received = run(model, x), []
    threads = [threading.Thread(target=lambda: received.append(run(compiled, x))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(received) == 4
    for results in received:
        assert_equal(results, expected)


def test_it_works_after_a_reset_and_beside_explain():
    model = Net().eval()
    x = torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        explained = torch._dynamo.explain(model)(x)
    assert explained.graph_break_count == 1
    compiled = torch.compile(model, backend="eutectic")
    before = run(compiled, x)
    torch._dynamo.reset()
    assert_equal(run(compiled, x), before)


def test_unknown_options_are_refused():
    with pytest.raises(PassError, match="no option 'thread'") as info:
        options_of({"thread": 2})
    assert "threads" in str(info.value)
    with pytest.raises(PassError, match="weights='warm'"):
        options_of({"weights": "warm"})


def test_what_is_refused_as_an_error():
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.svdvals(x)

    compiled = torch.compile(copy.copy(function), backend="eutectic", options={"fallback": "error"})
    with pytest.raises(Exception, match="cannot be imported"):
        run(compiled, torch.randn(3, 3))
