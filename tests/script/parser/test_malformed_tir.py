"""Malformed tensor programs: each gives one error that points at the right line and column."""

from __future__ import annotations

import pytest

from eutectic.script import from_source
from eutectic.support.errors import EutecticError
from eutectic.testing.marked import marked

HEAD = """@T.prim_func
def f(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32"), n: T.int32, p: T.handle):
"""


def body(*lines: str) -> str:
    return HEAD + "".join(f"    {line}\n" for line in lines)


def block(*lines: str) -> str:
    return body(
        "for i, j in T.grid(8, 8):",
        '    with T.block("b"):',
        '        vi, vj = T.axis.remap("SS", [i, j])',
        *(f"        {line}" for line in lines),
        "        B[vi, vj] = A[vi, vj]",
    )


CASES: dict[str, tuple[str, str]] = {
    "parameter-without-type": ("@T.prim_func\ndef f(«A»):\n    T.evaluate(0)\n", "has no type"),
    "parameter-of-unknown-type": ("@T.prim_func\ndef f(A: «3»):\n    T.evaluate(0)\n", "expected a type"),
    "unknown-dtype": ("@T.prim_func\ndef f(A: «T.int33»):\n    T.evaluate(0)\n", "has no 'int33'"),
    "undefined-variable": (body("B[0, 0] = A[0, «k»]"), "undefined variable 'k'"),
    "loop-variable-after-its-loop": (
        body("for i in range(8):", "    B[i, 0] = A[i, 0]", "B[«i», 0] = A[0, 0]"),
        "undefined variable 'i'",
    ),
    "unknown-function": (body("B[0, 0] = «T.expp»(A[0, 0])"), "has no 'expp'"),
    "store-rank": (body("«B[0]» = A[0, 0]"), "has 2 axes, indexed with 1"),
    "store-dtype": (
        body('C = T.alloc_buffer((8,), "int32")', "C[0] = «A[0, 0]»"),
        "stores float32 into buffer C of int32",
    ),
    "store-a-string": (body('B[0, 0] = «"x"»'), "cannot store a str"),
    "store-to-a-variable": (body("«n»[0] = 1"), "only elements of buffers"),
    "store-a-region": (body("«B[0:4, 0]» = A[0, 0]"), "a region cannot be stored to"),
    "mixed-dtypes": (body("B[0, 0] = «A[0, 0] + n»"), "int32"),
    "integer-division": (body("B[«n / 2», 0] = A[0, 0]"), "//"),
    "loop-over-a-number": (body("for i in «8»:", "    B[i, 0] = A[i, 0]"), "expected loops"),
    "loop-with-step": (body("for i in «range(0, 8, 2)»:", "    B[i, 0] = A[i, 0]"), "step by one"),
    "too-many-loop-variables": (body("for «i, j» in T.serial(8):", "    B[i, j] = A[i, 0]"), "2 variables for 1 loops"),
    "loop-variable-is-no-name": (
        body("for «A[0, 0]» in T.serial(8):", "    B[0, 0] = A[0, 0]"),
        "loop variables are names",
    ),
    "loop-else": (
        body("for i in T.serial(8):", "    B[i, 0] = A[i, 0]", "else:", "    «B[0, 0] = A[0, 0]»"),
        "has no else",
    ),
    "negative-extent": (body("for i in «T.serial(-1)»:", "    B[i, 0] = A[i, 0]"), "extent -1"),
    "thread-without-tag": (body("for i in «T.thread_binding(8)»:", "    B[i, 0] = A[i, 0]"), "needs a thread"),
    "condition-is-a-number": (body("if «n»:", "    B[0, 0] = A[0, 0]"), "expected a condition"),
    "while-condition": (body("while «A[0, 0]»:", "    B[0, 0] = A[0, 0]"), "expected a condition"),
    "assert-message": (body("assert n > 1, «3»", "B[0, 0] = A[0, 0]"), "must be a string"),
    "axis-outside": (body("«vi = T.axis.spatial(8, n)»", "B[0, 0] = A[0, 0]"), "outside of a block"),
    "reads-outside": (body("«T.reads(A[0, 0])»", "B[0, 0] = A[0, 0]"), "outside of a block"),
    "init-outside": (body("«with T.init():»", "    B[0, 0] = A[0, 0]"), "outside of a block"),
    "init-twice": (
        block("with T.init():", "    B[vi, vj] = 0.0", "«with T.init():»", "    B[vi, vj] = 0.0"),
        "one T.init",
    ),
    "reads-twice": (block("T.reads(A[vi, vj])", "«T.reads(A[vi, vj])»"), "one T.reads"),
    "where-twice": (block("T.where(i < 3)", "«T.where(i < 4)»"), "one T.where"),
    "reads-a-number": (block("«T.reads(3)»"), "expected a region"),
    "remap-of-no-loop": (
        body('with T.block("b"):', '    vi = «T.axis.remap("S", [n])»', "    B[vi, 0] = A[vi, 0]"),
        "takes loop variables",
    ),
    "remap-count": (
        body(
            "for i, j in T.grid(8, 8):",
            '    with T.block("b"):',
            '        vi, vj = «T.axis.remap("SSR", [i, j])»',
            "        B[vi, vj] = A[vi, vj]",
        ),
        "3 kinds",
    ),
    "remap-kind": (
        body(
            "for i in T.grid(8):",
            '    with T.block("b"):',
            '        vi = «T.axis.remap("X", [i])»',
            "        B[vi, 0] = A[vi, 0]",
        ),
        "unknown kind of axis 'X'",
    ),
    "match-what-is-no-parameter": (
        body("m = T.int32()", 'C = «T.match_buffer(m, (8,), "float32")»', "C[0] = 0.0"),
        "not a parameter",
    ),
    "match-twice": (
        body('C = T.match_buffer(p, (8,), "float32")', 'D = «T.match_buffer(p, (8,), "float32")»', "C[0] = D[0]"),
        "has a buffer already",
    ),
    "match-without-shape": (body("C = «T.match_buffer(p)»", "C[0] = 0.0"), "needs a shape"),
    "typed-variable-of-another-dtype": (
        body("x: T.int32 = «A[0, 0]»", "B[0, 0] = A[0, 0]"),
        "is int32, its value float32",
    ),
    "typed-variable-without-type": (body("x: «3» = 1", "B[0, 0] = A[0, 0]"), "expected a type"),
    "with-something-else": (body("with «n»:", "    B[0, 0] = A[0, 0]"), "expected T.block"),
    "class-inside": (body("«class C:»", "    pass"), "ClassDef statements"),
    "value-on-its-own": (body("«A»", "B[0, 0] = A[0, 0]"), "on its own"),
    "tuple-for-a-buffer": (body("«x, y» = 1, 2, 3", "B[0, 0] = A[0, 0]"), "2 names for 3 values"),
    "augmented-variable": (body("«n += 1»", "B[0, 0] = A[0, 0]"), "needs an element of a buffer"),
    "chained": (body("«B[0, 0] = B[0, 1] = A[0, 0]»"), "one target"),
    "out-of-range-constant": (body("B[0, «T.int8(300)»] = A[0, 0]"), "does not fit int8"),
    "fraction-for-integer": (body("B[0, «T.int32(1.5)»] = A[0, 0]"), "not an integer"),
    "conditional-expression": (body("B[0, 0] = «1.0 if n > 2 else 0.0»"), "known while parsing"),
    "lambda-arguments": (body("g = lambda a: a", "B[0, 0] = «g(A[0, 0], 1)»"), "takes 1 arguments"),
    "operator-of-the-graph": (body("B[0, 0] = «R.shape([1])»"), "cannot store a ShapeExpr"),
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
    assert error.at.text == text.splitlines()[line - 1]


def test_there_are_many():
    assert len(CASES) >= 40
