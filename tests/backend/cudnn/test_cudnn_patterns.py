"""What cuDNN takes over and what it refuses, and the workspace of its attention."""

from __future__ import annotations

import pytest
from tests.backend.library_graphs import composites, convolution, refusals, stacked, unique

from eutectic.backend.cudnn.partition import partition_for_cudnn
from eutectic.backend.registry import loader
from eutectic.relax import op
from eutectic.relax.analysis import problems_of
from eutectic.relax.transform import RunCodegen
from eutectic.support.errors import LoadError
from eutectic.testing.graphs import assert_same_results, graph

ENTRIES = unique("cudnn.")
CONVOLUTIONS = [name for name in ENTRIES if "conv2d" in name]


def conv_of(name: str, flaw: str = "", **given):
    return convolution(name.replace("cudnn.conv2d.nhwc_ohwi", "conv2d"), flaw, **given)


GRAPHS = {
    **{name: (lambda name=name: conv_of(name)) for name in CONVOLUTIONS},
    "cudnn.attention.BS3NH": lambda: stacked("split"),
    "cudnn.attention.SBN3H": lambda: stacked("split", "SBN3H"),
}


def test_the_table_has_the_known_names():
    assert sorted(GRAPHS) == sorted(ENTRIES)
    assert len(ENTRIES) == 5


@pytest.mark.parametrize("name", GRAPHS)
def test_each_pattern_takes_its_graph(name):
    mod = GRAPHS[name]()
    cut = partition_for_cudnn(mod)
    assert composites(cut) == [name]
    assert problems_of(cut) == []


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_both_layouts_and_dtypes_are_taken_and_compute_the_same(name, layout, dtype):
    mod = conv_of(name, dtype=dtype, layout=layout)
    cut = partition_for_cudnn(mod)
    assert composites(cut) == [name]
    assert_same_results(mod, cut)


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_each_convolution_refuses_another_dtype(name):
    found = refusals(conv_of(name, dtype="float64"), ENTRIES[name])
    assert "cuDNN has no kernel for float64 with float64" in found[0].reason


REFUSED = {
    "other layout of the result": ("conv2d.nhwc_ohwi", convolution("conv2d", out_layout="NCHW"), "with OHWI to NCHW"),
    "uneven padding": ("conv2d.nhwc_ohwi", convolution("conv2d", padding=[1, 1, 0, 1]), "differs between the sides"),
    "bias along rows": ("conv2d.nhwc_ohwi_bias", convolution("conv2d_bias", bias=(1, 6, 1, 1)), "is not one value per"),
    "residual": ("conv2d.nhwc_ohwi_bias", convolution("conv2d_bias", bias=(2, 6, 6, 16)), "varies along other axes"),
    "shared bias": ("conv2d.nhwc_ohwi_bias_relu", convolution("conv2d_bias_relu", "leak"), "is read elsewhere too"),
    "attention of float32": ("attention.BS3NH", stacked("split", dtype="float32"), "attention of float16 or bfloat16"),
    "attention cut elsewhere": ("attention.SBN3H", stacked("split", "SBN3H", flaw="axis"), "not a cut into three"),
    "attention with other axes": ("attention.SBN3H", stacked("split", "SBN3H", flaw="swap"), "does not swap batch and"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_near_misses_are_refused_with_the_reason(case):
    name, mod, reason = REFUSED[case]
    assert any(reason in r.reason for r in refusals(mod, ENTRIES[f"cudnn.{name}"]))
    assert f"cudnn.{name}" not in composites(partition_for_cudnn(mod))


def test_a_window_is_refused():
    def body(bb, x):
        parts = bb.emit(op.split(x, 3, axis=2))
        operands = [bb.emit(op.reshape(bb.emit(parts[i]), (2, 6, 4, 8))) for i in range(3)]
        return op.nn.attention(*operands, causal_mask="BottomRight", window_size=2)

    mod = graph({"x": ((2, 6, 96), "float16")}, body)
    (remark,) = refusals(mod, ENTRIES["cudnn.attention.BS3NH"])
    assert remark.reason == "cuDNN is not used for attention with a window (2)"


def test_attention_gets_a_workspace():
    cut = partition_for_cudnn(stacked("split"))
    (function,) = [f for f in cut.functions.values() if f.attr("Codegen")]
    assert function.attr("WorkspaceSize") == function.params[-1].struct_info.static_shape[0] > 0
    assert function.params[-1].name_hint == "workspace"


def test_convolutions_need_none():
    cut = partition_for_cudnn(convolution("conv2d"))
    (function,) = [f for f in cut.functions.values() if f.attr("Codegen")]
    assert function.attr("WorkspaceSize") is None
    assert [p.name_hint for p in function.params] == ["x", "w"]


def test_a_region_that_has_to_run_says_what_it_needs():
    lowered = RunCodegen()(partition_for_cudnn(convolution("conv2d_bias_relu")))
    (region,) = lowered.attrs["external_mods"]
    with pytest.raises(LoadError, match="needs a CUDA device and cuDNN") as caught:
        loader(region.kernel.library)(region.kernel, None)
    assert caught.value.facts[1] == "taken by: cudnn.conv2d.nhwc_ohwi_bias_relu"
