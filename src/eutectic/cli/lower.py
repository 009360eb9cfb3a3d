"""`eutectic lower`: a model as text at a step of its way to machine code."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from eutectic.cli.models import open_model
from eutectic.cli.session import Debug, Fallback, Json, Model, Precision, TargetOption, print_json, reported
from eutectic.support.errors import LoadError

_NO_KERNELS = (
    "no kernel of our own: oneDNN computes all operators, so there is nothing at stage {stage}; "
    "--target llvm makes kernels of all of them"
)
Stage = Literal["torch", "relax", "fused", "tir", "scheduled", "lowered", "llvm", "asm"]


def lower(
    model: Model,
    stage: Annotated[Stage, typer.Option("--stage", help="How far down.")] = "fused",
    kernel: Annotated[
        str | None, typer.Option("--kernel", help="One kernel, by its name, at stages from tir on.")
    ] = None,
    dump_dir: Annotated[
        Path | None, typer.Option("--dump-dir", help="Write the module after each pass there, with differences.")
    ] = None,
    target: TargetOption = None,
    precision: Precision = "default",
    fallback: Fallback = "eager",
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Print a model at one stage: the graph of torch, ours, the groups, and their programs down to assembly.

    Example: eutectic lower nets:small --stage scheduled --target llvm
    """
    from eutectic.driver.importing import import_model  # --help loads none of this
    from eutectic.driver.settings import settings_of
    from eutectic.driver.stages import lowering

    with reported(debug):
        subject = open_model(model)
        if subject.is_compiled:
            raise LoadError(f"{model} is compiled: it has no stages", help="give the model that it was made of")
        imported = import_model(
            subject.model,
            subject.args,
            dict(subject.kwargs),
            None,
            leaves_to_torch=fallback == "eager",
            custom_convert_map=None,
        )
        made = lowering(imported, settings_of(target, None, precision))
        files = made.dump(dump_dir) if dump_dir is not None else []
        text = made.text(stage, kernel)
    if json:
        print_json({"model": subject.name, "stage": stage, "text": text, "files": [str(file) for file in files]})
        return
    typer.echo(text) if text else typer.echo(_NO_KERNELS.format(stage=stage), err=True)
    for file in files:
        typer.echo(f"wrote {file}", err=True)
