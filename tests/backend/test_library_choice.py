"""Whether a library is used for a model that was compiled without naming one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from eutectic.backend.library_choice import library_verdict
from eutectic.backend.llvm.machine import machine_of
from eutectic.backend.partition import Partition
from eutectic.backend.registry import backend
from eutectic.ir.module import IRModule
from eutectic.ir.services import Measured, Services
from eutectic.ir.transform import PassContext
from eutectic.relax.transform.offers_by_kind import ChoiceRemark
from eutectic.script import from_source
from eutectic.target import Target

TARGET = Target("llvm -mcpu=x86-64-v2")  # with vectors of which the library computes large products faster
MACHINE = machine_of(TARGET)
PRODUCT = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(({rows}, 64), "float32"), w: R.Tensor((64, 64), "float32")):
        with R.dataflow():
            {name} = R.matmul(x, w)
            y = R.nn.relu({name})
            R.output(y)
        return y
"""
LARGE = 100_000  # rows; of so many the library says that its calls are worth their cost


def module(rows: int, name: str = "product") -> IRModule:
    mod: IRModule = from_source(PRODUCT.format(rows=rows, name=name))
    return mod


def remark_of(mod: IRModule, measured: Mapping[str, Any] | None = None) -> tuple[bool, str, ChoiceRemark]:
    """Whether oneDNN is used, why, and the remark about that."""
    with PassContext(remarks=True, services=Services(Measured({} if measured is None else measured))) as ctx:
        verdict = library_verdict(mod, backend("dnnl"), MACHINE, ctx)
        (remark,) = (item for item in ctx.remarks if isinstance(item, ChoiceRemark))
    return verdict.ok, verdict.reason, remark


@pytest.mark.parametrize(("rows", "is_used"), [(1, False), (LARGE, True)])
def test_the_library_says_itself_where_nothing_was_measured(rows: int, is_used: bool):
    used, _, remark = remark_of(module(rows))
    assert used is is_used
    assert (remark.chosen, remark.alternatives) == ({"used": is_used}, ({"used": not is_used},))
    assert (remark.point, remark.source, remark.reach) == ("dnnl", "default", 2)


@pytest.mark.parametrize(("rows", "is_used"), [(1, True), (LARGE, False)])
def test_what_was_measured_counts_more(rows: int, is_used: bool):
    _, _, known = remark_of(module(rows))
    used, reason, remark = remark_of(module(rows), {known.workload: {"dnnl": {"used": is_used}}})
    assert used is is_used
    assert reason == f"the model was measured to be faster with {'oneDNN' if is_used else 'kernels of our own'}"
    assert remark.source == "tuned"


def test_models_are_known_by_operators_and_sizes():
    assert remark_of(module(8))[2].workload == remark_of(module(8, "other"))[2].workload
    assert remark_of(module(8))[2].workload != remark_of(module(9))[2].workload


def test_models_are_known_by_the_same_in_every_process():
    code = f"from tests.backend.test_library_choice import *; print(remark_of(module({LARGE}))[2].workload)"
    found = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    }
    assert found == {remark_of(module(LARGE))[2].workload + "\n"}


@pytest.mark.parametrize("is_named", [True, False])
def test_who_names_a_library_gets_it(is_named: bool):
    mod = module(LARGE)
    known = remark_of(mod)[2].workload
    measured = Measured({known: {"dnnl": {"used": False}}})
    with TARGET, PassContext(services=Services(measured)) as ctx:
        done = Partition("dnnl", if_worthwhile=not is_named, lower=False).run(mod, ctx)
    regions = [func for _, func in done.functions_items() if func.attr("Codegen") == "dnnl"]
    assert len(regions) == (1 if is_named else 0)


def test_a_search_measures_a_model_with_and_without_its_library(tmp_path: Any):
    torch = pytest.importorskip("torch")
    import eutectic  # after torch, of which it takes a model

    if not backend("dnnl").availability(Target("llvm")).ok:
        pytest.skip("oneDNN is not installed")
    model = torch.nn.Sequential(torch.nn.Conv2d(8, 8, 3), torch.nn.ReLU()).eval()
    inputs = (torch.ones(1, 8, 48, 48),)
    report = eutectic.tune(model, inputs, budget=4.0, database=tmp_path / "choices.db")
    (choice,) = (item for item in report.choices if item.point == "dnnl")
    assert choice.measured == 1
    fast = eutectic.compile(model, inputs, tuned=tmp_path / "choices.db")
    assert any(group.backend == "dnnl" for group in fast.report.plan.groups) is bool(choice.best["used"])
    with torch.no_grad():
        np.testing.assert_allclose(fast(*inputs), model(*inputs), atol=1e-4)
