"""Scripts in Python source: they see what the code around them sees."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import eutectic
from eutectic import relax
from eutectic.ir.structural import assert_structural_equal
from eutectic.script import from_source
from eutectic.script import ir as I
from eutectic.script import relax as R
from eutectic.script import tir as T
from eutectic.support.errors import ScriptError, TypeInferenceError

SIZE = 4
PADS = [1, 1]
double = lambda value: R.add(value, value)  # noqa: E731 - lambdas are among what scripts may use


@R.function
def at_module_level(x: R.Tensor((SIZE,), "float32")):
    return double(x)


def test_globals_and_lambdas():
    assert at_module_level.params[0].struct_info.static_shape == (4,)
    assert at_module_level.attrs["global_symbol"] == "at_module_level"
    assert at_module_level.body.blocks[0].bindings[0].value.op.name == "relax.add"


def make(channels: int, weight: np.ndarray):
    steps = {"strides": [2, 2]}

    @I.ir_module
    class Local:
        @R.function
        def main(x: R.Tensor((1, channels, 8, 8), "float32")):
            with R.dataflow():
                y = R.nn.conv2d(x, R.const(weight), padding=PADS, **steps)
                z = relax.op.nn.relu(y)
                R.output(z)
            return z

    return Local


def test_locals_and_closures_under_one_name():
    """Two classes of one name, in one file: each decorator finds its own."""
    mods = [make(c, np.ones((2, c, 3, 3), "float32")) for c in (3, 5)]
    shapes = [mod["main"].params[0].struct_info.static_shape for mod in mods]
    assert shapes == [(1, 3, 8, 8), (1, 5, 8, 8)]
    assert mods[0]["main"].ret_struct_info.static_shape == (1, 2, 4, 4)

    @I.ir_module
    class Local:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            return x

    assert Local["main"].params[0].struct_info.static_shape == (2,)


def test_functions_call_each_other_in_any_order():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32")):
            cls = Mod
            y = cls.later(x)
            return Mod.typed(y)

        @R.function(private=True)
        def later(x: R.Tensor(("m", 4), "float32")):
            return R.reshape(x, (4, -1))

        @R.function(private=True)
        def typed(x: R.Tensor(("a", "b"), "float32")) -> R.Tensor(("b", "a"), "float32"):
            return R.permute_dims(x)

    assert Mod["main"].ret_struct_info.ndim == 2
    assert Mod["later"].attrs.get("global_symbol") is None
    x = np.arange(12, dtype="float32").reshape(3, 4)
    np.testing.assert_array_equal(eutectic.compile(Mod)(x), x.reshape(4, 3).T)


def test_recursion_needs_a_type():
    with pytest.raises(ScriptError, match="calls itself"):

        @I.ir_module
        class Mod:
            @R.function
            def main(x: R.Tensor((4,), "float32")):
                return Mod.main(x)

    @I.ir_module
    class Typed:
        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            return Typed.main(x)

    assert Typed["main"].ret_struct_info.static_shape == (4,)


def test_text_and_decorators_agree():
    @I.ir_module
    class Module:
        I.module_attrs({"level": 3, "names": ["a", "b"]})

        @T.prim_func(private=True)
        def scale(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.block("scale"):
                    vi = T.axis.spatial(4, i)
                    B[vi] = A[vi] * T.float32(2)

        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            R.func_attr({"num_input": 1})
            cls = Module
            with R.dataflow():
                y = R.call_tir(cls.scale, (x,), out_sinfo=R.Tensor((4,), dtype="float32"))
                R.output(y)
            return y

    assert Module.attrs["level"] == 3
    assert_structural_equal(from_source(Module.script()), Module)


def test_errors_name_the_users_file_and_line():
    line = sys._getframe().f_lineno
    with pytest.raises(TypeInferenceError) as caught:

        @R.function
        def f(x: R.Tensor((2, 3), "float32")):
            y = R.matmul(x, x)
            return R.nn.relu(y)

    at = caught.value.at
    assert at is not None
    assert at.where == f"{__file__}:{line + 5}:17"
    assert at.text.strip() == "y = R.matmul(x, x)"
    frames = []
    tb = caught.value.__traceback__
    while tb is not None:
        frames.append(Path(tb.tb_frame.f_code.co_filename).name)
        tb = tb.tb_next
    assert "evaluate.py" not in frames


def test_an_undecorated_class_says_what_is_missing():
    class Plain:
        @R.function
        def f(x: R.Tensor((2,), "float32")):
            return x

    with pytest.raises(ScriptError, match=r"I\.ir_module"):
        Plain.f(1)


def test_source_that_is_not_there():
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from eutectic.script import relax as R\n@R.function\ndef f(x: R.Tensor((2,))):\n  return x",
        ],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(Path(eutectic.__file__).parents[1])},
    )
    if sys.version_info < (3, 13):  # later Pythons keep the text of -c
        assert "the source of <string> is not available" in done.stderr
    else:
        assert done.returncode == 0


def test_a_rewriter_class():
    @R.rewriter
    class AddTwice:
        @R.function(private=True)
        def pattern(x: R.Tensor((4,), "float32")):
            return R.add(x, x)

        @R.function(private=True)
        def replacement(x: R.Tensor((4,), "float32")):
            return R.multiply(x, R.const(2.0, "float32"))

    @R.function
    def f(y: R.Tensor((4,), "float32")):
        with R.dataflow():
            z = R.add(y, y)
            w = R.nn.relu(z)
            R.output(w)
        return w

    changed = AddTwice(f)
    names = [b.value.op.name for b in changed.body.blocks[0].bindings]
    assert names == ["relax.multiply", "relax.nn.relu"]


def equals(a, b):
    """A condition as Python code writes it."""
    return a == b


def test_conditions_of_python_functions_are_part_of_the_program():
    @T.prim_func
    def called(A: T.Buffer((4, 4), "bool")):
        for i, j in T.grid(4, 4):
            if equals(i, j) or not equals(i, 2):
                A[i, j] = equals(j % 3, 0)

    @T.prim_func
    def written(A: T.Buffer((4, 4), "bool")):
        for i, j in T.grid(4, 4):
            if i == j or not (i == 2):  # noqa: SIM201  # as above
                A[i, j] = j % 3 == 0

    assert_structural_equal(called.with_attr("global_symbol", "f"), written.with_attr("global_symbol", "f"))
