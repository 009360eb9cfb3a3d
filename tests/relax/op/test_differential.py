"""Every operator's reference computes what torch computes, and exactly the shape and dtype that inference says."""

from __future__ import annotations

import pytest
import tests.relax.op.cases_elementwise
import tests.relax.op.cases_nn
import tests.relax.op.cases_places
import tests.relax.op.cases_quantized
import tests.relax.op.cases_shape  # noqa: F401  # the modules register their cases when imported
from hypothesis import given
from hypothesis import strategies as st
from tests.relax.op.oracle import CASES, Feeds, run

from eutectic.relax import op
from eutectic.relax.op.registry import all_ops

# Calls of functions: whoever executes the program runs the function; they have no reference of their own.
CALLS = {
    "relax.call_tir",
    "relax.call_tir_inplace",
    "relax.call_dps_packed",
    "relax.call_pure_packed",
    "relax.call_eager",
    "relax.call_tir_with_grad",
    "relax.call_inplace_packed",
}
# What has no tensor of a known shape as its result; tests/relax/op/test_effects.py, test_search.py.
OTHERS = {
    "relax.map_batch",
    "relax.print",
    "relax.assert_op",
    "relax.make_closure",
    "relax.invoke_closure",
    "relax.invoke_pure_closure",
    "relax.null_value",
    "relax.nonzero",
    "relax.dynamic_strided_slice",
    "relax.unique",
}


@pytest.mark.parametrize("name", sorted(CASES))
@given(data=st.data())
def test_reference_agrees_with_torch(name: str, data: st.DataObject):
    case = CASES[name](Feeds(data.draw))
    assert case.call.op.name == name
    run(case)


def test_every_operator_is_complete_and_tested():
    for name, definition in all_ops().items():
        assert definition.infer_fn is not None, f"{name} has no inference"
        assert definition.reference_fn is not None or name in CALLS, f"{name} has no reference"
    assert set(CASES) == set(all_ops()) - CALLS - OTHERS


@pytest.mark.parametrize("name", sorted(set(all_ops()) - {"relax.nn.attention_bias"}))
def test_every_operator_has_a_constructor_of_its_name(name: str):
    space: object = op
    for part in name.split(".")[1:]:
        space = getattr(space, part)
    assert callable(space)
    assert "Returns:" in (space.__doc__ or "")
