"""One ill-formed program for each sentence of the verifier, and well-formed ones it must accept."""

from __future__ import annotations

import pytest

from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.transform import PassContext, module_pass
from eutectic.relax import (
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    ExternFunc,
    Function,
    If,
    MatchCast,
    SeqExpr,
    TensorStructInfo,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    op,
)
from eutectic.relax.analysis import problems_of, verify, well_formed
from eutectic.relax.transform import Normalize
from eutectic.support.errors import WellFormedError
from eutectic.testing.graphs import graph

INFO = TensorStructInfo((2,))
X = Var("x", INFO)
ATTRS = {"global_symbol": "main"}


def var(name: str) -> Var:
    return Var(name, INFO)


def local(name: str) -> DataflowVar:
    return DataflowVar(name, INFO)


def main(*blocks: BindingBlock, result=X, params=(X,), attrs=ATTRS) -> IRModule:
    return IRModule({"main": Function(params, SeqExpr(blocks, result), INFO, attrs=attrs)})


def plain(*pairs) -> BindingBlock:
    return BindingBlock(tuple(VarBinding(v, value) for v, value in pairs))


def dataflow(*pairs) -> DataflowBlock:
    return DataflowBlock(tuple(VarBinding(v, value) for v, value in pairs))


def branches(true, false) -> If:
    return If(Var("c", TensorStructInfo((), "bool")), true, false, struct_info=INFO)


A, B, LV, UNKNOWN, UNBOUND = var("a"), var("b"), local("lv"), Var("u"), var("free")
COND = Var("c", TensorStructInfo((), "bool"))
BRANCH_A = SeqExpr((plain((A, op.exp(X))),), A)
LOG = Call(ExternFunc("log"), [X], None, [INFO], struct_info=INFO)
PARAM = local("p")

ILL_FORMED = {
    "unbound": (main(result=A), "the result reads a, which is not visible there"),
    "argument": (main(plain((B, op.exp(A)))), "an argument of b reads a, which is not visible there"),
    "later": (main(plain((B, op.exp(A)), (A, op.exp(X)))), "an argument of b reads a, which is not visible there"),
    "field": (main(plain((B, TupleGetItem(Tuple((A,)), 0)))), "b reads a, which is not visible there"),
    "alias": (main(plain((B, A))), "b reads a, which is not visible there"),
    "callee": (main(plain((B, Call(A, [X], struct_info=INFO)))), "the callee of b reads a, which is not visible there"),
    "dataflow value": (main(dataflow((LV, op.exp(X))), result=LV), "the result reads lv, which is not visible there"),
    "twice": (main(plain((A, op.exp(X)), (A, op.sin(X)))), "a is bound twice"),
    "parameter twice": (main(params=(X, X)), "x is bound twice"),
    "dataflow parameter": (main(params=(PARAM,), result=PARAM), "parameter p is a dataflow variable"),
    "outside": (main(plain((LV, op.exp(X)))), "dataflow variable lv is bound outside a dataflow block"),
    "no info": (main(plain((UNKNOWN, op.exp(X)))), "u has no struct info"),
    "no value info": (main(plain((A, Call(op.exp(X).op, [X])))), "the value of a has no struct info"),
    "nested call": (main(plain((A, op.exp(op.sin(X))))), "an argument of a is a nested Call"),
    "nested in tuple": (main(result=Tuple((op.exp(X),))), "the result is a nested Call"),
    "nested result": (main(result=op.exp(X)), "the result is a nested Call"),
    "nested function": (main(plain((A, op.exp(X)), (B, op.add(X, op.sin(X))))), "an argument of b is a nested Call"),
    "sequence": (main(plain((A, SeqExpr((), X)))), "a is bound to a SeqExpr"),
    "condition": (
        main(plain((B, branches(SeqExpr((), X), SeqExpr((), X))))),
        "the condition of b reads c, which is not visible there",
    ),
    "branch": (
        main(plain((B, If(COND, X, SeqExpr((), X), struct_info=INFO))), params=(X, COND)),
        "a body is a Var, not a SeqExpr",
    ),
    "in dataflow": (
        main(dataflow((B, If(COND, SeqExpr((), X), SeqExpr((), X), struct_info=INFO))), params=(X, COND)),
        "b is a conditional inside a dataflow block",
    ),
    "branch value": (
        main(plain((B, If(COND, BRANCH_A, SeqExpr((), X), struct_info=INFO))), params=(X, COND), result=A),
        "the result reads a, which is not visible there",
    ),
    "missing function": (
        main(plain((A, Call(GlobalVar("f"), [X], struct_info=INFO)))),
        "a calls f, which the module does not have",
    ),
    "impure": (main(plain((A, LOG))), "is marked pure but calls something with side effects"),
    "nested callee": (
        main(plain((A, Call(TupleGetItem(Tuple((X,)), 0), [X], struct_info=INFO)))),
        "the callee of a is a nested TupleGetItem",
    ),
    "function callee": (
        main(plain((A, Call(Function([B], SeqExpr((), UNBOUND), INFO), [X], struct_info=INFO)))),
        "main.a: the result reads free, which is not visible there",
    ),
    "impure dataflow": (
        IRModule({"main": Function([X], SeqExpr((dataflow((A, LOG)),), A), INFO, is_pure=False)}),
        "a has side effects inside a dataflow block",
    ),
    "cast": (main(BindingBlock((MatchCast(B, A, INFO),))), "b reads a, which is not visible there"),
}


@pytest.mark.parametrize("case", ILL_FORMED)
def test_ill_formed(case: str):
    mod, sentence = ILL_FORMED[case]
    assert problems_of(mod) == [sentence if sentence.startswith("main.") else f"main: {sentence}"]
    assert not well_formed(mod)


def test_a_symbol_that_is_not_the_name():
    assert problems_of(main(attrs={"global_symbol": "other"})) == ["main has another global_symbol: other"]


def test_problems_in_local_functions_name_the_path():
    p, f = var("p"), Var("f")
    inner = Function([p], SeqExpr((), A), INFO)
    mod = main(plain((Var("f", inner.struct_info), inner)), result=X)
    assert problems_of(mod) == ["main.f: the result reads a, which is not visible there"]
    assert problems_of(main(plain((f, inner)), result=X))[-1] == "main: f has no struct info"


def test_variables_of_a_local_function_do_not_leak():
    p = var("p")
    inner = Function([p], SeqExpr((), p), INFO)
    assert problems_of(main(plain((Var("f", inner.struct_info), inner)), result=p)) == [
        "main: the result reads p, which is not visible there"
    ]


def test_a_variable_belongs_to_one_function():
    twice = Function([X], SeqExpr((), X), INFO)
    assert problems_of(IRModule({"f": twice, "g": twice})) == ["g: x is bound twice"]


def test_capture_and_use_after_a_block_are_fine():
    p, out = var("p"), var("out")
    inner = Function([p], SeqExpr((plain((B, op.add(p, A))),), B), INFO)
    f = Var("f", inner.struct_info)
    mod = main(
        dataflow((LV, op.exp(X)), (A, op.sin(LV))),
        plain((f, inner), (out, Call(f, [A], struct_info=INFO))),
        result=Tuple((out, Tuple((A, X)))),
    )
    assert problems_of(mod) == []


def test_struct_info_may_be_left_unchecked():
    mod = main(plain((UNKNOWN, op.exp(X))))
    assert well_formed(mod, check_struct_info=False)
    assert not well_formed(mod)


def test_a_function_alone_need_not_know_the_module():
    function = main(plain((A, Call(GlobalVar("f"), [X], struct_info=INFO))), attrs=None)["main"]
    assert problems_of(function) == []


def test_impure_functions_may_call_anything():
    function = Function([X], SeqExpr((plain((A, LOG)),), A), INFO, is_pure=False)
    assert problems_of(function) == []


def test_builders_and_normalize_make_well_formed_modules():
    assert problems_of(graph({"x": (2,)}, lambda bb, x: [op.exp(op.sin(x)), x])) == []
    assert problems_of(Normalize()(ILL_FORMED["nested call"][0])) == []


def test_verify_names_the_pass_and_lists_every_problem():
    mod = main(plain((A, op.exp(B))), result=LV)
    with pytest.raises(WellFormedError) as error:
        verify(mod, "Tidy")
    assert str(error.value) == (
        "error[V0100]: pass Tidy made an ill-formed module: "
        "main: an argument of a reads b, which is not visible there\n"
        "  = note: main: the result reads lv, which is not visible there"
    )


def test_a_context_that_verifies_catches_the_pass():
    @module_pass(opt_level=0)
    def spoil(mod, ctx):
        return main(result=A)

    with PassContext(verify=True), pytest.raises(WellFormedError, match="pass spoil made an ill-formed module"):
        spoil(main())
    with PassContext():
        assert not well_formed(spoil(main()))
