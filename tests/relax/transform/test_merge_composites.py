"""MergeCompositeFunctions: what joins, what a cycle keeps apart, and what is said of it."""

from __future__ import annotations

import pytest

from eutectic.ir.transform import PassContext
from eutectic.relax.analysis import well_formed
from eutectic.relax.dpl import is_op, wildcard
from eutectic.relax.dpl.table import FusionPattern
from eutectic.relax.transform import FuseOpsByPattern, MergeCompositeFunctions
from eutectic.script import ir as I
from eutectic.script import relax as R
from eutectic.support.errors import PatternError
from eutectic.testing.graphs import assert_same_results

TABLE = [
    ("k.relu", is_op("relax.nn.relu")(wildcard())),
    ("k.add", is_op("relax.add")(wildcard(), wildcard())),
]


def regions(mod) -> list[list[str]]:
    """Composites per region, in order of the regions' names."""
    out = []
    for var in mod.get_global_vars():
        function = mod[var]
        if function.attr("Codegen"):
            values = [binding.value for block in function.body.blocks for binding in block.bindings]
            out.append([value.attr("Composite") for value in values if hasattr(value, "body")])
    return out


def merged(mod):
    result = MergeCompositeFunctions()(FuseOpsByPattern(TABLE)(mod))
    assert well_formed(result)
    assert_same_results(mod, result)
    return result


def test_a_chain_is_one_region():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                p = R.nn.relu(x)
                r = R.add(p, x)
                R.output(r)
            return r

    assert regions(merged(Mod)) == [["k.relu", "k.add"]]


def test_a_way_around_keeps_regions_apart_and_is_explained():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                p = R.nn.relu(x)
                s = R.sin(p)
                r = R.add(s, p)
                R.output(r)
            return r

    with PassContext(remarks=True) as ctx:
        result = merged(Mod)
    assert regions(result) == [["k.add"], ["k.relu"]]
    (remark,) = [remark for remark in ctx.remarks if "region" in remark.reason]
    assert remark.reason == "it does not join the region of p: the way there through s leaves the region"
    assert (remark.pattern, remark.variable, remark.operand, remark.constraint) == ("k.add", "r", "p", "no cycle")
    assert remark.span is not None
    assert remark.source.startswith(__file__)


@pytest.mark.parametrize("field", [0, 1])
def test_tuples_carry_dependencies(field: int):
    """The way around goes through tuples and their fields."""

    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                p = R.nn.relu(x)
                t = R.tuple(p, x)
                q = t[field]
                s = R.sin(q)
                u = R.tuple(s, p)
                v = u[0]
                r = R.add(v, p)
                R.output(r)
            return r

    # Through field 1 nothing of p is needed, but the tuple as a whole is.
    assert regions(merged(Mod)) == [["k.add"], ["k.relu"]]


def test_every_function_is_visited():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                p = R.nn.relu(x)
                R.output(p)
            return p

        @R.function
        def other(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                p = R.add(x, x)
                R.output(p)
            return p

    result = MergeCompositeFunctions()(FuseOpsByPattern(TABLE)(Mod))
    assert regions(result) == [["k.add"], ["k.relu"]]
    assert not any(f.attr("Primitive") for f in result.functions.values())


def test_names_must_say_the_backend():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                p = R.nn.relu(x)
                R.output(p)
            return p

    fused = FuseOpsByPattern([("relu", is_op("relax.nn.relu")(wildcard()))])(Mod)
    with pytest.raises(PatternError, match="does not say which backend"):
        MergeCompositeFunctions()(fused)


def test_malformed_entries_are_named():
    pattern = wildcard()
    with pytest.raises(PatternError, match="annotation patterns are a dict by name, got a set"):
        FusionPattern("k.x", pattern, {pattern})
    with pytest.raises(PatternError, match="check must be a function"):
        FusionPattern("k.x", pattern, {}, "yes")
