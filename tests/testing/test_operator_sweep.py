"""The sweep over torch's own samples: what it says of right, refused and wrong operators, and the page it writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch._C._nn import upsample_bicubic2d
from typer.testing import CliRunner

from eutectic.cli.main import app
from eutectic.driver.importing import Imported, import_model
from eutectic.driver.settings import settings_of
from eutectic.ir.structural import assert_structural_equal
from eutectic.ir.transform import PassContext
from eutectic.relax.frontend.torch import export_model
from eutectic.support.errors import EutecticError, UnsupportedOperatorError
from eutectic.testing import operator_rows, operator_sweep, operator_truth
from eutectic.testing.operator_programs import different_modules
from eutectic.testing.operator_rounding import RoundedSteps
from eutectic.testing.operator_rows import Row, Settings, rows
from eutectic.testing.operator_samples import DTYPES, Calls, Sample, refused_samples, samples, select
from eutectic.testing.operator_sweep import EQUAL, REFUSED, WRONG, reasons_by_call, sweep, targets
from eutectic.testing.operator_table import coverage_of, page
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
    assert all(outcome.result == REFUSED for outcome in sweep(refused_samples("fmod"), ("llvm",)))


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


def test_places_of_interpolations_are_rounded(monkeypatch: pytest.MonkeyPatch):
    """Torch's own definition, which rounds each step in float32, is right."""

    def by_steps(sample: Sample) -> bool:
        eager = sample.function(*sample.args, **sample.kwargs)
        with RoundedSteps(0.0):  # by smaller operators, nothing moved
            results = sample.function(*sample.args, **sample.kwargs)
        return Truth(sample, eager).fault(results) is None

    calls = samples("nn.functional.interpolate/bicubic", "float32", None)
    assert all(map(by_steps, calls))
    monkeypatch.setattr(operator_truth, "INTERPOLATIONS", frozenset())
    assert not all(map(by_steps, calls)), "the inputs alone do not explain it"


def test_a_place_that_is_off_is_seen():
    x = torch.rand(1, 1, 8, 8)
    sample = Sample("nn.functional.interpolate/bicubic", "float32", upsample_bicubic2d, (x, [9, 9], False), {}, 0)
    right = Truth(sample, upsample_bicubic2d(x, [9, 9], False))
    assert right.fault(upsample_bicubic2d(x, [9, 9], False, 9 / 8, 9 / 8)) is None
    assert right.fault(upsample_bicubic2d(x, [9, 9], False, 9 / 8 * (1 + 2**-14), 9 / 8)) is not None


def test_places_of_equal_elements_are_open():
    x = torch.tensor([[2.0, 1.0, 2.0, torch.nan], [0.0, -0.0, 1.0, 1.0]])
    values, places = x.sort(stable=True)
    for operator, result, right in (("sort", (values, places), True), ("sin", (values, places), False)):
        sample = Sample(operator, "float32", torch.sort, (x,), {}, 0)
        said = Truth(sample, result).fault((values, torch.tensor([[1, 2, 0, 3], [1, 0, 3, 2]])))
        assert (said is None) == right, said
        for wrong in ([[1, 0, 0, 3], [0, 1, 2, 3]], [[0, 1, 2, 3], [0, 1, 2, 3]], [[1, 0, 2, 4], [0, 1, 2, 3]]):
            assert "result 1" in str(Truth(sample, result).fault((values, torch.tensor(wrong))))
    whole = Sample("sort", "int64", torch.sort, (torch.tensor([3, 3, 0, 3]),), {}, 0)
    assert Truth(whole, torch.sort(whole.args[0])).fault((torch.tensor([0, 3, 3, 1]), torch.tensor([2, 0, 1, 3])))


@pytest.mark.parametrize(("number", "is_rounded"), [(4.3, True), (4.25, False)])
def test_numbers_are_rounded_too(number: float, is_rounded: bool):
    """4.3 is no float32: what is near zero between 4.3 and -4.3 may differ from it by that."""
    steps = truth(lambda start, end: torch.linspace(start, end, 17), number, -number)
    results = torch.linspace(number, -number, 17)
    results[8] += 2.0**-24
    assert (steps.fault(results) is None) == is_rounded


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
    settings = Settings(1, ("llvm",), ("float32",))
    row = Row("abs", {"float32": {EQUAL: 1, WRONG: 1}}, [], ["abs float32 #0: is 1"])
    coverage = coverage_of([Row("sin", {}, ["no converter of aten.sin"], []), row], settings)
    assert list(coverage.counts) == ["abs", "sin"], "the order of the table"
    assert "1 **1 wrong**" in page(coverage)
    assert "of 2 of these operators and each dtype" in page(coverage)


def outcomes_of(*calls: Sample) -> list[tuple[str, str]]:
    return [(outcome.result, outcome.said) for outcome in sweep(calls, ("llvm",))]


def call(function, *args, place: int) -> Sample:
    return Sample("sin", "float32", function, args, {}, place)


@pytest.mark.slow
def test_a_batch_says_the_same_as_each_sample_alone():
    """Right, refused, failing in eager, and not exportable ones among each other."""
    x = torch.rand(4)
    kinds = [torch.sin, torch.special.i1e, lambda x: x.view(3), lambda x: x[x > 0.5].sum(), torch.special.i1, torch.cos]
    calls = [call(kinds[place % len(kinds)], x + place, place=place) for place in range(4 * len(kinds))]
    together = outcomes_of(*calls)
    assert together == [outcome for sample in calls for outcome in outcomes_of(sample)]
    assert {said for result, said in together if result == EQUAL} == {""}
    assert {"no converter of aten.special_i1e.default", "no converter of aten.special_i1.default"} <= {
        s for _, s in together
    }


def test_wrong_samples_are_seen_in_a_batch():
    """One function that exports as another than it is in eager: only that sample is wrong."""

    def changing(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if torch.compiler.is_exporting() else x

    calls = [call(changing if place == 5 else torch.sin, torch.ones(4), place=place) for place in range(9)]
    results = [result for result, _ in outcomes_of(*calls)]
    assert results == [EQUAL] * 5 + [WRONG] + [EQUAL] * 3


@pytest.mark.parametrize("how", ["another result", "an error"])
def test_samples_that_are_wrong_only_together_are_wrong(how: str, monkeypatch: pytest.MonkeyPatch):
    compiled = operator_sweep.results_of

    def results_of(calls: Calls, wanted: tuple[str, ...]) -> Iterator[tuple[str, list[torch.Tensor]]]:
        if len(calls.calls) > 1 and how == "an error":
            raise EutecticError("too many")
        for target, results in compiled(calls, wanted):
            yield target, [results[0], *(result + (len(results) > 1) for result in results[1:])]

    monkeypatch.setattr(operator_sweep, "results_of", results_of)
    outcomes = outcomes_of(*(call(torch.sin, torch.rand(4), place=place) for place in range(3)))
    assert [result for result, _ in outcomes] == [EQUAL, WRONG, EQUAL]
    assert outcomes[1][1].startswith("together with the next 1 samples: ")


def test_refusals_of_a_batch_are_told_apart():
    error = UnsupportedOperatorError("two")
    error.uses = (
        ("aten.b", "it is so", "calls.2 (file.py:1)"),
        ("aten.a", "", "calls.0"),
        ("aten.c", "", "calls.0.inner"),
        ("aten.b", "it is so", "calls.2"),
    )
    assert reasons_by_call(error) == {0: "no converter of aten.a, aten.c", 2: "aten.b: it is so"}
    error.uses += (("aten.b", "it is so", "node lv"),)
    assert reasons_by_call(error) == {}, "nobody knows whose the last one is"


def imported(operator: str, dtype: str) -> Imported:
    calls = Calls(samples(operator, dtype, 4))
    program = export_model(calls.eval(), calls.inputs())
    return import_model(program, None, None, None, leaves_to_torch=False, custom_convert_map=None)


@pytest.mark.parametrize(("operator", "dtype", "count"), [
    ("add", "int64", 1), ("diff", "float16", 1), ("nn.functional.conv2d", "float32", 2), ("matmul", "float32", 2),
])  # fmt: skip
def test_a_target_is_left_out_when_its_program_is_the_same(operator: str, dtype: str, count: int):
    wanted = targets()
    if len(wanted) < 2:
        pytest.skip("needs oneDNN")
    model = imported(operator, dtype)
    assert len(list(different_modules(model, wanted))) == count
    with PassContext():
        lowered = [settings_of(target).plan(model.mod) for target in wanted]
    if count == 1:  # the whole way, each target by itself
        assert_structural_equal(*lowered)


@pytest.mark.slow
def test_processes_give_the_same_rows(tmp_path: Path):
    settings = Settings(2, ("llvm",), ("float32", "int64"))
    operators, log = ["abs", "fft.fft", "nn.functional.softshrink"], tmp_path / "log"
    alone = list(rows(operators, settings))
    side_by_side = list(rows(operators, settings, log, jobs=2))
    assert sorted(side_by_side, key=operators_name) == alone
    assert sorted(rows(operators, settings, log), key=operators_name) == alone
    assert len(log.read_text(encoding="utf-8").splitlines()) == len(operators)


def operators_name(row: Row) -> str:
    return row.operator


def test_a_process_that_is_ended_is_an_error(monkeypatch: pytest.MonkeyPatch):
    class Ended:
        def result(self) -> Row:
            raise operator_rows.BrokenProcessPool("gone")

    future = Ended()
    with pytest.raises(EutecticError, match="ended from outside, at abs"):
        operator_rows._result_of(future, {future: "abs"})  # type: ignore[arg-type, dict-item]


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
    monkeypatch.setattr("eutectic.testing.operator_rows.row_of", lambda operator, settings: Row(operator, {}, [], []))
    again = CliRunner().invoke(app, ["verify", "operators", "--op", "abs", *options])
    assert again.output.endswith("1 equal, 0 refused, 0 wrong\n")
    other = CliRunner().invoke(app, ["verify", "operators", "--op", "abs", *options, "--samples", "2"])
    assert other.output.endswith("0 equal, 0 refused, 0 wrong\n")  # another sweep, which the log says nothing of
