"""Pipelines as data: what they print they parse back, what they do not know they refuse, and who takes one."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eutectic
from eutectic import relax
from eutectic.backend.dnnl.library import availability
from eutectic.backend.dnnl.partition import partition_for_dnnl
from eutectic.backend.partition import Partition
from eutectic.driver.pipeline import after_partition, get_pipeline, kernels, pipeline, prepare
from eutectic.driver.pipeline_text import Pipeline
from eutectic.ir.transform import Pass, PassContext, module_pass
from eutectic.relax import op
from eutectic.relax import transform as graph_passes
from eutectic.relax.transform import (
    DeadCodeElimination,
    FuseOps,
    FuseOpsByPattern,
    LegalizeOps,
    RunCodegen,
    ToMixedPrecision,
)
from eutectic.support.errors import CodegenError, PassError
from eutectic.testing.graphs import assert_close, evaluate, graph, weights
from eutectic.tir import transform as program_passes

needs_dnnl = pytest.mark.skipif(not availability().ok, reason="oneDNN is not there")
EXPORTED = [
    item
    for package in (graph_passes, program_passes)
    for item in (getattr(package, name) for name in package.__all__)
    if isinstance(item, type) and issubclass(item, Pass) and dataclasses.is_dataclass(item)
]
WORDS = st.text(max_size=6) | st.sampled_from(["true", "none", "inf", "-1", "1e3", 'a"b', "a,b", "{", "dnnl"])
VALUES = {
    "bool": st.booleans(),
    "int": st.integers(-5, 5),
    "str": WORDS,
    "str | None": st.none() | WORDS,
    "Sequence[str] | None": st.none() | st.lists(WORDS, max_size=3).map(tuple),
    "Collection[str] | None": st.none() | st.lists(WORDS, max_size=3).map(tuple),
}


def net():
    def body(bb, x):
        a = bb.emit(op.nn.relu(op.add(op.nn.conv2d(x, weights(4, 3, 3, 3)), weights(1, 4, 1, 1))))
        return op.erf(op.nn.relu(op.nn.conv2d(a, weights(2, 4, 1, 1))))

    return graph({"x": (1, 3, 6, 6)}, body)


X = np.random.default_rng(0).standard_normal((1, 3, 6, 6)).astype(np.float32)
WANT = evaluate(net(), X)


@st.composite
def passes(draw: st.DrawFn) -> Pass:
    """Any exported pass with any plain options; of those that check theirs, the values that exist."""
    kind = draw(st.sampled_from([k for k in EXPORTED if not _needs_objects(k)]))
    given = {f.name: draw(VALUES[str(f.type)]) for f in dataclasses.fields(kind) if f.init and str(f.type) in VALUES}
    if kind is FuseOpsByPattern:
        given["priority"] = draw(st.sampled_from(["first", "largest"]))
    if kind is ToMixedPrecision:
        given["out_dtype"] = draw(st.sampled_from(["bfloat16", "float16", "float32"]))
    return kind(**given)


def _needs_objects(kind: type) -> bool:
    return any(f.init and f.default is dataclasses.MISSING for f in dataclasses.fields(kind))


@given(st.lists(passes(), min_size=1, max_size=5))
def test_what_is_printed_is_parsed_back(members: list[Pass]):
    made = Pipeline(tuple(members))
    assert Pipeline.parse(str(made)) == made
    assert str(Pipeline.parse(str(made))) == str(made)


@pytest.mark.parametrize("target", [None, "llvm", "llvm -libs=dnnl", "llvm -libs=dnnl,cublas"])
@pytest.mark.parametrize("precision", ["default", "strict", "bf16", "f16"])
def test_the_order_of_the_passes_is_text(target, precision: str):
    made = pipeline(target, precision)
    assert Pipeline.parse(str(made)) == made
    assert [type(step) for step in made][: len(prepare())] == [type(step) for step in prepare()]


def test_it_says_what_is_not_the_default():
    made = Pipeline((FuseOps(), FuseOps(fuse_opt_level=2), Partition("dnnl,mine", if_worthwhile=True)))
    assert str(made) == 'FuseOps,FuseOps{fuse_opt_level=2},Partition{backend="dnnl,mine",if_worthwhile=true}'


def test_spaces_and_lists():
    text = ' DeadCodeElimination { entry_functions = [ main , "a b" ] } , LegalizeOps '
    assert Pipeline.parse(text).passes == (DeadCodeElimination(entry_functions=("main", "a b")), LegalizeOps())


REFUSED = {
    "LegaliseOps": ("unknown pass 'LegaliseOps'", "did you mean LegalizeOps?"),
    "FuseOps{fuse_opt_levl=2}": ("pass FuseOps has no option 'fuse_opt_levl'", "did you mean fuse_opt_level?"),
    "FuseTIR{a=1}": ("pass FuseTIR has no option 'a'", "it has none"),
    "FuseOps{fuse_opt_level=much}": ("option fuse_opt_level of FuseOps is an int, got 'much'", None),
    "FuseOps{fuse_opt_level=true}": ("option fuse_opt_level of FuseOps is an int, got True", None),
    "FuseOps{fuse_opt_level=1,fuse_opt_level=1}": ("option fuse_opt_level of FuseOps is given twice", None),
    "FuseOps{fuse_opt_level}": ("expected '=' after the option fuse_opt_level", None),
    "FuseOps{fuse_opt_level=}": ("a value is missing", None),
    "FuseOps{fuse_opt_level=2": ("expected ',' between options of FuseOps", None),
    "FuseOps FuseTIR": ("expected ',' between passes", None),
    "FuseOps,": ("expected the name of a pass", None),
    "": ("expected the name of a pass", None),
    "BindParams{func_name=main}": ("pass BindParams needs params, which a text cannot give", None),
    "<mine>": ("<mine> has no text: it was given as a Python object", None),
    'FuseOpsByPattern{priority="\\x"}': ('"\\x" is no text as JSON has it', None),
    "Partition{precision=exact}": (
        "unknown precision 'exact': expected 'default' or 'strict' or 'bf16' or 'f16'",
        None,
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_refusals(text: str):
    message, help = REFUSED[text]
    with pytest.raises(PassError) as caught:
        Pipeline.parse(text)
    assert caught.value.message == message
    assert caught.value.help == help or help is None


def test_a_refusal_points_into_the_text(golden):
    with pytest.raises(PassError) as caught:
        Pipeline.parse("FoldConstant,FuseOps{fuse_opt_levl=2},FuseTIR")
    golden(str(caught.value))


def test_what_has_no_text_is_shown_and_not_parsed():
    @module_pass(opt_level=0, name="Mine")
    def mine(mod, ctx):
        return mod

    made = Pipeline((mine, FuseOpsByPattern([("toy.x", relax.dpl.wildcard())])))
    assert str(made) == "<Mine>,FuseOpsByPattern{patterns=[<FusionPattern>]}"
    with pytest.raises(PassError, match="given as a Python object"):
        Pipeline.parse(str(made).removeprefix("<Mine>,"))
    with pytest.raises(PassError, match="consists of passes, got str"):
        Pipeline(("FuseOps",))


def test_a_pass_of_the_users_own_that_is_data_has_a_text():
    @dataclasses.dataclass(frozen=True)
    class Twice(Pass):
        amount: int = 2

        def run(self, mod, ctx):
            return mod

    assert str(Pipeline((Twice(), Twice(3)))) == "Twice,Twice{amount=3}"
    assert Pipeline.parse("Twice{amount=3}").passes == (Twice(3),)


def test_a_pipeline_is_a_pass_that_the_context_rules():
    made = Pipeline((LegalizeOps(), FuseOps(fuse_opt_level=2)), "two")
    with PassContext(disabled_pass=["FuseOps"]) as ctx:
        made(net())
    assert [record.name for record in ctx.records] == ["LegalizeOps", "two"]
    assert len(Pipeline((made, made))) == 4


def test_splitting():
    before, after = kernels().split("FuseTIR")
    assert Pipeline((before, after)) == kernels()
    with pytest.raises(PassError, match="no pass 'FuseTri' is in the pipeline") as caught:
        kernels().split("FuseTri")
    assert caught.value.help == "did you mean FuseTIR?"


# ---- who takes one


@pytest.mark.parametrize(
    "text", [str(pipeline("llvm")), "LegalizeOps", "LegalizeOps,FuseTIR", "default", "FoldConstant"]
)
def test_compile_takes_a_text(text: str):
    model = eutectic.compile(net(), target="llvm", pipeline=text)
    assert_close(model(X), WANT)


@needs_dnnl
@pytest.mark.parametrize("make", [eutectic.compile, relax.build])
def test_libraries_can_be_a_step_of_any_pipeline(make):
    option = "pipeline" if make is eutectic.compile else "relax_pipeline"
    model = make(net(), target="llvm", **{option: f"{prepare()},Partition{{backend=dnnl}},LegalizeOps,FuseTIR"})
    got = model(X)
    assert_close(got if isinstance(got, np.ndarray) else got.numpy(), WANT)
    if make is eutectic.compile:
        assert [region.codegen for region in model.report.regions] == ["dnnl", "llvm"]
        assert "Partition" in dict(model.report.passes)
        assert [unfused.op for unfused in model.report.unfused] == ["relax.erf"]


@needs_dnnl
def test_build_runs_what_was_partitioned_before():
    cut = RunCodegen()(partition_for_dnnl(net()))
    assert_close(relax.build(cut, target="llvm")(X).numpy(), WANT)


@pytest.mark.parametrize(("target", "first"), [("llvm", "DecomposeOpsForInference"), ("llvm -libs=dnnl", "RunCodegen")])
def test_what_comes_after_a_graph_has_its_regions(target: str, first: str):
    plan = pipeline(target)
    rest = after_partition(plan)
    assert rest.passes[0].info.name == first
    assert plan.passes[-len(rest) :] == rest.passes


def test_compile_takes_a_pass():
    assert_close(eutectic.compile(net(), target="llvm", pipeline=LegalizeOps())(X), WANT)


def test_names_and_texts():
    assert str(get_pipeline("zero")) == str(kernels())
    assert get_pipeline("FuseTIR").passes == Pipeline.parse("FuseTIR").passes
    for wrong, help in (("defualt", "did you mean default?"), ("FuseTIRR", "did you mean FuseTIR"), (3, "known are")):
        with pytest.raises(CodegenError, match="unknown pipeline") as caught:
            get_pipeline(wrong)
        assert help in caught.value.help
    with pytest.raises(PassError, match="unknown pass 'Nothing'"):
        relax.build(net(), relax_pipeline="Nothing,FuseTIR")
