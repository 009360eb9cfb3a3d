"""Translation validation of passes over tensor programs: each program is run before and after, and must agree.

Inputs and tolerances are those of `validate`; every array that the program is given is compared, so that also a store
to the wrong one is found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from eutectic.ir.module import IRModule
from eutectic.ir.services import register_validator
from eutectic.ir.transform import PassContext
from eutectic.relax.validate import INTERPRETED_FLOPS, difference, not_validated, refuse
from eutectic.support.errors import CodegenError, EutecticError
from eutectic.tir.analysis.flops import count_flops
from eutectic.tir.buffer import Buffer
from eutectic.tir.function import PrimFunc
from eutectic.tir.interpret import run_module
from eutectic.tir.schedule.validate import KINDS, inputs

_SCRIPT = '''"""Runs {name} before and after a pass, on the inputs on which they differ."""

from pathlib import Path

import numpy as np

from eutectic.script import load
from eutectic.tir.interpret import run_module

here = Path(__file__).parent
given = np.load(here / "inputs.npz")
for version in ("before", "after"):
    args = [given[f"arg{{i}}"].copy() for i in range(len(given.files))]
    run_module(load(here / f"{{version}}.py"), "{name}", *(arg if arg.ndim else arg.item() for arg in args))
    print(version, *args, sep="\\n")
'''


def validate_programs(before: IRModule, after: IRModule, step: str) -> None:
    """Run the tensor programs that a pass changed, and compare what they leave in their arrays.

    Args:
        before: The module.
        after: The same after a pass.
        step: Name of the pass.

    Raises:
        PassError: an element differs, or the program fails where it did not before. The message has the element and
            both values, and names a folder with a script that shows the difference again.
    """
    for name in _changed(before, after):
        for kind in KINDS:
            args = inputs(before[name], kind)
            want = [np.copy(x) for x in args]
            run = _runner(before[name])
            try:
                run(before, name, want)
            except EutecticError:
                continue  # not defined for these inputs, or nothing that can be run
            mismatch: str | None = None
            got = [np.copy(x) for x in args]
            try:
                run(after, name, got)
            except CodegenError as error:
                not_validated(step, name, error)
                break
            except EutecticError as error:
                mismatch = f"it fails: {error.message}"
            else:
                mismatch = difference(want, got)
            if mismatch is not None:
                refuse((before, after), step, name, kind=kind, args=args, text=mismatch, script=_SCRIPT)


def _changed(before: IRModule, after: IRModule) -> Iterator[str]:
    """Programs of both modules with parameters of the same types and another body."""
    for gv, func in before.functions_items():
        other = after.get(gv.name_hint)
        if not isinstance(func, PrimFunc) or not isinstance(other, PrimFunc) or other.body is func.body:
            continue
        if _signature(func) == _signature(other):
            yield gv.name_hint


def _signature(func: PrimFunc) -> list[tuple[str, int]]:
    return [(item.dtype, len(item.shape) if isinstance(item, Buffer) else -1) for item in func.buffers]


def _runner(func: PrimFunc) -> Callable[[IRModule, str, list[Any]], None]:
    """How both versions of a program are run: interpreted, or compiled with the loops that they have."""
    compiled = PassContext.current().services.program_runner(scheduled=False)
    if compiled is None or count_flops(func) <= INTERPRETED_FLOPS:
        return lambda mod, name, args: run_module(mod, name, *(x if x.ndim else x.item() for x in args))
    return lambda mod, name, args: compiled(mod[name], *(x if x.ndim else x.item() for x in args))


register_validator(validate_programs)
