"""Passes: contexts, sequences, decorators, instruments, records."""

from __future__ import annotations

import pytest

from eutectic.ir.instrument import PassInstrument, PassTimingInstrument, PrintAfterAll
from eutectic.ir.module import IRModule
from eutectic.ir.transform import PassContext, Sequential, module_pass
from eutectic.relax import op
from eutectic.relax.transform import DeadCodeElimination, dataflowblock_pass, function_pass
from eutectic.support.errors import PassError, WellFormedError
from eutectic.testing.graphs import graph


def relu():
    return graph({"x": (2,)}, lambda bb, x: op.nn.relu(x))


@module_pass(opt_level=0, name="Mark")
def mark(mod: IRModule, ctx: PassContext) -> IRModule:
    return mod.with_attr("marked", mod.attrs.get("marked", 0) + 1)


def test_a_function_becomes_a_pass():
    before = relu()
    assert mark(before).attrs["marked"] == 1
    assert "marked" not in before.attrs
    assert mark.info.name == "Mark"


def test_a_class_becomes_a_pass_with_its_own_state():
    @module_pass(opt_level=2)
    class Add:
        def __init__(self, amount: int) -> None:
            self.amount = amount

        def transform_module(self, mod, ctx):
            return mod.with_attr("marked", self.amount)

    step = Add(5)
    assert step(relu()).attrs["marked"] == 5
    assert step.amount == 5
    assert step.info.opt_level == 2


def test_the_level_must_be_given():
    with pytest.raises(ValueError, match="opt_level"):
        module_pass(lambda mod, ctx: mod)


def test_a_sequence_skips_high_levels_and_disabled_names_but_a_direct_call_runs():
    @module_pass(opt_level=3, name="High")
    def high(mod, ctx):
        return mod.with_attr("high", True)

    both = Sequential([mark, high])
    assert "high" not in both(relu()).attrs
    with PassContext(opt_level=3):
        assert "high" in both(relu()).attrs
    with PassContext(opt_level=3, disabled_pass=["Mark"]):
        assert "marked" not in both(relu()).attrs
    with PassContext(required_pass=["High"]):
        assert "high" in both(relu()).attrs
    assert "high" in high(relu()).attrs


def test_contexts_nest_and_unknown_options_are_refused():
    with PassContext(opt_level=1) as outer:
        with PassContext(opt_level=3) as inner:
            assert PassContext.current() is inner
        assert PassContext.current() is outer
    with pytest.raises(PassError, match=r"did you mean relax\.FoldConstant\.max_bytes"):
        PassContext(config={"relax.FoldConstant.max_byte": 1})


def test_records_tell_what_ran_and_what_changed():
    with PassContext() as ctx:
        Sequential([mark, DeadCodeElimination()])(relu())
    changed = {record.name: record.changed for record in ctx.records}
    assert changed == {"Mark": True, "DeadCodeElimination": False, "sequential": True}


def test_instruments_see_every_pass_and_may_skip_it():
    seen: list[str] = []

    class Log(PassInstrument):
        def should_run(self, mod, info):
            return info.name != "Mark"

        def run_before_pass(self, mod, info):
            seen.append(f"before {info.name}")

        def run_after_pass(self, mod, info):
            seen.append(f"after {info.name}")

    with PassContext(instruments=[Log()]):
        Sequential([mark, DeadCodeElimination()])(relu())
    assert seen == [
        "before sequential",
        "before DeadCodeElimination",
        "after DeadCodeElimination",
        "after sequential",
    ]


def test_timing_and_printing_instruments():
    timing, lines = PassTimingInstrument(), []
    with PassContext(instruments=[timing, PrintAfterAll(lines.append)]):
        mark(relu())
    assert timing.render().startswith("Mark: ")
    assert lines[0].startswith('After Running Pass: PassInfo(opt_level=0, name="Mark"')


def test_function_and_block_passes():
    @function_pass(opt_level=0)
    def keep(func, mod, ctx):
        return func.with_attr("seen", True)

    assert keep(relu())["main"].attrs["seen"] is True

    @dataflowblock_pass(opt_level=0, name="Drop")
    def drop(block, mod, ctx):
        return type(block)(())

    with pytest.raises(WellFormedError, match="pass Drop lost outputs of a dataflow block: gv"):
        drop(relu())


def test_a_wrong_result_is_named():
    @module_pass(opt_level=0, name="Nothing")
    def nothing(mod, ctx):
        return None

    with pytest.raises(PassError, match="pass Nothing returned NoneType"):
        nothing(relu())


class Counting(PassInstrument):
    """Counts what it is told."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def enter_pass_ctx(self) -> None:
        self.seen.append("enter")

    def exit_pass_ctx(self) -> None:
        self.seen.append("exit")

    def run_before_pass(self, mod, info):
        self.seen.append(info.name)


def test_an_inner_context_has_what_the_outer_one_has_and_records_of_its_own():
    seen = Counting()
    with PassContext(3, ["A"], ["Mark"], [seen], {"relax.FuseOps.max_depth": 7}, verify=True) as outer:
        with PassContext.current().inner(remarks=True) as inner:
            assert PassContext.current() is inner
            assert (inner.opt_level, inner.required_pass, inner.disabled_pass) == (3, ("A",), ("Mark",))
            assert inner.option("relax.FuseOps.max_depth") == 7
            assert (inner.verify, inner.collect_remarks) == (True, True)
            DeadCodeElimination()(relu())
        assert seen.seen == ["enter", "DeadCodeElimination"]
        assert [len(context.records) for context in (outer, inner)] == [0, 1]
    assert seen.seen == ["enter", "DeadCodeElimination", "exit"]


def test_instruments_of_an_inner_context_alone_are_entered_there():
    outside, inside = Counting(), Counting()
    with PassContext(instruments=[outside]):
        with PassContext.current().inner() as context:
            context.override_instruments([inside])
            assert (outside.seen, inside.seen) == (["enter"], ["enter"])
        assert inside.seen == ["enter", "exit"]
    assert outside.seen == ["enter", "exit"]
