"""Translation validation of graph passes: modules are run before and after, and must agree.

Inputs are random numbers, small integers (whose sums are exact in any order), and ones with NaN, infinities and
negative zeros in single places. Symbolic sizes are 3, 1, 4 in turn. Both modules run in the interpreter; tensor
programs that would take it long run as compiled code without a schedule.

Reference: A. Pnueli, M. Siegel, E. Singerman, "Translation Validation", TACAS 1998.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np

from eutectic.ir.dtype import is_float, item_bytes
from eutectic.ir.module import IRModule
from eutectic.ir.prim_expr import Var as ScalarVar
from eutectic.ir.prim_expr import evaluate
from eutectic.ir.services import register_validator
from eutectic.ir.transform import PassContext
from eutectic.relax.expr import Function
from eutectic.relax.interpret import Interpreter
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.relax.struct_info_relations import free_symbolic_vars
from eutectic.support.deep import deep
from eutectic.support.errors import EutecticAdvice, EutecticError, PassError, SpecialValues
from eutectic.tir.analysis.flops import count_flops
from eutectic.tir.function import PrimFunc
from eutectic.tir.interpret import run_module
from eutectic.tir.schedule.validate import KINDS, SIZES, edge_case_input

TOLERANCE: Final = {2: 2e-2, 4: 1e-4, 8: 1e-9}  # by bytes of the dtype; of the largest magnitude of the result
INTERPRETED_FLOPS: Final = 20_000

Array = np.ndarray[Any, Any]


def validate(before: IRModule, after: IRModule, step: str) -> None:
    """Run what both modules have in common and compare the results.

    Integers and bools must be equal; floats within `TOLERANCE`, with NaN and infinities in the same places, as a
    pass may change the moment of rounding. A function whose parameters a pass changed is not compared.

    Args:
        before: The module.
        after: The same after a pass.
        step: Name of the pass.

    Raises:
        PassError: an element differs. The message has the element and both values, and names a folder
            with a script that shows the difference again.
    """
    for name in _common(before, after):
        function = before[name]
        assert isinstance(function, Function)
        for kind in KINDS:
            args = arguments(function, kind)
            if args is None:
                break
            try:
                want = _leaves(Interpreter(before, program=_run_program).run(name, *args))
            except EutecticError:
                continue  # not defined for these inputs, or nothing that can be interpreted
            try:
                got = _leaves(Interpreter(after, program=_run_program).run(name, *args))
            except SpecialValues:
                continue  # such calls are made by other code
            except EutecticError as error:
                not_validated(step, name, error)
                break
            mismatch = difference(want, got)
            if mismatch is not None:
                refuse((before, after), step, name, kind=kind, args=args, text=mismatch)


def _common(before: IRModule, after: IRModule) -> Iterator[str]:
    """Public graph functions of both, with parameters of the same types."""
    for gv, function in before.functions_items():
        other = after.get(gv.name_hint)
        if not isinstance(function, Function) or not isinstance(other, Function):
            continue
        is_public = function.attr("global_symbol") and not function.attr("Primitive") and not function.attr("Codegen")
        same = [str(p.struct_info) for p in function.params] == [str(p.struct_info) for p in other.params]
        if is_public and same:
            yield gv.name_hint


def arguments(function: Function, kind: str, seed: int = 0) -> list[Array] | None:
    """Arguments for a function; None when a parameter is not a tensor of known dtype and rank.

    Args:
        function: The function; symbolic sizes become small numbers.
        kind: One of `KINDS`.
        seed: Where the numbers begin.
    """
    rng = np.random.default_rng(seed)
    infos = [param.struct_info for param in function.params]
    symbols = free_symbolic_vars([info for info in infos if info is not None])
    sizes: dict[ScalarVar, int] = {var: SIZES[i % len(SIZES)] for i, var in enumerate(symbols)}
    out = []
    for info in infos:
        if not isinstance(info, TensorStructInfo) or info.dims is None or not info.dtype:
            return None
        shape = [evaluate(size, sizes) for size in info.dims]
        out.append(edge_case_input(info.dtype, shape, kind, rng, scale=1.0))
    return out


def _run_program(mod: IRModule, name: str, *arrays: Any) -> None:
    """Interpret a tensor program, or run it as compiled code where that would take long."""
    func = mod[name]
    compiled = PassContext.current().services.program_runner(scheduled=False)
    if compiled is not None and isinstance(func, PrimFunc) and count_flops(func) > INTERPRETED_FLOPS:
        compiled(func, *arrays)
    else:
        run_module(mod, name, *arrays)


@deep
def _leaves(value: Any) -> list[Any]:
    if isinstance(value, tuple):
        return [leaf for part in value for leaf in _leaves(part)]
    return [value]


def difference(want: Sequence[Any], got: Sequence[Any]) -> str | None:
    """What differs between two lists of results, as a sentence; None when nothing does."""
    if len(want) != len(got):
        return f"{len(want)} results became {len(got)}"
    for number, (a, b) in enumerate(zip(want, got, strict=True)):
        where = f"result {number}" if len(want) > 1 else "the result"
        if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
            if a != b:
                return f"{where} was {a!r} and is {b!r}"
            continue
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{where} was {a.dtype}{list(a.shape)} and is {b.dtype}{list(b.shape)}"
        wrong = _differences(a, b)
        if wrong.any():
            at = tuple(int(k) for k in np.argwhere(wrong)[0])
            count = int(wrong.sum())
            place = ", ".join(map(str, at))
            return f"{where}[{place}] was {a[at].item()!r} and is {b[at].item()!r} ({count} of {a.size} differ)"
    return None


def _differences(a: Array, b: Array) -> Array:
    """Where two arrays differ by more than rounding."""
    name = str(a.dtype.name)
    if not is_float(name):
        return np.asarray(a != b)
    x, y = a.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(x) & np.isfinite(y)
    with np.errstate(invalid="ignore"):
        same = (np.isnan(x) & np.isnan(y)) | (x == y)
    scale = float(np.abs(x[finite]).max()) if finite.any() else 0.0
    near = finite & (np.abs(np.where(finite, x, 0) - np.where(finite, y, 0)) <= TOLERANCE[item_bytes(name)] * scale)
    return np.asarray(~(same | near))


def not_validated(step: str, name: str, error: EutecticError) -> None:
    """Say that the results of a pass could not be computed."""
    warnings.warn(f"pass {step} could not be validated on {name}: {error.message}", EutecticAdvice, stacklevel=5)


def refuse(
    mods: tuple[IRModule, IRModule],
    step: str,
    name: str,
    *,
    kind: str,
    args: Sequence[Any],
    text: str,
    script: str | None = None,
) -> NoReturn:
    """Refuse a pass.

    Args:
        mods: The module before and after it.
        step: The pass.
        name: The function that differs.
        kind: Of the inputs on which it does.
        args: The inputs.
        text: What differs.
        script: Shows it again; by default that for graph functions.

    Raises:
        PassError: always.
    """
    folder = save_reproducer(*mods, name, args, _SCRIPT if script is None else script)
    raise PassError(
        f"pass {step} changes what {name} computes: {text}",
        notes=[f"the inputs were {kind}", f"python {folder / 'reproduce.py'} shows it again"],
        help="please report it with the files in that folder",
    )


_SCRIPT: Final = '''"""Runs {name} before and after a pass, on the inputs on which they differ."""

from pathlib import Path

import numpy as np

from eutectic.relax.interpret import Interpreter
from eutectic.script import load

here = Path(__file__).parent
given = np.load(here / "inputs.npz")
args = [given[f"arg{{i}}"] for i in range(len(given.files))]
for version in ("before", "after"):
    print(version, Interpreter(load(here / f"{{version}}.py")).run("{name}", *args), sep="\\n")
'''


def save_reproducer(before: IRModule, after: IRModule, name: str, args: Sequence[Any], script: str = _SCRIPT) -> Path:
    """Write both modules, the inputs and a script into a new folder.

    Args:
        before: The module.
        after: The same after a pass.
        name: The function that differs.
        args: On these inputs.
        script: What to write into it, with a place for the name.
    """
    folder = Path(tempfile.mkdtemp(prefix="eutectic-difference-"))
    for version, mod in (("before", before), ("after", after)):
        PassContext.current().services.write_module(mod, folder / f"{version}.py")
    np.savez(folder / "inputs.npz", **{f"arg{i}": array for i, array in enumerate(args)})
    (folder / "reproduce.py").write_text(script.format(name=name), encoding="utf-8")
    return folder


register_validator(validate)
