"""Complex numbers: by parts where we compute them, and as torch knows them for what is left to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import eutectic
from eutectic.relax.frontend.torch import from_exported_program
from eutectic.support.errors import CallError, UnsupportedOperatorError

LENGTHS = torch.polar(torch.ones(6, 4), torch.outer(torch.arange(6.0), 1 / 10 ** torch.arange(4.0)))


class OfBuffer(nn.Module):
    """A function of the data and of complex numbers that the model keeps."""

    def __init__(self, function: Callable[[torch.Tensor, torch.Tensor], Any], buffer: torch.Tensor = LENGTHS) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("kept", buffer)

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x, self.kept)


def pairs(x: torch.Tensor) -> torch.Tensor:
    return torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))


def rotated(x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    """Positions as turns, as LLaMA's first published code has them."""
    return torch.view_as_real(pairs(x) * turns[: x.shape[1], None]).flatten(3)


real = torch.view_as_real
COMPILED: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "turns": rotated,
    "made of sizes": lambda x, c: rotated(x, torch.polar(x[0, :, 0, :4].abs(), x[0, :, 1, :4])),
    "sum": lambda x, c: real(pairs(x) + c[:, None]),
    "difference from real numbers": lambda x, c: real(x[..., :4] - c[:, None]),
    "times a number": lambda x, c: (real(pairs(x) * 2.5), real(pairs(x) * (1 - 2j)), real(c[:, None] * x[..., :4] * 3)),
    "negative and conjugate": lambda x, c: real(-pairs(x) * c.conj()[:, None]),
    "parts": lambda x, c: (pairs(x).real * 2, (pairs(x) * c[:, None]).imag),
    "of two real ones": lambda x, c: real(torch.complex(x[..., :4], x[..., 4:]) * c[:, None]),
    "axes": lambda x, c: real((pairs(x).transpose(1, -1) * c.T.unsqueeze(1)).permute(2, 0, 1, -1)),
    "slices": lambda x, c: real(pairs(x)[:, 1:5:2, -1] * c[1:5:2]),
    "joined": lambda x, c: real(torch.cat([pairs(x), c[None, :, None].expand(2, 6, 1, 4)], 2)),
    "stacked": lambda x, c: real(torch.stack([c, c * c], -1) * x[0, :, :1, :1]),
    "cut": lambda x, c: [real(part * 2) for part in (pairs(x) * c[:, None]).chunk(2, -1)],
    "repeated": lambda x, c: real(c.repeat(2, 1) * x[0, 0, 0, :4]),
    "summed": lambda x, c: (real((pairs(x) * c[:, None]).sum(1)), real(pairs(x).mean(-1)), real(pairs(x).sum())),
    "squeezed": lambda x, c: real(pairs(x)[:, :1].squeeze(1) * c[0]),
    "flipped": lambda x, c: real(pairs(x).flip(-1) * c[:, None]),
    "numbers of one axis": lambda x, c: real(torch.view_as_complex(x[0, 0, 0, :2]) * c[0, 0]),
}


def data() -> torch.Tensor:
    return torch.randn(2, 6, 3, 8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", COMPILED)
def test_by_parts(name: str):
    """All of it is compiled: nothing is left to torch."""
    model = OfBuffer(COMPILED[name]).eval()
    made = eutectic.compile(model, (data(),), fallback="error")
    torch.testing.assert_close(made(data()), model(data()))


@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan, 0.0])
def test_special_values_are_those_of_torch(special: float):
    """A real factor is a complex one without imaginary part, so that infinities times its zero are NaN."""
    model = OfBuffer(
        lambda x, c: (real(pairs(x) * c[:, None]), real(pairs(x) * x[..., :4]), real(pairs(x) + x[..., 4:]))
    )
    x = data()
    x[0, 0, 0, 0] = x[1, 2, 1, 3] = special
    torch.testing.assert_close(eutectic.compile(model.eval(), (x,))(x), model(x), equal_nan=True)


def test_double_precision():
    model = OfBuffer(rotated, LENGTHS.to(torch.complex128)).eval()
    made = eutectic.compile(model, (data(),), fallback="error")
    assert made(data()).dtype is torch.float64
    torch.testing.assert_close(made(data()), model(data()))


def test_sizes_may_vary():
    model, n = OfBuffer(rotated).eval(), torch.export.Dim("n", min=2, max=6)
    made = eutectic.compile(model, (data(),), dynamic_shapes=({1: n},), fallback="error")
    for size in (2, 3, 6):
        torch.testing.assert_close(made(data()[:, :size].contiguous()), model(data()[:, :size]))


class Spectral(nn.Module):
    """A layer of a Fourier neural operator."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 4, 5, dtype=torch.complex64) / 3)
        self.skip = nn.Conv1d(3, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        spectrum = torch.fft.rfft(x)[..., :5]
        mixed = torch.fft.irfft(torch.einsum("bix,iox->box", spectrum, self.weight), n=x.shape[-1])
        return nn.functional.gelu(mixed + self.skip(x))


LEFT: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "a layer of a Fourier neural operator": (Spectral(), (2, 3, 16)),
    "a complex product of matrices": (OfBuffer(lambda x, c: (pairs(x) @ c.T).abs()), (2, 6, 3, 8)),
    "a result": (OfBuffer(lambda x, c: (pairs(x) * c[:, None], c, x + 1)), (2, 6, 3, 8)),
    "quotients": (OfBuffer(lambda x, c: real(pairs(x) / c[:, None])), (2, 6, 3, 8)),
    "scaled sums": (OfBuffer(lambda x, c: real(torch.add(pairs(x), c[:, None], alpha=2))), (2, 6, 3, 8)),
    "what is by parts before and after": (
        OfBuffer(lambda x, c: real(torch.exp(pairs(x) * c[:, None]) * c[:, None].exp() + pairs(x))),
        (2, 6, 3, 8),
    ),
}


@pytest.mark.filterwarnings("ignore::eutectic.EutecticAdvice")
@pytest.mark.parametrize("name", LEFT)
def test_what_is_left_to_torch(name: str, tmp_path: Path):
    model, shape = LEFT[name]
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    made = eutectic.compile(model.eval(), (x,))
    with torch.no_grad():
        torch.testing.assert_close(made(x), model(x))
        if name != "a result":
            made.save(tmp_path / "model")
            torch.testing.assert_close(eutectic.load(tmp_path / "model")(x), model(x))


# ---- arguments


class OfArguments(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, z: torch.Tensor, x: torch.Tensor) -> Any:
        return self.function(z, x)


def square(z: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return real(z * z + x)


Z, X = LENGTHS * 2, torch.linspace(-1, 1, 4)
FORMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": lambda z: z,
    "conjugated": lambda z: z.conj(),
    "transposed": lambda z: z.T.contiguous().T,
    "every second": lambda z: z.repeat_interleave(2, 0)[::2],
    "with an offset": lambda z: torch.cat([z, z])[6:],
}


@pytest.mark.parametrize("form", FORMS)
def test_complex_arguments(form: str):
    model = OfArguments(square).eval()
    made, z = eutectic.compile(model, (Z, X), fallback="error"), FORMS[form](Z)
    torch.testing.assert_close(made(z, X), model(z, X))
    if form != "conjugated":  # NumPy has no such views
        np.testing.assert_allclose(made(z.numpy(), X.numpy()), model(z, X), rtol=1e-6)


def test_other_arguments_are_refused():
    made = eutectic.compile(OfArguments(square).eval(), (Z, X))
    with pytest.raises(CallError, match="argument z must be complex64, got float32"):
        made(Z.real.contiguous(), X)
    with pytest.raises(CallError, match="argument z must have size 4 on axis 1, got 3"):
        made(Z[:, :3], X)


def test_complex_arguments_of_any_size(tmp_path: Path):
    model, n = OfArguments(square).eval(), torch.export.Dim("n", min=1, max=9)
    made = eutectic.compile(model, (Z, X), dynamic_shapes=({0: n}, None))
    made.save(tmp_path / "model")
    for function in (made, eutectic.load(tmp_path / "model")):
        for z in (Z[:1], Z, Z[:5]):
            torch.testing.assert_close(function(z, X), model(z, X))
    with pytest.raises(CallError, match="argument z must have a size from 1 to 9 on axis 0, got 12"):
        made(torch.cat([Z, Z]), X)


def test_numbers_without_axes_and_double_precision():
    model, z = OfArguments(square).eval(), torch.tensor(1 + 2j, dtype=torch.complex128)
    torch.testing.assert_close(eutectic.compile(model, (z, X))(z, X), model(z, X))


class Writes(nn.Module):
    def forward(self, z: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        z.mul_(2j)
        return real(z + other)


@pytest.mark.filterwarnings("ignore::eutectic.EutecticAdvice")
def test_complex_arguments_are_written_to():
    made, ours, theirs = eutectic.compile(Writes().eval(), (Z.clone(), Z)), Z.clone(), Z.clone()
    torch.testing.assert_close(made(ours, Z), Writes()(theirs, Z))
    torch.testing.assert_close(ours, theirs)
    both = torch.stack([Z, Z], -1)
    made(both[..., 0], both[..., 1])
    for other in (ours, ours.conj(), ours[:]):
        with pytest.raises(CallError, match="arguments z and other share memory"):
            made(ours, other)
    with pytest.raises(CallError, match="arguments z and other share memory"):
        made(both[..., 0], both[..., 0].conj())


def test_complex_results_need_torch():
    program = torch.export.export(OfBuffer(lambda x, c: pairs(x) * c[:, None]).eval(), (data(),))
    with pytest.raises(UnsupportedOperatorError, match="it returns complex numbers"):
        from_exported_program(program)


class Turning(nn.Module):
    """Complex numbers that change with each call."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("angle", torch.ones(3, dtype=torch.complex64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.angle.mul_(2j)
        return real(self.angle * x)


@pytest.mark.filterwarnings("ignore::eutectic.EutecticAdvice")
def test_complex_numbers_that_a_model_changes(tmp_path: Path):
    theirs, x = Turning().eval(), torch.arange(3.0)
    made = eutectic.compile(Turning().eval(), (x,))
    for _ in range(2):
        torch.testing.assert_close(made(x), theirs(x))
    made.save(tmp_path / "model")
    torch.testing.assert_close(eutectic.load(tmp_path / "model")(x), theirs(x))
