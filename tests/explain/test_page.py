"""The HTML file, in a real browser: loads without errors, is quick with 2,000 groups, shows, searches and collapses."""

from __future__ import annotations

import re
import time

import pytest
from tests.explain.browser import Browser, needs_browser

from eutectic.driver.plan import BoundaryRecord, GroupRecord, OperatorRecord, PlanRecord, TensorRecord
from eutectic.explain.data import Timing
from eutectic.explain.explanation import Explanation

ENTER = "\ue007"  # as WebDriver writes the key
TENSOR = (TensorRecord("v", (1, 64), "float32"),)


def network(layers: int, width: int = 4) -> Explanation:
    """Blocks of a layer that splits into `width` groups and joins again, each a module."""
    groups: list[GroupRecord] = []
    boundaries: list[BoundaryRecord] = []

    def group(module: str, *reads: int) -> int:
        number = len(groups)
        operators = tuple(
            OperatorRecord(f"relax.{op}", f"lv{number}_{i}", module, f"/home/user/net.py:{number}", TENSOR, TENSOR, 64)
            for i, op in enumerate(("matmul", "add", "nn.relu"))
        )
        groups.append(GroupRecord("kernel", "llvm", f"k{number}", "matmul_add_relu", operators, TENSOR, TENSOR, reads))
        boundaries.extend(
            BoundaryRecord(source, number, 2, 0, "epilogue kind", f"<script>alert('{source}')</script> & {number}")
            for source in reads
        )
        return number

    last = group("stem")
    for layer in range(layers):
        parts = [group(f"blocks.{layer}.part{i}", last) for i in range(width)]
        last = group(f"blocks.{layer}", *parts, last)
    timings = tuple(Timing((i,), 1e-6 * (1 + i % 7)) for i in range(len(groups)))
    return Explanation(PlanRecord(tuple(groups), tuple(boundaries)), timings, 1e-3)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as session:
        yield session


@pytest.fixture
def small(browser, tmp_path):
    browser.open(network(3).to_html(tmp_path / "small.html", "A <small> model"))
    return browser


def settle(browser) -> None:
    """Wait for the next frame."""
    browser.run("return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def test_the_file_needs_nothing_else(tmp_path):
    text = network(1).to_html(tmp_path / "page.html", "A <small> model").read_text()
    assert "A &lt;small&gt; model" in text
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!data:)""", text)
    assert "http" not in text.replace("http-equiv", "")
    assert "<script>alert" not in text
    assert "{{" not in text


@needs_browser
def test_loads_without_errors(small):
    settle(small)
    assert small.problems() == []
    assert small.run("return document.title") == "A <small> model"
    assert "16 groups" in small.run("return document.getElementById('summary').textContent")
    assert small.run("return explanation.nodes().length") == 16


@needs_browser
def test_the_graph_is_painted(small):
    settle(small)
    colours = small.run(
        "const c = document.getElementById('graph'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        "const seen = new Set(); for (let i = 0; i < d.length; i += 4) seen.add((d[i] << 16) | (d[i+1] << 8) | d[i+2]);"
        "return seen.size"
    )
    assert colours > 20


@needs_browser
def test_layers_follow_what_is_read_and_nothing_overlaps(small):
    nodes = small.run("return explanation.nodes()")
    for first in nodes:
        for second in nodes:
            if first["key"] < second["key"] and first["layer"] == second["layer"]:
                assert abs(first["x"] - second["x"]) >= first["w"]
    by_group = {node["groups"][0]: node for node in nodes}
    for step in network(3).boundaries:
        assert by_group[step.source]["layer"] < by_group[step.reader]["layer"]


@needs_browser
def test_a_click_opens_details(small):
    place = small.run("explanation.center(6); return explanation.onScreen(6)")
    settle(small)
    small.click(place["x"], place["y"])
    details = small.run("return document.getElementById('details').textContent")
    assert "Group 6: matmul_add_relu" in details
    assert "/home/user/net.py:6" in details
    assert "blocks.1.part0" in details
    assert "<script>alert('5')</script> & 6" in details
    assert "512 B" in details
    assert "constants0 B" in details
    assert "NaN" not in details
    assert small.problems() == []


@needs_browser
def test_reasons_lead_to_the_other_group(small):
    small.run("explanation.select(6)")
    small.run("document.querySelector('#details .go').click()")
    assert "Group 5" in small.run("return document.querySelector('#details h2').textContent")


@needs_browser
def test_search(small):
    small.type("#search", "blocks.2 relu")
    assert small.run("return document.getElementById('hits').textContent") == "5 of 16 groups"
    small.type("#search", ENTER)
    assert "Group 11" in small.run("return document.querySelector('#details h2').textContent")
    small.type("#search", " nowhere")
    assert small.run("return document.getElementById('hits').textContent") == "0 of 16 groups"


@needs_browser
def test_collapse_and_expand(small):
    small.run("document.querySelector('button[data-module=\"blocks.1\"]').click()")
    nodes = small.run("return explanation.nodes()")
    assert len(nodes) == 16 - 4
    (block,) = [node for node in nodes if node["prefix"] == "blocks.1"]
    assert block["groups"] == [6, 7, 8, 9, 10]
    place = small.run("explanation.center(6); return explanation.onScreen(6)")
    settle(small)
    small.click(place["x"], place["y"])
    assert "Module blocks.1" in small.run("return document.getElementById('details').textContent")
    small.click(place["x"], place["y"], times=2)
    assert small.run("return explanation.nodes().length") == 16
    small.run("document.getElementById('collapse-all').click()")
    assert [node["prefix"] for node in small.run("return explanation.nodes()")] == ["stem", "blocks"]
    small.run("document.getElementById('expand-all').click()")
    assert small.run("return explanation.nodes().length") == 16


@needs_browser
def test_dragging_and_the_wheel_move_the_graph(small):
    before = small.run("return explanation.onScreen(0)")
    small.run(
        "const c = document.getElementById('graph'), b = c.getBoundingClientRect();"
        "c.dispatchEvent(new WheelEvent('wheel', {deltaY: -200, clientX: b.left, clientY: b.top, cancelable: true}))"
    )
    after = small.run("return explanation.onScreen(0)")
    assert after["y"] != before["y"]
    assert small.problems() == []


@needs_browser
@pytest.mark.serial
def test_two_thousand_groups(browser, tmp_path):
    explanation = network(400)
    assert len(explanation.groups) == 2001
    path = explanation.to_html(tmp_path / "large.html")
    start = time.perf_counter()
    browser.open(path)
    settle(browser)
    loaded = time.perf_counter() - start
    frame = browser.run(
        "explanation.fit(0.01); const start = performance.now();"
        "for (let i = 0; i < 10; i++) explanation.paint(); return (performance.now() - start) / 10"
    )
    collapse = browser.run(
        "const start = performance.now(); explanation.toggle('blocks.7'); return performance.now() - start"
    )
    assert loaded < 5
    assert frame < 200
    assert collapse < 1500
    assert browser.problems() == []
    print(f"2,001 groups: {loaded:.2f} s to load and paint, {frame:.1f} ms a frame, {collapse:.0f} ms to collapse")
