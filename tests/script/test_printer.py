"""The text form of every kind of statement, expression and annotation; the same text each time."""

from __future__ import annotations

import ast

import numpy as np
import pytest

from eutectic.ir.dtype import KNOWN
from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.span import Span
from eutectic.relax import (
    BindingBlock,
    BlockBuilder,
    Call,
    DataTypeImm,
    ExternFunc,
    FuncStructInfo,
    Function,
    If,
    ObjectStructInfo,
    PrimStructInfo,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    ShapeStructInfo,
    StringImm,
    TensorStructInfo,
    Tuple,
    TupleGetItem,
    TupleStructInfo,
    Var,
    VarBinding,
    call_dps_packed,
    call_pure_packed,
    call_tir,
    const,
    op,
)
from eutectic.script import print_text
from eutectic.testing.graphs import graph, weights
from eutectic.tir import FloatImm, IntImm
from eutectic.tir import Var as SizeSymbol

N, M = SizeSymbol("n", "int64"), SizeSymbol("m", "int64")
INFO, BOOL = TensorStructInfo((2,)), TensorStructInfo((), "bool")


def plain(*pairs) -> BindingBlock:
    return BindingBlock(tuple(VarBinding(v, value) for v, value in pairs))


def function(params, *blocks, result, **options) -> Function:
    return Function(params, SeqExpr(blocks, result), **options)


def text_of(mod, **options) -> str:
    """The text; printing again gives the same, and it is Python."""
    text = mod.script(**options)
    assert mod.script(**options) == text
    ast.parse(text)
    return text


# ---- modules and functions


def test_functions_public_private_and_impure(golden):
    x = [Var("x", INFO) for _ in range(4)]
    log = Call(ExternFunc("log"), [x[2]], None, [INFO], struct_info=INFO)
    mod = IRModule(
        {
            "main": function(
                x[:1],
                plain((y := Var("y", INFO), Call(GlobalVar("helper"), [x[0]], struct_info=INFO))),
                result=y,
                attrs={"global_symbol": "main", "num_input": 1},
            ),
            "helper": function([x[1]], result=x[1]),
            "effect": function(
                [x[2]], plain((Var("_", INFO), log)), result=x[2], is_pure=False, attrs={"global_symbol": "effect"}
            ),
            "both": function([x[3]], result=x[3], is_pure=False),
        },
        attrs={"version": 3},
        global_infos={"vdevice": ["llvm", "cuda"]},
    )
    golden(text_of(mod))
    golden(text_of(mod, module_alias="Module"), part="alias")


def test_an_empty_module(golden):
    golden(text_of(IRModule()))


def test_a_function_alone(golden):
    golden(print_text(graph({"x": (2,)}, lambda bb, x: op.exp(x))["main"]), part="by-symbol")
    golden(print_text(function([x := Var("x", INFO)], result=x), name="other"), part="by-name")


def test_tuples_as_parameters_and_results(golden):
    pair = TupleStructInfo((INFO, TupleStructInfo((INFO,))))
    p, a, b = Var("p", pair), Var("a", INFO), Var("b", pair)
    block = plain((a, TupleGetItem(p, 0)), (b, Tuple((a, Tuple((a,))))))
    result = Tuple((b, Tuple(()), a))
    golden(text_of(IRModule({"main": function([p], block, result=result, attrs={"global_symbol": "main"})})))


def test_symbolic_sizes(golden):
    def body(bb, x, y):
        cast = bb.match_cast(y, TensorStructInfo((M, 4)))
        flat = bb.emit(op.reshape(cast, (M * 4,)))
        return [op.concat([x, flat], axis=0), op.broadcast_to(const(1.0), (N, (N + 1) // 2))]

    golden(text_of(graph({"x": (N,), "y": (SizeSymbol("k", "int64"), 4)}, body)))


def test_symbols_of_one_name_stay_apart(golden):
    other = SizeSymbol("n", "int64")
    golden(text_of(graph({"n": (N,), "y": (other,)}, lambda bb, x, y: op.concat([x, y], axis=0))))


def test_conditionals_and_local_functions(golden):
    x, c, p = Var("x", INFO), Var("c", BOOL), Var("p", INFO)
    a, b, q, r, out = (Var(name, INFO) for name in "abqro")
    local = function([p], plain((q, op.add(p, x))), result=q)
    inner = If(c, SeqExpr((), x), SeqExpr((plain((a, op.exp(x))),), a), struct_info=INFO)
    block = plain(
        (f := Var("f", local.struct_info), local),
        (r, If(c, SeqExpr((plain((b, inner)),), b), SeqExpr((), const([1.0, 2.0])), struct_info=INFO)),
        (out, Call(f, [r], struct_info=INFO)),
    )
    golden(text_of(IRModule({"main": function([x, c], block, result=out, attrs={"global_symbol": "main"})})))


def test_dataflow_blocks_between_plain_bindings(golden):
    bb, x = BlockBuilder(), Var("x", INFO)
    with bb.function("main", [x]):
        before = bb.emit(op.exp(x))
        with bb.dataflow():
            inside = bb.emit(op.sin(before))
            first, second = bb.emit_output(op.cos(inside)), bb.emit_output(op.tan(inside))
        bb.emit_func_output(bb.emit(op.add(first, second)))
    golden(text_of(bb.get()))


def test_calls_of_everything_that_can_be_called(golden):
    def body(bb, x):
        bb.emit(call_dps_packed("lib.f", [x, x], INFO))
        bb.emit(call_dps_packed("lib.g", x, [INFO, BOOL]))
        bb.emit(call_pure_packed("lib.h", x, const(1.0), sinfo_args=INFO))
        bb.emit(call_tir(GlobalVar("kernel"), x, INFO, tir_vars=[2, 3]))
        bb.emit(op.concat([x, x], axis=-1))
        bb.emit(op.nn.conv2d(const(np.zeros((1, 3, 4, 4), "float32")), weights(2, 3, 3, 3), padding=1))
        return bb.emit(op.split(x, 2))[0]

    golden(text_of(graph({"x": (2,)}, body)))


# ---- expressions and annotations


EXPRESSIONS = {
    "int": PrimValue(3),
    "int32": PrimValue(IntImm("int32", 3)),
    "true": PrimValue(True),
    "float": PrimValue(0.1),
    "float64": PrimValue(FloatImm("float64", 1e-300)),
    "infinity": PrimValue(float("inf")),
    "minus-infinity": PrimValue(float("-inf")),
    "nan": PrimValue(float("nan")),
    "size": PrimValue(N * 2 - (M + 1)),
    "quotient": PrimValue(N // (M * 2) % 3),
    "string": StringImm('say "hi"\n\\'),
    "dtype": DataTypeImm("int8"),
    "shape": ShapeExpr((N, 3)),
    "empty-shape": ShapeExpr(()),
    "extern": ExternFunc("a.b"),
    "global": GlobalVar("f"),
    "const-int": const(3),
    "const-bool": const(True),
    "const-float": const(-0.0),
    "const-infinity": const(float("inf")),
    "const-nan": const(float("nan")),
    "const-half": const(1.5, "float16"),
    "const-bfloat16": const(1.5, "bfloat16"),
    "const-int64": const(2**40, "int64"),
    "const-uint8": const(255, "uint8"),
    "tensor": const([1.0, 2.0]),
    "tuple": Tuple((const(1.0),)),
    "field": TupleGetItem(Tuple((const(1.0), const(2.0))), 1),
}


def test_expressions(golden):
    golden("\n".join(f"{name}: {print_text(value).splitlines()[0]}" for name, value in EXPRESSIONS.items()))


INFOS = (
    INFO,
    TensorStructInfo((), "int8"),
    TensorStructInfo((N, 2, N + 1), "float16"),
    TensorStructInfo(None, "float32"),
    TensorStructInfo(None, "", None, 3),
    TensorStructInfo(None, ""),
    TensorStructInfo((2,), "float32", "llvm:0"),
    TensorStructInfo(Var("s", ShapeStructInfo(None, 2)), "float32"),
    ShapeStructInfo((N, 4)),
    ShapeStructInfo(None, 2),
    PrimStructInfo("int64"),
    PrimStructInfo(value=N),
    ObjectStructInfo(),
    TupleStructInfo(()),
    TupleStructInfo((INFO, TupleStructInfo((ShapeStructInfo(None, -1),)))),
    FuncStructInfo((INFO,), BOOL, purity=False),
    FuncStructInfo.opaque_func(ret=INFO),
)


def test_annotations(golden):
    golden("\n".join(print_text(info) for info in INFOS))


def test_nodes_that_are_no_programs(golden):
    call = op.nn.softmax(Var("x", INFO), axis=-1)
    items = (
        call,
        call.attrs,
        VarBinding(Var("v", INFO), call),
        call.op,
        GlobalVar("f"),
        N + 1,
        Span("net.py", 3, 4, 5),
    )
    golden("\n".join(print_text(item) for item in items))


# ---- constants


def test_large_constants_are_listed_on_request(golden):
    shared = weights(2, 3)

    def body(bb, x):
        first = bb.emit(op.add(x, shared))
        return op.multiply(op.subtract(first, shared), const(np.zeros((1, 3), "float32")))

    mod = graph({"x": (2, 3)}, body)
    golden(text_of(mod), part="omitted")
    golden(text_of(mod, show_meta=True), part="shown")


# ---- names and attributes


HOSTILE = [
    "class",
    "None",
    "R",
    "T",
    "I",
    "cls",
    "metadata",
    "Module",
    "a.b",
    "3d",
    "",
    "x y",
    "é",
    "lv\n",
    '"',
    "x",
    "x",
    "x_1",
]


def test_hostile_names_become_distinct_identifiers(golden):
    params = [Var(name, INFO) for name in HOSTILE]
    text = text_of(IRModule({"main": function(params, result=Tuple(tuple(params)), attrs={"global_symbol": "main"})}))
    (main,) = next(n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.ClassDef)).body
    names = [arg.arg for arg in main.args.args]
    assert len(set(names)) == len(HOSTILE)
    golden(text)


def test_functions_with_hostile_names_stay_apart(golden):
    def calling(*names: str) -> Function:
        x = Var("x", INFO)
        outs = [Var("y", INFO) for _ in names]
        block = plain(*((v, Call(GlobalVar(n), [x], struct_info=INFO)) for v, n in zip(outs, names, strict=True)))
        return function([x], block, result=outs[-1], attrs={"global_symbol": "main"})

    def leaf(symbol: str) -> Function:
        return function([x := Var("x", INFO)], result=x, attrs={"global_symbol": symbol})

    mod = IRModule({"a-b": leaf("a-b"), "a_b": leaf("a_b"), "def": leaf("def"), "main": calling("a-b", "a_b", "def")})
    golden(text_of(mod))


def test_attributes_with_nested_values(golden):
    attrs = {
        "global_symbol": "another",
        "flag": True,
        "nothing": None,
        "number": 0.5,
        "infinite": float("inf"),
        "text": 'it\'s "quoted"\n',
        "list": [1, (2, "a"), []],
        "table": {"key with space": {"deep": [False]}, "size": N + 1},
        "node": op.nn.softmax(Var("x", INFO), axis=0).attrs,
        "array": np.zeros((2, 2), "int8"),
        "info": INFO,
        "thing": object,
    }
    golden(text_of(IRModule({"main": function([x := Var("x", INFO)], result=x, attrs=attrs)})))


@pytest.mark.parametrize(
    "text", ["", "plain", 'a"b', "a'b", "both ' and \"", "back\\slash", "new\nline", "é\x00", '\\"']
)
def test_strings_read_back(text: str):
    (line,) = print_text(StringImm(text)).splitlines()
    assert ast.literal_eval(line.removeprefix("R.str(").removesuffix(")")) == text


@pytest.mark.parametrize("value", [0.0, -0.0, 0.1, 1e-45, 3.4e38, 1e16])
def test_floats_read_back(value: float):
    text = print_text(PrimValue(value))
    assert np.float64(ast.literal_eval(text.removeprefix("R.prim_value(T.float32(").removesuffix("))"))) == value


# ---- what is asked of every module


def test_equal_programs_print_equally():
    def build():
        return graph({"x": (1, 3, 8, 8)}, lambda bb, x: op.nn.relu(op.nn.conv2d(x, weights(4, 3, 3, 3))))

    assert build().script() == build().script()


def test_show_prints_the_text(capsys):
    mod = graph({"x": (2,)}, lambda bb, x: op.exp(x))
    mod.show(style="plain")
    assert capsys.readouterr().out == mod.script() + "\n"
    assert repr(mod) == mod.script()


def test_constants_of_every_dtype_are_printed():
    for dtype in sorted(KNOWN):
        assert print_text(const(1, dtype)).endswith(f', "{dtype}")')
