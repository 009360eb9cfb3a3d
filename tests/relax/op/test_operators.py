"""Python's operators on expressions build calls; constructors rebuild a call from its own arguments and attributes."""

from __future__ import annotations

import numpy as np
import pytest
import tests.relax.op.cases_elementwise
import tests.relax.op.cases_nn
import tests.relax.op.cases_quantized
import tests.relax.op.cases_shape  # noqa: F401  # the modules register their cases when imported
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.relax.op.oracle import CASES, Feeds, evaluate, symbolic

from eutectic.ir.module import GlobalVar
from eutectic.ir.structural import structural_equal
from eutectic.relax import op
from eutectic.relax.expr import Call, Constant, ExternFunc, Tuple, TupleGetItem, Var
from eutectic.relax.struct_info import ObjectStructInfo, TensorStructInfo, TupleStructInfo
from eutectic.support.errors import TypeInferenceError

x, y = symbolic(2, 3, name="x"), symbolic(3, name="y")
pair = Var("p", TupleStructInfo((x.struct_info, y.struct_info)))


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (x + y, "add"),
        (x - y, "subtract"),
        (x * y, "multiply"),
        (x / y, "divide"),
        (x // y, "floor_divide"),
        (x % y, "floor_mod"),
        (x**y, "power"),
        (x < y, "less"),
        (x <= y, "less_equal"),
        (x > y, "greater"),
        (x >= y, "greater_equal"),
        (-x, "negative"),
        (x.astype("int32"), "astype"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_operators_build_calls(made: Call, name: str):
    assert made.op.name == f"relax.{name}"


def test_numbers_become_constants_of_the_tensors_dtype_on_either_side():
    half = symbolic(2, dtype="float16")
    for made, place in ((half + 1, 1), (1 - half, 0), (2.5 / half, 0), (half > 0, 1)):
        constant = made.args[place]
        assert isinstance(constant, Constant)
        assert constant.data.dtype == np.float16


def test_equality_is_identity():
    assert x == x
    assert (x == y) is False


def test_tuples_are_indexed_and_unpacked():
    assert isinstance(pair[1], TupleGetItem)
    assert pair[-1].index == 1
    first, second = pair
    assert (first.struct_info, second.struct_info) == (x.struct_info, y.struct_info)
    assert Tuple((x, y))[0] is x
    with pytest.raises(IndexError):
        pair[2]
    with pytest.raises(TypeInferenceError, match="only tuples can be indexed"):
        x[0]
    with pytest.raises(TypeError):
        x + "1"


def test_unpacking_an_unknown_tuple_ends():
    with pytest.raises(IndexError):
        Var("t")[1 << 16]


def test_function_values_are_called():
    made = Var("f", ObjectStructInfo())(x)
    assert isinstance(made, Call)
    assert made.args == (x,)


def test_call_tir_states_its_result():
    gvar = GlobalVar("f")
    made = op.call_tir(gvar, x, x.struct_info)
    assert made.struct_info == x.struct_info
    assert isinstance(made.args[1], Tuple)
    many = op.call_tir(gvar, (x, y), [x.struct_info, y.struct_info], tir_vars=[3])
    assert isinstance(many.struct_info, TupleStructInfo)
    assert len(many.args) == 3
    assert op.call_tir_inplace(gvar, [x], [0], x.struct_info).attrs.inplace_indices == (0,)


def test_packed_calls_take_names():
    made = op.call_dps_packed("library.add", (x, y), out_sinfo=x.struct_info)
    assert isinstance(made.args[0], ExternFunc)
    assert made.sinfo_args == (x.struct_info,)
    pure = op.call_pure_packed("f", x, y, sinfo_args=TensorStructInfo((2,), "float32"))
    assert len(pure.args) == 3


@pytest.mark.parametrize("name", sorted(set(CASES)))
@settings(max_examples=10)
@given(data=st.data())
def test_constructors_rebuild_calls(name: str, data: st.DataObject):
    """`ctor(*args, **attrs)` is the same call: the text form is parsed this way."""
    call = CASES[name](Feeds(data.draw)).call
    space: object = op
    for part in name.removesuffix("_bias").split(".")[1:]:
        space = getattr(space, part)
    attrs = dict(call.attrs.items()) if call.attrs is not None else {}
    again = space(*call.args, **attrs)
    assert structural_equal(again, call, map_free_vars=True)
    assert again.struct_info == call.struct_info


def test_linear_is_sugar():
    feeds = {symbolic(2, 3): np.ones((2, 3), np.float32), symbolic(4, 3): np.ones((4, 3), np.float32)}
    data, weight = feeds
    out = evaluate(op.linear(data, weight, op.full((4,), 1.0)), feeds)
    np.testing.assert_array_equal(out, np.full((2, 4), 4, np.float32))
