"""The passes from calls of tensor programs to kernels, together: every stage computes what the graph computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from eutectic import topi
from eutectic.ir.transform import PassContext
from eutectic.relax import BlockBuilder, TensorStructInfo, Tuple, Var
from eutectic.relax.analysis import problems_of
from eutectic.relax.expr import Function
from eutectic.relax.interpret import Interpreter
from eutectic.relax.transform import AnnotateTIROpPattern, FuseOps, FuseTIR, RewriteDataflowReshape
from eutectic.script import ir as I
from eutectic.script import relax as R
from eutectic.script import tir as T
from eutectic.testing.graphs import weights
from eutectic.tir import IntImm
from eutectic.tir import Var as SizeSymbol

N = SizeSymbol("n", "int64")
STEPS = (AnnotateTIROpPattern(), FuseOps(), FuseTIR(), RewriteDataflowReshape())

UNARY = [topi.nn.relu, topi.tanh, topi.negative, topi.sigmoid]
BINARY = [topi.add, topi.multiply, topi.subtract, topi.maximum]


@dataclass(frozen=True)
class Shaped:
    """A value of the graph; a size of None is the symbolic one."""

    var: Var
    shape: tuple[int | None, ...]


def size(value: int | None) -> Any:
    return N if value is None else IntImm("int64", value)


def broadcast(a: Shaped, b: Shaped) -> bool:
    pairs = list(zip(reversed(a.shape), reversed(b.shape), strict=False))
    return all(x == y or 1 in (x, y) for x, y in pairs)


@st.composite
def modules(draw: Any) -> Any:
    """Graphs of up to eight programs; some with a symbolic batch."""
    batch = draw(st.sampled_from([2, None]))
    bb = BlockBuilder()
    shapes = {"x": (batch, 3), "y": (3,), "z": (3, 3), "b": (1, 3)}
    params = [Var(name, TensorStructInfo([size(s) for s in shape])) for name, shape in shapes.items()]
    with bb.function("main", params):
        with bb.dataflow():
            pool = [Shaped(var, shape) for var, shape in zip(params, shapes.values(), strict=True)]
            pool.append(Shaped(weights(3), (3,)))  # type: ignore[arg-type]  # a constant serves like a variable
            for _ in range(draw(st.integers(1, 8))):
                pool += draw(steps(bb, pool))
            made = pool[len(params) + 1 :]
            kept = [*draw(st.lists(st.sampled_from(made), max_size=2, unique=True)), made[-1]]
            outputs = [bb.emit_output(item.var) for item in kept]
        bb.emit_func_output(Tuple(tuple(outputs)))
    return bb.get()


@st.composite
def steps(draw: Any, bb: BlockBuilder, pool: list[Shaped]) -> list[Shaped]:
    """One more program, on values that are there; late ones are preferred, so that graphs are deep."""
    recent = st.one_of(st.sampled_from(pool[-3:]), st.sampled_from(pool))
    a, b = draw(recent), draw(recent)
    kind = draw(st.sampled_from(["unary", "binary", "binary", "sum", "softmax", "matmul", "move", "expand", "split"]))
    if kind == "binary" and broadcast(a, b) and len(a.shape) >= len(b.shape):
        out = bb.emit_te(draw(st.sampled_from(BINARY)), a.var, b.var)
        return [shaped(out)]
    if kind == "sum" and a.shape:
        return [shaped(bb.emit_te(topi.sum, a.var, draw(st.integers(0, len(a.shape) - 1)), draw(st.booleans())))]
    if kind == "softmax" and a.shape:
        return [shaped(bb.emit_te(topi.nn.softmax, a.var))]
    if kind == "matmul" and len(a.shape) == 2 and len(b.shape) == 2 and a.shape[1] == b.shape[0]:
        return [shaped(bb.emit_te(topi.matmul, a.var, b.var))]
    if kind == "move" and len(a.shape) == 2:
        return [shaped(bb.emit_te(topi.transpose, a.var))]
    if kind == "move" and a.shape == (3,):
        return [shaped(bb.emit_te(topi.reshape, a.var, [size(1), size(3)]))]
    if kind == "expand" and len(a.shape) < 3:
        return [shaped(bb.emit_te(topi.expand_dims, a.var, 0))]
    if kind == "split" and a.shape and a.shape[-1] == 3:
        pair = bb.emit_te(topi.split, a.var, [1], len(a.shape) - 1)
        return [shaped(bb.emit(pair[0])), shaped(bb.emit(pair[1]))]
    return [shaped(bb.emit_te(draw(st.sampled_from(UNARY)), a.var))]


def shaped(var: Var) -> Shaped:
    info = var.struct_info
    assert isinstance(info, TensorStructInfo)
    return Shaped(var, tuple(d.value if isinstance(d, IntImm) else None for d in info.dims or ()))


@settings(max_examples=60)
@given(modules(), st.sampled_from([256, 3]))
def test_every_stage_computes_the_same(mod, max_depth):
    rng = np.random.default_rng(1)
    args = [rng.standard_normal(s).astype("float32") for s in ((2, 3), (3,), (3, 3), (1, 3))]
    want = Interpreter(mod).run("main", *args)
    with PassContext(verify=True, config={"relax.FuseOps.max_depth": max_depth}):
        for step in STEPS:
            mod = step(mod)
            assert problems_of(mod) == []
            for a, b in zip(want, Interpreter(mod).run("main", *args), strict=True):
                np.testing.assert_array_equal(b, a)
    assert [gv.name_hint for gv, f in mod.functions_items() if isinstance(f, Function)] == ["main"]


@I.ir_module
class Branches:
    @T.prim_func(private=True)
    def double(A: T.Buffer((2,), "float32"), B: T.Buffer((2,), "float32")):
        for i in range(2):
            with T.block("B"):
                vi = T.axis.spatial(2, i)
                B[vi] = A[vi] * T.float32(2)

    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        cls = Branches
        if c:
            with R.dataflow():
                lv = R.call_tir(cls.double, (x,), out_sinfo=R.Tensor((2,), "float32"))
                gv = R.call_tir(cls.double, (lv,), out_sinfo=R.Tensor((2,), "float32"))
                R.output(gv)
            y = gv
        else:
            y = R.call_tir(cls.double, (x,), out_sinfo=R.Tensor((2,), "float32"))
        return y


def test_blocks_in_branches_are_fused_too():
    after = Branches
    with PassContext(verify=True):
        for step in STEPS:
            after = step(after)
    assert {gv.name_hint for gv in after.get_global_vars()} == {"double", "fused_double_double", "main"}
    x = np.ones(2, "float32")
    for condition, want in ((True, 4), (False, 2)):
        np.testing.assert_array_equal(Interpreter(after).run("main", np.array(condition), x), x * want)
