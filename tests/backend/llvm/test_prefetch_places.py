"""What kernels ask for ahead is in the buffers that they read: behind these there may be no memory."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.tir.schedule.rules.test_next_panel import product

import eutectic
from eutectic import te, topi
from eutectic.backend.llvm.function_text import FunctionText
from eutectic.driver.build_prim_func import NativePrimFunc
from eutectic.driver.inspect import kernel_source
from eutectic.ir.prim_expr import IntImm
from eutectic.runtime.symbols import register_symbol
from eutectic.target import Target
from eutectic.tir import PrimFunc, Var
from eutectic.tir.schedule.rules.choosing import with_decisions

_ASKED: list[int] = []
_NOTE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda place: _ASKED.append(place))
_SYMBOL = "eutectic_test_asked"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[int]]:
    """Addresses that kernels ask for, which are compiled anew."""
    register_symbol(_SYMBOL, ctypes.cast(_NOTE, ctypes.c_void_p).value or 0)
    write = FunctionText.do

    def noted(self: FunctionText, text: str) -> None:
        if text.startswith("call void @llvm.prefetch"):
            place = text.split("(ptr ")[1].split(",")[0]
            self.call("void", _SYMBOL, [("ptr", place)])
        else:
            write(self, text)

    monkeypatch.setattr(FunctionText, "do", noted)
    monkeypatch.setenv("EUTECTIC_CACHE_DIR", str(tmp_path))
    _ASKED.clear()
    yield _ASKED
    _ASKED.clear()


def packed(rows: int | Var, terms: int, columns: int, panel: int = 16) -> PrimFunc:
    panels = [IntImm("int64", size) if isinstance(rows, Var) else size for size in (columns // panel, terms, panel)]
    x, w = te.placeholder((rows, terms), "float32", "x"), te.placeholder(tuple(panels), "float32", "w")
    return te.create_prim_func([x, w, topi.nn.dense_pack(x, w, units=columns)])


@pytest.mark.parametrize(
    ("func", "decisions"),
    [
        (packed(4, 300, 128), {}),
        (packed(30, 300, 128), {}),
        (packed(30, 600, 128), {}),  # in blocks of terms
        (packed(30, 300, 128), {"dense_pack@0": {"spread": True}}),
        (packed(30, 300, 128), {"dense_pack@0": {"ahead": 100_000}}),
        (product(49, 512, 32), {}),
    ],
)
def test_weights_are_asked_for_to_their_end(func: PrimFunc, decisions: dict, asked: list[int]):
    arrays = [np.ones([int(n) for n in func.buffer_map[param].shape], "float32") for param in func.params]
    chosen = with_decisions(func, decisions) if decisions else func
    NativePrimFunc(chosen, Target("llvm -mcpu=x86-64-v3"), threads=1)(*arrays)
    weights = arrays[1]
    first, end = weights.ctypes.data, weights.ctypes.data + weights.nbytes
    assert asked
    assert first <= min(asked)
    assert max(asked) < end
    assert max(asked) >= end - weights.nbytes // 4  # the last panel, too


def test_all_lines_of_an_iteration_are_compared_with_the_end_at_once():
    """One by one each would keep a register, of which there are none left."""
    text = kernel_source(packed(1, 784, 128, 64), "llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v4", "llvm")
    assert text.count("call void @llvm.prefetch") == 16
    assert text.count("call i64 @llvm.smin.i64") == 1


@pytest.mark.parametrize(("rows", "share"), [(60, 1.0), (24, 1.0), (12, 0.5), (5, 1.0)])
@pytest.mark.parametrize("terms", [320, 640])  # all at once, and in blocks of terms
def test_the_first_tiles_share_the_asking_where_their_number_varies(rows: int, share: float, terms: int, asked: list):
    """Four tiles of six rows ask for a quarter each, and later ones for what is there; what remains asks for all."""
    func = packed(Var("n", "int64"), terms, 64)
    x, w = np.ones((rows, terms), "float32"), np.ones((4, terms, 16), "float32")
    out = np.empty((rows, 64), "float32")
    NativePrimFunc(func, Target("llvm -mcpu=x86-64-v3"), threads=1)(x, w, out)
    lines = {(place - w.ctypes.data) // 64 for place in asked}
    of_next = {line for line in lines if terms <= line}
    assert len(of_next) == pytest.approx(3 * terms * share, rel=0.07)
    assert out.min() == out.max() == terms
    if rows == 60:
        assert len(asked) <= 4 * 10 * (terms / 4 + 8)


def test_weights_of_the_next_kernel_are_asked_for_to_their_end(asked: list[int]):
    """By the kernel before, all of whose iterations go on asking when they are through."""
    layers = torch.nn.Linear(16, 128), torch.nn.ReLU(), torch.nn.Linear(128, 96)
    model, x = torch.nn.Sequential(*layers).eval(), torch.ones(300, 16)
    eutectic.compile(model, (x,), target="llvm -mcpu=x86-64-v3", threads=1)(x)
    assert asked
    assert 4 * 128 * 96 - 64 <= max(asked) - min(asked) < 4 * 128 * 96
