"""relax.build and the virtual machine: what functions take and give, kept calls, timing, refusals by name."""

from __future__ import annotations

import numpy as np
import pytest

import eutectic
from eutectic import relax
from eutectic.ir.module import IRModule
from eutectic.relax.interpret import Interpreter
from eutectic.runtime.tensor import Tensor, array
from eutectic.script import ir as I
from eutectic.script import relax as R
from eutectic.script import tir as T
from eutectic.support.errors import CallError, CodegenError


@I.ir_module
class Several:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 4), "float32")):
        with R.dataflow():
            lv = R.matmul(x, w)
            gv = R.nn.relu(lv)
            R.output(gv)
        return gv

    @R.function
    def twice(x: R.Tensor(("n", 3), "float32")):
        with R.dataflow():
            gv = R.add(x, x)
            R.output(gv)
        return gv

    @R.function
    def nested(
        p: R.Tuple(R.Tensor(("n", 3), "float32"), R.Tuple(R.Tensor(("n", 3), "float32"), R.Tensor((3,), "float32"))),
    ):
        with R.dataflow():
            a = p[0]
            q = p[1]
            b = q[0]
            c = q[1]
            d = R.multiply(R.add(a, b), c)
            gv = (d, (R.nn.relu(a), q))
            R.output(gv)
        return gv

    @R.function
    def sizes(x: R.Tensor(("n", "m"), "float32"), s: R.Shape(["m", "n"]), k: R.Prim(value="n")):
        m = T.int64()
        n = T.int64()
        with R.dataflow():
            gv = R.reshape(x, R.shape([m, n]))
            R.output(gv)
        return gv


def values(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


@pytest.fixture(scope="module")
def vm() -> relax.VirtualMachine:
    return relax.VirtualMachine(relax.build(Several, target="llvm"), eutectic.cpu())


X, W = values(2, 3), values(3, 4, seed=1)


def test_names_where_scripts_look_for_them():
    assert eutectic.build is relax.build
    assert eutectic.VirtualMachine is relax.VirtualMachine
    assert {"build", "VirtualMachine", "VMExecutable", "get_pipeline", "register_pipeline"} <= set(dir(relax))
    assert isinstance(relax.build(Several, eutectic.target.Target("llvm")), relax.VMExecutable)
    assert relax.get_pipeline("zero").info.name == "zero"
    with pytest.raises(AttributeError, match="no attribute 'biuld'"):
        relax.biuld  # noqa: B018
    with pytest.raises(CodegenError, match=r"unknown pipeline 'defualt'"):
        relax.get_pipeline("defualt")


def test_a_pipeline_of_the_users_own():
    seen = []

    @relax.register_pipeline("noted")
    def noted():
        @eutectic.ir.transform.module_pass(opt_level=0, name="Note")
        def note(mod, ctx):
            seen.append(len(mod.functions))
            return mod

        return eutectic.ir.transform.Sequential([note, relax.get_pipeline("zero")])

    ex = relax.build(Several, relax_pipeline="noted")
    np.testing.assert_array_equal(ex["twice"](X).numpy(), X + X)
    assert seen == [4]


def test_several_functions(vm):
    assert sorted(vm.executable.function_names()) == ["main", "nested", "sizes", "twice"]
    np.testing.assert_allclose(vm["main"](array(X), W).numpy(), np.maximum(X @ W, 0), rtol=1e-6)
    np.testing.assert_allclose(vm["main"](w=W, x=X).numpy(), np.maximum(X @ W, 0), rtol=1e-6)
    for n in (1, 5, 0):
        np.testing.assert_array_equal(vm["twice"](np.ones((n, 3), "float32")).numpy(), np.full((n, 3), 2, "float32"))


def test_nested_tuples_in_and_out(vm):
    given = (X, [values(2, 3, seed=2), array(values(3, seed=3))])
    d, (r, (b, c)) = vm["nested"](given)
    assert all(isinstance(part, Tensor) for part in (d, r, b, c))
    plain = (X, (given[1][0], given[1][1].numpy()))
    want = Interpreter(Several).run("nested", plain)
    np.testing.assert_allclose(d.numpy(), want[0], rtol=1e-6)
    np.testing.assert_array_equal(r.numpy(), np.maximum(X, 0))
    np.testing.assert_array_equal(c.numpy(), plain[1][1])
    b.view()[:] = 0  # results belong to the caller
    assert given[1][0].all()


def test_shapes_and_numbers(vm):
    np.testing.assert_array_equal(vm["sizes"](X, (3, 2), 2).numpy(), X.reshape(3, 2))
    np.testing.assert_array_equal(vm["sizes"](X, [np.int64(3), 2], np.int32(2)).numpy(), X.reshape(3, 2))


REFUSED = {
    "dtype": ("main", (X.astype("float64"), W), "argument x must be float32, got float64"),
    "size": ("main", (X, values(4, 4)), "argument w must have size 3 on axis 0, got 4"),
    "rank": ("main", (X[0], W), "argument x must have 2 axes, got 1"),
    "kind": ("main", (X, "w"), "argument w must be an array, got str"),
    "count": ("main", (X,), r"expected 2 tensors \(x, w\), got 1"),
    "part": ("nested", ((X, (X, values(4))),), r"argument p\[1\]\[1\] must have size 3 on axis 0, got 4"),
    "symbol": ("nested", ((X, (values(5, 3), values(3))),), r"argument p\[1\]\[0\] must have size 2 on axis 0, got 5"),
    "length": ("nested", ((X,),), "argument p must be a tuple of 2, got one of 1"),
    "no tuple": ("nested", (X,), "argument p must be a tuple of 2, got an array"),
    "shape": ("sizes", (X, (2, 3), 2), "argument s must have size 3 on axis 0, got 2"),
    "shape rank": ("sizes", (X, (3, 2, 1), 2), "argument s must have 2 sizes, got 3"),
    "negative": ("sizes", (X, (3, -2), 2), "argument s has a negative size"),
    "no shape": ("sizes", (X, X, 2), "argument s must be a shape, got an array"),
    "number": ("sizes", (X, (3, 2), 7), "argument k must be 2, got 7"),
    "no number": ("sizes", (X, (3, 2), "2"), "argument k must be a number of dtype int64, got str"),
    "bool": ("sizes", (X, (3, 2), True), "argument k must be a number of dtype int64, got bool"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_arguments_that_do_not_fit(vm, case: str):
    name, args, message = REFUSED[case]
    with pytest.raises(CallError, match=message):
        vm[name](*args)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda vm: vm["mian"], r"there is no function 'mian'(.|\n)*did you mean main"),
        (lambda vm: vm["main"](X, y=W), r"unexpected argument 'y'; main takes x, w"),
        (lambda vm: vm["main"](X, x=X), "argument 'x' is given twice"),
        (lambda vm: vm["main"](w=W), "argument 'x' is missing"),
        (lambda vm: vm.set_input("main", X), "argument 'w' is missing"),
        (lambda vm: vm.set_input("main", X, W, W), "main takes x, w, got 3 arguments"),
        (lambda vm: vm.set_input("mian", X), "there is no function 'mian'"),
        (lambda vm: vm.invoke_stateful("twice"), "twice has no arguments yet"),
        (lambda vm: vm.get_outputs("twice"), "twice has no results yet"),
        (lambda vm: vm.save_function("main", "twice", X, W), "'twice' is a function of the module"),
        (lambda vm: vm.profile("main", X), "argument 'w' is missing"),
        (lambda vm: vm.time_evaluator("mian"), "there is no function 'mian'"),
        (lambda vm: vm.time_evaluator("main", number=0)(X, W), "number must be positive, got 0"),
        (lambda vm: vm.time_evaluator("main", f_preproc="flush")(X, W), "f_preproc='flush' is not known"),
        (lambda vm: relax.VirtualMachine(vm.executable, eutectic.runtime.tensor.cuda()), "nothing can run on cuda:0"),
    ],
)
def test_what_is_refused(vm, call, message: str):
    with pytest.raises(CallError, match=message):
        call(vm)


def test_kept_arguments_and_results():
    vm = relax.VirtualMachine(relax.build(Several))
    vm.set_input("main", X, w=W)
    vm.invoke_stateful("main")
    first = vm.get_outputs("main")
    np.testing.assert_allclose(first.numpy(), np.maximum(X @ W, 0), rtol=1e-6)
    vm.set_input("main", -X, W)
    assert vm.get_outputs("main") is first
    vm.invoke_stateful("main")
    np.testing.assert_allclose(vm.get_outputs("main").numpy(), np.maximum(-X @ W, 0), rtol=1e-6)
    vm.set_input("main", X, values(4, 4))
    with pytest.raises(CallError, match="argument w must have size 3"):
        vm.invoke_stateful("main")


def test_saved_calls_and_timing():
    vm = relax.VirtualMachine(relax.build(Several))
    vm.save_function("twice", "once", X)
    vm.save_function("twice", "silent", x=X, include_return=False)
    np.testing.assert_array_equal(vm["once"]().numpy(), X + X)
    assert vm["silent"]() is None
    for name, args in (("once", ()), ("main", (X, W)), ("invoke_stateful", ("twice",))):
        vm.set_input("twice", X)
        timed = vm.time_evaluator(name, eutectic.cpu(), number=2, repeat=3)(*args)
        assert len(timed.results) == 3
        assert 0 < timed.min <= timed.median <= timed.max < 1
        assert timed.min <= timed.mean <= timed.max
        assert timed.std >= 0
        assert str(timed).startswith("mean ")
    assert vm.time_evaluator("twice", min_repeat_ms=2, cooldown_interval_ms=1)(X).mean < 2e-3


def test_the_table_of_kernels(vm):
    table = vm.profile("main", X, w=W)
    assert [row.name for row in table.rows] == ["fused_matmul_relu"]
    assert table.rows[0].flops >= 2 * 2 * 3 * 4
    assert table.rows[0].bytes == 4 * (6 + 12 + 8)
    assert "fused_matmul_relu" in str(table)


@pytest.mark.parametrize("mode", ["bytecode", "compiled", "interpreted"])
def test_modes_agree(mode: str):
    ex = relax.build(Several, exec_mode=mode)
    np.testing.assert_allclose(ex["main"](X, W).numpy(), np.maximum(X @ W, 0), rtol=1e-6)
    d, _ = ex["nested"]((X, (X, X[0])))
    np.testing.assert_allclose(d.numpy(), (X + X) * X[0], rtol=1e-6)


def test_parameters_bound_at_build_time():
    ex = relax.build(Several, params={"w": array(W)})
    assert ex.parameters("main") == ["x"]
    np.testing.assert_allclose(ex["main"](X).numpy(), np.maximum(X @ W, 0), rtol=1e-6)


def test_results_that_are_no_tensors():
    @R.function
    def main(x: R.Tensor(("n", 3), "float32"), s: R.Shape(["k"]), a: R.Prim("float32")):
        n = T.int64()
        k = T.int64()
        with R.dataflow():
            lv = R.add(x, x)
            R.output(lv)
        return (lv, R.shape([n, k]), s, a)

    double, shape, same, number = relax.build(IRModule({"main": main}))["main"](X, (7,), 1.5)
    np.testing.assert_array_equal(double.numpy(), X + X)
    assert (shape, same, number) == ((2, 7), (7,), 1.5)
