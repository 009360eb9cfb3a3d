"""A report counts what is in it, and survives JSON."""

from __future__ import annotations

import json

from eutectic.driver.report import (
    CompileReport,
    CompositeRecord,
    RegionRecord,
    UnfusedRecord,
)

CONV = ("relax.nn.conv2d", "relax.add", "relax.clip")
PLAIN = ("relax.nn.conv2d", "relax.add")
REPORT = CompileReport(
    regions=(
        RegionRecord(
            "dnnl_0",
            "dnnl",
            (
                CompositeRecord("dnnl.conv2d_bias", PLAIN, "f0", ("features.0",), ("net.py:3",)),
                CompositeRecord("dnnl.conv2d_bias_clip", CONV, "f1"),
                CompositeRecord("dnnl.conv2d_bias_clip", ("relax.nn.conv2d", "relax.subtract", "relax.clip"), "f2"),
            ),
        ),
        RegionRecord("dnnl_1", "dnnl", (CompositeRecord("dnnl.conv2d_bias_clip", CONV, "f3"),)),
    ),
    unfused=(
        UnfusedRecord("relax.nn.conv2d", "lv9", "head", "net.py:9", "oneDNN has no float64 kernel here"),
        UnfusedRecord("relax.reshape", "lv10", "", "", "no pattern takes a reshape on its own"),
    ),
    notes=("oneDNN 3.2",),
    seconds=1.5,
    passes=(("FoldConstant", 0.25),),
)


def test_convolutions_are_counted_inside_and_outside():
    assert REPORT.convolutions_fused == 4
    assert REPORT.convolutions == 5


def test_composites_keep_the_order_of_execution():
    assert [c.symbol for c in REPORT.composites] == ["f0", "f1", "f2", "f3"]


def test_by_composite_counts_the_most_frequent_first():
    counts = REPORT.by_composite()
    assert list(counts) == ["dnnl.conv2d_bias_clip", "dnnl.conv2d_bias"]
    assert counts["dnnl.conv2d_bias_clip"].count == 3
    assert counts["dnnl.conv2d_bias_clip"].ops == CONV
    assert len(counts["dnnl.conv2d_bias_clip"].variants) == 2
    assert counts["dnnl.conv2d_bias"].variants == (PLAIN,)


def test_json_holds_everything():
    tree = json.loads(json.dumps(REPORT.to_json()))
    assert tree["convolutions"] == 5
    assert tree["regions"][0]["composites"][0] == {
        "name": "dnnl.conv2d_bias",
        "ops": list(PLAIN),
        "symbol": "f0",
        "modules": ["features.0"],
        "sources": ["net.py:3"],
    }
    assert tree["unfused"][1]["reason"] == "no pattern takes a reshape on its own"
    assert tree["passes"] == [{"name": "FoldConstant", "seconds": 0.25}]
    assert tree["notes"] == ["oneDNN 3.2"]


def test_empty_report():
    empty = CompileReport()
    assert (empty.convolutions, empty.convolutions_fused, empty.by_composite()) == (0, 0, {})
