"""Sums in vectors of any number of lanes stay in registers."""

from __future__ import annotations

import re

import pytest

from eutectic import te, topi
from eutectic.driver.inspect import kernel_source
from eutectic.ir.module import IRModule

# Columns of a product: a few lanes, more than a register of 8 has, and what is left of several.
COLUMNS = (3, 5, 7, 9, 10, 11, 12, 13, 14, 15, 20, 25, 28, 31, 36)


def loops(columns: int, cpu: str) -> list[str]:
    """The innermost loops of a product that multiply."""
    a, b = te.placeholder((200, 64), "float32", "a"), te.placeholder((64, columns), "float32", "b")
    func = te.create_prim_func([a, b, topi.matmul(a, b)])
    assembly = kernel_source(IRModule({"main": func}), f"llvm -mcpu={cpu}", "asm")
    blocks = re.split(r"^(\.L\w+):", assembly, flags=re.MULTILINE)
    found = [
        code[: end.start()]
        for label, code in zip(blocks[1::2], blocks[2::2], strict=True)
        if "vfmadd" in code and (end := re.search(rf"\n\tj\w+\s+{re.escape(label)}\b", code))
    ]
    assert found
    return found


@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("columns", COLUMNS)
def test_products_with_any_number_of_columns(columns: int, cpu: str):
    for loop in loops(columns, cpu):
        assert loop.count("\n\t") < 5 * loop.count("vfmadd") + 8, loop  # one by one they had 15 for each
