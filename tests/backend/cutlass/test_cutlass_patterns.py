"""What CUTLASS takes over and what it refuses, how spelt-out attention is found, and the workspace of attention."""

from __future__ import annotations

import numpy as np
import pytest
from tests.backend.library_graphs import (
    attention,
    composites,
    convolution,
    decoded,
    normalised,
    product,
    refusals,
    stacked,
    symbolic,
    unique,
)

from eutectic.backend.cutlass.partition import partition_for_cutlass, rewrite_attention
from eutectic.backend.registry import loader
from eutectic.ir.transform import PassContext
from eutectic.relax import BlockBuilder, Var, op
from eutectic.relax.analysis import problems_of
from eutectic.relax.dpl.checks import depends_on
from eutectic.relax.dpl.table import PatternCheckContext
from eutectic.relax.expr import Call, const
from eutectic.relax.struct_info import tensor
from eutectic.relax.transform import FuseOpsByPattern, MergeCompositeFunctions, RunCodegen
from eutectic.relax.transform.pattern_search import FunctionFacts
from eutectic.support.errors import LoadError
from eutectic.testing.graphs import assert_same_results, graph

ENTRIES = unique("cutlass.")


def plain(kind: str) -> list[str]:
    return [name for name in ENTRIES if name.removeprefix("cutlass.").startswith(kind)]


CONVOLUTIONS, PRODUCTS, DECODED = plain("conv2d"), plain("matmul"), plain("decode_matmul")
GRAPHS = {
    **{name: (lambda name=name: convolution(name.removeprefix("cutlass."))) for name in CONVOLUTIONS},
    **{name: (lambda name=name: product(name.removeprefix("cutlass."))) for name in PRODUCTS},
    **{name: (lambda name=name: decoded(name)) for name in DECODED},
    **{
        f"cutlass.{kind}": (lambda kind=kind: attention(kind))
        for kind in ("attention", "attention_bias", "attention_var_len")
    },
    "cutlass.stacked_attention": lambda: stacked("split"),
    "cutlass.layer_norm": lambda: normalised("layer_norm"),
    "cutlass.rms_norm": lambda: normalised("rms_norm"),
}
RUNNABLE = [name for name in GRAPHS if name not in DECODED and "var_len" not in name]


def test_the_table_has_the_known_names():
    assert sorted(GRAPHS) == sorted(ENTRIES)
    assert (len(CONVOLUTIONS), len(PRODUCTS), len(DECODED)) == (16, 32, 6)
    assert len(ENTRIES["cutlass.stacked_attention"]) == 4


@pytest.mark.parametrize("name", GRAPHS)
def test_each_pattern_takes_its_graph(name):
    cut = partition_for_cutlass(GRAPHS[name]())
    assert composites(cut) == [name]


@pytest.mark.parametrize("name", RUNNABLE)
def test_composites_compute_the_same(name):
    mod = GRAPHS[name]()
    cut = partition_for_cutlass(mod)
    assert problems_of(cut) == []
    assert_same_results(mod, cut)


@pytest.mark.parametrize("name", [*CONVOLUTIONS, *PRODUCTS])
def test_each_product_and_convolution_refuses_another_dtype(name):
    make = convolution if name in CONVOLUTIONS else product
    found = refusals(make(name.removeprefix("cutlass."), dtype="float64"), ENTRIES[name])
    assert "CUTLASS has no kernel for float64 with float64" in found[0].reason


@pytest.mark.parametrize("name", [name for name in (*CONVOLUTIONS, *PRODUCTS) if "bias" in name])
def test_each_longer_pattern_has_one_output(name):
    make = convolution if name in CONVOLUTIONS else product
    found = refusals(make(name.removeprefix("cutlass."), "leak"), ENTRIES[name])
    assert "is read elsewhere too" in found[0].reason


@pytest.mark.parametrize("name", [name for name in (*CONVOLUTIONS, *PRODUCTS) if "_residual_" in name])
def test_no_residual_is_made_from_the_root(name):
    make = convolution if name in CONVOLUTIONS else product
    found = refusals(make(name.removeprefix("cutlass."), "own residual"), ENTRIES[name])
    assert found[0].constraint in ("single reader", "no cycle")
    assert not FuseOpsByPattern(ENTRIES[name], multiple_outputs=True)(
        make(name.removeprefix("cutlass."), "own residual")
    ).get_global_vars()[1:]


@pytest.mark.parametrize("name", DECODED)
def test_each_decoding_product_needs_a_decoding_function(name):
    found = refusals(decoded(name, callee="undecoded"), ENTRIES[name])
    assert found[0].reason == "undecoded is not a function that decodes weights"


RESIDUAL = "matmul_bias_residual_add"
REFUSED = {
    "channels first": ("conv2d", convolution("conv2d", layout="NCHW"), "NHWC with OHWI, not NCHW, OIHW, NCHW"),
    "depthwise": ("conv2d", convolution("conv2d", groups=8), "no convolution in 8 groups"),
    "groups": ("conv2d", convolution("conv2d", groups=2), "no convolution in 2 groups"),
    "symbolic height": ("conv2d", convolution("conv2d", height=symbolic()), "has symbolic sizes"),
    "int8 convolution": ("conv2d", convolution("conv2d", dtype="int8"), "with a result of int32, not int8"),
    "conv bias along rows": ("conv2d_bias", convolution("conv2d_bias", bias=(1, 6, 1, 1)), "is not one value per"),
    "conv residual of one row": (
        "conv2d_bias_residual_add", convolution("conv2d_bias_residual_add", residual=(1, 6, 1, 1)), "neither of the"
    ),
    "residual of one row": (RESIDUAL, product(RESIDUAL, residual=(8, 1)), "neither of the shape of"),
    "residual that broadcasts up": (RESIDUAL, product(RESIDUAL, residual=(2, 8, 32)), "neither of the shape of"),
    "bias per row": ("matmul_bias", product("matmul_bias", bias=(8, 1)), "is not one value per channel"),
    "mixed batches": ("matmul", product("matmul", batch=(2,), rhs_batch=(1,)), "batch axes (2) and (1)"),
    "symbolic inner size": ("matmul", product("matmul", k=symbolic()), "that the matmul sums over is symbolic"),
    "int8 inner size": ("matmul", product("matmul", dtype="int8", out_dtype="int32", k=24), "the inner size is 24"),
    "int8 bias": ("matmul_bias", product("matmul_bias", dtype="int8", out_dtype="int32"), "no bias for products of"),
    "other permutation": (
        "matmul_transposed", product("matmul_transposed", "axes", k=16, n=16), "is not the transposition (1, 0)"
    ),
    "3-bit weights": ("decode_matmul", decoded("decode_matmul", stored=12), "in 4 or 8 bits"),
    "scale per group": ("decode_matmul", decoded("decode_matmul", scales=(2, 32)), "not one float16 per column"),
    "attention of float64": ("attention", attention(dtype="float64"), "of float16 or float32, not of float64"),
    "attention bias per query": (
        "attention_bias", attention("attention_bias", bias=(2, 4, 6, 1)), "does not have one value per key"
    ),
    "symbolic features": ("attention", attention(features=symbolic()), "symbolic heads or features"),
    "sequences of float64": ("attention_var_len", attention("attention_var_len", dtype="float64"), "not of float64"),
    "stacked in another order": ("stacked_attention", stacked("strided_slice", flaw="order"), "does not go on where"),
    "stacked along another axis": ("stacked_attention", stacked("split", flaw="axis"), "not a cut into three along"),
    "layer_norm over two axes": ("layer_norm", normalised("layer_norm", axes=[1, 2]), "over the last axis, of"),
    "layer_norm without a shift": ("layer_norm", normalised("layer_norm", center=False), "always scales and shifts"),
    "layer_norm of float64": ("layer_norm", normalised("layer_norm", "float64"), "not float64"),
    "rms_norm over two axes": ("rms_norm", normalised("rms_norm", axes=[1, 2]), "over the last axis, of"),
    "rms_norm of float64": ("rms_norm", normalised("rms_norm", "float64"), "not float64"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_near_misses_are_refused_with_the_reason(case):
    name, mod, reason = REFUSED[case]
    assert any(reason in r.reason for r in refusals(mod, ENTRIES[f"cutlass.{name}"]))
    assert f"cutlass.{name}" not in composites(partition_for_cutlass(mod))


@pytest.mark.parametrize("bias", [False, True], ids=["plain", "bias"])
@pytest.mark.parametrize("start", ["split", "strided_slice"])
def test_stacked_attention_is_taken_however_it_is_cut(start, bias):
    mod = stacked(start, bias=bias)
    cut = partition_for_cutlass(mod)
    assert composites(cut) == ["cutlass.stacked_attention"]
    assert_same_results(mod, cut)


@pytest.mark.parametrize(
    ("residual", "taken"), [((8, 32), True), ((32,), True), ((1, 32), True), ((8, 1), False), ((1,), False)]
)
def test_residuals_have_the_shape_of_the_result_or_of_a_bias(residual, taken):
    entries = ENTRIES[f"cutlass.{RESIDUAL}"]
    fused = FuseOpsByPattern(entries)(product(RESIDUAL, residual=residual))
    assert (composites(fused) == [f"cutlass.{RESIDUAL}"]) is taken


def test_a_residual_that_another_block_makes_from_the_root_is_seen():  # B20
    bb = BlockBuilder()
    x, w, b = (Var(name, tensor(shape, "float16")) for name, shape in (("x", (8, 8)), ("w", (8, 8)), ("b", (8,))))
    with bb.function("main", [x, w, b]):
        with bb.dataflow():
            root = bb.emit_output(op.add(bb.emit(op.matmul(x, w)), b))
        residual = bb.emit(op.tanh(root))
        with bb.dataflow():
            out = bb.emit_output(op.add(root, residual))
        bb.emit_func_output(out)
    (entry,) = ENTRIES[f"cutlass.{RESIDUAL}"]
    with PassContext(remarks=True) as ctx:
        assert FuseOpsByPattern([entry], multiple_outputs=True)(bb.get()) is bb.get()
    assert ctx.remarks[0].constraint == "one block"
    value = {v: made for made, v in FunctionFacts(bb.get()["main"]).val2var.items()}
    context = PatternCheckContext(
        value[out], {"root": value[root].args[0], "residual": residual}, {}, {}, {m: v for v, m in value.items()}
    )
    assert depends_on(residual, root, context)
    assert not depends_on(x, root, context)


# ---- spelt-out attention


def spelt_out(layout="BSNH", bias=False, cast=False, repeat=False, axis=-1, scale="divide", swap=(0, 2, 1, 3)):
    """Attention as matrix products and a softmax."""
    b, s, n, h = 2, 6, 4, 8
    heads = n // 2 if repeat else n
    whole = ((b, s, n, h) if layout == "BSNH" else (b, s, h)), "float32"
    shared = ((b, s, heads, h) if layout == "BSNH" else (b, s, h)), "float32"
    merged = b * n if layout == "BSNH" else b
    number = const(np.float32(np.sqrt(h) if scale == "divide" else 1 / np.sqrt(h)))

    def body(bb, q, k, v, mask):
        if repeat:
            k, v = (bb.emit(op.repeat(x, 2, 2)) for x in (k, v))
        if layout == "BSNH":
            q, k, v = (bb.emit(op.permute_dims(x, list(swap))) for x in (q, k, v))
            q, k, v = (bb.emit(op.reshape(x, (merged, s, h))) for x in (q, k, v))
        scores = bb.emit(op.matmul(q, bb.emit(op.permute_dims(k, [0, 2, 1]))))
        if scale:
            scores = bb.emit((op.divide if scale == "divide" else op.multiply)(scores, number))
        if bias:
            scores = bb.emit(op.add(scores, mask))
        if cast:
            scores = bb.emit(op.astype(scores, "float32"))
        weights = bb.emit(op.nn.softmax(scores, axis))
        if cast:
            weights = bb.emit(op.astype(weights, "float32"))
        out = bb.emit(op.matmul(weights, v))
        if layout == "BSH":
            return op.negative(out)
        out = bb.emit(op.permute_dims(bb.emit(op.reshape(out, (b, n, s, h))), [0, 2, 1, 3]))
        return op.negative(out)

    return graph({"q": whole, "k": shared, "v": shared, "mask": ((merged, s, s), "float32")}, body)


def attentions(mod) -> int:
    calls = [b.value for block in mod["main"].body.blocks for b in block.bindings if isinstance(b.value, Call)]
    return sum(call.op.name.startswith("relax.nn.attention") for call in calls)


@pytest.mark.parametrize("scale", ["divide", "multiply", ""])
@pytest.mark.parametrize("cast", [False, True], ids=["", "cast"])
@pytest.mark.parametrize("bias", [False, True], ids=["", "bias"])
@pytest.mark.parametrize("layout", ["BSNH", "BSH"])
def test_spelt_out_attention_becomes_one_operator(layout, bias, cast, scale):
    mod = spelt_out(layout, bias, cast, scale=scale)
    after = rewrite_attention(mod)
    assert attentions(after) == 1
    assert problems_of(after) == []
    assert_same_results(mod, after, exact=False)
    assert composites(partition_for_cutlass(mod)) == ["cutlass.attention_bias" if bias else "cutlass.attention"]


def test_shared_heads_are_shared_and_not_repeated():
    mod = spelt_out(repeat=True)
    after = rewrite_attention(mod)
    assert attentions(after) == 1
    assert "R.repeat" not in after.script()
    assert_same_results(mod, after, exact=False)
    without = rewrite_attention(mod, use_flash_mqa=False)
    assert attentions(without) == 1
    assert "R.repeat" in without.script()


@pytest.mark.parametrize(
    "mod",
    [spelt_out(axis=1), spelt_out("BSH", axis=1)],
    ids=["softmax over queries", "the same with one head"],
)
def test_what_only_resembles_attention_is_left_alone(mod):
    assert attentions(rewrite_attention(mod)) == 0


def test_heads_that_are_not_heads_are_attention_of_the_merged_tensors():
    mod = spelt_out(swap=(0, 2, 3, 1))
    after = rewrite_attention(mod)
    assert attentions(after) == 1
    assert "axes=[0, 2, 3, 1]" in after.script()
    assert_same_results(mod, after, exact=False)


# ---- regions


def test_attention_gets_a_workspace_and_products_none():
    for mod, wanted in ((attention(), True), (product("matmul"), False)):
        (function,) = [f for f in partition_for_cutlass(mod).functions.values() if f.attr("Codegen")]
        assert (function.params[-1].name_hint == "workspace") is wanted


def test_without_annotation_composites_are_left_for_merging():
    cut = partition_for_cutlass(product("matmul_bias"), annotate_codegen=False)
    assert [f.attr("Codegen") for f in cut.functions.values()] == [None, None]
    merged = MergeCompositeFunctions()(cut)
    assert [f.attr("Codegen") for f in merged.functions.values() if f.attr("Codegen")] == ["cutlass"]


def test_a_region_that_has_to_run_says_what_it_needs():
    lowered = RunCodegen()(partition_for_cutlass(attention()))
    (region,) = lowered.attrs["external_mods"]
    assert region.kernel.description["workspace_bytes"] > 0
    with pytest.raises(LoadError, match="needs a CUDA device and CUTLASS") as caught:
        loader(region.kernel.library)(region.kernel, None)
    assert caught.value.facts == ("operators of the region: relax.nn.attention", "taken by: cutlass.attention")
    assert "the partition for cutlass" in caught.value.help
