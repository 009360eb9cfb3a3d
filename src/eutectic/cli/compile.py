"""`eutectic compile` and `eutectic run`: a model into a file, and a call of one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from eutectic.cli.cache import readable_bytes
from eutectic.cli.models import compiled, open_model, with_inputs
from eutectic.cli.session import (
    Debug,
    Fallback,
    Json,
    Model,
    Precision,
    TargetOption,
    Threads,
    print_json,
    progress,
    reported,
)
from eutectic.support.deep import deep

_STATISTICS = ("least", "mean", "largest")


def compile(
    model: Model,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File; MODEL.eut when not given.")] = None,
    target: TargetOption = None,
    cpu: Annotated[
        list[str] | None, typer.Option("--cpu", help="Processor level, such as x86-64-v3; may be given again.")
    ] = None,
    threads: Threads = None,
    precision: Precision = "default",
    fallback: Fallback = "eager",
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Compile a model into a file.

    Example: eutectic compile nets:small -o small.eut --cpu x86-64-v3 --cpu x86-64-v4
    """
    with reported(debug):
        subject = open_model(model)
        options = {"target": target, "threads": threads, "precision": precision, "fallback": fallback}
        fast = compiled(subject, **options)
        path = output or Path(f"{subject.name}.eut")
        with progress(f"writing {path}"):
            fast.save(path, targets=cpu or ())
        size = path.stat().st_size
    if json:
        print_json({"file": str(path), "bytes": size, "report": fast.report.to_json()})
        return
    console = Console()
    console.print(f"{path}: {readable_bytes(size)}", markup=False, highlight=False, soft_wrap=True)
    console.print(str(fast.report), markup=False, highlight=False, soft_wrap=True)


def run(
    model: Model,
    inputs: Annotated[
        list[str] | None, typer.Option("--input", "-i", help="FILE.npy in order, or NAME=FILE.npy; may be given again.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File for the results: .npz.")] = None,
    target: TargetOption = None,
    threads: Threads = None,
    precision: Precision = "default",
    fallback: Fallback = "eager",
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Call a model, on its example arguments where none are given, and say what it returns.

    Example: eutectic run small.eut --input x.npy --output results.npz
    """
    with reported(debug):
        subject = with_inputs(open_model(model), inputs or ())
        options = {"target": target, "threads": threads, "precision": precision, "fallback": fallback}
        fast = compiled(subject, **options)
        arrays = [array_of(value) for value in leaves_of(fast(*subject.args, **subject.kwargs))]
        if output is not None:
            import numpy as np  # --help loads none of this

            np.savez(output, **{f"output_{place}": array for place, array in enumerate(arrays)})
    rows = [_row(place, array) for place, array in enumerate(arrays)]
    if json:
        print_json({"model": subject.name, "outputs": rows})
        return
    table = Table("output", "dtype", "shape", "least", "mean", "largest", title=subject.name)
    for row in rows:
        table.add_row(*map(_cell, row.values()))
    Console().print(table)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


@deep
def leaves_of(value: Any) -> list[Any]:
    """The tensors and numbers in what a model returns, in order."""
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in leaves_of(item)]
    if hasattr(value, "to_tuple"):
        return leaves_of(value.to_tuple())
    if isinstance(value, dict):
        return leaves_of(list(value.values()))
    return [] if value is None else [value]


def array_of(value: Any) -> Any:
    """A tensor, array or number as an array; floats that NumPy cannot compute with as float32."""
    import numpy as np  # --help loads none of this

    if hasattr(value, "detach"):
        value = value.detach()
        value = value.float() if str(value.dtype) == "torch.bfloat16" else value
        return value.numpy()
    return np.asarray(value)


def _row(place: int, array: Any) -> dict[str, Any]:
    row = {"output": place, "dtype": str(array.dtype), "shape": list(array.shape)}
    if not array.size or array.dtype.kind not in "fiub":
        return {**row, **dict.fromkeys(_STATISTICS)}
    numbers = array.astype("float64")
    values = (numbers.min(), numbers.mean(), numbers.max())
    return {**row, **{name: float(value) for name, value in zip(_STATISTICS, values, strict=True)}}
