"""Neighbouring indices compared with a number: right at the edges of 64 bits, and in 32 bits."""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np
import pytest

from eutectic.driver.inspect import kernel_source
from eutectic.ir.module import IRModule
from eutectic.ir.prim_expr import GE, GT, LE, LT, Broadcast, Comparison, IntImm, Ramp, Var
from eutectic.target import Target
from eutectic.testing.native import native
from eutectic.tir import Buffer, BufferStore, PrimFunc
from eutectic.tir.stmt import seq

LARGEST = (1 << 63) - 1
BOUNDS = (0, 1, -1, 3, 5, 8, 13, 100, -100, 1 << 31, (1 << 31) + 5, -(1 << 31), 1 << 32, LARGEST, -LARGEST - 1)
BASES = (0, 5, -5, 1 << 31, (1 << 32) - 3, -(1 << 40), LARGEST - 20)
COMPARED: dict[type[Comparison], Callable[[int, int], bool]] = {
    LT: operator.lt,
    LE: operator.le,
    GT: operator.gt,
    GE: operator.ge,
}


def program(kind: type[Comparison], lanes: int) -> PrimFunc:
    """Lanes from `base` on compared with `bound`, and the other way round."""
    y, base, bound = Buffer("y", (2, lanes), "bool"), Var("base", "int64"), Var("bound", "int64")
    ramp, number = Ramp(base, IntImm("int64", 1), lanes), Broadcast(bound, lanes)
    stores = [
        BufferStore(y, flags, (row, Ramp(0, 1, lanes)))
        for row, flags in enumerate((kind(ramp, number), kind(number, ramp)))
    ]
    return PrimFunc((y, base, bound), seq(*stores))


@pytest.mark.parametrize("kind", COMPARED)
@pytest.mark.parametrize("lanes", [3, 8, 16])
def test_flags(kind: type[Comparison], lanes: int):
    run = native(program(kind, lanes), schedule=False)
    compare = COMPARED[kind]
    for base in BASES:
        for bound in (*BOUNDS, base, base + 1, base + lanes - 1, base + lanes, base - 1):
            got = np.zeros((2, lanes), bool)
            run(got, base, min(bound, LARGEST))
            want = [
                [compare(base + lane, bound) for lane in range(lanes)],
                [compare(bound, base + lane) for lane in range(lanes)],
            ]
            np.testing.assert_array_equal(got, want, err_msg=f"{base} {bound}")


def test_vectors_are_of_32_bits():
    text = kernel_source(IRModule({"f": program(LT, 8)}), Target("llvm"), "llvm")
    assert "icmp slt <8 x i32>" in text
    assert "<8 x i64>" not in text
