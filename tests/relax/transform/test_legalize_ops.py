"""LegalizeOps as a pass: rules and their order, what stays, symbolic sizes, sharing, advice."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from tests.relax.transform.test_legalize_every_op import close, flat, operators

from eutectic import topi
from eutectic.ir.module import IRModule
from eutectic.ir.op import register_op
from eutectic.ir.prim_expr import Var as ScalarVar
from eutectic.ir.span import Span
from eutectic.ir.transform import PassContext
from eutectic.ir.visit import post_order
from eutectic.relax import op
from eutectic.relax.analysis import well_formed
from eutectic.relax.base import ShapeExpr
from eutectic.relax.block_builder import BlockBuilder
from eutectic.relax.expr import Call, If, PrimValue, Tuple, Var, const
from eutectic.relax.frontend.torch import from_exported_program
from eutectic.relax.interpret import Interpreter
from eutectic.relax.op import nn
from eutectic.relax.op.registry import op_def
from eutectic.relax.struct_info import PrimStructInfo, TensorStructInfo
from eutectic.relax.transform import LegalizeOps
from eutectic.relax.transform.legalize_ops import register_legalize
from eutectic.support.errors import CallError, EutecticAdvice
from eutectic.tir.function import PrimFunc

RNG = np.random.default_rng(0)


def tensor(name: str, *sizes: Any, dtype: str = "float32") -> Var:
    return Var(name, TensorStructInfo(ShapeExpr(sizes), dtype))


def built(params: list[Var], body: Any, attrs: dict[str, Any] | None = None) -> IRModule:
    """A function whose body `body(builder, *params)` emits bindings and gives the result."""
    bb = BlockBuilder()
    with bb.function("main", params, attrs):
        with bb.dataflow():
            out = bb.emit_output(body(bb, *params))
        bb.emit_func_output(out)
    return bb.finalize()


def programs(mod: IRModule) -> list[str]:
    return [gv.name_hint for gv, f in mod.functions_items() if isinstance(f, PrimFunc)]


def agree(before: IRModule, after: IRModule, *arrays: np.ndarray, slack: float = 1.0) -> None:
    assert well_formed(after)
    assert after["main"].struct_info == before["main"].struct_info
    want, got = (flat(Interpreter(mod).run("main", *arrays)) for mod in (before, after))
    for a, b in zip(got, want, strict=True):
        close(a, b, slack)


def values(*shape: int, dtype: str = "float32") -> np.ndarray:
    return RNG.uniform(-2, 2, shape).astype(dtype)


def mlp() -> IRModule:
    n = ScalarVar("n", "int64")
    params = [tensor("x", n, 8), tensor("w", 4, 8), tensor("b", 4)]
    return built(params, lambda bb, x, w, b: nn.relu(op.linear(x, w, b)))


def test_text_before_and_after(golden):
    before = mlp()
    after = LegalizeOps()(before)
    golden(before.script() + "\n\n" + after.script())
    agree(before, after, values(3, 8), values(4, 8), values(4))


def test_nothing_to_do_gives_the_same_module():
    after = LegalizeOps()(mlp())
    assert LegalizeOps()(after) is after


def test_option_switches_the_pass_off():
    before = mlp()
    with PassContext(config={"relax.transform.apply_legalize_ops": False}):
        assert LegalizeOps()(before) is before


def test_skipped_operators_stay():
    before = mlp()
    after = LegalizeOps(skip_ops=["relax.nn.relu", "relax.add"])(before)
    assert operators(after) == {"relax.nn.relu", "relax.add"}
    agree(before, after, values(2, 8), values(4, 8), values(4))


def test_own_rule_comes_before_the_operators():
    x = tensor("x", 3)
    before = built([x], lambda bb, x: nn.relu(x))

    def rule(bb: BlockBuilder, call: Call) -> Any:
        return bb.call_te(topi.maximum, call.args[0], 0.0, primfunc_name_hint="mine")

    after = LegalizeOps({"relax.nn.relu": rule})(before)
    assert programs(after) == ["mine"]
    agree(before, after, values(3))


def test_results_are_lowered_in_turn():
    x = tensor("x", 3)
    before = built([x], lambda bb, x: nn.silu(x))

    def rule(bb: BlockBuilder, call: Call) -> Any:
        y = bb.emit(op.sigmoid(call.args[0]))
        return op.multiply(y, call.args[0])

    after = LegalizeOps({"relax.nn.silu": rule})(before)
    assert sorted(programs(after)) == ["multiply", "sigmoid"]
    agree(before, after, values(3))


def test_rule_may_give_the_same_operator_back():
    x = tensor("x", 3)
    before = built([x], lambda bb, x: op.add(x, x))

    def rule(bb: BlockBuilder, call: Call) -> Any:
        return op.add(call.args[0], const(1.0))

    after = LegalizeOps({"relax.add": rule})(before)
    assert operators(after) == {"relax.add"}
    np.testing.assert_array_equal(Interpreter(after).run("main", np.ones(3, "f4")), np.full(3, 2, "f4"))


def test_rule_may_give_an_argument_back():
    before = built([tensor("x", 3)], lambda bb, x: op.exp(bb.emit(nn.relu(x))))
    after = LegalizeOps({"relax.nn.relu": lambda bb, call: call.args[0]})(before)
    assert programs(after) == ["exp"]
    close(Interpreter(after).run("main", -np.ones(3, "f4")), np.exp(-np.ones(3, "f4")), 1)


def test_registered_rule_comes_before_the_operators():
    before = built([tensor("x", 3)], lambda bb, x: nn.relu(x))
    definition = op_def("relax.nn.relu")
    register_legalize("relax.nn.relu", lambda bb, c: bb.call_te(topi.nn.relu, c.args[0], primfunc_name_hint="f"))
    try:
        assert programs(LegalizeOps()(before)) == ["f"]
    finally:
        definition.op.set_attr("FLegalize", None)
    assert programs(LegalizeOps()(before)) == ["relu"]


def test_operators_without_a_rule_stay_and_are_pointed_out_once():
    unknown = register_op("test.legalize.unknown")
    x = tensor("x", 3)
    info = x.struct_info

    def body(bb: BlockBuilder, x: Var) -> Any:
        y = bb.emit(Call(unknown, (x,), None, (info,)))
        return Call(unknown, (y,), None, (info,))

    before = built([x], body)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert LegalizeOps()(before) is before
    with pytest.warns(EutecticAdvice) as found:
        assert LegalizeOps(enable_warning=True)(before) is before
    (advice,) = found
    assert "operator test.legalize.unknown has no legalisation and stays a call of an operator at lv" in str(
        advice.message
    )
    assert advice.filename == __file__


def test_unknown_shapes_stay():
    unknown = Var("x", TensorStructInfo(None, "float32", ndim=2))
    before = built([unknown], lambda bb, x: nn.relu(x))
    assert LegalizeOps()(before) is before
    unknown = tensor("x", 4, 4, dtype="")
    assert LegalizeOps()(built([unknown], lambda bb, x: op.permute_dims(x)))["main"] is not None


@pytest.mark.parametrize("attrs", [{"Codegen": "dnnl"}, {"Composite": "dnnl.relu"}])
def test_regions_of_backends_stay(attrs: dict[str, Any]):
    before = built([tensor("x", 3)], lambda bb, x: nn.relu(x), attrs)
    assert LegalizeOps()(before) is before


def test_equal_calls_share_one_program():
    def body(bb: BlockBuilder, x: Var, y: Var) -> Any:
        a = bb.emit(op.add(x, y))
        b = bb.emit(op.add(y, a))
        c = bb.emit(op.add(b, b))
        return op.add(c, const(2.0))

    before = built([tensor("x", 3), tensor("y", 3)], body)
    after = LegalizeOps()(before)
    assert programs(after) == ["add", "add1"]  # the last one holds its constant
    agree(before, after, values(3), values(3))


def test_equal_calls_with_bindings_of_their_own():
    q = [tensor(name, 1, 3, 2, 4) for name in "qkv"]

    def body(bb: BlockBuilder, q: Var, k: Var, v: Var) -> Any:
        a = bb.emit(nn.attention(q, k, v, causal_mask="TopLeft"))
        return nn.attention(a, v, k, causal_mask="TopLeft")

    before = built(q, body)
    after = LegalizeOps()(before)
    assert operators(after) == set()
    agree(before, after, *(values(1, 3, 2, 4) for _ in range(3)), slack=2)


def test_equal_calls_with_several_results():
    params = [tensor("x", 2, 3), *(tensor(name, 3) for name in "gbmv")]

    def body(bb: BlockBuilder, x: Var, *statistics: Var) -> Any:
        first = bb.emit(nn.batch_norm(x, *statistics, axis=1, training=False))
        second = bb.emit(nn.batch_norm(bb.emit(first[0]), *statistics, axis=1, training=False))
        third = bb.emit(nn.batch_norm(bb.emit(second[0]), *statistics, axis=1, training=True))
        return nn.batch_norm(bb.emit(third[0]), *statistics, axis=1, training=True)

    before = built(params, body)
    after = LegalizeOps()(before)
    assert sorted(programs(after)) == ["batch_norm", "batch_norm1"]
    agree(before, after, values(2, 3), *(np.abs(values(3)) for _ in range(4)), slack=8)


def test_spans_are_kept():
    span = Span("model.py", 3, 4, 9)
    before = built([tensor("x", 3)], lambda bb, x: nn.silu(bb.emit(nn.silu(x, span=span)), span=span))
    after = LegalizeOps()(before)
    spans = {part.span for mod in (before, after) for part in post_order(mod["main"]) if isinstance(part, Call)}
    assert len(spans) == 1


def test_tuples_behind_variables():
    def body(bb: BlockBuilder, x: Var) -> Any:
        pieces = bb.emit(op.split(x, 2, 1))
        joined = bb.emit(op.concat(pieces, 0))
        pair = bb.emit(Tuple((joined, joined)))
        return op.stack(pair, 0)

    before = built([tensor("x", 2, 4)], body)
    after = LegalizeOps()(before)
    assert operators(after) == set()
    agree(before, after, values(2, 4))


def test_branches_and_blocks_without_dataflow():
    x, flag = tensor("x", 3), tensor("flag", dtype="bool")
    bb = BlockBuilder()
    with bb.function("main", [x, flag]):
        y = bb.emit(If(flag, nn.relu(x), op.exp(x)))
        bb.emit_func_output(y)
    before = bb.finalize()
    after = LegalizeOps()(before)
    assert sorted(programs(after)) == ["exp", "relu"]
    for taken in (True, False):
        agree(before, after, values(3), np.asarray(taken))


# ---- symbolic sizes

N, M = ScalarVar("n", "int64"), ScalarVar("m", "int64")


def _many(bb: BlockBuilder, x: Var) -> list[Any]:
    return [
        op.reshape(x, (N * M, 6)),
        op.flatten(x),
        op.permute_dims(x, (2, 0, 1)),
        op.sum(x, axis=1),
        op.mean(x, axis=(0, 1)),
        op.max(x, axis=1, keepdims=True),
        op.argmax(x, axis=1),
        nn.softmax(x, axis=1),
        op.concat([x, x], axis=1),
        op.strided_slice(x, [1], [1], [2**31 - 1]),
        op.strided_slice(x, [0, 1], [0, -2], [5, 2**31 - 1], [1, 2]),
        op.strided_slice(x, [1], [0], [M], [2], assume_inbound=True),
        op.split(x, 2, 1),
        op.repeat(x, 2, axis=0),
        op.tile(x, (2, 1, 1)),
        op.flip(x, 1),
        op.tril(x),
        op.tril(x, M - 2),
        op.full((N, M), 3, "int32"),
        op.zeros_like(x),
        op.arange(N, N + M, 1),
        op.arange(N),
        op.shape_to_tensor(ShapeExpr((N, M, N * M))),
        op.broadcast_to(x, (2, N, M, 6)),
        op.cumsum(x, axis=1),
        op.matmul(x, op.permute_dims(x, (0, 2, 1))),
        op.einsum([x, x], "nmc,nkc->nmk"),
        op.clip(x, 0, 1),
        op.add(x, op.mean(x, axis=1, keepdims=True)),
        nn.layer_norm(x, op.ones((6,), "float32"), op.zeros((6,), "float32"), axes=-1),
        nn.pad(x, (0, 0, 1, 2, 0, 0), pad_mode="replicate"),
        nn.pad(x, (0, 0, 1, 2, 0, 0)),
        nn.max_pool1d(x, 2, 1, 1),
        nn.avg_pool1d(x, 2, 2, 1, layout="NWC"),
        nn.attention(*(op.expand_dims(x, 2),) * 3, causal_mask="BottomRight"),
    ]


COUNT = len(_many(BlockBuilder(), tensor("x", N, M, 6)))


@pytest.mark.parametrize("i", range(COUNT))
def test_symbolic_sizes(i: int):
    before = built([tensor("x", N, M, 6)], lambda bb, x: _many(bb, x)[i])
    after = LegalizeOps()(before)
    assert operators(after) == set()
    agree(before, after, values(2, 3, 6), slack=4)


def test_convolution_of_symbolic_batch():
    params = [tensor("x", N, 2, 4, 4), tensor("w", 3, 2, 3, 3)]
    before = built(params, lambda bb, x, w: nn.conv2d(x, w, padding=1))
    agree(before, LegalizeOps()(before), values(1, 2, 4, 4), values(3, 2, 3, 3))


# ---- edges


@pytest.mark.parametrize(
    "make",
    [
        lambda x: op.add(x, x),
        lambda x: op.sum(x, axis=0),
        lambda x: op.prod(x),
        lambda x: op.mean(x, axis=0),
        lambda x: op.concat([x, x], 0),
        lambda x: op.flip(x, 1),
        lambda x: op.repeat(x, 2, 0),
        lambda x: op.cumsum(x, 0),
        lambda x: op.reshape(x, (5, 0)),
        lambda x: op.matmul(op.permute_dims(x), x),
        lambda x: nn.softmax(x, 0),
        lambda x: nn.softmax(x, 1),
        lambda x: op.split(x, 2, 1),
        lambda x: op.tril(x),
    ],
)
def test_no_elements(make: Any):
    before = built([tensor("x", 0, 4)], lambda bb, x: make(x))
    after = LegalizeOps()(before)
    agree(before, after, values(0, 4))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_integer_power_wraps_around(dtype: str):
    a = np.array([0, 1, 2, 3, 5, 7, 11, 100, 127], dtype)
    b = np.array([0, 1, 2, 3, 4, 5, 9, 77, 126], dtype)
    x, y = np.repeat(a, len(b)), np.tile(b, len(a))
    if not dtype.startswith("u"):
        x, y = np.concatenate([x, -x, x, -x]), np.concatenate([y, y, -y, -y])
    params = [tensor(name, len(x), dtype=dtype) for name in "xy"]
    before = built(params, lambda bb, a, b: op.power(a, b))
    agree(before, LegalizeOps()(before), x, y)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int8", "int32", "bool"])
@pytest.mark.parametrize("number", [0.0, 1.0])
def test_constants_without_axes_are_part_of_the_program(dtype: str, number: float):
    x = tensor("x", 3, dtype=dtype)
    before = built([x], lambda bb, x: op.where(op.equal(x, const(number, dtype)), const(number, dtype), x))
    after = LegalizeOps()(before)
    array = np.asarray([0, 1, 1]).astype(const(0, dtype).data.dtype)
    agree(before, after, array)
    assert not any(type(part).__name__ == "Constant" for part in post_order(after["main"]))


def test_two_scalars():
    before = built([], lambda bb: op.add(const(1.0), const(2.0)))
    agree(before, LegalizeOps()(before))


def test_ewise_fma():
    before = built([tensor(n, 2, 3, dtype="float16") for n in "abc"], lambda bb, a, b, c: op.ewise_fma(a, b, c))
    after = LegalizeOps()(before)
    assert programs(after) == ["ewise_fma"]
    agree(before, after, *(values(2, 3, dtype="float16") for _ in range(3)))


def test_batch_norm_of_one_axis():
    params = [tensor(name, 3) for name in "xgbmv"]
    before = built(params, lambda bb, *p: nn.batch_norm(*p, axis=0, training=True))
    agree(before, LegalizeOps()(before), *(np.abs(values(3)) for _ in params))


@pytest.mark.parametrize(
    ("dtype", "out_dtype"), [("int8", "float32"), ("float32", "int32"), ("float64", "float32"), ("float16", "float32")]
)
def test_products_of_other_dtypes(dtype: str, out_dtype: str):
    def body(bb: BlockBuilder, x: Var, w: Var) -> Any:
        y = bb.emit(nn.conv2d(x, w, out_dtype=out_dtype))
        return Tuple((y, bb.emit(op.matmul(x, x, out_dtype))))

    before = built([tensor("x", 1, 2, 3, 3, dtype=dtype), tensor("w", 2, 2, 2, 2, dtype=dtype)], body)
    arrays = [(RNG.uniform(-9, 9, shape)).astype(dtype) for shape in ((1, 2, 3, 3), (2, 2, 2, 2))]
    agree(before, LegalizeOps()(before), *arrays)


def test_padding_is_a_stage_only_where_there_is_some():
    params = [tensor("x", 1, 2, 4, 4), tensor("w", 3, 2, 3, 3)]
    plain, padded = (
        LegalizeOps()(built(params, lambda bb, x, w, p=p: nn.conv2d(x, w, padding=p)))["conv2d"].script()
        for p in (0, 1)
    )
    assert "pad_temp" not in plain
    assert "pad_temp" in padded


K1, K2 = ScalarVar("k1", "int64"), ScalarVar("k2", "int64")


@pytest.mark.parametrize(
    "make",
    [
        lambda x, y: op.matmul(op.permute_dims(x), y),
        lambda x, y: op.concat([x, y], 1),
        lambda x, y: op.stack([x, y], -1),
        lambda x, y: op.ewise_fma(x, x, y),
        lambda x, y: op.matmul(op.sum(x, 1), op.sum(y, 1)),
    ],
)
def test_sizes_that_only_the_run_time_can_compare_are_checked_there(make: Any):
    before = built([tensor("x", K1, 3), tensor("y", K2, 3)], lambda bb, x, y: make(x, y))
    after = LegalizeOps()(before)
    assert operators(after) == set()
    agree(before, after, values(2, 3), values(2, 3))
    with pytest.raises(CallError, match="must have size 2"):
        Interpreter(after).run("main", values(2, 3), values(4, 3))


def test_broadcast_that_only_the_run_time_knows_stays():
    before = built([tensor("x", K1)], lambda bb, x: op.broadcast_to(x, (3, K2)))
    bound = built([tensor("x", K1), tensor("y", K2)], lambda bb, x, y: op.broadcast_to(x, (3, K2)))
    for mod in (before, bound):
        assert LegalizeOps()(mod) is mod


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -0.0, 1e-45, 3.4e38])
def test_odd_constants_are_kept(number: float):
    before = built([tensor("x", 3)], lambda bb, x: op.multiply(x, const(number)))
    agree(before, LegalizeOps()(before), values(3))


@pytest.mark.parametrize(("dtype", "number"), [("int64", -(2**63)), ("uint8", 255), ("int8", -128)])
def test_extreme_constants_are_kept(dtype: str, number: int):
    before = built([tensor("x", 3, dtype=dtype)], lambda bb, x: op.add(x, const(np.asarray(number, dtype), dtype)))
    agree(before, LegalizeOps()(before), np.array([0, 1, 2], dtype))


def test_scalars_of_sizes():
    x = tensor("x", N, dtype="int64")
    before = built([x], lambda bb, x: op.add(x, PrimValue(N * 2)))
    agree(before, LegalizeOps()(before), np.array([1, 2, 3]))
    before = built([x], lambda bb, x: op.clip(x, PrimValue(N - 2), PrimValue(N)))
    agree(before, LegalizeOps()(before), np.array([-9, 2, 9]))


def test_scalars_that_only_the_run_time_knows_stay():
    k = Var("k", PrimStructInfo("int64"))
    before = built([tensor("x", 3, dtype="int64"), k], lambda bb, x, k: op.add(x, k))
    assert LegalizeOps()(before) is before


def test_network_agrees_with_torch():
    torch.manual_seed(0)
    layers = (torch.nn.Conv2d(1, 2, 3, padding=1), torch.nn.BatchNorm2d(2), torch.nn.ReLU(), torch.nn.MaxPool2d(2))
    network = torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(8, 3), torch.nn.Softmax(-1)).eval()
    x = torch.randn(2, 1, 4, 4)
    mod = LegalizeOps()(from_exported_program(torch.export.export(network, (x,))))
    assert operators(mod) == set()
    (got,) = flat(Interpreter(mod).run("main", x.numpy()))
    np.testing.assert_allclose(got, network(x).detach().numpy(), rtol=1e-5, atol=1e-6)
