"""Every operator's tensor program computes what its NumPy reference computes: same shape, dtype, NaN and values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tests.relax.op.cases_elementwise
import tests.relax.op.cases_nn
import tests.relax.op.cases_places
import tests.relax.op.cases_quantized
import tests.relax.op.cases_shape  # noqa: F401  # the modules register their cases when imported
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.relax.op.oracle import CASES, Case, Feeds

from eutectic.ir.dtype import from_numpy, is_float
from eutectic.ir.module import IRModule
from eutectic.ir.op import Op
from eutectic.ir.visit import post_order
from eutectic.relax.analysis import well_formed
from eutectic.relax.block_builder import BlockBuilder
from eutectic.relax.expr import Call
from eutectic.relax.interpret import Interpreter
from eutectic.relax.op.registry import all_ops
from eutectic.relax.transform import LegalizeOps
from eutectic.tir.function import PrimFunc

_A_CALL = "is the call of a program already"
WITHOUT_PROGRAM = {
    "relax.call_tir": _A_CALL,
    "relax.call_tir_inplace": _A_CALL,
    "relax.call_dps_packed": _A_CALL,
    "relax.call_pure_packed": _A_CALL,
    "relax.map_batch": "is calls of a function of the graph",
    "relax.call_eager": "is left to torch",
    "relax.shape_of": "gives a shape, which is no tensor",
    "relax.tensor_to_shape": "gives a shape, which is no tensor",
    "relax.call_inplace_packed": _A_CALL,
    **dict.fromkeys(
        (
            *("relax.nonzero", "relax.unique"),
            *("relax.gather_nd", "relax.index_tensor", "relax.dynamic_strided_slice"),
            *("relax.scatter_elements", "relax.index_put", "relax.slice_scatter"),
        ),
        "is computed by the runtime in NumPy: its data decides where it reads or writes",
    ),
    "relax.to_vdevice": "is about where a value lives, which its type says",
    **dict.fromkeys(("relax.print", "relax.assert_op"), "is there for what it does"),
    **dict.fromkeys(
        ("relax.make_closure", "relax.invoke_closure", "relax.invoke_pure_closure", "relax.null_value"),
        "is about values that are no tensors",
    ),
    "relax.builtin.alloc_tensor": "gives memory, whose contents nobody computes",
}

# dtype -> (relative, absolute) tolerance: one rounding of narrow floats, some of wide ones.
TOLERANCES = {"float16": (1e-3, 1e-3), "bfloat16": (8e-3, 8e-3), "float32": (1e-5, 1e-5), "float64": (1e-12, 1e-12)}
# Summing in another order, or in float32 where the reference takes float64.
SLACK = {"relax.variance": 4, "relax.std": 10, "relax.prod": 4, "relax.nn.attention_var_len": 4}
EXAMPLES = max(8, settings().max_examples // 5)  # the interpreter of tensor programs is slow


def module_of(case: Case) -> IRModule:
    bb = BlockBuilder()
    with bb.function("main", list(case.feeds)):
        with bb.dataflow():
            out = bb.emit_output(bb.emit(case.call))
        bb.emit_func_output(out)
    return bb.finalize()


def operators(mod: IRModule) -> set[str]:
    found = {part.op.name for part in post_order(mod["main"]) if isinstance(part, Call) and isinstance(part.op, Op)}
    return found - {"relax.call_tir"}


def flat(value: Any) -> list[np.ndarray]:
    return [item for part in value for item in flat(part)] if isinstance(value, tuple) else [value]


def close(got: np.ndarray, want: np.ndarray, slack: float) -> None:
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    dtype = from_numpy(got.dtype)
    if not is_float(dtype):
        np.testing.assert_array_equal(got, want)
        return
    relative, absolute = TOLERANCES[dtype]
    a, b = got.astype(np.float64), want.astype(np.float64)
    np.testing.assert_allclose(a, b, rtol=relative * slack, atol=absolute * slack)


@pytest.mark.parametrize("name", sorted(set(CASES) - set(WITHOUT_PROGRAM)))
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_program_agrees_with_reference(name: str, data: st.DataObject):
    case = CASES[name](Feeds(data.draw))
    before = module_of(case)
    after = LegalizeOps()(before)
    assert well_formed(after)
    assert operators(after) == set()
    assert after["main"].struct_info == before["main"].struct_info
    arrays = [np.asarray(value) for value in case.feeds.values()]
    want, got = (flat(Interpreter(mod).run("main", *arrays)) for mod in (before, after))
    assert len(want) == len(got)
    for a, b in zip(got, want, strict=True):
        close(a, b, SLACK.get(name, 1) * case.slack)


@pytest.mark.parametrize("name", sorted(all_ops()))
def test_every_operator_has_a_program_or_a_reason(name: str):
    assert (all_ops()[name].legalize_fn is None) == (name in WITHOUT_PROGRAM)


def test_programs_are_named_after_their_operators():
    names = {}
    for name in (
        "relax.add",
        "relax.nn.relu",
        "relax.matmul",
        "relax.permute_dims",
        "relax.nn.softmax",
        "relax.concat",
    ):
        case = _drawn(name)
        after = LegalizeOps()(module_of(case))
        names[name] = [gv.name_hint for gv, f in after.functions_items() if isinstance(f, PrimFunc)]
    assert names == {
        "relax.add": ["add"],
        "relax.nn.relu": ["relu"],
        "relax.matmul": ["matmul"],
        "relax.permute_dims": ["transpose"],
        "relax.nn.softmax": ["softmax"],
        "relax.concat": ["concatenate"],
    }


def _drawn(name: str) -> Case:
    found: list[Case] = []

    @settings(max_examples=1)
    @given(data=st.data())
    def draw(data: st.DataObject) -> None:
        found.append(CASES[name](Feeds(data.draw)))

    draw()
    return found[0]
