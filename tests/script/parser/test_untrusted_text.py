"""Text from outside: nothing in it runs, and none of it brings the process down."""

from __future__ import annotations

import time

import numpy as np
import pytest

from eutectic.ir.structural import assert_structural_equal
from eutectic.relax import Function
from eutectic.script import from_source
from eutectic.support.errors import EutecticError, ScriptError

PROBE: list[str] = []


def relax_text(value: str) -> str:
    return f'@R.function\ndef f(x: R.Tensor((2,), "float32")):\n    y = {value}\n    return x\n'


def loop_text(extent: str) -> str:
    return f'@T.prim_func\ndef f(A: T.Buffer((8,), "float32")):\n    for i in T.serial({extent}):\n        A[i] = 1.0\n'


ATTACKS = {
    "import": '__import__("os").system("true")',
    "builtins": "__builtins__",
    "open": 'open("/etc/passwd")',
    "eval": 'eval("1")',
    "exec": 'exec("1")',
    "getattr": 'getattr(R, "__globals__")',
    "globals": "globals()",
    "type": "type(x)",
    "class-of-literal": "().__class__.__base__.__subclasses__()",
    "class-of-operator": "R.add.__globals__",
    "code-of-operator": "R.add.__code__",
    "module-of-namespace": "R.builtins",
    "sys-of-namespace": "T.sys",
    "dunder-of-namespace": "R.__dict__",
    "format-string": '"{0.__class__}".format(x)',
    "f-string": 'f"{x.__class__}"',
    "percent": '"%s" % x',
    "lambda-escape": "(lambda: R.add.__globals__)()",
    "comprehension": "[a for a in (1, 2)]",
    "walrus": "(a := 1)",
    "await": "(yield)",
    "long-list": "[0] * 10**10",
    "long-string": '"a" * 10**10',
    "huge-power": "10 ** 10 ** 10",
    "huge-shift": "1 << 10 ** 9",
    "squaring": "9999999999999999999999 * 9999999999999999999999",
    "attribute-of-extra": "probe.append",
    "script-of-var": "x.script",
    "show-of-var": "x.show()",
}


@pytest.mark.parametrize("make", [relax_text, loop_text], ids=["relax", "tir"])
@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_are_refused(name: str, make):
    start = time.monotonic()
    with pytest.raises(EutecticError) as caught:
        from_source(make(ATTACKS[name]), {"probe": PROBE})
    assert caught.value.at is not None
    assert time.monotonic() - start < 10
    assert not PROBE


@pytest.mark.parametrize(
    "text",
    [
        "import os\n",
        "from os import system\n",
        "x = 1\n@R.function\ndef f(x: R.Tensor((2,))):\n    return x\n",
        "@R.function\n@print\ndef f(x: R.Tensor((2,))):\n    return x\n",
        '@R.function\ndef f(x: R.Tensor((2,), "float32") = open("x")):\n    return x\n',
        '@R.function\ndef f(x: R.Tensor(("__import__(\'os\')",), "float32")):\n    return x\n',
        "@I.ir_module\nclass M(__import__('os').error):\n    import os\n",
    ],
)
def test_statements_that_would_run_code_are_refused(text: str):
    with pytest.raises(EutecticError):
        from_source(text)


def test_what_a_lambda_may_do_is_bounded():
    doubling = "(lambda f: f(f(f(f(f(f(f(f(f(f(f(f(f(f(f(f(f(f(f(f(1)))))))))))))))))))))"
    text = relax_text(f"{doubling}(lambda a: (lambda b: b)(a))")
    from_source(text)  # twenty calls are fine
    forever = relax_text("(lambda f: f(f))(lambda f: f(f))")
    with pytest.raises(ScriptError):
        from_source(forever)
    tower = "lambda a: a"
    for _ in range(40):
        tower = f"(lambda f: lambda a: f(f(a)))({tower})"
    with pytest.raises(ScriptError):
        from_source(relax_text(f"({tower})(1)"))


@pytest.mark.parametrize("depth", [300, 5_000, 200_000])
def test_deep_text_is_an_error(depth: int):
    for text in (
        relax_text("(" * depth + "1" + ")" * depth),
        relax_text("-" * depth + "1"),
        relax_text("x" + " + x" * depth),
        relax_text("R.nn.relu(" * depth + "x" + ")" * depth),
        relax_text("[" * depth + "]" * depth),
    ):
        with pytest.raises(EutecticError):
            from_source(text)


def test_deep_statements_are_an_error():
    lines = ["@T.prim_func", 'def f(A: T.Buffer((8,), "float32")):']
    lines += ["    " + " " * i + f"for i{i} in T.serial(2):" for i in range(95)]
    lines.append("    " + " " * 95 + "A[0] = 1.0")
    from_source("\n".join(lines))  # Python's own limit is 100 levels
    wide = '@R.function\ndef f(c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")):\n    if c:\n        y = x\n'
    wide += (
        "".join(f"    {'el'}if c:\n        y = x\n" for _ in range(400)) + "    else:\n        y = x\n    return y\n"
    )
    with pytest.raises(ScriptError):
        from_source(wide)


def test_long_sequences_of_bindings_are_fine():
    lines = ["@T.prim_func", 'def f(A: T.Buffer((8,), "int32")):', "    v0: T.int32 = A[0]"]
    lines += [f"    v{i + 1}: T.int32 = v{i} + 1" for i in range(2000)]
    function = from_source("\n".join([*lines, "    A[1] = v2000"]))
    assert_structural_equal(from_source(function.script()), function)


def test_wide_text_is_fine():
    lines = ['@R.function\ndef f(x: R.Tensor((2,), "float32")):', "    v0 = x"]
    lines += [f"    v{i + 1} = R.add(v{i}, x)" for i in range(3000)]
    function = from_source("\n".join([*lines, "    return v3000"]))
    assert isinstance(function, Function)
    assert len(function.body.blocks[0].bindings) == 3001


@pytest.mark.parametrize("text", ["\0", "x = " + "9" * 5000, "\ud800", "@R.function\ndef f(\n", "é" * 10, "\f\v", "if"])
def test_odd_text_is_an_error(text: str):
    with pytest.raises(EutecticError):
        from_source(text)


def test_columns_count_characters_not_bytes():
    text = '@R.function\ndef f(x: R.Tensor((2,), "float32")):\n    ä = ("é", undefined)\n    return x\n'
    with pytest.raises(ScriptError) as caught:
        from_source(text)
    column = text.splitlines()[2].index("undefined") + 1
    assert caught.value.at is not None
    assert caught.value.at.where == f"<script>:3:{column}"


def test_sizes_that_no_memory_holds_cost_nothing():
    big = from_source('@R.function\ndef f(x: R.Tensor((1048576, 1048576, 64), "float32")):\n    return R.add(x, x)\n')
    assert isinstance(big, Function)


def test_given_names_can_be_used():
    weight = np.ones((2,), "float32")
    function = from_source(relax_text("R.add(x, R.const(weight))"), {"weight": weight})
    assert isinstance(function, Function)
