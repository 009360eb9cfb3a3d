"""FuseOpsByPattern and MergeCompositeFunctions: what is fused, what is left alone and why, and that nothing changes."""

from __future__ import annotations

import pytest

from eutectic.ir.structural import structural_equal
from eutectic.ir.transform import PassContext, Sequential
from eutectic.relax import op
from eutectic.relax.analysis import problems_of
from eutectic.relax.dpl import FusionRemark, Refusal, is_op, make_fused_bias_activation_pattern, wildcard
from eutectic.relax.expr import Call, Constant, Function
from eutectic.relax.transform import (
    BindParams,
    FuseConv2dReshapeAddRelu,
    FuseOpsByPattern,
    FusionPattern,
    MergeCompositeFunctions,
    has_leaking_intermediate_variables,
)
from eutectic.support.errors import EutecticAdvice, PassError, PatternError
from eutectic.testing.graphs import assert_same_results, graph, weights

CONV = make_fused_bias_activation_pattern("relax.nn.conv2d")
CONV_RELU = make_fused_bias_activation_pattern("relax.nn.conv2d", activation="relax.nn.relu")
CONV_ADD = is_op("relax.add")(CONV, wildcard())


def names(mod) -> list[str]:
    return [gv.name_hint for gv in mod.get_global_vars()]


def composites(mod) -> list[str]:
    return sorted(str(f.attr("Composite")) for f in mod.functions.values() if f.attr("Composite"))


def fuse(mod, *entries, **options):
    """Fuse with remarks; the result is well formed and computes the same."""
    with PassContext(remarks=True, verify=True) as ctx:
        fused = FuseOpsByPattern(list(entries), **options)(mod)
    assert problems_of(fused) == []
    assert_same_results(mod, fused)
    return fused, ctx.remarks


def missed(remarks: list[FusionRemark]) -> list[str]:
    return [remark.reason for remark in remarks if remark.kind == "missed"]


def conv_relu():
    return graph({"data": (1, 3, 8, 8), "w": (4, 3, 3, 3)}, lambda bb, x, w: op.nn.relu(op.nn.conv2d(x, w, padding=1)))


def two_convs():
    def body(bb, x, w1, w2):
        first = op.nn.relu(op.nn.conv2d(x, w1, padding=1))
        return op.nn.relu(op.nn.conv2d(first, w2))

    return graph({"data": (1, 4, 8, 8), "w1": (4, 4, 3, 3), "w2": (4, 4, 3, 3)}, body)


def test_a_match_becomes_a_composite(golden):
    fused, _ = fuse(conv_relu(), ("dnnl.conv2d_relu", CONV_RELU))
    golden(fused.script())
    assert fused["fused_relax_nn_conv2d_relax_nn_relu"].attrs["Primitive"] is True


def test_the_input_is_not_changed_and_no_patterns_change_nothing():
    mod = conv_relu()
    text = mod.script()
    fuse(mod, ("dnnl.conv2d_relu", CONV_RELU))
    assert mod.script() == text
    assert FuseOpsByPattern([])(mod) is mod
    assert FuseOpsByPattern([("a.tanh", is_op("relax.tanh")(wildcard()))])(mod) is mod


def test_fusing_again_changes_nothing():
    step = FuseOpsByPattern([("dnnl.conv2d_relu", CONV_RELU)])
    once = step(conv_relu())
    assert step(once) is once


def test_constants_stay_inside_or_are_passed():
    mod = graph({"x": (1, 3, 8, 8)}, lambda bb, x: op.nn.relu(op.nn.conv2d(x, weights(4, 3, 3, 3))))
    inside, _ = fuse(mod, ("dnnl.conv2d_relu", CONV_RELU))
    function = inside["fused_relax_nn_conv2d_relax_nn_relu"]
    assert isinstance(function.body.blocks[0].bindings[0].value.args[1], Constant)
    outside, _ = fuse(mod, ("dnnl.conv2d_relu", CONV_RELU), bind_constants=False)
    function = outside["fused_relax_nn_conv2d_relax_nn_relu"]
    assert [p.name_hint for p in function.params] == ["x", "param_0"]


def test_bound_parameters_are_constants_of_the_composite():
    mod = conv_relu()
    bound = Sequential(
        [
            BindParams("main", {"w": weights(4, 3, 3, 3).data}),
            FuseOpsByPattern([("dnnl.conv2d_relu", CONV_RELU)], bind_constants=True),
        ]
    )(mod)
    call = bound["fused_relax_nn_conv2d_relax_nn_relu"].body.blocks[0].bindings[0].value
    assert isinstance(call, Call)
    assert isinstance(call.args[1], Constant)


def test_annotated_composites_are_wrapped_for_their_backend(golden):
    fused, _ = fuse(two_convs(), ("dnnl.conv2d_relu", CONV_RELU), annotate_codegen=True)
    assert names(fused) == [
        "fused_relax_nn_conv2d_relax_nn_relu1_dnnl",
        "fused_relax_nn_conv2d_relax_nn_relu_dnnl",
        "main",
    ]
    golden(fused.script())


def test_equal_groups_share_one_function():
    def body(bb, x, w):
        first = op.nn.relu(op.nn.conv2d(x, w, padding=1))
        return op.nn.relu(op.nn.conv2d(first, w, padding=1))

    mod = graph({"x": (1, 4, 8, 8), "w": (4, 4, 3, 3)}, body)
    for annotate in (False, True):
        fused, _ = fuse(mod, ("dnnl.conv2d_relu", CONV_RELU), annotate_codegen=annotate)
        assert len(fused) == 2


def test_earlier_patterns_win():
    with pytest.warns(EutecticAdvice, match=r"dnnl\.conv2d comes before dnnl\.conv2d_relu"):
        short_first, _ = fuse(two_convs(), ("dnnl.conv2d", CONV), ("dnnl.conv2d_relu", CONV_RELU))
    assert composites(short_first) == ["dnnl.conv2d", "dnnl.conv2d"]
    long_first, _ = fuse(two_convs(), ("dnnl.conv2d_relu", CONV_RELU), ("dnnl.conv2d", CONV))
    assert composites(long_first) == ["dnnl.conv2d_relu", "dnnl.conv2d_relu"]


def test_the_larger_side_of_an_alternative_grows_the_group():
    fused, _ = fuse(conv_relu(), ("dnnl.any", CONV_RELU | CONV))
    assert names(fused) == ["fused_relax_nn_conv2d_relax_nn_relu", "main"]


# ---- what must not be fused


def test_a_value_read_elsewhere_is_not_swallowed():
    def body(bb, x, w):
        conv = bb.emit(op.nn.conv2d(x, w))
        return [op.nn.relu(conv), op.tanh(conv)]

    mod = graph({"x": (1, 3, 8, 8), "w": (4, 3, 3, 3)}, body)
    fused, remarks = fuse(mod, ("dnnl.conv2d_relu", CONV_RELU))
    assert fused is mod
    assert missed(remarks) == ["lv is read elsewhere too"]


def test_a_convolution_shared_by_two_activations_is_not_fused_twice():
    def body(bb, x, w):
        conv = bb.emit(op.nn.conv2d(x, w))
        return op.add(op.nn.relu(conv), op.nn.relu(op.negative(conv)))

    mod = graph({"x": (1, 3, 8, 8), "w": (4, 3, 3, 3)}, body)
    fused, remarks = fuse(mod, ("dnnl.conv2d_relu", CONV_RELU))
    assert fused is mod
    assert missed(remarks) == [
        "lv is read elsewhere too",
        "lv2 (root of the pattern): expected relax.nn.conv2d, found relax.negative",
    ]


def test_several_outputs_are_opt_in():
    def body(bb, x, w):
        conv = bb.emit(op.nn.conv2d(x, w))
        return [op.nn.relu(conv), op.tanh(conv)]

    mod = graph({"x": (1, 3, 8, 8), "w": (4, 3, 3, 3)}, body)
    fused, _ = fuse(mod, ("dnnl.conv2d_relu", CONV_RELU), multiple_outputs=True)
    assert len(fused["fused_relax_nn_conv2d_relax_nn_relu"].ret_struct_info.fields) == 2


@pytest.mark.parametrize("multiple_outputs", [False, True])
def test_a_match_that_would_depend_on_itself_is_skipped(multiple_outputs: bool):
    def body(bb, x, w):
        conv = bb.emit(op.nn.conv2d(x, w))
        return op.add(conv, op.sigmoid(conv))

    mod = graph({"x": (1, 3, 8, 8), "w": (4, 3, 3, 3)}, body)
    fused, remarks = fuse(mod, ("dnnl.conv2d_add", CONV_ADD), multiple_outputs=multiple_outputs)
    assert fused is mod
    expected = "the group would depend on its own result" if multiple_outputs else "lv is read elsewhere too"
    assert missed(remarks) == [expected]


def test_a_cycle_through_another_group_is_seen():
    def body(bb, x, w):
        a = bb.emit(op.nn.conv2d(x, w))
        b = bb.emit(op.nn.relu(a))
        c = bb.emit(op.nn.conv2d(b, w))
        return [op.add(c, b), a]

    mod = graph({"x": (1, 4, 4, 4), "w": (4, 4, 1, 1)}, body)
    fused, _ = fuse(mod, ("x.conv_relu", CONV_RELU), ("x.conv_add", CONV_ADD), multiple_outputs=True)
    assert composites(fused) == ["x.conv_add", "x.conv_relu"]


def test_a_group_is_called_after_everything_it_reads():
    def body(bb, x, w):
        conv = bb.emit(op.nn.conv2d(x, w))
        late = bb.emit(op.tanh(x))
        return op.add(conv, late)

    mod = graph({"x": (1, 4, 4, 4), "w": (4, 4, 1, 1)}, body)
    fused, _ = fuse(mod, ("dnnl.conv2d_add", CONV_ADD))
    assert composites(fused) == ["dnnl.conv2d_add"]


def test_values_outside_dataflow_blocks_are_left_alone():
    from eutectic.relax import BlockBuilder, TensorStructInfo, Var

    bb = BlockBuilder()
    x, w = Var("x", TensorStructInfo((1, 3, 8, 8))), Var("w", TensorStructInfo((4, 3, 3, 3)))
    with bb.function("main", [x, w]):
        conv = bb.emit(op.nn.conv2d(x, w))
        with bb.dataflow():
            out = bb.emit_output(op.nn.relu(conv))
        bb.emit_func_output(out)
    fused, remarks = fuse(bb.get(), ("dnnl.conv2d_relu", CONV_RELU))
    assert fused is bb.get()
    assert missed(remarks) == ["gv is bound outside the dataflow block of gv1"]


def test_a_check_refuses_with_a_reason():
    def check(context):
        assert set(context.annotated_expr) >= {"root"}
        return Refusal("not today")

    entry = FusionPattern("dnnl.conv2d_relu", CONV_RELU, {"root": CONV_RELU}, check)
    mod = conv_relu()
    fused, remarks = fuse(mod, entry)
    assert fused is mod
    assert missed(remarks) == ["not today"]
    assert fuse(mod, FusionPattern("d.x", CONV_RELU, {}, lambda context: False))[0] is mod


def test_the_check_context_tells_bindings_and_users():
    seen = {}

    def check(context):
        seen["bound"] = sorted(var.name_hint for var in context.matched_bindings)
        seen["leaks"] = has_leaking_intermediate_variables(context)
        seen["root"] = context.value_to_bound_var[context.matched_expr].name_hint
        return True

    fuse(conv_relu(), FusionPattern("dnnl.conv2d_relu", CONV_RELU, {}, check))
    assert seen == {"bound": ["gv", "lv"], "leaks": False, "root": "gv"}


def test_attributes_come_from_the_matched_parts():
    conv = is_op("relax.nn.conv2d")(wildcard(), wildcard())
    entry = FusionPattern(
        "d.conv", is_op("relax.nn.relu")(conv), {"conv": conv}, None, lambda found: {"pad": found["conv"].attrs.padding}
    )
    fused, _ = fuse(conv_relu(), entry)
    assert fused["fused_relax_nn_conv2d_relax_nn_relu"].attrs["pad"] == (1, 1, 1, 1)


def test_malformed_entries_are_refused():
    with pytest.raises(PatternError, match="expected a FusionPattern or a tuple"):
        FuseOpsByPattern(["dnnl.conv2d"])
    with pytest.raises(PatternError, match="does not say which backend takes it"):
        FuseOpsByPattern([("conv2d", CONV)], annotate_codegen=True)
    with pytest.raises(PassError, match=r"'mian' is not a graph function of the module; it has: main"):
        FuseOpsByPattern([("d.conv2d", CONV)], entry_functions=["mian"])(conv_relu())


# ---- regions


def test_chains_become_one_region(golden):
    def body(bb, x):
        first = op.nn.relu(op.nn.conv2d(x, weights(4, 4, 3, 3), padding=1))
        return op.nn.relu(op.nn.conv2d(first, weights(4, 4, 1, 1)))

    mod = graph({"x": (1, 4, 4, 4)}, body)
    fused, _ = fuse(mod, ("dnnl.conv2d_relu", CONV_RELU))
    merged = MergeCompositeFunctions()(fused)
    assert problems_of(merged) == []
    assert_same_results(mod, merged)
    golden(merged.script())


def test_a_region_does_not_swallow_what_leaves_and_returns():
    def body(bb, x):
        a = bb.emit(op.nn.relu(op.nn.conv2d(x, weights(4, 4, 1, 1))))
        b = bb.emit(op.tanh(a))
        return op.nn.relu(op.nn.conv2d(op.add(a, b), weights(4, 4, 1, 1, seed=2)))

    mod = graph({"x": (1, 4, 4, 4)}, body)
    add = is_op("relax.add")(wildcard(), wildcard())
    fused, _ = fuse(mod, ("d.conv_relu", CONV_RELU), ("d.add", add))
    merged = MergeCompositeFunctions()(fused)
    assert problems_of(merged) == []
    assert_same_results(mod, merged)
    regions = [f for f in merged.functions.values() if isinstance(f, Function) and f.attr("Codegen")]
    assert len(regions) == 2


def test_regions_of_different_backends_stay_apart():
    def body(bb, x):
        a = bb.emit(op.nn.relu(op.nn.conv2d(x, weights(4, 4, 1, 1))))
        return op.tanh(a)

    mod = graph({"x": (1, 4, 4, 4)}, body)
    fused, _ = fuse(mod, ("a.conv_relu", CONV_RELU), ("b.tanh", is_op("relax.tanh")(wildcard())))
    merged = MergeCompositeFunctions()(fused)
    assert_same_results(mod, merged)
    assert sorted(str(f.attr("Codegen")) for f in merged.functions.values() if f.attr("Codegen")) == ["a", "b"]


def test_a_region_with_several_results_returns_a_tuple():
    def body(bb, x):
        a = bb.emit(op.nn.relu(op.nn.conv2d(x, weights(4, 4, 1, 1))))
        b = bb.emit(op.nn.relu(op.nn.conv2d(a, weights(4, 4, 1, 1, seed=3))))
        return [op.tanh(a), b]

    mod = graph({"x": (1, 4, 4, 4)}, body)
    fused, _ = fuse(mod, ("d.conv_relu", CONV_RELU))
    merged = MergeCompositeFunctions()(fused)
    assert problems_of(merged) == []
    assert_same_results(mod, merged)


def test_composites_connected_through_a_tuple_do_not_make_a_cycle():
    split = is_op("relax.split")(wildcard())
    relu = is_op("relax.nn.relu")(wildcard())
    concat = is_op("relax.concat")(wildcard())

    def body(bb, x):
        parts = bb.emit(op.split(x, 2, axis=1))
        left = bb.emit(op.nn.relu(parts[0]))
        right = bb.emit(op.tanh(parts[1]))
        return op.concat([left, right], axis=1)

    mod = graph({"x": (1, 4, 4, 4)}, body)
    fused, _ = fuse(mod, ("d.split", split), ("d.relu", relu), ("d.concat", concat))
    merged = MergeCompositeFunctions()(fused)
    assert problems_of(merged) == []
    assert_same_results(mod, merged)


# ---- the pass of our own


def torch_style(bias_shape=(1, 4, 1, 1)):
    return graph(
        {"data": (1, 3, 8, 8), "weight": (4, 3, 3, 3), "bias": (4,)},
        lambda bb, x, w, b: op.nn.relu(op.add(op.nn.conv2d(x, w, padding=1), op.reshape(b, bias_shape))),
    )


def test_conv2d_reshape_add_relu_is_one_composite_and_one_region(golden):
    mod = torch_style()
    final = Sequential([FuseConv2dReshapeAddRelu(), MergeCompositeFunctions()])(mod)
    assert problems_of(final) == []
    assert_same_results(mod, final)
    golden(final.script())


def test_a_reshape_along_another_axis_is_left_alone():
    mod = graph(
        {"data": (1, 3, 8, 4), "weight": (4, 3, 3, 3), "bias": (4,)},
        lambda bb, x, w, b: op.nn.relu(op.add(op.nn.conv2d(x, w, padding=1), op.reshape(b, (1, 1, 1, 4)))),
    )
    assert FuseConv2dReshapeAddRelu()(mod) is mod


def test_bias_operand_order_does_not_matter():
    mod = graph(
        {"b": (4,), "x": (1, 3, 8, 8), "w": (4, 3, 3, 3)},
        lambda bb, b, x, w: op.nn.relu(op.add(bb.emit(op.reshape(b, (1, 4, 1, 1))), op.nn.conv2d(x, w))),
    )
    fused = FuseConv2dReshapeAddRelu()(mod)
    assert_same_results(mod, fused)
    (function,) = [f for f in fused.functions.values() if f.attr("Composite")]
    assert [p.name_hint for p in function.params] == ["b", "x", "w"]


def test_two_fused_modules_are_structurally_equal():
    assert structural_equal(FuseConv2dReshapeAddRelu()(torch_style()), FuseConv2dReshapeAddRelu()(torch_style()))
