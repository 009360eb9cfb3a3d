"""Scheduling and lowering as passes: data, seen by records and checks, once for each program, never for cached ones."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest

import eutectic
from eutectic import relax, te, tir
from eutectic.backend.llvm.kernels import build_kernel, lowered_kernel
from eutectic.backend.llvm.machine import machine_of
from eutectic.backend.llvm.team import kernel_of
from eutectic.driver.pipeline import before_loops, kernels, loops, pipeline
from eutectic.driver.pipeline_text import Pipeline
from eutectic.ir.instrument import PassInstrument
from eutectic.ir.module import IRModule
from eutectic.ir.structural import structural_equal
from eutectic.ir.transform import Pass, PassContext
from eutectic.relax import op
from eutectic.support.errors import CodegenError, PassError
from eutectic.target import Target
from eutectic.testing.graphs import assert_close, evaluate, graph, weights
from eutectic.tir.function import PrimFunc
from eutectic.tir.interpret import run
from eutectic.tir.schedule.rules import register_scheduler, scheduler_of
from eutectic.tir.schedule.rules.registry import _SCHEDULERS
from eutectic.tir.transform import LowerTIR, PrimFuncPass, ScheduleForTarget
from eutectic.tir.transform.check_bounds import CheckBounds
from eutectic.tir.trusted import is_trusted

HOST = Target("llvm")
X = np.random.default_rng(3).standard_normal((1, 3, 6, 6)).astype(np.float32)
STEPS = ["CheckBounds", "ScheduleForTarget", "LowerTIR"]


def net(seed: int = 0):
    def body(bb, x):
        a = bb.emit(op.nn.relu(op.add(op.nn.conv2d(x, weights(4, 3, 3, 3)), weights(1, 4, 1, 1))))
        b = bb.emit(op.add(op.erf(op.nn.conv2d(a, weights(2, 4, 1, 1))), relax.const(np.float32(seed + 0.5))))
        return op.nn.softmax(op.reshape(op.mean(b, (2, 3)), (1, 2)))

    return graph({"x": (1, 3, 6, 6)}, body)


def program(scale: float = 2.0, size: int = 37) -> PrimFunc:
    given = te.placeholder((size,), "float32", "x")
    out = te.compute((size,), lambda i: tir.exp(given[i]) * tir.const(scale, "float32"), "y")
    return te.create_prim_func([given, out])


def prim_funcs(mod: IRModule) -> dict[str, PrimFunc]:
    return {gv.name_hint: func for gv, func in mod.functions_items() if isinstance(func, PrimFunc)}


# ---- as data


@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=haswell -mattr=+fma", "llvm -libs=dnnl"])
def test_they_end_the_pipeline_and_are_text(target: str):
    made = pipeline(target)
    assert [step.info.name for step in made][-3:] == STEPS
    assert Pipeline.parse(str(made)) == made
    assert Target(made.passes[-2].target) == Target(target)
    assert str(before_loops(made, Target(target))) + "," + str(loops(Target(target))) == str(made)


def test_passes_for_another_target_or_among_others_are_run_as_they_are():
    for made in (pipeline("llvm -mcpu=haswell"), Pipeline((*pipeline("llvm"), CheckBounds())), kernels()):
        assert before_loops(made, HOST) is made


# ---- what they do


def test_programs_are_marked_and_nothing_is_done_twice():
    mod = IRModule({"a": program(), "b": program(3.0)})
    checked = CheckBounds()(mod)
    scheduled = ScheduleForTarget("llvm")(checked)
    flat = LowerTIR()(scheduled)
    for name in ("a", "b"):
        marks = [[mod[name].attr(f"tir.is_{how}") for how in ("scheduled", "lowered")] for mod in (scheduled, flat)]
        assert marks == [[True, None], [True, True]]
        assert all(is_trusted(mod[name]) for mod in (checked, scheduled, flat))
    assert ScheduleForTarget("llvm")(scheduled) is scheduled
    assert ScheduleForTarget("llvm")(flat) is flat
    assert LowerTIR()(flat) is flat


def test_what_nobody_checked_is_not_trusted_afterwards():
    flat = LowerTIR()(ScheduleForTarget("llvm")(IRModule({"a": program()})))
    assert not is_trusted(flat["a"])


def test_a_program_under_two_names_is_scheduled_once(monkeypatch):
    shared, seen = program(), []
    before = scheduler_of(HOST)

    def counted(func, target):
        seen.append(func)
        return before(func, target)

    monkeypatch.setitem(_SCHEDULERS, "llvm", counted)
    made = ScheduleForTarget("llvm")(IRModule({"a": shared, "b": shared, "c": program(4.0)}))
    assert len(seen) == 2
    assert made["a"] is made["b"] is not made["c"]


def test_the_loops_of_a_user_stay():
    schedule = tir.Schedule(program(size=64))
    _, inner = schedule.split(schedule.get_loops("y")[0], [None, 16])
    schedule.vectorize(inner)
    given = schedule.mod["main"]
    made = ScheduleForTarget("llvm")(IRModule({"main": given}))["main"]
    assert made.body is given.body
    marked = IRModule({"main": program().with_attr("tir.is_scheduled", True)})
    assert ScheduleForTarget("llvm")(marked) is marked


def test_every_way_gives_the_same_code():
    """Passes over a module, and a program on its own."""
    machine = machine_of(HOST)
    source = CheckBounds()(kernels()(net()))
    flat = loops(HOST)(source)
    assert len(prim_funcs(source)) > 2
    for name, func in prim_funcs(source).items():
        assert kernel_of(flat[name], "k", machine).text == lowered_kernel(func, machine, "k").text


def test_no_kind_of_target_but_those_with_a_schedule():
    with pytest.raises(CodegenError, match="there is no default schedule for target cuda") as caught:
        ScheduleForTarget("cuda")(IRModule({"a": program()}))
    assert "of the kinds llvm" in caught.value.help


# ---- who runs them


def built(mod: IRModule, **options):
    with PassContext(**options) as ctx:
        made = relax.build(mod, "llvm")
    return made, [record for record in ctx.records if record.name in STEPS]


def test_the_cache_spares_them_and_records_show_them():
    mod = net(seed=17)
    first, cold = built(mod)
    assert [record.name for record in cold] == STEPS
    assert all(func.attr("tir.is_scheduled") for func in prim_funcs(cold[1].after).values())
    second, warm = built(mod)
    assert warm == []
    third, asked = built(mod, verify=True)
    assert [record.name for record in asked] == STEPS
    assert set(prim_funcs(asked[0].before)) == set(prim_funcs(third.module)) >= set(prim_funcs(cold[0].before))
    for made in (first, second, third):
        assert_close(made(X).numpy(), evaluate(mod, X))
        assert not any(func.attr("tir.is_scheduled") for func in prim_funcs(made.module).values())


def test_instruments_see_them_and_cannot_lose_them():
    names: list[str] = []

    class Lazy(PassInstrument):
        def should_run(self, mod, info):
            names.append(info.name)
            return info.name not in ("ScheduleForTarget", "LowerTIR")

    mod = net(seed=18)
    made, _ = built(mod, instruments=[Lazy()])
    assert set(STEPS) <= set(names)
    symbols = {kernel.symbol for kernel in made.native.built.values()}
    assert symbols == {kernel.symbol for kernel in built(mod)[0].native.built.values()}
    assert_close(made(X).numpy(), evaluate(mod, X))


def test_without_the_default_schedule_kernels_are_others():
    mod = net(seed=19)
    plain, _ = built(mod, disabled_pass=["ScheduleForTarget"])
    fast, _ = built(mod)
    kernels_of = [{kernel.symbol for kernel in made.native.built.values()} for made in (plain, fast)]
    assert not kernels_of[0] & kernels_of[1]
    assert_close(plain(X).numpy(), evaluate(mod, X))


def test_programs_that_were_lowered_before_are_linked_as_they_are():
    lowered = pipeline("llvm")(net())
    assert all(func.attr("tir.is_lowered") for func in prim_funcs(lowered).values())
    for made in (
        relax.build(lowered, "llvm", relax_pipeline=None),
        eutectic.compile(net(), target="llvm", pipeline=f"{pipeline('llvm')},CheckBounds"),
    ):
        got = made(X)
        assert_close(got if isinstance(got, np.ndarray) else got.numpy(), evaluate(net(), X))


def test_the_cache_knows_a_kernel_by_what_was_given():
    """Not by an attribute: a program that keeps those of another one is another one."""
    machine = machine_of(HOST)
    first, second = (LowerTIR()(ScheduleForTarget("llvm")(IRModule({"a": program(s)})))["a"] for s in (2.0, 5.0))
    swapped = replace(second, attrs=first.attrs)
    symbols = {build_kernel(func, machine).symbol for func in (program(2.0), first, second, swapped)}
    assert len(symbols) == (3 if structural_equal(second, swapped) else 4)


# ---- validation


@dataclass(frozen=True)
class Wrong(PrimFuncPass):
    """Serves another program."""

    made: PrimFunc

    def run_function(self, func, mod, ctx):
        return self.made


def refused(step: Pass, mod: IRModule) -> PassError:
    with PassContext(validate=True), pytest.raises(PassError) as caught:
        step(mod)
    return caught.value


def test_a_wrong_pass_over_programs_is_caught_and_shown_again():
    error = refused(Wrong(program(2.5)), IRModule({"a": program(2.0)}))
    assert re.match(
        r"pass Wrong changes what a computes: result 1\[\d+\] was \S+ and is \S+ \(\d+ of 37", error.message
    )
    script = re.search(r"python (\S+) shows", str(error)).group(1)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    before, after = done.stdout.split("after\n")
    assert before.removeprefix("before\n") != after


def test_large_programs_are_compiled_for_it():
    error = refused(Wrong(program(2.5, 40_000)), IRModule({"a": program(2.0, 40_000)}))
    assert "of 40000 differ" in error.message


@pytest.mark.parametrize("size", [37, 40_000])
def test_right_passes_pass(size: int):
    with PassContext(validate=True, verify=True) as ctx:
        loops(HOST)(IRModule({"a": program(size=size)}))
    assert [record.name for record in ctx.records] == [*STEPS, "loops"]


def test_compile_validates_programs_too(monkeypatch):
    before = scheduler_of(HOST)

    def wrong(func, target):
        return before(program(1.5, 8), target) if len(func.params) == 2 else before(func, target)

    mod = graph({"x": (8,)}, lambda bb, x: op.exp(x))
    with monkeypatch.context() as patch:
        patch.setitem(_SCHEDULERS, "llvm", wrong)
        with pytest.raises(PassError, match="pass ScheduleForTarget changes what exp computes"):
            eutectic.compile(mod, target="llvm", validate=True)
    ones = np.ones(8, np.float32)
    assert_close(eutectic.compile(mod, target="llvm", validate=True)(ones), evaluate(mod, ones))


def test_one_default_schedule_for_a_kind_of_target():
    """Kernels in the cache are those of one."""
    before = scheduler_of(HOST)
    register_scheduler("llvm", before)
    with pytest.raises(CodegenError, match="targets of the kind llvm have a default schedule already"):
        register_scheduler("llvm", lambda func, target: func)
    assert scheduler_of(HOST) is before


def test_scheduled_programs_compute_the_same_in_the_interpreter():
    for func in (program(size=5), program(size=70)):
        flat = loops(HOST)(IRModule({"a": func}))["a"]
        x = np.linspace(-2, 2, func.buffers[0].shape[0].value).astype(np.float32)
        want, got = np.empty_like(x), np.empty_like(x)
        run(func, x, want)
        run(flat, x, got)
        np.testing.assert_allclose(got, want, rtol=1e-6)
