"""What runs programs before and after a step sees every difference, and shows it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.tir.programs import matmul
from tests.tir.schedule.programs import of, x

from eutectic import te, tir, topi
from eutectic.ir.prim_expr import Var
from eutectic.script import from_source
from eutectic.support.errors import ScheduleError
from eutectic.tir import PrimFunc, Schedule
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.primitive import Primitive
from eutectic.tir.schedule.validate import compare_programs, compare_sums, in_float64


def stage(definition: Callable[..., object], *inputs: te.Tensor) -> PrimFunc:
    shape = inputs[0].shape
    return te.create_prim_func([*inputs, te.compute(shape, definition, "out")])


def test_message_and_script():
    """The element, both values, and files that show the difference again."""
    a = x(3, 2, name="a")
    before = stage(lambda i, j: a[i, j] + 1.0, a)
    after = stage(lambda i, j: a[i, j] + tir.if_then_else(tir.all(tir.EQ(i, 2), tir.EQ(j, 1)), 2.0, 1.0), a)
    with pytest.raises(
        ScheduleError, match=r"a step changes what the program computes: out\[2, 1\] was .* and is"
    ) as e:
        compare_programs(before, after, "a step")
    found = re.search(r"python (\S+reproduce\.py) shows it again", str(e.value))
    assert found is not None
    ran = subprocess.run([sys.executable, found[1]], capture_output=True, text=True, check=True).stdout
    assert ran.startswith("before\n")
    assert "\nafter\n" in ran
    assert {p.name for p in Path(found[1]).parent.iterdir()} == {"before.py", "after.py", "inputs.npz", "reproduce.py"}


small = x(4, 5, name="a")
whole = x(4, 5, dtype="int32", name="a")
EQUAL_BUT: dict[str, tuple[PrimFunc, PrimFunc, str]] = {
    "for NaN": (
        stage(lambda i, j: tir.max(small[i, j], 0.0), small),
        stage(lambda i, j: tir.Select(small[i, j] > 0.0, small[i, j], tir.const(0.0, "float32")), small),
        "special values",
    ),
    "for negative zero": (
        stage(lambda i, j: small[i, j] + 0.0, small),
        stage(lambda i, j: small[i, j] * 1.0, small),
        "special values",
    ),
    "for denormals": (
        stage(lambda i, j: small[i, j] * 1.0, small),
        stage(lambda i, j: small[i, j] * 1e30 * 1e-30, small),
        "numbers|extreme values",
    ),
    "for the largest integers": (
        stage(lambda i, j: tir.max(whole[i, j] + 1, whole[i, j]), whole),
        stage(lambda i, j: whole[i, j] + 1, whole),
        "extreme values",
    ),
}


@pytest.mark.parametrize("name", EQUAL_BUT)
def test_inputs_that_tell(name: str):
    before, after, kind = EQUAL_BUT[name]
    with pytest.raises(ScheduleError, match=f"the inputs were ({kind})"):
        compare_programs(before, after, "a step")
    compare_programs(before, before, "nothing")


def test_sizes_of_zero_and_odd_ones():
    n = Var("n", "int64")
    a = te.placeholder((n, 2), "float32", "a")
    before = of(lambda t: topi.sum(t, 0), a)
    after = tir_from(before.script().replace("(2), n)", "(2), T.max(n, T.int64(1)))"))
    with pytest.raises(ScheduleError, match="is not defined"):
        compare_programs(before, after, "a step")


def test_a_refusal_is_a_result():
    """Inputs that a program refuses are refused after a step, and no others."""
    places = x(4, 5, dtype="int64", name="i")
    before = of(lambda t, i: topi.gather(t, 1, i), x(4, 6), places)
    careless = of(lambda t, i: topi.gather(t, 1, topi.clip(i, 0, 5)), x(4, 6), places)
    compare_programs(before, before, "nothing")
    for first, second in ((before, careless), (careless, before)):
        with pytest.raises(ScheduleError, match="a step changes which inputs the program refuses") as e:
            compare_programs(first, second, "a step")
        assert "an index of gather is outside of axis 1" in str(e.value)


def tir_from(text: str) -> PrimFunc:
    made = from_source(text)
    assert isinstance(made, PrimFunc)
    return made


def test_order_of_additions_is_compared_in_float64():
    before = matmul(size=8)
    sch = Schedule(before, debug_mask="all")
    outer, _ = sch.split(sch.get_loops("matmul")[2], [2, 4])
    sch.rfactor(outer, 0)
    with pytest.raises(ScheduleError):
        compare_programs(before, sch.func, "rfactor")
    compare_sums(before, sch.func, "rfactor")
    wrong = tir_from(sch.func.script().replace("T.float32(0.0)", "T.float32(1.0)"))
    with pytest.raises(ScheduleError, match="changes what the program computes"):
        compare_sums(before, wrong, "rfactor")


def test_a_faulty_primitive_is_named(monkeypatch: pytest.MonkeyPatch):
    def forget(edit: Edit) -> None:
        site = edit.block("out")
        edit.replace("main", {site.stmt: tir.Evaluate(tir.const(0, "int32"))})

    a = x(3, 2, name="a")
    sch = Schedule(stage(lambda i, j: a[i, j] + 1.0, a), debug_mask="all")
    before = sch.func
    with pytest.raises(ScheduleError, match=r"forget \(step 1\) of main changes what the program computes"):
        sch.perform(Primitive(forget), (), {})
    assert sch.func is before


def test_bits_of_floats_are_not_widened():
    a = x(3, 2, name="a")
    assert in_float64(stage(lambda i, j: tir.reinterpret("int32", a[i, j]), a)) is None
    wide = in_float64(stage(lambda i, j: tir.exp(a[i, j]) * 2.0, a))
    assert wide is not None
    assert "float32" not in wide.script()
