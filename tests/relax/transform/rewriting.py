"""What passes over graphs are checked for, whatever they rewrite."""

from __future__ import annotations

from eutectic.ir.module import IRModule
from eutectic.ir.transform import Pass
from eutectic.relax.analysis import get_var2val, problems_of
from eutectic.relax.expr import Call
from eutectic.testing.graphs import assert_same_results


def ops(mod: IRModule) -> list[str]:
    """Names of the operators that `main` calls, in order."""
    return [v.op.name.removeprefix("relax.") for v in get_var2val(mod["main"]).values() if isinstance(v, Call)]


def ops_after(change: Pass, mod: IRModule) -> list[str]:
    """Names of the operators after a pass, which computes the same, leaves its input as it was, and has done all."""
    text = mod.script()
    after = change(mod)
    assert mod.script() == text
    assert problems_of(after) == []
    assert_same_results(mod, after, exact=False)
    assert change(after) is after
    return ops(after)


def assert_stays(change: Pass, mod: IRModule) -> None:
    """A pass finds nothing to do, and returns what it was given."""
    assert change(mod) is mod
