"""The sweep over torch's own samples: what it says of right, refused and wrong operators, and the page it writes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from eutectic.cli.main import app
from eutectic.testing.operator_samples import DTYPES, Sample, refused_samples, samples, select
from eutectic.testing.operator_sweep import EQUAL, REFUSED, WRONG, sweep, targets
from eutectic.testing.operator_table import Coverage, page, run
from eutectic.testing.operator_truth import Truth

pytest.importorskip("expecttest", reason="torch's table of operators needs the package expecttest")

FEW = ("add", "floor_divide", "nn.functional.softshrink", "var")


def truth(function, *args, dtype: str = "float32") -> Truth:
    return Truth(Sample("sin", dtype, function, args, {}, 0), function(*args))


def test_samples_are_the_same_every_time_and_draw_nothing():
    state = torch.random.get_rng_state()
    first, second = samples("add", "float32", 3), samples("add", "float32", 3)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert [str(sample) for sample in first] == [str(sample) for sample in second]
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a.args[0], b.args[0])
    assert samples("nn.functional.softshrink", "int64", 3) == []
    assert len(samples("add", "float32", None)) > 3


@pytest.mark.parametrize("operator", FEW)
def test_operators_are_equal(operator: str):
    for outcome in sweep(samples(operator, "bfloat16", 2), ("llvm",)):
        assert outcome.result == EQUAL, f"{outcome.sample}: {outcome.said}"


def test_what_cannot_be_imported_is_refused_by_name():
    (outcome,) = sweep(samples("fft.fft", "float32", 1), ("llvm",))
    assert outcome.result == REFUSED
    assert outcome.said.startswith("no converter of aten._fft")
    assert all(found.result == REFUSED for found in sweep(refused_samples("fmod"), ("llvm",)))


def test_what_is_wrong_is_seen():
    x = torch.tensor([1.0, 1e-3, 0.0, -0.0])
    right = truth(torch.sin, x)
    assert right.fault(torch.sin(x)) is None
    assert right.fault(torch.sin(x.double()).float()) is None
    for given, said in [
        (torch.sin(x) * 1.0001, "2 of 4 elements are wrong; at [0]"),
        (torch.sin(x).abs(), "1 of 4 elements are wrong; at [3] it is 0.0, eager gives -0.0"),
        (torch.sin(x).double(), "is float64[4], eager gives float32[4]"),
        ([torch.sin(x)] * 2, "gives 2 results, eager 1"),
        (torch.full((4,), torch.nan), "4 of 4 elements are wrong"),
    ]:
        assert said in str(right.fault(given))
    steps = truth(torch.floor, torch.tensor([2.0, 3.0 - 2**-22]))
    assert steps.fault(torch.tensor([2.0, 3.0])) is not None, "a step is not a rounding"
    assert truth(torch.add, torch.tensor([1]), torch.tensor([1])).fault(torch.tensor([3])) is not None


def test_the_command_writes_the_page(tmp_path: Path):
    path = tmp_path / "coverage.md"
    options = ["--op", "nn.functional.softshrink", "--dtype", "float32", "--target", "llvm", "--samples", "1"]
    result = CliRunner().invoke(app, ["verify", "operators", *options, "--write", str(path)])
    assert result.exit_code == 0, result.output
    assert "1 equal, 0 refused, 0 wrong" in result.stdout
    assert "| nn.functional.softshrink | 1 |" in path.read_text(encoding="utf-8")
    assert CliRunner().invoke(app, ["verify", "operators", "--op", "sofshrink"]).exit_code == 2
    assert CliRunner().invoke(app, ["verify", "operators", "--dtype", "float31"]).exit_code == 2


def test_wrong_results_are_on_the_page():
    coverage = Coverage(1, ("llvm",), ("float32",))
    list(run(["nn.functional.softshrink"], coverage))
    (counter,) = coverage.counts["nn.functional.softshrink"].values()
    counter[WRONG] += 1
    assert "1 **1 wrong**" in page(coverage)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_sample_of_many_operators(dtype: str):
    """Nothing is silently wrong, and nothing raises what is no error of ours; the command looks at all of the table."""
    wrong = [
        f"{outcome.sample}: {outcome.said}"
        for operator in select(())[DTYPES.index(dtype) :: len(DTYPES)]
        for outcome in sweep(samples(operator, dtype, 1), targets())
        if outcome.result == WRONG
    ]
    assert not wrong, "\n".join(wrong)


def test_a_sweep_goes_on_where_it_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    log = tmp_path / "log"
    options = ["--dtype", "float32", "--target", "llvm", "--samples", "1", "--log", str(log)]
    first = CliRunner().invoke(app, ["verify", "operators", "--op", "abs", *options])
    assert first.output.endswith("1 equal, 0 refused, 0 wrong\n")
    monkeypatch.setattr("eutectic.testing.operator_table.sweep", lambda samples, wanted: iter(()))
    again = CliRunner().invoke(app, ["verify", "operators", "--op", "abs", *options])
    assert again.output.endswith("1 equal, 0 refused, 0 wrong\n")
    other = CliRunner().invoke(app, ["verify", "operators", "--op", "abs", *options, "--samples", "2"])
    assert other.output.endswith("0 equal, 0 refused, 0 wrong\n")  # another sweep, which the log says nothing of
