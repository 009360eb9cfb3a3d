"""Explanations: what is measured, the tree, names of operators, `why`, files."""

from __future__ import annotations

import json

import pytest
import torch
from rich.console import Console
from torch import nn

import eutectic
from eutectic.backend.dnnl.library import availability
from eutectic.driver.plan import GroupRecord, OperatorRecord, PlanRecord, TensorRecord
from eutectic.explain import machine as machines
from eutectic.explain.data import Timing
from eutectic.explain.diff import diff
from eutectic.explain.explanation import Explanation
from eutectic.explain.machine import Bandwidth, MachineSpeed, machine_speed
from eutectic.explain.measure import units
from eutectic.explain.numbers import count_text, seconds_text, share_text
from eutectic.support.errors import CallError, LoadError

FAST = MachineSpeed("test", 1, 1e9, (Bandwidth(100, 1e9), Bandwidth(1000, 1e8)))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(16, 32)
        self.norm = nn.LayerNorm(32)
        self.second = nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.first(x))
        return torch.tanh(self.second(self.norm(hidden)))


@pytest.fixture(scope="module")
def compiled():
    torch.manual_seed(0)
    return eutectic.compile(Net().eval(), [torch.randn(4, 16)], target="llvm", threads=1)


@pytest.fixture(scope="module")
def measured(compiled):
    return compiled.explain(torch.randn(4, 16))


def test_every_group_is_measured(measured):
    assert [timing.groups for timing in measured.timings] == [(0,), (1,), (2,)]
    assert all(group.seconds > 0 and group.roofline > 0 for group in measured.groups)
    assert measured.seconds > 0
    assert measured.machine.flops > 1e8
    assert measured.threads == 1


def test_without_measuring_nothing_runs(compiled):
    explanation = compiled.explain(measure=False)
    assert (explanation.timings, explanation.seconds, explanation.machine) == ((), None, None)
    assert explanation.plan == compiled.report.plan


def test_arguments_are_needed_to_measure(compiled):
    with pytest.raises(CallError, match="x"):
        compiled.explain()


def test_a_loaded_model_is_measured_as_one(compiled):
    copy = eutectic.CompiledModel.from_bytes(compiled.to_bytes())
    explanation = copy.explain(torch.randn(4, 16))
    assert [timing.groups for timing in explanation.timings] == [(0, 1, 2)]
    assert all(group.seconds is None for group in explanation.groups)
    assert "measured with groups [0, 1, 2]" in str(explanation)


@pytest.mark.skipif(not availability().ok, reason="oneDNN is not there")
def test_primitives_of_one_call_are_measured_apart():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.MaxPool2d(2)).eval()
    x = torch.randn(1, 3, 24, 24)
    explanation = eutectic.compile(model, [x], target="llvm -libs=dnnl").explain(x)
    assert len({group.record.region for group in explanation.groups}) == 1
    assert [timing.groups for timing in explanation.timings] == [(0,), (1,), (2,)]
    assert all(timing.how for timing in explanation.timings)


def test_the_tree_names_lines_modules_and_reasons(measured):
    text = str(measured)
    assert "fused_matmul_add_relu" in text
    assert "test_explanation.py:" in text
    assert "layer_norm (lv" in text
    assert "norm" in text
    assert "[epilogue kind]" in text
    assert "\x1b" not in text
    with Console(record=True, width=200) as console:
        console.print(measured)
    assert "epilogue kind" in console.export_text()


def test_json_and_back(measured):
    assert Explanation.from_json(json.loads(json.dumps(measured.to_json()))) == measured


@pytest.mark.parametrize(
    ("tree", "words"), [({}, "no explanation"), ({"version": 7}, "version 7"), ({"version": 1, "plan": 3}, "fields")]
)
def test_other_trees_are_refused(tree, words):
    with pytest.raises(LoadError, match=words):
        Explanation.from_json(tree)


def test_perfetto(measured, tmp_path):
    tree = json.loads(measured.to_perfetto(tmp_path / "trace.json").read_text())
    spans = [event for event in tree["traceEvents"] if event["ph"] == "X"]
    assert [event["name"] for event in spans] == ["matmul_add_relu", "layer_norm", "matmul_add_tanh"]
    ends = [event["ts"] + event["dur"] for event in spans]
    assert [event["ts"] for event in spans][1:] == ends[:-1]
    assert spans[0]["args"]["modules"] == ["first"]


def test_perfetto_needs_times(compiled, tmp_path):
    with pytest.raises(CallError, match="nothing was measured"):
        compiled.explain(measure=False).to_perfetto(tmp_path / "trace.json")


# ---- names and answers


def test_operators_are_known_by_many_names(measured):
    def variables(name):
        return [place.operator.variable for place in measured.find(name)]

    (norm,) = variables("layer_norm")
    assert variables("relax.nn.layer_norm") == variables("nn.layer_norm") == variables("norm") == [norm]
    assert variables(norm) == [norm]
    source = measured.find(norm)[0].operator.source
    assert norm in variables(source)
    assert norm in variables(source.rpartition("/")[2])
    assert variables("matmul second") == [place.operator.variable for place in measured.find("second")][:1]
    assert variables("") == []


def test_together(measured):
    answer = measured.why("first", "relu")
    assert answer.together
    assert answer.chain == ()
    assert "are together in group 0" in str(answer)


def test_apart_with_the_chain_of_reasons(measured):
    answer = measured.why("first", "tanh")
    assert not answer.together
    assert [(step.source, step.reader) for step in answer.chain] == [(0, 1), (1, 2)]
    assert all(reason in str(answer) for reason in answer.reasons)
    assert measured.why("tanh", "first").chain == answer.chain


def test_ambiguous_and_unknown_names(measured):
    with pytest.raises(CallError, match=r"several groups: matmul .* in first .*; matmul .* in second"):
        measured.why("matmul", "tanh")
    with pytest.raises(CallError, match="did you mean tanh"):
        measured.why("first", "tan")


def test_without_a_way_between_them():
    class Two(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x.sum(1), x.amax(0)

    explanation = eutectic.compile(Two(), [torch.randn(4, 4)], target="llvm").explain(measure=False)
    answer = explanation.why("sum", "max")
    assert (answer.together, answer.chain) == (False, ())
    assert "neither needs what the other computes" in answer.text


# ---- differences


def test_nothing_changed(measured):
    assert not diff(measured, measured)
    assert "nothing changed" in str(diff(Explanation(measured.plan), Explanation(measured.plan)))


def test_regrouped(measured):
    torch.manual_seed(0)
    x = torch.randn(4, 16)
    alone = eutectic.compile(Net().eval(), [x], pipeline="no_fusion").explain(x)
    difference = diff(measured, alone)
    regrouped = {change.before: change for change in difference.changes if change.kind == "regrouped"}
    assert set(regrouped) == {(0,), (2,)}
    assert len(regrouped[0,].after) == 3
    assert "0 llvm matmul_add_relu -> 0 llvm matmul + 1 llvm add + 2 llvm relu" in regrouped[0,].text
    fresh = [reason for reason in difference.reasons if not reason.before]
    assert "the pipeline has no pass FuseOps" in fresh[0].after
    assert "a call: " in str(difference)


def test_times_and_missing_groups():
    def explanation(names, seconds):
        tensor = (TensorRecord("v", (2,), "float32"),)
        groups = tuple(
            GroupRecord("kernel", "llvm", n, n, (OperatorRecord(n, "v", results=tensor),), results=tensor)
            for n in names
        )
        return Explanation(PlanRecord(groups), tuple(Timing((i,), s) for i, s in enumerate(seconds)))

    difference = diff(explanation("ab", (1.0, 1.0)), explanation("ac", (2.0, 1.0)))
    assert [change.kind for change in difference.changes] == ["only after", "time", "only before"]
    assert "1 s -> 2 s" in str(difference)


# ---- measuring


def record(size: int, flops: int, kind: str = "kernel", region: str = "") -> GroupRecord:
    tensors = (TensorRecord("x", (size,), "uint8"),)
    return GroupRecord(kind, "llvm", "k", "k", (OperatorRecord("op", "v"),), tensors, (), (), flops, region=region)


@pytest.mark.parametrize(
    ("size", "flops", "least"), [(100, 50, 1e-7), (100, 500, 5e-7), (500, 50, 5e-6), (5000, 1, 5e-5)]
)
def test_the_roofline(size, flops, least):
    assert FAST.least_seconds(record(size, flops)) == pytest.approx(least)


def test_units_are_what_one_instruction_computes():
    groups = [record(1, 1), record(1, 1, "library", "r"), record(1, 1, "library", "r"), record(1, 1, "view")]
    assert units([*groups, record(1, 1, "library", "s")]) == [(0,), (1, 2), (4,)]


@pytest.mark.serial
def test_the_speed_of_the_machine_is_measured_once(monkeypatch):
    speed = machine_speed(1)
    assert speed.flops > 1e8
    assert all(row.speed > 1e7 for row in speed.bandwidths)
    monkeypatch.setattr(machines, "measured", None)
    assert machine_speed(1) == speed


@pytest.mark.parametrize(
    ("value", "text"), [(None, "-"), (2.5, "2.5 s"), (1.25e-3, "1.25 ms"), (3e-6, "3 us"), (0.0, "0 ns")]
)
def test_seconds(value, text):
    assert seconds_text(value) == text


def test_counts_and_shares():
    assert [count_text(n, "B") for n in (None, 0, 999, 1500, 2.5e6, 123e6)] == [
        "-", "0 B", "999 B", "1.5 kB", "2.5 MB", "123 MB"
    ]  # fmt: skip
    assert [share_text(n) for n in (None, 0.456)] == ["-", "46 %"]
