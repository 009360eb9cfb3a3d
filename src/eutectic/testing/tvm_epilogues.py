"""The same cases in TVM, where it is installed: what its primitive makes of them.

They run in a process of their own, `python -m eutectic.testing.tvm_epilogues FIRST`, because some fused programs
store outside of their buffers, and end the process.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from importlib import metadata
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

from eutectic.ir.dtype import is_integer
from eutectic.testing.epilogue_cases import cases
from eutectic.testing.epilogues import Case, arguments
from eutectic.tir.interpret import run
from eutectic.tir.transform import lower

_NEW_NAMES: Final = {"T.block(": "T.sblock(", "T.alloc_buffer(": "T.sblock_alloc_buffer("}
_TOLERANCE: Final = 1e-5  # functions such as exp are rounded differently; sums of small integers are exact


def tvm_version() -> str | None:
    """Version of the installed TVM; None where there is none."""
    try:
        return metadata.version("apache-tvm")
    except metadata.PackageNotFoundError:
        return None


def tvm_results() -> dict[str, str]:
    """What TVM does with all cases, by name; a case at which the process ends `crashes`."""
    names = [case.name for case in cases()]
    results: dict[str, str] = {}
    while len(results) < len(names):
        ran = subprocess.run(
            [sys.executable, "-m", "eutectic.testing.tvm_epilogues", str(len(results))],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=False,
        )
        lines = [line.split("\t") for line in ran.stdout.splitlines() if line.count("\t") == 1]
        results |= {name: result for name, result in lines if name in names}
        if len(results) < len(names):
            results[names[len(results)]] = "crashes"
    return results


def tvm_result(case: Case) -> str:
    """What TVM does with a case: `refused`, `same`, a number of wrong elements, or `does not build`."""
    tvm = importlib.import_module("tvm")
    new = find_spec("tvm.tirx") is not None
    try:
        sch = _schedule(tvm, in_tvm(case.source, new=new), new)
        case.prepare(sch)
    except Exception as error:
        return f"cannot read it: {type(error).__name__}"
    try:
        sch.fuse_reduction_epilogue(case.reduction, "epilogue")
    except Exception:
        return "refused"
    try:
        built = tvm.compile(sch.mod, target="llvm")
    except Exception:
        return "does not build"
    return _compared(tvm, built, case)


def in_tvm(source: str, *, new: bool) -> str:
    """The text of a case with the names of an old or a new TVM."""
    text = source.replace("from tvm.script import tir as T", "")
    if not new:
        return text
    for old, name in _NEW_NAMES.items():
        text = text.replace(old, name)
    return text.replace("@T.prim_func", "@T.prim_func(s_tir=True)")


def _schedule(tvm: Any, source: str, new: bool) -> Any:
    parsed = tvm.script.from_source(source)
    return (tvm.s_tir if new else tvm.tir).Schedule(parsed)


def _compared(tvm: Any, built: Any, case: Case) -> str:
    reference = lower(case.program)
    exact = is_integer(case.program.buffers[0].dtype)
    want = arguments(reference, "large integers" if exact else "small integers")
    inputs = [np.copy(item) for item in want]
    run(reference, *want)
    tensors = [tvm.runtime.tensor(item) for item in inputs]
    built["main"](*tensors)
    wrong = 0
    for a, b in zip(want, tensors, strict=True):
        got = b.numpy()
        with np.errstate(all="ignore"):
            wrong += int(np.count_nonzero(~np.isclose(got, a, rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True)))
    total = sum(int(np.asarray(a).size) for a, before in zip(want, inputs, strict=True) if (a != before).any())
    return "same" if wrong == 0 else f"wrong: {wrong} of {total}"


if __name__ == "__main__":
    for one in cases()[int(sys.argv[1]) :]:
        print(one.name, tvm_result(one), sep="\t", flush=True)
