"""IRModule, attributes and the operator registry."""

from __future__ import annotations

import pytest

from eutectic.ir.attrs import make_attrs
from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.op import Op, register_op_attr
from eutectic.relax import op
from eutectic.testing.graphs import graph


def relu():
    return graph({"x": (2,)}, lambda bb, x: op.nn.relu(x))


def test_functions_are_found_by_name_and_by_variable():
    mod = relu()
    assert mod["main"] is mod[mod.get_global_var("main")]
    assert "main" in mod
    assert "other" not in mod
    with pytest.raises(ValueError, match=r"no function 'mian' in the module; it has: main; did you mean main\?"):
        mod["mian"]


def test_functions_are_added_replaced_and_removed():
    mod = relu()
    copy = mod.clone()
    copy["second"] = mod["main"]
    copy.update({"third": mod["main"]})
    assert [gv.name_hint for gv in copy.get_global_vars()] == ["main", "second", "third"]
    del copy["second"]
    assert "second" not in copy
    assert len(mod) == 1


def test_two_variables_of_one_name_are_different_objects():
    assert GlobalVar("f") is not GlobalVar("f")
    call = GlobalVar("f")(relu()["main"].params[0])
    assert call.op.name_hint == "f"


def test_a_module_of_one_function():
    assert [gv.name_hint for gv in IRModule.from_expr(relu()["main"]).get_global_vars()] == ["main"]


def test_function_attributes_make_new_functions():
    function = relu()["main"]
    changed = function.with_attr("Primitive", True).with_attr({"Composite": "a.b"})
    assert changed.attrs["Primitive"] is True
    assert changed.attrs["Composite"] == "a.b"
    assert "Primitive" not in function.attrs
    assert "Primitive" not in changed.without_attr("Primitive").attrs
    assert changed.attrs.keys() == sorted(changed.attrs.keys())


def test_attributes_do_not_depend_on_order():
    from eutectic.ir.structural import structural_equal

    assert structural_equal(make_attrs({"a": 1, "b": [1, 2]}), make_attrs({"b": (1, 2), "a": 1}))


def test_operators_are_unique_and_unknown_ones_are_named():
    assert Op.get("relax.add") is Op.get("relax.add")
    with pytest.raises(AttributeError, match=r"Operator relax.ad is not registered; did you mean relax.add"):
        Op.get("relax.ad")
    register_op_attr("relax.add", "test.note", 3)
    assert Op.get("relax.add").get_attr("test.note") == 3
    assert "relax.add" in Op.list_op_names()
