"""FuseTIR: one tensor program per group, that computes what the group did; what cannot be fused stays."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from eutectic import topi
from eutectic.ir.module import IRModule
from eutectic.ir.transform import PassContext, Sequential
from eutectic.relax import Function, ShapeExpr, Var
from eutectic.relax.analysis import problems_of
from eutectic.relax.transform import AnnotateTIROpPattern, FuseOps, FuseTIR
from eutectic.script import ir as I
from eutectic.script import relax as R
from eutectic.script import tir as T
from eutectic.support.errors import EutecticAdvice
from eutectic.testing.graphs import assert_same_results, evaluate, graph, weights
from eutectic.tir import IntImm, PrimFunc
from eutectic.tir import Var as SizeSymbol

PIPELINE = Sequential([AnnotateTIROpPattern(), FuseOps(), FuseTIR()])


def programs(mod: IRModule) -> dict[str, PrimFunc]:
    return {gv.name_hint: f for gv, f in mod.functions_items() if isinstance(f, PrimFunc)}


def run(mod: IRModule, *args) -> IRModule:
    """Fuse everything; the result is well formed, has no graph function but main, and computes the same."""
    with PassContext(verify=True):
        after = PIPELINE(mod)
    assert problems_of(after) == []
    assert [gv.name_hint for gv, f in after.functions_items() if isinstance(f, Function)] == ["main"]
    same(mod, after, *args)
    return after


def same(before: IRModule, after: IRModule, *args) -> None:
    if not args:
        assert_same_results(before, after)
        return
    want, got = evaluate(before, *args), evaluate(after, *args)
    for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (want, got)), strict=True):
        np.testing.assert_array_equal(b, a)


def values(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


# ---- what is made


def test_names_of_parameters_buffers_and_blocks(golden):
    def body(bb, x, b):
        lv = bb.emit_te(topi.add, x, b)
        return bb.emit_te(topi.add, bb.emit_te(topi.add, lv, b), b)

    after = run(graph({"x": (2, 3), "b": (3,)}, body))
    (func,) = programs(after).values()
    assert [p.name for p in func.params] == ["p_x", "p_b", "p_output0"]
    assert dict(func.attrs.items()) == {"tir.noalias": True}
    golden(after.script())


def test_conv_reshape_add_relu_is_one_program():
    def body(bb, x, w, b):
        conv = bb.emit_te(topi.nn.conv2d, x, w, 1, 1)
        bias = bb.emit_te(topi.reshape, b, [IntImm("int64", size) for size in (1, 2, 1, 1)])
        return bb.emit_te(topi.nn.relu, bb.emit_te(topi.add, conv, bias))

    after = run(graph({"x": (1, 2, 3, 3), "w": (2, 2, 3, 3), "b": (2,)}, body))
    assert list(programs(after)) == ["fused_conv2d_reshape_add_relu"]


def test_constants_are_arguments():
    after = run(graph({"x": (2,)}, lambda bb, x: bb.emit_te(topi.exp, bb.emit_te(topi.add, x, weights(2)))))
    assert list(programs(after)) == ["fused_add_exp"]


def test_several_results_and_fields_within():
    def body(bb, x, y):
        pair = bb.emit_te(topi.split, bb.emit_te(topi.tanh, x), 2, 0)
        both = bb.emit_te(topi.split, y, 2, 0)
        return [pair, bb.emit_te(topi.multiply, bb.emit_te(topi.exp, bb.emit(both[0])), bb.emit(both[1]))]

    assert list(programs(run(graph({"x": (4, 2), "y": (4, 2)}, body)))) == [
        "fused_split_exp_multiply",
        "fused_tanh_split",
    ]


def test_a_program_that_is_still_called_is_kept():
    def body(bb, x, w):
        lv = bb.emit_te(topi.nn.relu, x)
        return bb.emit_te(topi.nn.relu, bb.emit_te(topi.matmul, lv, w))

    assert list(programs(run(graph({"x": (2, 2), "w": (2, 2)}, body)))) == ["fused_matmul_relu", "relu"]


def test_nothing_to_do_returns_the_same_module():
    mod = graph({"x": (2,)}, lambda bb, x: bb.emit_te(topi.nn.relu, x))
    assert FuseTIR()(mod) is mod


@I.ir_module
class TupleParameter:
    @T.prim_func(private=True)
    def add(A: T.Buffer((2,), "float32"), B: T.Buffer((2,), "float32"), C: T.Buffer((2,), "float32")):
        for i in range(2):
            with T.block("C"):
                vi = T.axis.spatial(2, i)
                C[vi] = A[vi] + B[vi]

    @R.function(private=True)
    def fused_add_add(
        p: R.Tuple(R.Tensor((2,), "float32"), R.Tuple(R.Tensor((2,), "float32"))), y: R.Tensor((2,), "float32")
    ) -> R.Tensor((2,), "float32"):
        R.func_attr({"Primitive": 1})
        cls = TupleParameter
        with R.dataflow():
            a = p[0]
            q = p[1]
            b = q[0]
            lv = R.call_tir(cls.add, (a, b), out_sinfo=R.Tensor((2,), "float32"))
            gv = R.call_tir(cls.add, (lv, y), out_sinfo=R.Tensor((2,), "float32"))
            R.output(gv)
        return gv

    @R.function
    def main(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        cls = TupleParameter
        with R.dataflow():
            p = (y, (x,))
            lv = cls.fused_add_add(p, y)
            gv = cls.fused_add_add((lv, (x,)), y)
            R.output(gv)
        return gv


def test_tuples_are_passed_field_by_field():
    after = FuseTIR()(TupleParameter)
    assert [p.name for p in after["fused_add_add"].params] == ["p_p_0", "p_p_1_0", "p_y", "p_output0"]
    assert problems_of(after) == []
    same(TupleParameter, after)


# ---- sizes


def test_a_symbolic_batch_needs_no_integers():
    n = SizeSymbol("n", "int64")
    mod = graph({"x": (n, 3), "w": (3, 2)}, lambda bb, x, w: bb.emit_te(topi.nn.relu, bb.emit_te(topi.matmul, x, w)))
    after = run(mod, values(4, 3), values(3, 2))
    assert [p.name for p in after["fused_matmul_relu"].params] == ["p_x", "p_w", "p_output0"]


def test_sizes_without_a_buffer_are_passed_as_integers():
    """The second convolution sees the image's size in expressions only: defect B24 of TVM."""
    h, w = SizeSymbol("h", "int64"), SizeSymbol("w", "int64")

    def body(bb, x, k):
        lv = bb.emit_te(topi.nn.relu, bb.emit_te(topi.nn.conv2d, x, k))
        return bb.emit_te(topi.tanh, bb.emit_te(topi.nn.conv2d, lv, k))

    mod = graph({"x": (1, 1, h, w), "k": (1, 1, 2, 2)}, body)
    after = run(mod, values(1, 1, 4, 3), values(1, 1, 2, 2))
    params = after["fused_conv2d1_tanh"].params
    assert [(p.name, p.dtype) for p in params[-2:]] == [("h", "int64"), ("w", "int64")]


def test_sizes_of_no_tensor_at_all():
    n = SizeSymbol("n", "int64")

    def body(bb, x):
        ones = bb.emit_te(lambda shape: topi.full(shape, "float32", 1.0), ShapeExpr((n * 2,)))
        return [bb.emit_te(topi.exp, ones), x]

    after = run(graph({"x": (n,)}, body), values(3))
    assert [p.name for p in after["fused_te_func_exp"].params] == ["p_output0", "n"]


@I.ir_module
class OneVariableTwoShapes:
    """Programs that write the shape of one value in different ways: defect B25 of TVM, issues 17254 and 17341."""

    @T.prim_func(private=True)
    def first(a: T.handle, b: T.handle):
        m = T.int64()
        A = T.match_buffer(a, (m,))
        B = T.match_buffer(b, (m,))
        for i in range(m):
            with T.block("B"):
                vi = T.axis.spatial(m, i)
                B[vi] = A[vi] + T.float32(1)

    @T.prim_func(private=True)
    def second(a: T.handle, b: T.handle, k: T.int64):
        A = T.match_buffer(a, (k * T.int64(2),))
        B = T.match_buffer(b, (T.int64(2) * k,))
        for i in range(k * T.int64(2)):
            with T.block("B"):
                vi = T.axis.spatial(k * T.int64(2), i)
                B[vi] = A[vi] * T.float32(2)

    @R.function(private=True)
    def fused_first_second(x: R.Tensor(("n * 2",), "float32"), s: R.Shape(["n"])) -> R.Tensor(("n * 2",), "float32"):
        n = T.int64()
        R.func_attr({"Primitive": True})
        cls = OneVariableTwoShapes
        with R.dataflow():
            lv = R.call_tir(cls.first, (x,), out_sinfo=R.Tensor((2 * n,), "float32"))
            gv = R.call_tir(cls.second, (lv,), out_sinfo=R.Tensor((n * 2,), "float32"), tir_vars=R.shape([n]))
            R.output(gv)
        return gv

    @R.function
    def main(x: R.Tensor(("k * 2",), "float32"), y: R.Tensor(("k",), "float32")) -> R.Tensor(("k * 2",), "float32"):
        k = T.int64()
        cls = OneVariableTwoShapes
        with R.dataflow():
            gv = cls.fused_first_second(x, R.shape([k]))
            R.output(gv)
        return gv


def test_shapes_that_are_written_differently_are_unified():
    after = FuseTIR()(OneVariableTwoShapes)
    assert problems_of(after) == []
    assert [p.name for p in after["fused_first_second"].params] == ["p_x", "p_output0", "n"]
    assert list(programs(after)) == ["fused_first_second"]
    same(OneVariableTwoShapes, after, values(6), values(3))


# ---- what is left alone


def left(mod: IRModule, why: str) -> None:
    """The pass says why it leaves a function alone, and changes nothing."""
    with pytest.warns(EutecticAdvice, match=why):
        assert FuseTIR()(mod) is mod
    with warnings.catch_warnings(), PassContext(remarks=True) as ctx:
        warnings.simplefilter("ignore", EutecticAdvice)
        FuseTIR()(mod)
        assert [(r.pattern, r.function) for r in ctx.remarks] == [("FuseTIR", "fused")]


def test_operators_and_constants_within():
    @I.ir_module
    class Operator:
        @R.function(private=True)
        def fused(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            R.func_attr({"Primitive": True})
            with R.dataflow():
                gv = R.add(x, x)
                R.output(gv)
            return gv

        @R.function
        def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            return Operator.fused(x)

    left(Operator, r"FuseTIR leaves fused a graph function: gv is a call of relax\.add")


def test_constants_within():
    @I.ir_module
    class WithConstant:
        @T.prim_func(private=True)
        def add(A: T.Buffer((2,), "float32"), B: T.Buffer((), "float32"), C: T.Buffer((2,), "float32")):
            for i in range(2):
                with T.block("C"):
                    vi = T.axis.spatial(2, i)
                    C[vi] = A[vi] + B[()]

        @R.function(private=True)
        def fused(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            R.func_attr({"Primitive": True})
            cls = WithConstant
            with R.dataflow():
                gv = R.call_tir(cls.add, (x, R.const(1.0, "float32")), out_sinfo=R.Tensor((2,), "float32"))
                R.output(gv)
            return gv

        @R.function
        def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            return WithConstant.fused(x)

    left(WithConstant, "an argument of add is a Constant")


def test_only_fields_of_tuples():
    """A function of fields alone aborts TVM: issue 20194."""

    @I.ir_module
    class Fields:
        @R.function(private=True)
        def fused(p: R.Tuple(R.Tensor((2,), "float32"), R.Tensor((2,), "float32"))) -> R.Tensor((2,), "float32"):
            R.func_attr({"Primitive": True})
            with R.dataflow():
                gv = p[0]
                R.output(gv)
            return gv

        @R.function
        def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            return Fields.fused((x, x))

    left(Fields, "it returns a parameter, or one value twice")


def test_programs_without_blocks():
    @I.ir_module
    class Loops:
        @T.prim_func(private=True)
        def copy(A: T.Buffer((2,), "float32"), B: T.Buffer((2,), "float32")):
            for i in range(2):
                B[i] = A[i]

        @R.function(private=True)
        def fused(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            R.func_attr({"Primitive": True})
            cls = Loops
            with R.dataflow():
                lv = R.call_tir(cls.copy, (x,), out_sinfo=R.Tensor((2,), "float32"))
                gv = R.call_tir(cls.copy, (lv,), out_sinfo=R.Tensor((2,), "float32"))
                R.output(gv)
            return gv

        @R.function
        def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            return Loops.fused(x)

    left(Loops, "copy is no tensor program of blocks")


def test_sizes_that_are_not_known_to_agree():
    @I.ir_module
    class Sizes:
        @T.prim_func(private=True)
        def add(a: T.handle, b: T.handle, c: T.handle):
            m = T.int64()
            A = T.match_buffer(a, (m,))
            B = T.match_buffer(b, (m,))
            C = T.match_buffer(c, (m,))
            for i in range(m):
                with T.block("C"):
                    vi = T.axis.spatial(m, i)
                    C[vi] = A[vi] + B[vi]

        @R.function(private=True)
        def fused(x: R.Tensor(("n",), "float32"), y: R.Tensor(("k",), "float32")) -> R.Tensor(("n",), "float32"):
            n = T.int64()
            R.func_attr({"Primitive": True})
            cls = Sizes
            with R.dataflow():
                gv = R.call_tir(cls.add, (x, y), out_sinfo=R.Tensor((n,), "float32"))
                R.output(gv)
            return gv

        @R.function
        def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("k",), "float32")) -> R.Tensor(("n",), "float32"):
            return Sizes.fused(x, y)

    left(Sizes, "axis 0 of buffer B of add is not known to have size k")


def test_a_function_that_is_public_or_used_as_a_value():
    mod = FuseOps()(AnnotateTIROpPattern()(graph({"x": (2,)}, relu_exp)))
    public = mod.clone()
    public["fused"] = mod["fused_relu_exp"].with_attr("global_symbol", "fused")
    for name in ("fused_relu_exp", "main"):
        del public[name]
    left(public, "it is public")
    used = mod.clone()
    used["fused"] = mod["fused_relu_exp"]
    del used["fused_relu_exp"]
    x = Var("x", mod["main"].params[0].struct_info)
    used["main"] = Function([x], used.get_global_var("fused"), attrs={"global_symbol": "main"})
    left(used, "fused is used as a value")


def test_a_public_function_that_is_called_becomes_a_public_program():
    """As the functions are that a user's pass makes with `BlockBuilder.function`."""
    mod = FuseOps()(AnnotateTIROpPattern()(graph({"x": (2,)}, relu_exp)))
    mod["fused_relu_exp"] = mod["fused_relu_exp"].with_attr("global_symbol", "fused_relu_exp")
    after = FuseTIR()(mod)
    assert list(programs(after)) == ["fused_relu_exp"]
    assert after["fused_relu_exp"].attr("global_symbol") == "fused_relu_exp"
    same(mod, after)


def relu_exp(bb, x):
    return bb.emit_te(topi.exp, bb.emit_te(topi.nn.relu, x))


def test_composites_are_for_others():
    mod = FuseOps()(AnnotateTIROpPattern()(graph({"x": (2,)}, relu_exp)))
    mod["fused_relu_exp"] = mod["fused_relu_exp"].with_attr("Composite", "dnnl.relu_exp")
    assert FuseTIR()(mod) is mod
