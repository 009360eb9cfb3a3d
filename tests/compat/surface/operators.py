"""Examples of names: see `eutectic.compat.surface.operators`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import tvm
from tests.compat.surface.examples import example
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tir as T

MODULES = {"tvm.relax.op": relax.op, "tvm.script.relax": R}
RNG = np.random.default_rng(0)
X = RNG.uniform(0.1, 0.9, (2, 3)).astype("float32")
Y = RNG.uniform(0.1, 0.9, (2, 3)).astype("float32")
N = np.array([[1, 2, 3], [4, 5, 6]], "int32")
B = np.array([[True, False, True], [False, False, True]])
IMAGE = RNG.standard_normal((1, 4, 6, 6)).astype("float32")


def run(build: Callable[..., Any], *arrays: np.ndarray) -> Any:
    """The value of what `build` makes of variables that stand for the arrays, compiled and run."""
    infos = [relax.TensorStructInfo(a.shape, str(a.dtype)) for a in arrays]
    params = [relax.Var(f"x{i}", info) for i, info in enumerate(infos)]
    bb = relax.BlockBuilder()
    with bb.function("main", params, pure=False):
        out = bb.emit(build(*params))
        bb.emit_func_output(out)
    mod = bb.get()
    tvm.ir.assert_structural_equal(tvm.script.from_source(mod.script()), mod)
    vm = relax.VirtualMachine(relax.build(mod, "llvm"), tvm.cpu())
    return plain(vm["main"](*arrays))


def plain(value: Any) -> Any:
    if isinstance(value, (tuple, list)) or type(value).__name__ == "Array":
        return tuple(map(plain, value))
    return value.numpy() if hasattr(value, "numpy") else value


def same(got: Any, want: Any) -> None:
    if isinstance(want, (tuple, list)):
        assert len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            same(a, b)
        return
    want = want.numpy() if isinstance(want, torch.Tensor) else np.asarray(want)
    assert np.asarray(got).shape == want.shape
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


def check(build: Callable[..., Any], arrays: Sequence[np.ndarray], want: Any) -> None:
    """What is built gives what NumPy or torch does."""
    same(run(build, *arrays), want)


def t(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(array)


def call(space: Any, name: str, *args: Any, **options: Any) -> Callable[..., Any]:
    return lambda *xs: getattr(space, name)(*xs, *args, **options)


UNARY = {
    **{n: getattr(np, n) for n in ("abs", "ceil", "cos", "cosh", "exp", "floor", "isfinite", "isinf", "isnan", "log")},
    **{n: getattr(np, n) for n in ("negative", "round", "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh")},
    **{n: getattr(np, n) for n in ("trunc", "logical_not", "zeros_like", "ones_like")},
    **{n: getattr(np, f"arc{n[1:]}") for n in ("acos", "asin", "asinh", "atan", "atanh")},
    "erf": lambda x: torch.erf(t(x)),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: torch.sigmoid(t(x)),
    "flatten": np.ravel,
    "size": lambda x: np.array(x.size),
    "nonzero": lambda x: np.stack(np.nonzero(x)),
    "permute_dims": np.transpose,
    "tril": np.tril,
    "triu": np.triu,
    "sort": np.sort,
    "argsort": np.argsort,
    "mean": np.mean,
    "sum": np.sum,
    "max": np.max,
    "min": np.min,
    "prod": np.prod,
    "std": np.std,
    "variance": np.var,
    "argmax": np.argmax,
    "argmin": np.argmin,
    "median": lambda x: torch.median(t(x)),
    "unique": np.unique,
}
BINARY = {
    "add": np.add,
    "atan2": np.arctan2,
    "divide": np.divide,
    "equal": np.equal,
    "floor_divide": np.floor_divide,
    "floor_mod": np.mod,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "log_add_exp": np.logaddexp,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "mod": np.fmod,
    "multiply": np.multiply,
    "not_equal": np.not_equal,
    "power": np.power,
    "subtract": np.subtract,
}
INTEGERS = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "left_shift": np.left_shift,
    "right_shift": np.right_shift,
}
BOOLS = {"logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor}
ROW = np.array([0, 2], "int64")
V, W = np.array([1, 2, 3], "float32"), np.array([4, 5], "float32")
ONE_HOT = np.eye(4, dtype="float32")[ROW]
# name -> arguments of the call after the arrays, options, arrays, result
CASES: dict[str, tuple[tuple[Any, ...], dict[str, Any], list[np.ndarray], Any]] = {
    "acosh": ((), {}, [X + 1], np.arccosh(X + 1)),
    "bitwise_not": ((), {}, [N], ~N),
    "astype": (("int32",), {}, [X * 9], (X * 9).astype("int32")),
    "broadcast_to": (((2, 2, 3),), {}, [X], np.broadcast_to(X, (2, 2, 3))),
    "bucketize": ((), {"right": True}, [V, np.array([1, 2.5], "float32")], [1, 1, 2]),
    "clip": ((0.2, 0.5), {}, [X], np.clip(X, 0.2, 0.5)),
    "collapse_sum_like": ((), {}, [X, V], X.sum(0)),
    "collapse_sum_to": (((2, 1),), {}, [X], X.sum(1, keepdims=True)),
    "cumprod": ((), {"axis": 1}, [X], np.cumprod(X, 1)),
    "cumsum": ((), {"axis": 0}, [X], np.cumsum(X, 0)),
    "expand_dims": ((), {"axis": 1}, [X], X[:, None]),
    "ewise_fma": ((), {}, [X, Y, X], X * Y + X),
    "eye_like": ((), {"k": 1}, [X], np.eye(2, 3, 1)),
    "flip": ((), {"axis": 1}, [X], X[:, ::-1]),
    "full_like": ((2.5,), {}, [X], np.full_like(X, 2.5)),
    "gather_elements": ((), {"axis": 1}, [X, np.array([[0], [2]], "int64")], [[X[0, 0]], [X[1, 2]]]),
    "gather_nd": ((), {"batch_dims": 0}, [X, np.array([[1, 2], [0, 0]], "int64")], [X[1, 2], X[0, 0]]),
    "linear": ((), {}, [X, Y], X @ Y.T),
    "matmul": ((), {}, [X, Y.T.copy()], X @ Y.T),
    "outer": ((), {}, [V, W], np.outer(V, W)),
    "repeat": ((2,), {"axis": 1}, [X], np.repeat(X, 2, 1)),
    "reshape": (((3, 2),), {}, [X], X.reshape(3, 2)),
    "scatter_elements": (
        (),
        {"axis": 1, "reduction": "add"},
        [X, np.array([[0], [0]], "int64"), W[:, None].copy()],
        X + np.array([[4, 0, 0], [5, 0, 0]]),
    ),
    "scatter_nd": ((), {"reduction": "update"}, [V, np.array([[2], [0]], "int64"), W], [5, 2, 4]),
    "slice_scatter": ((0, 3, 2), {"axis": 0}, [V, W], [4, 2, 5]),
    "squeeze": ((), {"axis": [0]}, [X[None]], X),
    "strided_slice": (([1], [0], [3], [2]), {}, [X], X[:, ::2]),
    "take": ((), {"axis": 1}, [X, ROW], X[:, ROW]),
    "tile": (((2, 1),), {}, [X], np.tile(X, (2, 1))),
    "topk": ((), {"k": 2, "axis": 1, "dtype": "int64"}, [X], tuple(torch.topk(t(X), 2))),
    "where": ((), {}, [B, X, Y], np.where(B, X, Y)),
    "wrap_param": (("float64",), {}, [X], X.astype("float64")),
    "quantize": ((), {"axis": 0, "out_dtype": "int8"}, [X, V[:2], np.zeros(2, "int8")], np.rint(X / V[:2, None])),
    "dequantize": ((), {"axis": 1}, [N.astype("int8"), V, np.zeros(3, "int8")], N * V),
    "split": ((3,), {"axis": 1}, [X], np.split(X, 3, 1)),
    "multinomial_from_uniform": (
        (),
        {"dtype": "int64"},
        [np.array([[0.2, 0.3, 0.5]], "float32"), np.array([[0.4], [0.9]], "float32"), np.zeros((2, 1), "int64")],
        [[1], [2]],
    ),
    "dynamic_strided_slice": (
        (),
        {},
        [X, *(np.array(v, "int64") for v in ((0, 0), (2, 3), (1, 2)))],
        X[:, ::2],
    ),
}
# name -> how it is called, arrays, result
BUILT: dict[str, tuple[Callable[..., Any], list[np.ndarray], Any]] = {
    "arange": (lambda s: s.arange(1, 7, 2, "int32"), [], np.arange(1, 7, 2)),
    "concat": (lambda s, x, y: s.concat([x, y], axis=1), [X, Y], np.concatenate([X, Y], 1)),
    "stack": (lambda s, x, y: s.stack([x, y], axis=1), [X, Y], np.stack([X, Y], 1)),
    "einsum": (lambda s, x, y: s.einsum([x, y], "ij,kj->ik"), [X, Y], X @ Y.T),
    "eye": (lambda s: s.eye(2, 3, 1, "int32"), [], np.eye(2, 3, 1)),
    "full": (lambda s: s.full((2, 2), relax.const(3, "int32"), "int32"), [], np.full((2, 2), 3)),
    "hamming_window": (
        lambda s: s.hamming_window(8, True, 0.54, 0.46, "float32"),
        [],
        torch.hamming_window(8, True, 0.54, 0.46),
    ),
    "index_put": (lambda s, x, i, y: s.index_put(x, (i,), y, True), [X, np.array([1], "int64"), V], X + [[0], [1]] * V),
    "index_tensor": (lambda s, x, i: s.index_tensor(x, [i]), [X, ROW // 2], X[[0, 1]]),
    "masked_fill": (lambda s, x, m: relax.op.masked_fill(x, m, 0.5), [X, B], np.where(B, 0.5, X)),
    "meshgrid": (lambda s, v, w: s.meshgrid([v, w], indexing="ij"), [V, W], np.meshgrid(V, W, indexing="ij")),
    "one_hot": (lambda s, i: s.one_hot(i, R.prim_value(1), R.prim_value(0), 4, 1), [ROW], ONE_HOT),
    "ones": (lambda s: s.ones((2,), "int32"), [], [1, 1]),
    "zeros": (lambda s: s.zeros((2,), "int32"), [], [0, 0]),
    "shape_to_tensor": (lambda s: s.shape_to_tensor(relax.ShapeExpr([3, 4])), [], [3, 4]),
    "hint_on_device": (lambda s, x: s.hint_on_device(x, tvm.cpu()), [X], X),
    "layout_transform": (
        lambda s, x: s.layout_transform(x, "NCHW", "NHWC"),
        [IMAGE],
        IMAGE.transpose(0, 2, 3, 1),
    ),
}
for module, space in MODULES.items():
    names = dir(space)
    for family, arrays in ((UNARY, [X]), (BINARY, [X, Y]), (INTEGERS, [N, N]), (BOOLS, [B, B])):
        for name, function in family.items():
            example(f"{module}.{name}")(partial(check, call(space, name), arrays, function(*arrays)))
    for name, (args, options, arrays, want) in CASES.items():
        example(f"{module}.{name}")(partial(check, call(space, name, *args, **options), arrays, want))
    for name, (build, arrays, want) in BUILT.items():
        if name != "masked_fill" or module == "tvm.relax.op":
            example(f"{module}.{name}")(partial(check, partial(build, space), arrays, want))


@example("tvm.relax.op.shape_of", "tvm.script.relax.shape_of", "tvm.relax.op.tensor_to_shape")
def shapes_of_values() -> None:
    x, sizes = relax.Var("x", R.Tensor((2, 3), "float32")), relax.Var("s", relax.TensorStructInfo((2,), "int64"))
    assert relax.op.shape_of(x).struct_info == R.shape_of(x).struct_info == relax.ShapeStructInfo((2, 3))
    assert relax.op.tensor_to_shape(sizes).struct_info == relax.ShapeStructInfo(ndim=2)


@example("tvm.script.relax.tensor_to_shape")
def shape_from_a_tensor() -> None:
    assert R.tensor_to_shape(relax.Var("s", relax.TensorStructInfo((2,), "int64"))).struct_info.ndim == 2


# ---- neural networks

WEIGHT = RNG.standard_normal((4, 4, 3, 3)).astype("float32")
ROWS, VOLUME = IMAGE[:, :, 0], RNG.standard_normal((1, 4, 4, 4, 4)).astype("float32")
SCALE = np.array([1, 2, 0.5, 1.5], "float32")
SHIFT = np.array([0, 1, -1, 0.5], "float32")
HEADS = RNG.standard_normal((1, 5, 2, 8)).astype("float32")
BIAS = RNG.standard_normal((1, 2, 5, 5)).astype("float32")


def attended(bias: np.ndarray | None = None) -> torch.Tensor:
    q = t(HEADS).transpose(1, 2)
    return F.scaled_dot_product_attention(q, q, q, None if bias is None else t(bias)).transpose(1, 2)


def channels(function: Callable[..., torch.Tensor], rank: int = 2) -> torch.Tensor:
    return function(t({1: ROWS, 2: IMAGE, 3: VOLUME}[rank]))


NETWORKS: dict[str, tuple[tuple[Any, ...], dict[str, Any], list[np.ndarray], Any]] = {
    "attention": ((), {}, [HEADS] * 3, attended()),
    "attention_bias": ((), {}, [HEADS, HEADS, HEADS, BIAS], attended(BIAS)),
    "batch_flatten": ((), {}, [IMAGE], IMAGE.reshape(1, -1)),
    "cross_entropy_with_logits": ((), {}, [X, Y], -(X * Y).sum() / 2),
    "dropout": ((0.5,), {}, [X], [X, np.ones_like(X)]),
    "gelu": ((), {}, [X], F.gelu(t(X))),
    "gelu_tanh": ((), {}, [X], F.gelu(t(X), approximate="tanh")),
    "group_norm": ((2, 1, [2, 3]), {}, [IMAGE, SCALE, SHIFT], F.group_norm(t(IMAGE), 2, t(SCALE), t(SHIFT))),
    "instance_norm": ((1, [2, 3]), {}, [IMAGE, SCALE, SHIFT], F.group_norm(t(IMAGE), 4, t(SCALE), t(SHIFT))),
    "layer_norm": (([-1],), {}, [X, V, V], F.layer_norm(t(X), (3,), t(V), t(V))),
    "rms_norm": (([-1],), {}, [X, V], F.rms_norm(t(X), (3,), t(V), 1e-5)),
    "leakyrelu": ((0.1,), {}, [X - 0.5], F.leaky_relu(t(X - 0.5), 0.1)),
    "log_softmax": ((), {"axis": 1}, [X], F.log_softmax(t(X), 1)),
    "softmax": ((), {"axis": 1}, [X], F.softmax(t(X), 1)),
    "nll_loss": ((), {"reduction": "mean"}, [X, ROW, V], F.nll_loss(t(X), t(ROW), t(V))),
    "pad": (([0, 0, 1, 2],), {"pad_value": 1.5}, [X], np.pad(X, ((0, 0), (1, 2)), constant_values=1.5)),
    "pixel_shuffle": ((2,), {}, [IMAGE], F.pixel_shuffle(t(IMAGE), 2)),
    "prelu": ((), {"axis": 1}, [X - 0.5, V], F.prelu(t(X - 0.5), t(V))),
    "relu": ((), {}, [X - 0.5], F.relu(t(X - 0.5))),
    "relu6": ((), {}, [X * 20], F.relu6(t(X * 20))),
    "selu": ((), {}, [X - 0.5], F.selu(t(X - 0.5))),
    "silu": ((), {}, [X], F.silu(t(X))),
    "softplus": ((), {"beta": 2.0}, [X], F.softplus(t(X), 2.0)),
}
for rank in (1, 2, 3):
    weight = np.ascontiguousarray(WEIGHT[:, :, 0] if rank == 1 else WEIGHT)
    weight = np.ascontiguousarray(WEIGHT[:, :, None] if rank == 3 else weight)
    data = {1: np.ascontiguousarray(ROWS), 2: IMAGE, 3: VOLUME}[rank]
    conv, back = getattr(F, f"conv{rank}d"), getattr(F, f"conv_transpose{rank}d")
    average, largest = getattr(F, f"avg_pool{rank}d"), getattr(F, f"max_pool{rank}d")
    adaptive = getattr(F, f"adaptive_avg_pool{rank}d")
    NETWORKS[f"conv{rank}d"] = ((), {"padding": [1] * rank}, [data, weight], conv(t(data), t(weight), padding=1))
    NETWORKS[f"conv{rank}d_transpose"] = (
        (),
        {"strides": [2] * rank},
        [data, weight],
        back(t(data), t(weight), None, 2),
    )
    NETWORKS[f"avg_pool{rank}d"] = (([2] * rank, [2] * rank), {}, [data], average(t(data), 2))
    NETWORKS[f"max_pool{rank}d"] = (([2] * rank, [2] * rank), {}, [data], largest(t(data), 2))
    NETWORKS[f"adaptive_avg_pool{rank}d"] = (([1] * rank,), {}, [data], adaptive(t(data), 1))
for name, (args, options, arrays, want) in NETWORKS.items():
    example(f"tvm.relax.op.nn.{name}")(partial(check, call(relax.op.nn, name, *args, **options), arrays, want))


@example("tvm.relax.op.nn.batch_norm")
def batch_norm() -> None:
    mean, variance = SHIFT, SCALE
    got = run(call(relax.op.nn, "batch_norm", 1, training=False), IMAGE, SCALE, SHIFT, mean, variance)
    same(got[0], F.batch_norm(t(IMAGE), t(mean), t(variance), t(SCALE), t(SHIFT)))


@example("tvm.relax.op.nn.attention_var_len")
def attention_of_several_lengths() -> None:
    rows, starts = HEADS[0], np.array([0, 5], "int32")
    longest = np.array(5, "int32")
    got = run(
        lambda x, s, m: relax.op.nn.attention_var_len(x, x, x, s, m),
        rows[None],
        starts,
        longest,
    )
    same(got, attended())


@example("tvm.relax.op.image.resize2d")
def resize2d() -> None:
    got = run(
        lambda x: relax.op.image.resize2d(
            x, (12, 12), method="nearest_neighbor", coordinate_transformation_mode="asymmetric", rounding_method="floor"
        ),
        IMAGE,
    )
    same(got, F.interpolate(t(IMAGE), scale_factor=2, mode="nearest"))


@example("tvm.relax.op.image.grid_sample")
def grid_sample() -> None:
    grid = np.random.default_rng(0).uniform(-1.2, 1.2, (1, 2, 3, 4)).astype("float32")
    got = run(lambda x, g: relax.op.image.grid_sample(x, g, "bilinear", "NCHW", "border", True), IMAGE, grid)
    same(got, F.grid_sample(t(IMAGE), t(grid).permute(0, 2, 3, 1), "bilinear", "border", True))


# ---- calls


@example(
    *(f"{module}.{name}" for module in MODULES for name in ("call_tir", "call_tir_with_grad", "call_tir_inplace")),
    *(f"tvm.relax.{name}" for name in ("call_tir", "call_tir_with_grad", "call_tir_inplace")),
)
def programs() -> None:
    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def double(A: T.Buffer((3,), "float32"), C: T.Buffer((3,), "float32")):
            for i in range(3):
                with T.block("double"):
                    vi = T.axis.spatial(3, i)
                    C[vi] = A[vi] * T.float32(2)

        @R.function
        def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            cls = Module
            y = R.call_tir(cls.double, (x,), out_sinfo=R.Tensor((3,), "float32"))
            return R.call_tir_with_grad(cls.double, (y,), R.Tensor((3,), "float32"), te_grad_name="grad")

    tvm.ir.assert_structural_equal(tvm.script.from_source(Module.script()), Module)
    vm = relax.VirtualMachine(relax.build(Module, "llvm"), tvm.cpu())
    same(vm["main"](V).numpy(), V * 4)
    gv, x = Module.get_global_var("double"), relax.Var("x", relax.TensorStructInfo((3,), "float32"))
    for space in (relax, relax.op, R):
        inplace = space.call_tir_inplace(gv, (x,), [0], x.struct_info)
        assert list(inplace.attrs.inplace_indices) == [0]
        assert space.call_tir(gv, (x,), x.struct_info).struct_info == x.struct_info
        assert space.call_tir_with_grad(gv, (x,), x.struct_info, te_grad_name="g").attrs.te_grad_name == "g"


@example(
    *(f"{module}.call_pure_packed" for module in (*MODULES, "tvm.relax")),
    *(f"{module}.call_dps_packed" for module in (*MODULES, "tvm.relax")),
    *(f"{module}.call_inplace_packed" for module in MODULES),
    "tvm.script.relax.call_packed",
)
def registered_functions() -> None:
    tvm.register_global_func("example.double", lambda x: tvm.runtime.tensor(x.numpy() * 2), override=True)
    tvm.register_global_func("example.fill", lambda x, out: out.copyfrom(x.numpy() * 3), override=True)
    for space in (relax, relax.op, R):
        check(lambda x, s=space: s.call_pure_packed("example.double", x, sinfo_args=x.struct_info), [V], V * 2)
        check(lambda x, s=space: s.call_dps_packed("example.fill", (x,), x.struct_info), [V], V * 3)
    for space in (relax.op, R):
        made = partial(space.call_inplace_packed, "example.double", inplace_indices=[0])
        check(lambda x, made=made: made(x, sinfo_args=x.struct_info), [V], V * 2)
    check(lambda x: R.call_packed("example.double", x, sinfo_args=x.struct_info), [V], V * 2)


@example(*(f"{module}.{name}" for module in MODULES for name in ("print", "assert_op")))
def effects() -> None:
    for space in MODULES.values():
        assert run(lambda x, s=space: s.print(x, format="{} elements"), V) == ()
        assert run(lambda x, s=space: s.assert_op(relax.const(True), [x], "of {}"), V) == ()
        with pytest.raises(Exception, match=r"Assertion Failed: of \[1\. 2\. 3\.\]"):
            run(lambda x, s=space: s.assert_op(relax.const(False), [x], "of {}"), V)


@example(*(f"{module}.{name}" for module in MODULES for name in ("make_closure", "invoke_closure")))
@example(*(f"{module}.{name}" for module in MODULES for name in ("invoke_pure_closure", "null_value")))
def closures() -> None:
    for space in MODULES.values():
        bb = relax.BlockBuilder()
        info = relax.TensorStructInfo((3,), "float32")
        a, b, x = (relax.Var(name, info) for name in "abx")
        with bb.function("inner", [a, b], private=True):
            gv = bb.emit_func_output(bb.emit(relax.op.subtract(a, b)))
        with bb.function("main", [x], pure=False):
            closure = bb.emit(space.make_closure(gv, relax.Tuple([x])))
            y = bb.emit(space.invoke_pure_closure(closure, relax.Tuple([relax.const(V * 3)]), info))
            z = bb.emit(space.invoke_closure(closure, relax.Tuple([y]), sinfo_args=info))
            bb.emit_func_output(z)
        vm = relax.VirtualMachine(relax.build(bb.get(), "llvm"), tvm.cpu())
        same(vm["main"](V).numpy(), V)
        assert space.null_value().struct_info == relax.ObjectStructInfo()


@example("tvm.relax.op.builtin.alloc_tensor")
def memory() -> None:
    got = run(lambda: relax.op.builtin.alloc_tensor(relax.ShapeExpr([2, 3]), "int8", 0))
    assert got.shape == (2, 3)


# ---- the text form


@example(
    *(f"tvm.script.relax.{name}" for name in ("function", "Tensor", "Tuple", "Shape", "Prim", "Object", "Callable"))
)
@example(*(f"tvm.script.relax.{name}" for name in ("dataflow", "output", "func_attr", "match_cast", "tuple", "const")))
@example(
    *(f"tvm.script.relax.{name}" for name in ("shape", "prim_value", "str", "dtype", "emit_te", "emit_with_sinfo"))
)
def text() -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", 3), "float32"), s: R.Shape(["n", 2]), p: R.Prim("int64"), o: R.Object) -> R.Tuple(
            R.Tensor(("n", 3), "float32"), R.Tensor((2, 3), "float32")
        ):
            R.func_attr({"note": 1})
            with R.dataflow():
                a = R.emit_te(tvm.topi.add, x, x)
                b = R.match_cast(a, R.Tensor((2, 3), "float32"))
                c = R.add(b, R.const(1.0))
                d = R.reshape(c, R.shape([2, 3]))
                R.output(a, d)
            return R.tuple(a, d)

        @R.function(private=True)
        def apply(f: R.Callable((R.Object,), R.Object, True), x: R.Object) -> R.Object:
            return f(x)

    main = Module["main"]
    assert main.attrs["note"] == 1
    assert [type(param.struct_info).__name__[:5] for param in main.params] == ["Tenso", "Shape", "PrimS", "Objec"]
    assert "add" in Module
    tvm.ir.assert_structural_equal(tvm.script.from_source(Module.script()), Module)
    assert (R.prim_value(2).value.value, R.str("a").value, R.dtype("int8").value) == (2, "a", "int8")
    x = relax.Var("x", relax.TensorStructInfo((3,), "float32"))
    made = R.emit_with_sinfo("relax.call_pure_packed", [relax.ExternFunc("f"), x], [x.struct_info])
    assert made.sinfo_args[0] == x.struct_info


@example("tvm.script.relax.ExternFunc", "tvm.script.relax.ShapeExpr")
def values() -> None:
    assert R.ExternFunc("f").global_symbol == "f"
    assert [int(size) for size in R.ShapeExpr([2, 3]).values] == [2, 3]


@example("tvm.script.relax.cpu", "tvm.script.relax.cuda", "tvm.script.relax.device")
def devices() -> None:
    assert [str(d) for d in (R.cpu(0), R.cuda(1), R.device("cpu", 2))] == ["cpu:0", "cuda:1", "cpu:2"]


@example("tvm.script.relax.rewriter")
def rewriter() -> None:
    @R.rewriter
    class Doubled:
        @R.function
        def pattern(x: R.Tensor((3,), "float32")):
            return R.add(x, x)

        @R.function
        def replacement(x: R.Tensor((3,), "float32")):
            return R.multiply(x, R.const(2.0, "float32"))

    @R.function
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        with R.dataflow():
            y = R.add(x, x)
            R.output(y)
        return y

    assert "R.multiply" in Doubled(main).script()
