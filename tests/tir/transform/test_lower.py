"""Lowered programs compute what the interpreter makes of the programs they come from."""

from __future__ import annotations

import numpy as np
import pytest
from tests.tir.transform.schedules import PROGRAMS, arguments, check_schedule, of, result, same, schedules, x

from eutectic import te, tir, topi
from eutectic.ir.module import IRModule
from eutectic.ir.prim_expr import Var
from eutectic.ir.structural import structural_equal
from eutectic.ir.transform import PassContext
from eutectic.support.errors import PassError
from eutectic.tir import PrimFunc
from eutectic.tir.interpret import run
from eutectic.tir.transform import default_cpu_lowering, lower, prim_func_pass

# Functions that are rounded to float32 before they are rounded to float16 need not be rounded as once.
ROUGH = {"half softmax"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_schedules(name: str):
    func = PROGRAMS[name]()
    for said, scheduled in schedules(func, len(name)):
        try:
            check_schedule(scheduled, 1, exact=name not in ROUGH)
        except Exception as error:
            error.add_note(f"{name}, {said}")
            raise


@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize("name", ["sum", "matmul", "softmax", "transpose", "concatenate"])
def test_symbolic_sizes(name: str, index: str):
    n, m = Var("n", index), Var("m", index)
    made = {
        "sum": lambda: of(lambda t: topi.sum(t, 1), x(n, m)),
        "matmul": lambda: of(topi.matmul, x(n, 4), x(4, m, name="y")),
        "softmax": lambda: of(lambda t: topi.nn.softmax(t, -1), x(n, m)),
        "transpose": lambda: of(topi.transpose, x(n, m)),
        "concatenate": lambda: of(lambda *t: topi.concatenate(t, 0), x(n, m), x(3, m, name="y")),
    }
    for said, scheduled in schedules(made[name](), 3):
        for rows, columns in ((3, 5), (1, 1), (0, 3)):
            try:
                check_schedule(scheduled, 1, sizes={"n": rows, "m": columns}, text=rows == 3)
            except Exception as error:
                error.add_note(f"{name} of {rows} times {columns}, {said}")
                raise


def test_reduction_over_nothing_leaves_where_it_starts():
    n = Var("n", "int64")
    for definition, start in ((topi.sum, 0.0), (topi.max, -np.inf)):
        func = lower(of(lambda t, d=definition: d(t, 1), x(3, n)))
        out = np.full(3, 7, "f4")
        run(func, np.zeros((3, 0), "f4"), out)
        np.testing.assert_array_equal(out, np.full(3, start, "f4"))


def test_a_module_is_lowered_as_its_functions_are():
    mod = IRModule({"one": PROGRAMS["softmax"](), "two": PROGRAMS["conv"]()})
    with PassContext(verify=True):
        made = default_cpu_lowering()(mod)
    for name in ("one", "two"):
        assert structural_equal(made[name], lower(mod[name]))
    assert default_cpu_lowering()(made) is made


@pytest.mark.parametrize("name", PROGRAMS)
def test_lowering_again_changes_nothing(name: str):
    func = lower(PROGRAMS[name]())
    assert lower(func) is func


def test_prim_func_pass():
    @prim_func_pass(opt_level=0)
    def rename(func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        return func.with_attr("renamed", True)

    @prim_func_pass(opt_level=1, name="Broken")
    class Broken:
        def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> int:
            return 0

    mod = IRModule({"one": PROGRAMS["add"]()})
    assert rename(mod)["one"].attr("renamed")
    assert rename.info.name == "rename"
    with pytest.raises(PassError, match="pass Broken returned int for a tensor function"):
        Broken()(mod)


def test_results_of_half_precision_are_rounded_at_each_operation():
    """Against NumPy, which rounds so too; the sum in float32 would be another."""
    a, b, c = (te.placeholder((64,), "float16", name=name) for name in "abc")
    func = lower(of(lambda a, b, c: topi.add(topi.multiply(a, b), c), a, b, c))
    given = arguments(func, 5)
    with np.errstate(over="ignore"):
        want = given[0] * given[1] + given[2]
    same([result(func, given)[3]], [want], exact=True)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_operation_of_narrow_floats(dtype: str):
    """Exact ones bit by bit, and functions to the last digit but one."""

    def definition(t: te.Tensor, u: te.Tensor) -> list[te.Tensor]:
        def stage(value: object, name: str) -> te.Tensor:
            return te.compute((40,), value, name=name)

        return [
            stage(lambda i: tir.FloorDiv(t[i], u[i]), "floordiv"),
            stage(lambda i: tir.fma(t[i], u[i], t[i]), "fma"),
            stage(lambda i: tir.floor(t[i]) + tir.max(t[i], u[i]), "floor"),
            stage(lambda i: tir.if_then_else(tir.isnan(t[i]), u[i], tir.sqrt(tir.fabs(t[i]))), "choice"),
            stage(lambda i: t[i].astype("int32"), "int"),
            stage(lambda i: t[i].astype("int32").astype(dtype), "back"),
            stage(lambda i: t[i].astype("float64"), "double"),
            stage(lambda i: t[i] * 0.1, "constant"),
            stage(lambda i: tir.nextafter(t[i], u[i]), "next"),
            stage(lambda i: t[i] < u[i], "less"),
        ]

    for said, scheduled in schedules(of(definition, x(40, dtype=dtype), x(40, dtype=dtype, name="u")), 2):
        try:
            check_schedule(scheduled, 4)
        except Exception as error:
            error.add_note(said)
            raise
