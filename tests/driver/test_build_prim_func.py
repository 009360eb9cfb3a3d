"""Tensor programs compiled and called from Python."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from eutectic import te, topi
from eutectic.compat import root
from eutectic.driver.build_prim_func import build
from eutectic.ir.dtype import is_float, to_numpy
from eutectic.ir.module import IRModule
from eutectic.ir.prim_expr import Var
from eutectic.relax import BlockBuilder, TensorStructInfo, op
from eutectic.relax import Var as RelaxVar
from eutectic.runtime.tensor import tensor
from eutectic.support.errors import CallError, CodegenError
from eutectic.tir import Buffer, BufferStore, For, PrimFunc
from eutectic.tir.stmt import Stmt


def loop(extent: Any, body: Any) -> Stmt:
    var = Var("i", getattr(extent, "dtype", "int32"))
    return For(var, 0, extent, "serial", body(var))


def doubled() -> PrimFunc:
    x = te.placeholder((4, 6), "float32", name="x")
    return te.create_prim_func([x, topi.multiply(x, 2.0)])


def test_arrays_and_tensors():
    call = build(doubled(), threads=2)
    x, out = np.arange(24, dtype="float32").reshape(4, 6), np.zeros((4, 6), "float32")
    call(x, out)
    np.testing.assert_array_equal(out, 2 * x)
    ours = tensor(np.zeros((4, 6), "float32"))
    call(tensor(x), ours)
    np.testing.assert_array_equal(ours.numpy(), 2 * x)
    theirs = torch.zeros(4, 6)
    call.main(torch.from_numpy(x), theirs)
    np.testing.assert_array_equal(theirs.numpy(), 2 * x)


def test_arrays_with_gaps():
    """Strided, reversed, transposed, misaligned, of another byte order; around what is written nothing changes."""
    call = build(doubled())
    x = np.arange(24, dtype="float32").reshape(4, 6)
    frame = np.full((9, 14), 7, "float32")
    places = [frame[:8:2, 1:13:2], frame[3::-1, 11:5:-1], np.full((6, 4), 7, "float32").T]
    odd = np.zeros(101, np.uint8)[1:97].view("float32").reshape(4, 6)
    for out in [*places, odd, np.zeros((4, 6), ">f4")]:
        call(x.astype(">f4"), out)
        np.testing.assert_array_equal(out, 2 * x)
        other = np.zeros_like(out)
        other[...] = x
        call(other, other)
        np.testing.assert_array_equal(other, 2 * x)
    untouched = np.ones((9, 14), bool)
    untouched[:8:2, 1:13:2] = untouched[3::-1, 11:5:-1] = False
    assert (frame[untouched] == 7).all()
    broadcast, out = np.broadcast_to(np.float32(3), (4, 6)), np.zeros((4, 6), "float32")
    call(broadcast, out)
    assert (out == 6).all()


def test_what_does_not_fit():
    call = build(doubled())
    x, out = np.zeros((4, 6), "float32"), np.zeros((4, 6), "float32")
    fixed = out.copy()
    fixed.flags.writeable = False
    call(fixed, out)  # an input may be read-only
    for args, message in [
        ((x,), "main takes 2 arguments, got 1"),
        ((x, fixed), "T_multiply is written, so it must be a writeable array, got a read-only one"),
        ((x.astype("f8"), out), "x must be float32, got float64"),
        ((x.tolist(), out), "x must be an array, got list"),
        ((x[:3], out), r"main: x must have shape \(4, 6\)"),
        ((x[0], out), "must have 2 axes"),
        ((torch.zeros(4, 6, device="meta"), out), "x is on device meta"),
    ]:
        with pytest.raises(CallError, match=message):
            call(*args)


def test_tensors_of_torch_with_gaps():
    x, out = torch.randn(6, 4).T, torch.zeros(6, 4).T
    build(doubled())(x, out)
    assert torch.equal(out, x * 2)


SCALARS = {
    "int8": (-128, 127),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint8": (0, 255),
    "uint16": (0, 65535),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
    "bool": (False, True, np.True_),
    "float16": (0.5, -65504.0, np.inf),
    "bfloat16": (0.5, -3.0),
    "float32": (0.1, -np.inf, 7),
    "float64": (0.1, np.nan, 1e300),
}


@pytest.mark.parametrize("dtype", SCALARS)
def test_scalars(dtype: str):
    value, out = Var("value", dtype), Buffer("out", (3,), dtype)
    call = build(PrimFunc((value, out), loop(3, lambda i: BufferStore(out, value, (i,)))))
    for number in SCALARS[dtype]:
        got = np.zeros(3, to_numpy(dtype))
        call(number, got)
        np.testing.assert_array_equal(got, np.array([number] * 3).astype(got.dtype))
        call(np.asarray(number, got.dtype), got)
        np.testing.assert_array_equal(got, np.array([number] * 3).astype(got.dtype))
    for wrong in ("1", None, np.zeros(2)):
        with pytest.raises(CallError, match=f"value must be {dtype}, got"):
            call(wrong, got)
    if not is_float(dtype):
        with pytest.raises(CallError, match="value must be"):
            call(1.5, got)
        if dtype != "bool":
            with pytest.raises(CallError, match="is outside of its range"):
                call(SCALARS[dtype][1] + 1, got)


def test_a_size_that_is_a_parameter():
    n = Var("n", "int32")
    x, out = Buffer("x", (n,)), Buffer("out", (n, 2))
    call = build(PrimFunc((x, n, out), loop(n, lambda i: BufferStore(out, x[i], (i, 1)))))
    got = np.zeros((5, 2), "float32")
    call(np.arange(5, dtype="float32"), 5, got)
    assert got[:, 1].tolist() == [0, 1, 2, 3, 4]
    for size, many in ((5, 4), (4, 5), (6, 5)):
        with pytest.raises(CallError, match="must have shape"):
            call(np.zeros(size, "float32"), many, got)


def test_strides_and_offsets_of_parameters():
    n, m, s, t, o = (Var(name, "int64") for name in "nmsto")
    x, out = Buffer("x", (n, m), strides=(s, t), elem_offset=o), Buffer("out", (n, m))

    def rows(i: Var) -> Stmt:
        return loop(m, lambda j: BufferStore(out, x[i, j] + 1, (i, j)))

    call = build(PrimFunc((x, out), loop(n, rows)))
    given, got = np.arange(60, dtype="float32").reshape(6, 10), np.zeros((3, 5), "float32")
    call(given[::2, ::2], got)
    np.testing.assert_array_equal(got, given[::2, ::2] + 1)
    padded = Buffer("x", (4, 5), strides=(8, 1))
    with pytest.raises(CodegenError, match=r"parameter x has strides \(8, 1\)"):
        build(PrimFunc((padded,), BufferStore(padded, 1, (0, 0))))
    compact = Buffer("x", (4, 5), strides=(5, 1))
    build(PrimFunc((compact,), BufferStore(compact, 1, (0, 0))))(np.zeros((4, 5), "float32"))


def test_sizes_that_nothing_determines():
    n = Var("n", "int64")
    out = Buffer("out", (n * 2,))
    with pytest.raises(CodegenError, match="n is not the size of an argument"):
        build(PrimFunc((out,), loop(n, lambda i: BufferStore(out, 1, (i,)))))


def test_modules():
    halved = te.placeholder((3,), "bfloat16", name="x")
    mod = IRModule({"main": doubled(), "half": te.create_prim_func([halved, topi.multiply(halved, 0.5)])})
    made = build(mod)
    x, out = np.array([2, 4, 6], ml_dtypes.bfloat16), np.zeros(3, ml_dtypes.bfloat16)
    made["half"](x, out)
    assert out.astype("f4").tolist() == [1, 2, 3]
    wide, result = np.ones((4, 6), "float32"), np.zeros((4, 6), "float32")
    made(wide, result)
    assert (result == 2).all()
    with pytest.raises(CallError, match="there is no function 'halve'"):
        made["halve"]
    with pytest.raises(CodegenError, match="has no tensor programs"):
        build(IRModule({}))


def test_names_that_are_no_identifiers():
    call = build(doubled().with_attr("global_symbol", 'a "b"\n c'))
    out = np.zeros((4, 6), "float32")
    call(np.ones((4, 6), "float32"), out)
    assert (out == 2).all()


def test_under_the_names_of_tvm():
    x, out = np.ones((4, 6), "float32"), np.zeros((4, 6), "float32")
    for make in (root.compile, root.build):
        make(doubled(), target="llvm")(x, out)
        assert (out == 2).all()
        out[:] = 0
    with pytest.raises(CodegenError, match="are built without relax_pipeline"):
        root.compile(doubled(), relax_pipeline="zero")
    bb, given = BlockBuilder(), RelaxVar("x", TensorStructInfo((4, 6), "float32"))
    with bb.function("main", [given]):
        bb.emit_func_output(bb.emit(op.add(given, given)))
    made = root.compile(bb.get(), target="llvm", exec_mode="bytecode")
    np.testing.assert_array_equal(made(x).numpy(), 2 * x)
    np.testing.assert_array_equal(made["main"](x).numpy(), 2 * x)


@pytest.mark.parametrize("kind", ["numpy", "torch", "both"])
def test_arguments_that_overlap_are_refused_where_the_program_relies_on_it(kind: str):
    func = doubled()
    assert func.attr("tir.noalias")
    call = build(func)
    memory = np.arange(48, dtype="float32")
    first, apart, shifted = (memory[begin : begin + 24].reshape(4, 6) for begin in (0, 24, 1))
    if kind != "numpy":
        apart, shifted = torch.from_numpy(apart), torch.from_numpy(shifted)
        first = torch.from_numpy(first) if kind == "torch" else first
    with pytest.raises(CallError, match="x and T_multiply overlap in memory, and one of them is written"):
        call(first, shifted)
    call(first, apart)
    np.testing.assert_array_equal(np.asarray(apart), 2 * np.asarray(first))
    without = build(func.with_attr("tir.noalias", False))
    without(first, shifted)  # the program may compute anything then, as it says
