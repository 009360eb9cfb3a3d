"""Malformed graph scripts: each gives one error that points at the right line and column, and says what is wrong."""

from __future__ import annotations

import pytest

from eutectic.script import from_source
from eutectic.support.errors import EutecticError
from eutectic.testing.marked import marked

HEAD = """@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
"""


def body(*lines: str) -> str:
    return HEAD + "".join(f"        {line}\n" for line in lines)


def flow(*lines: str, end: str = "R.output(z)", ret: str = "return z") -> str:
    return body("with R.dataflow():", *(f"    {line}" for line in [*lines, end]), ret)


# name -> (script with the place that the error must point at between « and », part of the message)
CASES: dict[str, tuple[str, str]] = {
    # ---- text and structure
    "unclosed-bracket": (body("z = R.add«(»x, y", "return z"), "not valid Python syntax"),
    "bad-indentation": (HEAD + "        z = R.add(x, y)\n        « »return z\n", "indent"),
    "no-definition": ("«a» = 1\n", "may not stand beside"),
    "empty": ("«»", "no definition"),
    "two-definitions": (
        "@R.function\ndef f(x: R.Tensor((2,))):\n    return x\n"
        "\n@R.function\n«def g(x: R.Tensor((2,))):»\n    return x\n",
        "one definition",
    ),
    "no-decorator": ("«def f(x: R.Tensor((2,))):»\n    return x\n", "not part of a script"),
    "unknown-decorator": ("@«R.fun»\ndef f(x: R.Tensor((2,))):\n    return x\n", "no 'fun'"),
    "decorator-option": ("@«R.function(pur=False)»\ndef f(x: R.Tensor((2,))):\n    return x\n", "unknown option 'pur'"),
    "statement-in-module": (
        HEAD.replace("    @R.function", "    «for i in range(3):»\n        pass\n    @R.function")
        + "        return x\n",
        "For statements",
    ),
    "expression-in-module": ("@I.ir_module\nclass M:\n    «R.shape([1])»\n", "not a statement of a module"),
    "twice-the-same-function": (
        "@I.ir_module\nclass M:\n    @R.function\n    def f(x: R.Tensor((2,))):\n        return x\n"
        "    @R.function\n    «def f(x: R.Tensor((2,))):»\n        return x\n",
        "two functions called f",
    ),
    # ---- parameters and types
    "parameter-without-type": ("@R.function\ndef f(«x»):\n    return x\n", "has no type"),
    "parameter-twice": (
        "@R.function\ndef f(x: R.Tensor((2,)), «x: R.Tensor((2,))»):\n    return x\n",
        "two parameters are called x",
    ),
    "default-value": ("@R.function\ndef f(x: R.Tensor((2,)) = «1»):\n    return x\n", "no default values"),
    "star-parameter": ("@R.function\ndef f(*«x: R.Tensor((2,))»):\n    return x\n", "positional parameters only"),
    "type-is-a-number": ("@R.function\ndef f(x: «3»):\n    return x\n", "expected a type"),
    "type-is-a-function": ("@R.function\ndef f(x: «R.add»):\n    return x\n", "expected a type"),
    "unknown-dtype": ('@R.function\ndef f(x: «R.Tensor((2,), "float33")»):\n    return x\n', "unknown dtype 'float33'"),
    "shape-is-a-number": (
        '@R.function\ndef f(x: «R.Tensor(2, "float32")»):\n    return x\n',
        "must be a tuple or list",
    ),
    "negative-size": ('@R.function\ndef f(x: «R.Tensor((-2,), "float32")»):\n    return x\n', "not between 0"),
    "huge-size": (f'@R.function\ndef f(x: «R.Tensor(({1 << 64},), "float32")»):\n    return x\n', "not between 0"),
    "float-size": ('@R.function\ndef f(x: «R.Tensor((2.5,), "float32")»):\n    return x\n', "a size must be"),
    "shape-and-ndim": ('@R.function\ndef f(x: «R.Tensor((2, 3), "float32", ndim=3)»):\n    return x\n', "ndim=3"),
    "undefined-symbol-in-size": (
        '@R.function\ndef f(x: «R.Tensor(("n + 1",), "float32")»):\n    return x\n',
        "undefined variable 'n'",
    ),
    "size-text-is-no-expression": (
        '@R.function\ndef f(x: «R.Tensor(("n +",), "float32")»):\n    return x\n',
        "not an expression",
    ),
    "return-type-wrong-shape": (
        '@R.function\ndef f(x: R.Tensor((2, 3), "float32")) -> «R.Tensor((3, 2), "float32")»:\n    return x\n',
        "as stated here",
    ),
    "return-type-wrong-dtype": (
        '@R.function\ndef f(x: R.Tensor((2, 3), "float32")) -> «R.Tensor((2, 3), "int32")»:\n    return x\n',
        "as stated here",
    ),
    "annotation-wrong-dtype": (flow('z: «R.Tensor((2, 3), "float16")» = R.add(x, y)'), "the value of z has type"),
    "annotation-wrong-rank": (flow('z: «R.Tensor((2, 3, 1), "float32")» = R.add(x, y)'), "the value of z has type"),
    "annotation-wrong-size": (flow('z: «R.Tensor((2, 4), "float32")» = R.add(x, y)'), "the value of z has type"),
    "annotation-is-no-type": (flow("z: «x» = R.add(x, y)"), "expected a type"),
    # ---- names
    "undefined-variable": (flow("z = R.add(x, «w»)"), "undefined variable 'w'"),
    "undefined-with-suggestion": (body("value = R.add(x, y)", "return «valu»"), "undefined variable 'valu'"),
    "unknown-operator": (flow("z = «R.ad»(x, y)"), "R has no 'ad'"),
    "unknown-nested-operator": (flow("z = «R.nn.rel»(x)"), "has no 'rel'"),
    "unknown-function-of-module": (flow("z = «Module.g»(x)"), "has no function 'g'"),
    "hidden-by-dataflow": (
        flow("w = R.add(x, y)", "z = R.add(w, y)", ret="return «w»"),
        "does not list it in R.output",
    ),
    "symbol-not-declared": (body("z = R.reshape(x, («n»,))", "return z"), "undefined variable 'n'"),
    "local-of-branch": (
        '@R.function\ndef f(c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")):\n    if c:\n'
        "        t = R.add(x, x)\n"
        "        z = R.add(t, x)\n    else:\n        z = x\n    return «t»\n",
        "undefined variable 't'",
    ),
    # ---- dataflow blocks
    "no-output": (flow("w = R.add(x, y)", end="«z = R.add(w, y)»"), "must end with R.output"),
    "output-not-last": (flow("z = R.add(x, y)", "«R.output(z)»", end="w = R.add(z, z)"), "must be the last statement"),
    "output-outside": (body("z = R.add(x, y)", "«R.output(z)»", "return z"), "in the wrong place"),
    "output-indented-too-little": (
        body("with R.dataflow():", "    «z = R.add(x, y)»", "R.output(z)", "return z"),
        "must end with R.output",
    ),
    "output-of-unbound": (flow("z = R.add(x, y)", end="R.output(z, «w»)"), "w is not bound in this dataflow block"),
    "output-of-expression": (flow("z = R.add(x, y)", end="R.output(«R.add(z, z)»)"), "takes names"),
    "return-in-dataflow": (
        body("with R.dataflow():", "    z = R.add(x, y)", "    «return z»", "    R.output(z)", "return z"),
        "return inside a dataflow",
    ),
    "nested-dataflow": (
        flow("«with R.dataflow():»", "    w = x", "    R.output(w)", "z = w"),
        "dataflow blocks do not nest",
    ),
    "with-something-else": (body("with «R.add(x, y)»:", "    z = x", "return z"), "expected R.dataflow()"),
    # ---- statements
    "no-return": (body("«z = R.add(x, y)»"), "ends without return"),
    "return-nothing": (body("«return»"), "return needs a value"),
    "after-return": (body("return x", "«z = R.add(x, y)»"), "nothing may follow"),
    "loop": (body("«for i in range(3):»", "    z = x", "return x"), "a loop in a graph function"),
    "while-loop": (body("«while x:»", "    z = x", "return x"), "a loop in a graph function"),
    "augmented": (body("«x += y»", "return x"), "assignment with an operator"),
    "chained-assignment": (body("«a = b = R.add(x, y)»", "return x"), "one target"),
    "assign-to-element": (body("«x[0]» = y", "return x"), "only names"),
    "variable-without-value": (body("«z: R.Tensor((2, 3))»", "return x"), "needs a value"),
    "type-as-statement": (body("«R.Tensor((2, 3))»", "return x"), "not a statement"),
    "import-in-function": (body("«import os»", "return x"), "Import statement"),
    "if-without-else": (body("«if x:»", "    z = x", "return x"), "needs an else"),
    "branches-disagree": (body("if x:", "    z = x", "else:", "    «w = y»", "return x"), "they bind z and w"),
    "branch-ends-with-nothing": (body("if x:", "    «pass»", "else:", "    z = y", "return x"), "must end by binding"),
    "return-in-branch": (body("if x:", "    «return x»", "else:", "    z = y", "return x"), "must end by binding"),
    "unpack-too-many": (body("«a, b, c» = R.split(x, 3, axis=1)[0], y", "return a"), "3 names for 2 values"),
    "unpack-a-tensor": (body("«a, b = R.add(x, y)»", "return a"), "cannot unpack"),
    "unpack-split": (body("«a, b» = R.split(x, 3, axis=1)", "return a"), "2 names for a tuple of 3"),
    # ---- operators and values
    "shapes-do-not-broadcast": (flow("z = «R.add(x, R.reshape(y, (3, 2)))»"), "broadcast"),
    "matmul-mismatch": (flow("z = «R.matmul(x, y)»"), "contract"),
    "conv-rank": (flow("z = «R.nn.conv2d(x, y)»"), "conv2d"),
    "too-many-arguments": (flow("z = «R.nn.relu(x, y)»"), "argument"),
    "unknown-option": (flow("z = «R.nn.softmax(x, axes=1)»"), "axes"),
    "dtypes-differ": (flow('z = «R.add(x, R.astype(y, "float16"))»'), "datatype"),
    "equal-on-tensors": (flow("z = «x == y»"), "== compares objects"),
    "not-callable": (flow("z = R.add(«3»(x), y)"), "not a function"),
    "impossible-cast": (body('z = «R.match_cast(x, R.Tensor((2, 3), "int32"))»', "return z"), "can never succeed"),
    "cast-disagrees": (
        body('z: «R.Tensor((2, 4), "float32")» = R.match_cast(x, R.Tensor(("a", "b"), "float32"))', "return z"),
        "not the type that the cast states",
    ),
    "return-a-type": (body("return «R.Tensor»"), "expected a graph value"),
    "index-a-tensor": (body("z = «x[0]»", "return z"), "only tuples can be indexed"),
    "field-out-of-range": (body("z = «R.split(x, 3, axis=1)[5]»", "return z"), "field 5"),
    "conditional-expression": (body("z = «x if x else y»", "return z"), "condition known while parsing"),
    "missing-metadata": (flow('z = R.add(x, «metadata["relax.expr.Constant"]»[0])'), "metadata"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_error_points_at_the_place(name: str):
    script, message = CASES[name]
    text, line, column = marked(script)
    with pytest.raises(EutecticError) as caught:
        from_source(text)
    error = caught.value
    assert error.at is not None, str(error)
    assert message in error.message, str(error)
    assert error.at.where == f"<script>:{line}:{column}", str(error)
    assert error.at.text == (text.splitlines()[line - 1] if text else "")


def test_there_are_many():
    assert len(CASES) >= 60
