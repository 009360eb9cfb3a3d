"""What native functions accept: a wrong argument is refused by name, before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from eutectic import te, topi
from eutectic.backend.llvm.kernels import build_kernel
from eutectic.backend.llvm.machine import machine_of
from eutectic.backend.llvm.program import native_code
from eutectic.backend.plan import Bounds, CopyStep, KernelStep, Plan, Tensor, place
from eutectic.ir.prim_expr import IntImm, Var
from eutectic.runtime.native_code import LoadedCode
from eutectic.runtime.tensor import Tensor as RuntimeTensor
from eutectic.runtime.tensor import cpu
from eutectic.support.errors import CallError, CodegenError
from eutectic.target import Target

MACHINE = machine_of(Target("llvm"))


def program(x_dims: Sequence[Any], dtype: str = "float32", bounds: dict[Var, Bounds] | None = None) -> LoadedCode:
    """`exp(x) + 0`, in two kernels with an intermediate in the arena, copied to a second output."""
    sizes = [IntImm("int64", d) if isinstance(d, int) else d for d in x_dims]
    given = te.placeholder(sizes, dtype, name="x")
    kernel = build_kernel(te.create_prim_func([given, topi.exp(given)]), MACHINE)
    dims = tuple(sizes)
    x, y, z = (
        Tensor("x", dtype, dims, "input", 0),
        Tensor("y", dtype, dims, "output", 0),
        Tensor("z", dtype, dims, "output", 1),
    )
    middle = Tensor("middle", dtype, dims, "arena")
    shapes = kernel.shape_vars
    steps = [KernelStep("exp", kernel, (x, middle), 1, (), shapes, ()), CopyStep(middle, y), CopyStep(x, z)]
    plan = Plan("f", inputs=[x], outputs=[y, z], steps=list(steps))
    place(plan)
    return LoadedCode(native_code(plan, [], MACHINE, threads=2, bounds=bounds))


@pytest.fixture(scope="module")
def fixed() -> LoadedCode:
    return program((3, 5))


def arrays(shape: tuple[int, ...] = (3, 5), dtype: Any = "float32") -> list[np.ndarray]:
    return [np.arange(int(np.prod(shape))).reshape(shape).astype(dtype), np.zeros(shape, dtype), np.zeros(shape, dtype)]


def test_what_fits(fixed: LoadedCode):
    x, y, z = arrays()
    fixed([x], [y, z])
    np.testing.assert_allclose(y, np.exp(x), rtol=1e-6)
    np.testing.assert_array_equal(z, x)


@pytest.mark.parametrize(
    ("place_of", "value", "message"),
    [
        (0, np.zeros((3, 5)), r"f: argument 0 \(x\) must be float32"),
        (0, np.zeros((3, 5), "int32"), r"f: argument 0 \(x\) must be float32"),
        (1, np.zeros((3, 5), "float16"), r"f: argument 1 \(y\) must be float32"),
        (0, np.zeros((3, 5, 1), "float32"), r"f: argument 0 \(x\) must have 2 axes"),
        (2, np.zeros(15, "float32"), r"f: argument 2 \(z\) must have 2 axes"),
        (0, np.zeros((3, 6), "float32"), r"f: x must have shape \(3, 5\)"),
        (1, np.zeros((5, 3), "float32"), r"f: y must have shape \(3, 5\)"),
        (0, np.zeros((5, 3), "float32").T, "f: x must be C-contiguous"),
        (1, np.zeros((3, 10), "float32")[:, ::2], "f: y must be C-contiguous"),
        (0, np.broadcast_to(np.float32(1), (3, 5)), "f: x must be C-contiguous"),
        (0, 7, r"f: argument 0 \(x\) must be a tensor"),
        (1, None, r"f: argument 1 \(y\) must be a tensor"),
        (0, "text", r"f: argument 0 \(x\) must be a tensor"),
        (0, torch.zeros(3, 5, dtype=torch.float64), r"f: argument 0 \(x\) must be float32"),
    ],
)
def test_what_does_not_fit(fixed: LoadedCode, place_of: int, value: Any, message: str):
    args: list[Any] = arrays()
    args[place_of] = value
    with pytest.raises(CallError, match=message):
        fixed.function(*args)
    assert not any(x.any() for x in args[1:] if isinstance(x, np.ndarray))


@pytest.mark.parametrize("count", [0, 1, 2, 4])
def test_number_of_arguments(fixed: LoadedCode, count: int):
    with pytest.raises(CallError, match="f takes 3 arguments: inputs, then outputs"):
        fixed.function(*(arrays() * 2)[:count])


def test_other_kinds_of_tensors(fixed: LoadedCode):
    x, y, z = arrays()
    x.flags.writeable = False  # inputs may be read-only
    fixed([x], [y, z])
    np.testing.assert_allclose(y, np.exp(x), rtol=1e-6)
    given, out, same = torch.ones(3, 5), torch.zeros(3, 5), torch.zeros(3, 5)
    fixed([given], [out, same])
    np.testing.assert_allclose(out.numpy(), np.e, rtol=1e-6)
    ours = [RuntimeTensor(a, cpu()) for a in arrays()]
    fixed(ours[:1], ours[1:])
    np.testing.assert_allclose(ours[1].numpy(), np.exp(x), rtol=1e-6)


def test_sizes_of_one_may_have_any_stride():
    call = program((1, 5))
    x = np.ones((4, 5), "float32")[::4]
    assert x.strides != (20, 4)
    y, z = (np.zeros((1, 5), "float32") for _ in range(2))
    call([x], [y, z])
    np.testing.assert_allclose(y, np.e, rtol=1e-6)


def test_bfloat16():
    call = program((3, 5), "bfloat16")
    x, y, z = arrays(dtype=ml_dtypes.bfloat16)
    x /= np.asarray(8, x.dtype)
    x.flags.writeable = False
    call([x], [y, z])
    np.testing.assert_allclose(y.astype("f4"), np.exp(x.astype("f4")), rtol=1e-2)
    given, out, same = torch.ones(3, 5).bfloat16(), torch.zeros(3, 5).bfloat16(), torch.zeros(3, 5).bfloat16()
    call([given], [out, same])
    np.testing.assert_allclose(out.float().numpy(), np.e, rtol=1e-2)


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0, 0)])
def test_nothing_at_all(shape: tuple[int, int]):
    call = program(shape)
    call([np.zeros(shape, "float32")], [np.zeros(shape, "float32") for _ in range(2)])
    call([np.zeros((9, 9), "float32")[: shape[0], : shape[1]]], [np.zeros(shape, "float32") for _ in range(2)])
    call([torch.zeros(shape)], [torch.zeros(shape), torch.zeros(shape)])
    empty = np.zeros(shape, "float32")
    empty.flags.writeable = False
    call([empty], [np.zeros(shape, "float32") for _ in range(2)])


def test_without_axes():
    call = program(())
    x, y, z = np.asarray(1, "float32"), np.zeros((), "float32"), np.zeros((), "float32")
    call([x], [y, z])
    np.testing.assert_allclose(y, np.e, rtol=1e-6)
    with pytest.raises(CallError, match=r"f: argument 0 \(x\) must have 0 axes"):
        call([np.zeros(1, "float32")], [y, z])


def test_symbolic_sizes_and_their_ranges():
    n = Var("n", "int64")
    call = program((n, 3), bounds={n: Bounds(2, 9)})
    for size in (2, 9, 5, 2):
        x, y, z = arrays((size, 3))
        x /= 9
        call([x], [y, z])
        np.testing.assert_allclose(y, np.exp(x), rtol=1e-6)
        np.testing.assert_array_equal(z, x)
    for size in (0, 1, 10):
        with pytest.raises(CallError, match="f: x has a size on axis 0 outside of the range of n, 2 to 9"):
            call([arrays((size, 3))[0]], arrays((size, 3))[1:])
    with pytest.raises(CallError, match=r"f: y must have shape \(n, 3\)"):
        call([arrays((5, 3))[0]], arrays((6, 3))[1:])
    free = program((n, n))
    free([arrays((4, 4))[0]], arrays((4, 4))[1:])
    with pytest.raises(CallError, match=r"f: x must have shape \(n, n\)"):
        free([arrays((4, 5))[0]], arrays((4, 5))[1:])


def test_integers():
    """Symbols that no input defines are given as numbers."""
    n = Var("n", "int64")
    given = te.placeholder((4,), "float32", name="x")
    func = te.create_prim_func([given, topi.full((n,), "float32", 7)])
    kernel = build_kernel(func, MACHINE)
    x, y = Tensor("x", "float32", (IntImm("int64", 4),), "input", 0), Tensor("y", "float32", (n,), "output", 0)
    plan = Plan("f", inputs=[x], outputs=[y], symbols=[n], steps=[KernelStep("full", kernel, (x, y), 1, (), (n,), ())])
    place(plan)
    call = LoadedCode(native_code(plan, [], MACHINE, threads=1))
    x_array, y_array = np.zeros(4, "float32"), np.zeros(5, "float32")
    call.function(x_array, y_array, 5)
    assert (y_array == 7).all()
    for wrong, message in ((6, r"f: y must have shape \(n\)"), (5.0, "f: n must be an integer"), ("5", "f: n must be")):
        with pytest.raises(CallError, match=message):
            call.function(x_array, y_array, wrong)


def test_arena_grows_and_is_given_back():
    n = Var("n", "int64")
    call = program((n,))
    for size in (4, 100_000, 3, 200_000, 0, 7):
        x, y, z = (np.full(size, 0.5, "float32") for _ in range(3))
        call([x], [y, z])
        np.testing.assert_allclose(y, np.exp(0.5), rtol=1e-6)
    del call


def test_too_much_memory_is_an_error_of_memory():
    n = Var("n", "int64")
    kernel = build_kernel(
        te.create_prim_func([te.placeholder((n,), "float32"), topi.full((n,), "float32", 1)]), MACHINE
    )
    x = Tensor("x", "float32", (n,), "input", 0)
    y = Tensor("y", "float32", (n,), "output", 0)
    middle = Tensor("middle", "float32", (n * 2**50,), "arena")
    steps = [KernelStep("full", kernel, (x, middle), 1, (), (n,), ()), CopyStep(x, y)]
    plan = Plan("f", inputs=[x], outputs=[y], steps=list(steps))
    place(plan)
    call = LoadedCode(native_code(plan, [], MACHINE, threads=1))
    with pytest.raises(MemoryError, match="f: not enough memory for intermediates"):
        call([np.zeros(8, "float32")], [np.zeros(8, "float32")])


def test_constants_are_kept_and_aligned():
    sizes = (IntImm("int64", 5),)
    given = te.placeholder((5,), "float32", name="x")
    kernel = build_kernel(te.create_prim_func([given, topi.negative(given)]), MACHINE)
    w, y = Tensor("w", "float32", sizes, "constant", 0), Tensor("y", "float32", sizes, "output", 0)
    plan = Plan("f", outputs=[y], constants=[w], steps=[KernelStep("negative", kernel, (w, y), 1, (), (), ())])
    place(plan)
    values = np.arange(11, dtype="float32")[1::2]
    call = LoadedCode(native_code(plan, [values], MACHINE, threads=1))
    values[:] = 0  # the program has its own copy of what is not aligned
    out = np.zeros(5, "float32")
    call([], [out])
    np.testing.assert_array_equal(out, [-1, -3, -5, -7, -9])


def test_code_for_other_machines_does_not_run():
    other = machine_of(Target("llvm -mtriple=aarch64-linux-gnu"))
    with pytest.raises(CodegenError, match="cannot run here"):
        native_code(Plan("f"), [], other)
