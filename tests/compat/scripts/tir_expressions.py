"""Scalar expressions: arithmetic, simplification, substitution."""

import tvm
from tvm import tir
from tvm.testing import assert_prim_expr_equal

n, m = tir.Var("n", "int32"), tir.Var("m", "int32")
analyzer = tvm.arith.Analyzer()
print(analyzer.simplify(n + n - n * 2), analyzer.simplify((n * 4 + 2) // 4 - n))
print(analyzer.can_prove(n * 2 + 1 > n * 2))
analyzer.bind(m, tvm.ir.Range(0, 8))
print(analyzer.simplify(m // 8), analyzer.can_prove(m < 8))
print(tir.const(3, "int32") + 4, tir.min(n, n).same_as(n))
assert_prim_expr_equal(n * 2 + m, m + n + n)
print("done")
