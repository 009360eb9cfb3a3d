"""AllocateWorkspace: a parameter for who needs scratch memory, an allocation in each caller."""

from __future__ import annotations

import numpy as np
import pytest
from tests.backend.library_graphs import attention, stacked

from eutectic.backend.cutlass.partition import partition_for_cutlass
from eutectic.backend.workspace import AnnotateWorkspace, attention_bytes
from eutectic.ir.structural import structural_equal
from eutectic.relax import BlockBuilder, Var, op
from eutectic.relax.analysis import problems_of
from eutectic.relax.dpl.table import get_patterns_with_prefix
from eutectic.relax.expr import Call, If
from eutectic.relax.interpret import Interpreter
from eutectic.relax.struct_info import tensor
from eutectic.relax.transform import AllocateWorkspace, FuseOpsByPattern
from eutectic.testing.graphs import assert_same_results, graph

SHAPE = (2, 6, 4, 8)


def annotated(mod, size: int | None = 65536):
    """Attention outlined for CUTLASS, with a workspace of the given size."""
    table = get_patterns_with_prefix("cutlass.attention")
    fused = FuseOpsByPattern(table, bind_constants=False, annotate_codegen=True)(mod)
    size_of = attention_bytes if size is None else lambda call: size
    return AnnotateWorkspace("cutlass", ("cutlass.attention",), size_of)(fused)


def two_attentions():
    def body(bb, q, k, v, wide):
        first = bb.emit(op.nn.attention(q, k, v))
        second = bb.emit(op.nn.attention(first, k, v))
        return op.add(second, wide)

    return graph(dict.fromkeys(("q", "k", "v", "wide"), (SHAPE, "float32")), body)


def regions(mod):
    return [f for f in mod.functions.values() if f.attr("Codegen")]


def allocations(function):
    calls = [b.value for block in function.body.blocks for b in block.bindings if isinstance(b.value, Call)]
    return [call for call in calls if getattr(call.op, "name", "") == "relax.builtin.alloc_tensor"]


def test_one_attention():
    mod = attention(dtype="float32")
    after = AllocateWorkspace()(annotated(mod))
    assert problems_of(after) == []
    assert_same_results(mod, after)
    (region,) = regions(after)
    assert [p.name_hint for p in region.params] == ["q", "k", "v", "workspace"]
    assert region.params[-1].struct_info == tensor((65536,), "uint8")
    allocation, call = after["main"].body.blocks[0].bindings
    assert allocation.var.name_hint == "workspace_main"
    assert call.value.args[-1] is allocation.var


def test_calls_share_one_workspace_of_the_largest_size():
    mod = two_attentions()
    after = AllocateWorkspace()(annotated(mod))
    (allocation,) = allocations(after["main"])
    assert allocation.struct_info.static_shape == (65536,)
    assert problems_of(after) == []
    assert_same_results(mod, after)


def test_the_size_is_that_of_the_result_in_float32():
    after = AllocateWorkspace()(annotated(attention(), None))
    (region,) = regions(after)
    assert region.attr("WorkspaceSize") == 2 * 6 * 4 * 8 * 4 == region.params[-1].struct_info.static_shape[0]


@pytest.mark.parametrize("features", [1, 3])
def test_sizes_are_whole_multiples_of_what_devices_align_to(features):
    (region,) = regions(annotated(attention(features=features), None))
    assert region.attr("WorkspaceSize") % 256 == 0
    assert 0 <= region.attr("WorkspaceSize") - 2 * 6 * 4 * features * 4 < 256


def test_the_composite_is_handed_the_workspace():
    (region,) = regions(AllocateWorkspace()(annotated(attention())))
    local, output = region.body.blocks[0].bindings
    assert local.value.params[-1].struct_info == region.params[-1].struct_info
    assert output.value.args[-1] is region.params[-1]


def test_every_caller_allocates():
    fused = annotated(two_attentions())
    both = fused.clone()
    both["again"] = fused["main"].without_attr("global_symbol")
    after = AllocateWorkspace()(both)
    assert [len(allocations(after[name])) for name in ("main", "again")] == [1, 1]


def test_branches_allocate_for_themselves():
    inner = annotated(attention(dtype="float32"))
    (gv,) = [gv for gv, f in inner.functions_items() if f.attr("Codegen")]
    bb = BlockBuilder(inner)
    q, flag = Var("q", tensor(SHAPE, "float32")), Var("flag", tensor((), "bool"))
    with bb.function("branches", [flag, q]):
        call = bb.normalize(Call(gv, (q, q, q)))
        bb.emit_func_output(bb.emit(If(flag, call, call)))
    after = AllocateWorkspace()(bb.get())
    assert problems_of(after) == []
    (branches,) = [b.value for block in after["branches"].body.blocks for b in block.bindings]
    for branch in (branches.true_branch, branches.false_branch):
        first = branch.blocks[0].bindings[0].value
        assert getattr(first.op, "name", "") == "relax.builtin.alloc_tensor"
    x = np.ones(SHAPE, np.float32)
    np.testing.assert_allclose(Interpreter(after).run("branches", np.asarray(True), x), x, rtol=1e-6)


def test_nothing_to_allocate_and_a_second_run_change_nothing():
    mod = two_attentions()
    assert AllocateWorkspace()(mod) is mod
    plain = annotated(mod, 0)
    assert AllocateWorkspace()(plain) is plain
    once = AllocateWorkspace()(annotated(mod))
    assert AllocateWorkspace()(once) is once


def test_the_input_is_not_changed():
    fused = annotated(two_attentions())
    text = fused.script()
    AllocateWorkspace()(fused)
    assert fused.script() == text


def test_two_runs_give_equal_modules():
    assert structural_equal(
        AllocateWorkspace()(annotated(stacked("split"))), AllocateWorkspace()(annotated(stacked("split")))
    )
    assert structural_equal(partition_for_cutlass(attention()), partition_for_cutlass(attention()))
