"""Whatever is more than plain memory is made plain or refused by name, at every door to native code."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch._subclasses import FakeTensorMode

import eutectic
from eutectic import relax
from eutectic.driver.build_prim_func import build
from eutectic.ir.module import IRModule
from eutectic.relax import op
from eutectic.relax.transform import BindParams
from eutectic.runtime.tensor import cpu
from eutectic.runtime.tensor import tensor as runtime_tensor
from eutectic.script import tir as T
from eutectic.support.errors import CallError, EutecticError
from eutectic.support.plain_memory import as_array
from eutectic.testing.graphs import evaluate, graph

N = 3
COMPLEX = torch.tensor([1 + 2j, 3 - 4j, -5 + 6j])


class Own(torch.Tensor):
    """A subclass."""


class OwnArray(np.ndarray):
    """A subclass."""


def resized(x: torch.Tensor, nbytes: int) -> torch.Tensor:
    x.untyped_storage().resize_(nbytes)
    return x


def masked(*mask: int) -> np.ma.MaskedArray:
    return np.ma.array(np.arange(N, dtype="f4"), mask=mask)


# A value, and what it means; None where it means nothing that plain memory can hold.
VALUES: dict[str, Callable[[], tuple[Any, list[float] | None]]] = {
    "negative bit": lambda: (torch._neg_view(torch.arange(3.0)), [0, -1, -2]),
    "negative bit, strided": lambda: (COMPLEX.conj().imag, [-2, 4, -6]),
    "negative bit, one element": lambda: (COMPLEX[:1].conj().imag.expand(N), [-2, -2, -2]),
    "zeros without memory": lambda: (torch._efficientzerotensor(N), [0, 0, 0]),
    "transposed": lambda: (torch.arange(2.0 * N).reshape(N, 2)[:, 1], [1, 3, 5]),
    "expanded": lambda: (torch.tensor(2.0).expand(N), [2, 2, 2]),
    "buffer": lambda: (torch.nn.Buffer(torch.arange(3.0)), [0, 1, 2]),
    "frozen parameter": lambda: (torch.nn.Parameter(torch.arange(3.0), requires_grad=False), [0, 1, 2]),
    "reversed": lambda: (np.arange(N, dtype="f4")[::-1], [2, 1, 0]),
    "big-endian": lambda: (np.arange(N, dtype=">f4"), [0, 1, 2]),
    "misaligned": lambda: (np.frombuffer(b"\0" + np.arange(N, dtype="f4").tobytes(), "f4", offset=1), [0, 1, 2]),
    "read-only": lambda: (np.broadcast_to(np.float32(4), (N,)), [4, 4, 4]),
    "empty mask": lambda: (masked(0, 0, 0), [0, 1, 2]),
    "record array": lambda: (np.arange(N, dtype="f4").view(np.recarray), [0, 1, 2]),
    "requires grad": lambda: (torch.arange(3.0, requires_grad=True), None),
    "parameter": lambda: (torch.nn.Parameter(torch.arange(3.0)), None),
    "masked array": lambda: (masked(0, 1, 0), None),
    "subclass of ndarray": lambda: (np.arange(N, dtype="f4").view(OwnArray), None),
    "subclass of Tensor": lambda: (torch.arange(3.0).as_subclass(Own), None),
    "complex": lambda: (COMPLEX.conj(), None),
    "sparse": lambda: (torch.arange(3.0).to_sparse(), None),
    "mkldnn": lambda: (torch.arange(3.0).to_mkldnn(), None),
    "quantized": lambda: (torch.quantize_per_tensor(torch.arange(3.0), 1.0, 0, torch.qint8), None),
    "nested": lambda: (torch.nested.nested_tensor([torch.ones(1), torch.ones(2)]), None),
    "freed": lambda: (resized(torch.arange(3.0), 0), None),
    "meta": lambda: (torch.empty(N, device="meta"), None),
    "fake": lambda: (FakeTensorMode().from_tensor(torch.arange(3.0)), None),
    "functional": lambda: (torch._to_functional_tensor(torch.arange(3.0)), None),
    "other dtype": lambda: (torch.arange(3), None),
    "objects": lambda: (np.array([0, 1, None]), None),
    "list": lambda: ([[0.0], [1.0, 2.0]], None),
}


@T.prim_func
def doubled(x: T.Buffer((3,), "float32"), y: T.Buffer((3,), "float32")):
    for i in range(3):
        with T.block("double"):
            vi = T.axis.spatial(3, i)
            y[vi] = x[vi] * T.float32(2)


class Double(torch.nn.Module):
    def forward(self, x):
        return x * 2


class DoubleOfBoth(torch.nn.Module):
    def forward(self, x, y):
        return x * 2, y + 0


def module() -> IRModule:
    return graph({"x": (N,)}, lambda bb, x: op.multiply(x, relax.const(2.0)))


@functools.cache
def native(name: str) -> Any:
    """What the doors lead to, compiled once."""
    one = (torch.ones(N),)
    match name:
        case "model":
            return eutectic.compile(Double(), one, target="llvm")
        case "model with oneDNN":
            return eutectic.compile(Double(), one)
        case "model of two inputs":
            return eutectic.compile(DoubleOfBoth(), one * 2, target="llvm")
        case "model of a size that varies":
            return eutectic.compile(Double(), one, dynamic_shapes=({0: torch.export.Dim("n", max=9)},), target="llvm")
        case "graph module":
            return eutectic.compile(module(), target="llvm")
        case "tensor program":
            return build(doubled)
        case _:
            return relax.VirtualMachine(relax.build(module()), cpu())["main"]


def tensor_program(value: Any) -> Any:
    out = np.zeros(N, "f4")
    native("tensor program")(value, out)
    return out


def bound(value: Any) -> Any:
    return evaluate(BindParams("main", {"x": value})(module()))


def a_constant(value: Any) -> Any:
    return evaluate(graph({}, lambda bb: op.multiply(relax.expr.Constant(value), relax.const(2.0))))


DOORS: dict[str, Callable[[Any], Any]] = {
    "model": lambda value: native("model")(value),
    "model with oneDNN": lambda value: native("model with oneDNN")(value),
    "model of two inputs": lambda value: native("model of two inputs")(value, value)[0],
    "model of a size that varies": lambda value: native("model of a size that varies")(value),
    "keyword": lambda value: native("model")(x=value),
    "graph module": lambda value: native("graph module")(value),
    "tensor program": tensor_program,
    "virtual machine": lambda value: native("virtual machine")(value),
    "bound parameter": bound,
    "constant": a_constant,
    "runtime tensor": lambda value: native("virtual machine")(runtime_tensor(value)),
}
# Weights are copied out of whatever records gradients.
WEIGHTS = {"bound parameter", "constant", "runtime tensor"}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("door", DOORS)
def test_values_are_made_plain_or_refused(door: str, name: str):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # prototypes of torch say that they are
        value, meaning = VALUES[name]()
        if door in WEIGHTS and name in ("requires grad", "parameter"):
            meaning = [0, 1, 2]
        if meaning is not None:
            np.testing.assert_array_equal(np.asarray(DOORS[door](value)), 2 * np.array(meaning, "f4"))
            return
        # What is no tensor at all is an error of Python where arrays are made of anything.
        with pytest.raises((EutecticError, ValueError, TypeError) if door in WEIGHTS else EutecticError):
            DOORS[door](value)


@pytest.mark.parametrize("name", ["model", "model of a size that varies"])
def test_inputs_of_a_transform_are_refused(name: str):
    with pytest.raises(EutecticError, match=r"transform of torch\.func"):
        torch.func.vmap(native(name))(torch.ones(2, N))


def test_weights_with_pending_negation_are_what_they_mean():
    """The two buffers share memory, shape and strides; only one is negated."""

    class Both(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("a", COMPLEX.imag)
            self.register_buffer("b", COMPLEX.conj().imag)

        def forward(self, x):
            return x * self.a, x * self.b

    x = torch.arange(1.0, 4.0)
    for got, want in zip(eutectic.compile(Both(), (x,))(x), Both()(x), strict=True):
        torch.testing.assert_close(got, want)


def test_a_written_argument_must_be_plain():
    with pytest.raises(EutecticError, match="y is written, so it must be plain memory"):
        build(doubled)(np.ones(N, "f4"), torch._neg_view(torch.ones(N)))


def test_storage_that_is_too_small_is_named():
    def strided() -> torch.Tensor:
        return torch.arange(6.0).reshape(3, 2).t()[1:]

    assert as_array(strided(), "x").tolist() == [[1, 3, 5]]
    with pytest.raises(CallError, match="x needs 24 bytes of storage, which has 20: it was resized"):
        as_array(resized(strided(), 20), "x")
