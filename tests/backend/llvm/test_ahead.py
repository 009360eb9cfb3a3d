"""Kernels that ask for the weights of the next ones."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
import torch
from torch import nn

import eutectic
from eutectic import te, topi
from eutectic.backend.llvm import entry
from eutectic.backend.llvm.ahead import is_steady, next_constant, steady_asks
from eutectic.backend.llvm.kernels import build_kernel
from eutectic.backend.llvm.machine import machine_of
from eutectic.backend.llvm.term_groups import term_group
from eutectic.backend.plan import CopyStep, KernelStep, Tensor
from eutectic.driver.inspect import kernel_source
from eutectic.ir.module import IRModule
from eutectic.ir.prim_expr import IntImm, Var
from eutectic.ir.visit import post_order
from eutectic.target import Target
from eutectic.tir.function import PrimFunc
from eutectic.tir.schedule.rules.cpu import schedule_for_cpu
from eutectic.tir.stmt import For
from eutectic.tir.transform.lower_tir import lowered

TARGET = Target("llvm -mcpu=x86-64-v3")
MACHINE = machine_of(TARGET)


def product(rows: int = 24, terms: int = 40, columns: int = 32) -> PrimFunc:
    a, b = te.placeholder((rows, terms), "float32", "a"), te.placeholder((terms, columns), "float32", "b")
    return te.create_prim_func([a, b, topi.nn.relu(topi.matmul(a, b))])


def winograd() -> PrimFunc:
    """Stages row by row, where sums are added to in memory that LLVM has to keep in registers by itself."""
    data, weight = (
        te.placeholder((1, 2, 32, 12, 8), "float32", "d"),
        te.placeholder((6, 6, 1, 2, 8, 16), "float32", "w"),
    )
    return te.create_prim_func([data, weight, topi.nn.conv2d_winograd(data, weight, 1, "NCHW8c")])


def flat(func: PrimFunc) -> PrimFunc:
    return lowered(schedule_for_cpu(func, MACHINE))


def test_steady_loops_are_those_over_sums_of_vectors():
    body = flat(product()).body
    steady = [
        part
        for part in post_order(body)
        if isinstance(part, For) and is_steady(part, term_group(part, MACHINE.lanes()))
    ]
    assert steady
    # A group of a steady loop is eight terms of every sum in a tile.
    tiles = steady_asks(body, MACHINE.lanes()) / 5
    assert tiles == int(tiles)
    assert 1 <= tiles <= 24 * 32 / (6 * 8)


@pytest.mark.parametrize("define", [topi.exp, topi.nn.relu, lambda x: topi.sum(x, axis=-1)])
def test_other_kernels_ask_for_nothing(define):
    x = te.placeholder((64, 64), "float32", "x")
    func = te.create_prim_func([x, define(x)])
    assert steady_asks(flat(func).body, MACHINE.lanes()) == 0
    assert "llvm.prefetch" not in kernel_source(IRModule({"main": func}), TARGET, "llvm")


@pytest.mark.parametrize("define", [product, winograd])
def test_sums_stay_in_registers_beside_it(define):
    assembly = kernel_source(IRModule({"main": define()}), TARGET, "asm")
    blocks = [block for block in re.split(r"^\.L\w+:", assembly, flags=re.MULTILINE) if "prefetch" in block]
    assert blocks
    for block in blocks:
        loop = block[: re.search(r"\n\tj\w+\s+\.L", block).start()]
        assert loop.count("vfmadd") >= 6
        assert not re.search(r"vmov[au]ps\s+%[xyz]mm\d+, [^%]", loop), loop


def constant(name: str, elements: int | Var, number: int = 0) -> Tensor:
    size = elements if isinstance(elements, Var) else IntImm("int64", elements)
    return Tensor(name, "float32", (size,), "constant", number)


def step(*tensors: Tensor) -> KernelStep:
    kernel = build_kernel(product(), MACHINE)
    return KernelStep("step", kernel, tensors, 1, (), (), ())


def test_the_next_weights_are_the_largest_constant_of_the_next_kernel_that_has_a_large_one():
    value = Tensor("x", "float32", (IntImm("int64", 1 << 20),), "arena")
    bias, small, large = constant("bias", 64), constant("small", 1 << 13, 1), constant("large", 1 << 16, 2)
    copy = CopyStep(value, value)
    assert next_constant([step(value, bias), copy, step(value, small, large, bias)]) is large
    assert next_constant([step(value, small), step(large)]) is small
    assert next_constant([]) is None
    assert next_constant([step(value, bias)] * 4 + [step(large)]) is None, "that is not soon"
    assert next_constant([step(constant("varying", Var("n", "int64")))]) is None


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_networks_compute_the_same(threads: int):
    """Weights of every size after each other, also smaller than the part that each thread asks for."""
    torch.manual_seed(0)
    sizes = [40, 256, 7, 128, 1, 96, 33]
    layers = [part for a, b in itertools.pairwise(sizes) for part in (nn.Linear(a, b), nn.GELU())]
    model = nn.Sequential(*layers).eval()
    x = torch.randn(24, 40)
    fast = eutectic.compile(model, (x,), target="llvm", threads=threads)
    with torch.no_grad():
        np.testing.assert_allclose(fast(x), model(x), rtol=1e-4, atol=1e-5)


def test_the_last_kernel_asks_for_what_the_next_call_begins_with(monkeypatch: pytest.MonkeyPatch):
    asked = []

    def recorded(steps):
        asked.append((steps, next_constant(steps)))
        return asked[-1][1]

    monkeypatch.setattr(entry, "next_constant", recorded)
    model = nn.Sequential(nn.Linear(512, 768), nn.ReLU(), nn.Linear(768, 256)).eval()
    eutectic.compile(model, (torch.randn(64, 512),), target="llvm", threads=2)
    (after_first, second), (after_last, first) = asked
    assert after_first[0] is after_last[1]
    assert after_first[1] is after_last[0]
    assert first in after_last[0].tensors
    assert second in after_first[0].tensors
