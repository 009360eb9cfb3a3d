"""Tensor intrinsics: what can be registered."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from tests.tir.programs import block, matmul, nest
from tests.tir.schedule.intrinsics import INTRINSICS, column_wise, described, registered, sum_apart, zeros
from tests.tir.schedule.primitives.test_tensorize import inner

from eutectic import tir
from eutectic.compat.alias import AliasModule
from eutectic.ir.prim_expr import PrimExpr, Var
from eutectic.support.errors import ScheduleError
from eutectic.testing.native import native
from eutectic.tir import Buffer, BufferStore, For, PrimFunc, Stmt, TensorIntrin, complete, seq
from eutectic.tir.schedule import Schedule
from eutectic.tir.schedule.tensor_intrin import _REGISTERED


@pytest.fixture(autouse=True)
def _names() -> Iterator[None]:
    """What a test registers is forgotten."""
    before = dict(_REGISTERED)
    yield
    _REGISTERED.clear()
    _REGISTERED.update(before)


def test_the_name_of_tvm_resolves():
    assert AliasModule("tvm.tir").TensorIntrin is TensorIntrin


def test_those_that_are_there_are_exact():
    for name in ("dot_4x4_i8i8s32", "dot_16x4_u8i8i32", "matmul_4x16x1_f32", "fill_4x16_f32"):
        found = TensorIntrin.get(name)
        assert found is not None
        assert found.exact
        assert found.is_checked
    assert TensorIntrin.get("none of these", allow_missing=True) is None


def wrong(value: Callable[[Buffer, Var, Var], PrimExpr]) -> PrimFunc:
    a, b = Buffer("A", (2, 3)), Buffer("B", (2, 3))
    return PrimFunc((a, b), nest("ij", (2, 3), lambda i, j: BufferStore(b, value(a, i, j), (i, j))))


def writes_input() -> PrimFunc:
    a, b = Buffer("A", (2, 3)), Buffer("B", (2, 3))
    store = nest("ij", (2, 3), lambda i, j: seq(BufferStore(b, tir.exp(a[i, j]), (i, j)), BufferStore(a, 0, (i, j))))
    return PrimFunc((a, b), store)


def loops_of(stmt: Callable[[Buffer, Buffer], Stmt]) -> PrimFunc:
    a, b = Buffer("A", (4,)), Buffer("B", (4,))
    return complete(PrimFunc((a, b), stmt(a, b)))


def copies(extent: int, kind: str = "serial", begin: int = 0, where: bool = False) -> PrimFunc:
    def made(a: Buffer, b: Buffer) -> Stmt:
        i = Var("i", "int32")
        axes, predicate = {"v": (4, "S")}, (i < 3) if where else True
        realize = block("copy", axes, (i,), lambda v: BufferStore(b, a[v], (v,)), predicate=predicate)
        return For(i, begin, extent, kind, realize)

    return loops_of(made)


EXP = INTRINSICS["test.exp"]
REGISTRATIONS: dict[str, tuple[Callable[[], PrimFunc], Callable[[], PrimFunc], str]] = {
    "another function": (EXP.desc, lambda: wrong(lambda a, i, j: tir.exp(a[i, j]) * 2.0), "computes something else"),
    "an element": (
        EXP.desc,
        lambda: wrong(lambda a, i, j: tir.exp(a[i, tir.min(j, 1)])),
        "test.new computes something else than its description: B[0, 2] is",
    ),
    "outside": (EXP.desc, lambda: wrong(lambda a, i, j: tir.exp(a[i, j + 1])), "does what is not defined"),
    "an input": (EXP.desc, writes_input, "writes A, which the description only reads"),
    "order of sums": (
        lambda: described(2, 2, 3),
        lambda: sum_apart(2, 2, 3),
        "rounds floats differently than its description",
    ),
    "shapes": (EXP.desc, lambda: zeros(True), "takes 1 buffers, and 2 are described"),
    "shape": (lambda: described(2, 2, 2), lambda: column_wise(2, 2, 3), "takes A of shape (2, 3), and shape (2, 2)"),
    "dtype": (
        lambda: described(2, 2, 2),
        lambda: column_wise(2, 2, 2, "int32"),
        "takes A of dtype int32, and dtype float32 is described for A",
    ),
    "scope": (
        lambda: described(2, 2, 2),
        lambda: column_wise(2, 2, 2, scope="shared"),
        "takes A of scope shared, and scope global is described",
    ),
    "no block": (lambda: column_wise(2, 2, 2), lambda: column_wise(2, 2, 2), "must have one root block"),
    "not all": (lambda: copies(3), lambda: copies(3), "does not access all elements of A, of shape (4,)"),
    "parallel": (lambda: copies(4, "parallel"), lambda: copies(4), "has loop i, which is not serial from zero on"),
    "condition": (lambda: copies(4, where=True), lambda: copies(4), "has block copy with a condition"),
    "begin": (lambda: copies(3, begin=1), lambda: copies(4), "has loop i, which is not serial from zero on"),
}


@pytest.mark.parametrize("name", REGISTRATIONS)
def test_registrations(name: str):
    desc, impl, said = REGISTRATIONS[name]
    with pytest.raises(ScheduleError) as error:
        TensorIntrin.register("test.new", desc(), impl())
    assert said in str(error.value)
    assert TensorIntrin.get("test.new", allow_missing=True) is None


def test_a_name_stands_for_one_intrinsic():
    first = registered("test.exp")
    assert registered("test.exp") is first
    with pytest.raises(ScheduleError, match="registered already, with another content"):
        TensorIntrin.register("test.exp", EXP.desc(), EXP.desc())
    again = TensorIntrin.register("test.exp", EXP.desc(), EXP.desc(), override=True)
    assert TensorIntrin.get("test.exp") is again
    with pytest.raises(ScheduleError, match="no tensor intrinsic is called"):
        TensorIntrin.get("test.exq")
    with pytest.raises(ScheduleError, match="registered already"):
        TensorIntrin.register("fill_4x16_f32", EXP.desc(), EXP.desc())


def test_sums_in_another_order_are_asked_for():
    made = TensorIntrin.register("test.apart", described(2, 2, 3), sum_apart(2, 2, 3), reassociates=True)
    assert made.is_checked
    assert not made.exact
    before = matmul(size=6)
    sch = Schedule(before, debug_mask="all")
    sch.tensorize(inner(sch, "matmul", 2, 2, 3), "test.apart")
    a, b = (np.random.default_rng(n).standard_normal((6, 6), np.float32) for n in range(2))
    got = np.empty_like(a)
    native(sch.func, schedule=False)(a, b, got)
    np.testing.assert_allclose(got, a @ b, rtol=1e-5, atol=1e-5)
    with pytest.raises(ScheduleError, match="computes something else"):
        TensorIntrin.register("test.wrong", EXP.desc(), wrong(lambda a, i, j: a[i, j] + 1.0), reassociates=True)
