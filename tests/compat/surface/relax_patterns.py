"""Examples of the patterns of `tvm.relax.dpl`; `relax.py` loads them."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tests.compat.surface.examples import example
from tests.compat.surface.graphs import INFO, X, graph, names_of, operators, two_paths
from tvm import relax
from tvm.relax import dpl
from tvm.script import relax as R

# ---- patterns

V, W = relax.Var("a", INFO), relax.DataflowVar("b", INFO)
ADD = relax.op.add(V, W)


@example(*names_of("tvm.relax.dpl", "AndPattern OrPattern NotPattern WildcardPattern VarPattern DataflowVarPattern"))
@example(
    *names_of(
        "tvm.relax.dpl", "GlobalVarPattern ExternFuncPattern ConstantPattern ExprPattern CallPattern TuplePattern"
    )
)
@example(
    *names_of("tvm.relax.dpl", "TupleGetItemPattern UnorderedTuplePattern FunctionPattern AttrPattern ShapePattern")
)
@example(*names_of("tvm.relax.dpl", "DataTypePattern StructInfoPattern PrimArrPattern DFPattern"))
def pattern_classes() -> None:
    anything, addition = dpl.WildcardPattern(), dpl.ExprPattern(tvm.ir.Op.get("relax.add"))
    pair, one = relax.Tuple([V, relax.const(X)]), relax.const(np.ones(5, "int32"))
    call = dpl.CallPattern(addition, [dpl.VarPattern("a"), dpl.DataflowVarPattern("b")])
    matching = [
        (call, ADD),
        (dpl.AndPattern(call, anything), ADD),
        (dpl.OrPattern(dpl.ConstantPattern(), call), ADD),
        (dpl.NotPattern(dpl.ConstantPattern()), ADD),
        (dpl.GlobalVarPattern("f"), relax.GlobalVar("f")),
        (dpl.ExternFuncPattern("f"), relax.ExternFunc("f")),
        (dpl.TuplePattern([anything, dpl.ConstantPattern()]), pair),
        (dpl.UnorderedTuplePattern([dpl.ConstantPattern(), dpl.VarPattern("a")]), pair),
        (
            dpl.TupleGetItemPattern(anything, 1),
            relax.TupleGetItem(relax.Var("t", relax.TupleStructInfo([INFO] * 2)), 1),
        ),
        (dpl.ShapePattern(anything, [2, 3]), ADD),
        (dpl.DataTypePattern(anything, "float32"), ADD),
        (dpl.StructInfoPattern(anything, INFO), ADD),
        (dpl.PrimArrPattern([2, 3]), relax.ShapeExpr([2, 3])),
        (dpl.AttrPattern(anything, {"axis": -1}), relax.op.nn.softmax(V)),
        (dpl.FunctionPattern([anything], dpl.wildcard()), graph(two_paths)["main"]),
    ]
    for pattern, value in matching:
        assert isinstance(pattern, dpl.DFPattern)
        assert pattern.match(value), pattern
        if not isinstance(pattern, dpl.OrPattern):
            assert not pattern.match(one), pattern


@example(
    *names_of(
        "tvm.relax.dpl", "is_const is_dfv is_expr is_gv is_op is_shape is_tuple is_tuple_get_item is_var wildcard"
    )
)
@example(*names_of("tvm.relax.dpl", "reject has_attr has_dtype is_call_tir is_call_dps_packed is_call_packed"))
def pattern_helpers() -> None:
    assert dpl.is_op("relax.add")(dpl.is_var("a"), dpl.is_dfv("b")).match(ADD)
    assert dpl.is_const().match(relax.const(X))
    assert dpl.is_gv("f").match(relax.GlobalVar("f"))
    assert dpl.is_expr(V).match(V)
    assert dpl.is_shape([2, 3]).match(relax.ShapeExpr([2, 3]))
    assert dpl.is_tuple([dpl.wildcard()]).match(relax.Tuple([V]))
    whole = relax.Var("t", relax.TupleStructInfo([INFO]))
    assert dpl.is_tuple_get_item(dpl.wildcard(), 0).match(relax.TupleGetItem(whole, 0))
    assert not dpl.reject(dpl.is_const()).match(relax.const(X))
    assert dpl.has_attr({"axis": -1}).match(relax.op.nn.softmax(V))
    assert dpl.has_dtype("float32").match(V)
    assert not dpl.has_dtype("int8").match(V)
    assert dpl.is_call_tir("add").match(relax.call_tir(relax.GlobalVar("add"), (V,), INFO))
    assert dpl.is_call_dps_packed("f").match(relax.call_dps_packed("f", (V,), INFO))
    assert dpl.is_call_packed("f", [dpl.wildcard()]).match(R.call_packed("f", V, sinfo_args=INFO))


@example(*names_of("tvm.relax.dpl", "PatternContext PatternSeq SameShapeConstraint rewrite_bindings rewrite_call"))
def matching_of_blocks() -> None:
    main = graph(two_paths)["main"]
    with dpl.PatternContext() as ctx:
        operand = dpl.wildcard()
        first = dpl.is_op("relax.add")(operand, operand)
        second = dpl.is_op("relax.exp")(first)
        assert isinstance(first.used_by(second), dpl.PatternSeq)
        dpl.SameShapeConstraint(first, second)
        matched = ctx.match_dfb(main.body.blocks[0])
        rewritten = dpl.rewrite_bindings(ctx, lambda m, b: {m[second]: relax.op.negative(m[first])}, main)
    assert matched[first].struct_info == INFO
    assert operators(tvm.IRModule({"main": rewritten})) == ["relax.add", "relax.negative"]
    argument = dpl.wildcard()
    pattern = dpl.is_op("relax.exp")(argument)
    other = dpl.rewrite_call(pattern, lambda call, matches: relax.op.negative(matches[argument]), main)
    assert operators(tvm.IRModule({"main": other})) == ["relax.add", "relax.negative"]


@example(*names_of("tvm.relax.dpl", "PatternMatchingRewriter ExprPatternRewriter OrRewriter"))
def rewriters() -> None:
    def of(name: str, new: Any) -> Any:
        argument = dpl.wildcard()
        pattern = dpl.is_op(name)(argument)
        return dpl.PatternMatchingRewriter.from_pattern(pattern, lambda call, matches: new(matches[argument]))

    one, other = of("relax.exp", relax.op.negative), of("relax.tanh", relax.op.abs)
    assert isinstance(one, dpl.ExprPatternRewriter)
    both = one | other
    assert isinstance(both, dpl.OrRewriter)
    main = graph(lambda bb, x: relax.op.tanh(bb.emit(relax.op.exp(x))))["main"]
    assert operators(tvm.IRModule({"main": both(main)})) == ["relax.negative", "relax.abs"]


@example(*names_of("tvm.relax.backend", "get_pattern get_patterns_with_prefix"))
@example(*names_of("tvm.relax.backend.pattern_registry", "FusionPattern get_pattern get_patterns_with_prefix"))
@example("tvm.relax.backend.pattern_registry.register_patterns")
def registry() -> None:
    from tvm.relax.backend import pattern_registry

    assert all(entry.name.startswith("dnnl") for entry in tvm.relax.backend.get_patterns_with_prefix("dnnl"))
    entry = pattern_registry.FusionPattern("example.exp", dpl.is_op("relax.exp")(dpl.wildcard()))
    pattern_registry.register_patterns([entry])
    assert pattern_registry.get_pattern("example.exp").name == tvm.relax.backend.get_pattern("example.exp").name
    assert {e.name for e in pattern_registry.get_patterns_with_prefix("example.")} == {"example.exp"}
