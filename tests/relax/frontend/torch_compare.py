"""Runs torch functions through export, import and the interpreter, and compares with eager."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from eutectic.ir.module import IRModule
from eutectic.relax.frontend.torch import export_model, from_exported_program, signature_of
from eutectic.relax.interpret import Interpreter
from eutectic.testing.truth import definition, nearest

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


class Wrapped(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


class Imported:
    """An imported model; called like the original, executed by the interpreter."""

    def __init__(self, program: ExportedProgram, **options: Any) -> None:
        self.program = program
        self.module: IRModule = from_exported_program(program, **options)
        self.signature = signature_of(program)
        self.interpreter = Interpreter(self.module)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        results = self.interpreter.run("main", *self.signature.flatten(args, kwargs))
        return self.signature.unflatten(list(results), args, kwargs)

    @property
    def bindings(self) -> list[Any]:
        return [binding for block in self.module["main"].body.blocks for binding in block.bindings]

    @property
    def operators(self) -> list[str]:
        values = [binding.value for binding in self.bindings]
        return [value.op.name.removeprefix("relax.") for value in values if hasattr(value, "op")]


def imported(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, **options: Any) -> Imported:
    """A model or function, exported and imported."""
    module = model if isinstance(model, nn.Module) else Wrapped(model)
    return Imported(export_model(module.eval(), args, kwargs, **options))


def equal(got: Any, want: Any, tolerance: float | None = None) -> None:
    """Assert the same structure, dtypes, shapes, NaN places and (nearly) the same values."""
    got_leaves, got_spec = pytree.tree_flatten(got)
    want_leaves, want_spec = pytree.tree_flatten_with_path(want)
    assert got_spec == want_spec
    for a, (path, b) in zip(got_leaves, want_leaves, strict=True):
        place = pytree.keystr(path)
        assert type(a) is type(b), place
        if not isinstance(b, torch.Tensor):
            assert a == b, place
            continue
        assert a.dtype == b.dtype, place
        assert a.shape == b.shape, place
        limit = TOLERANCE.get(b.dtype, 0.0) if tolerance is None else tolerance
        torch.testing.assert_close(a, b, rtol=limit, atol=limit, equal_nan=True, msg=partial("{}: {}".format, place))


def check(function: Callable[..., Any], *args: Any, tolerance: float | None = None) -> Imported:
    """Import a function and compare on copies of the same arguments; also the arguments afterwards.

    An element that is not what eager computes on this machine may be what the definition says in float64.
    """
    model = imported(function, copy.deepcopy(args))
    mine, theirs = copy.deepcopy(args), copy.deepcopy(args)
    with torch.no_grad():
        want = function(*theirs)
        got = model(*mine)
    try:
        equal(got, want, tolerance)
    except AssertionError:
        equal(got, nearest(got, want, definition(Wrapped(function), args)), tolerance)
    equal(mine, theirs)
    return model


def together(functions: Mapping[str, Callable[..., Any]]) -> Callable[..., dict[str, Any]]:
    """One function that gives the results of several, by name: one export instead of many."""
    return lambda *args: {name: function(*args) for name, function in functions.items()}


def rand(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    """The same numbers at each call: normal ones, or small integers."""
    generator = torch.Generator().manual_seed(seed + sum(shape))
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator, dtype=torch.bool)
    if not dtype.is_floating_point:
        low = 0 if dtype == torch.uint8 else -9
        return torch.randint(low, 10, shape, generator=generator).to(dtype)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def special(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """NaN, infinities, both zeros and ordinary numbers."""
    values = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, 7.0, -8.0]
    return torch.tensor(values, dtype=dtype)
