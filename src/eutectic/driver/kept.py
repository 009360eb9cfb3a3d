"""Whole compiled models on disk: a model that was compiled before is read, and no pass runs.

A model is known by all that its code and its report depend on: the graph as it was imported, with weights, names and
places in the user's source; what `compile` was told; the context of its passes; processor, libraries and what was
measured; and the code of this package. What nobody can put into a key leaves a model out: instruments and checks of
passes, registered things of others (`support.registry.additions`), values that are no arrays.

Weights are part of the file, folded and packed as they are: reading it maps them. What the file does not have, such as
the graph of kernels, is made again from its text when somebody asks for it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

import numpy as np

import eutectic.support.cache as store
from eutectic.artefact.file import Artefact, write_artefact
from eutectic.artefact.model import loaded
from eutectic.backend.registry import backend, code_generator
from eutectic.driver.compiled import CompiledModel
from eutectic.driver.importing import Imported
from eutectic.driver.linked import Linked, linked
from eutectic.driver.pipeline import after_partition
from eutectic.driver.report import CompileReport
from eutectic.driver.saved_text import graph_of
from eutectic.driver.settings import Settings, context_of
from eutectic.ir.module import IRModule
from eutectic.ir.transform import PassContext
from eutectic.ir.visit import post_order
from eutectic.relax.expr import Constant, Function
from eutectic.runtime.executable import Executable
from eutectic.runtime.saved import SavedModel
from eutectic.runtime.team import available_threads
from eutectic.script import print_with_metadata
from eutectic.support.code_version import code_version
from eutectic.support.config import keeps_models, tvm_semantics
from eutectic.support.errors import EutecticError
from eutectic.support.registry import additions

NOTE: Final = "compiled before, and read from the cache"
_WRITERS: Final[dict[str, threading.Thread]] = {}  # by key
_PACKAGES: Final = ("eutectic", "llvmlite", "ml_dtypes", "numpy")


@dataclass(frozen=True)
class Kept:
    """A model that was compiled before.

    Attributes:
        executable: What runs.
        report: What became of its operators; times are those of the first compilation.
        made: Links it again, with all that is made on the way.
    """

    executable: Executable
    report: CompileReport
    made: Callable[[], Linked]


def key_of(imported: Imported, settings: Settings, ctx: PassContext) -> str | None:
    """What a model is known by; None when it is not kept.

    Args:
        imported: The model.
        settings: What it is compiled for.
        ctx: What its passes run in.
    """
    if not keeps_models() or store.usable_folder() is None or ctx.instruments or ctx.verify or ctx.validate:
        return None
    parts = [_settings_text(settings), _context_text(ctx), repr(imported.eager), repr(dict(imported.sizes))]
    if None in parts or additions() or imported.mod.attrs:
        return None
    digest = hashlib.sha256(_surroundings())
    for part in parts:
        digest.update(f"{part}\n".encode())
    return digest.hexdigest() if _add_graph(digest, imported.mod) else None


def read(key: str, settings: Settings) -> Kept | None:
    """The model of a key; None when there is none, or its file is not as it was written."""
    if (writer := _WRITERS.pop(key, None)) is not None:
        writer.join()
    path = store.model_path(key)
    if path is None or not path.is_file():
        return None
    try:
        saved = Artefact(path, copied=True).saved(0)
        report, made = CompileReport.from_json(saved.report), _again(saved, settings)
        executable = loaded(saved, lambda: made().executable.make_other())
    except EutecticError:
        return None
    with contextlib.suppress(OSError):
        os.utime(path)
    return Kept(executable, replace(report, notes=(*report.notes, NOTE)), made)


def keep(key: str, model: CompiledModel) -> None:
    """Keep a model, unless it is large, or a part of it cannot be written; that there is no room is no error.

    A thread does it while the model is used already; the process does not end before it.
    """
    _WRITERS[key] = threading.Thread(target=_write, args=(key, model), name="eutectic-keep")
    _WRITERS[key].start()


def settle() -> None:
    """Wait until all models that are to be kept are written."""
    while _WRITERS:
        _WRITERS.popitem()[1].join()


def _write(key: str, model: CompiledModel) -> None:
    with contextlib.suppress(EutecticError, OSError):
        path, saved = store.model_path(key), model.around(model.executable.program)
        weights = sum(array.nbytes for arrays in saved.constants.values() for array in arrays)
        if path is not None and weights <= store.MOST_OF_MODEL:
            store.model_was_written(write_artefact(path, [saved], "", synced=False))


def _again(saved: SavedModel, settings: Settings) -> Callable[[], Linked]:
    """What links a model again, once: from its text, as weights that were imported may be others by now."""
    context = context_of(settings)

    @cache
    def made() -> Linked:
        graph = graph_of(saved)
        with context:
            return linked(after_partition(settings.plan)(graph), graph, settings)

    return made


def _settings_text(settings: Settings) -> str | None:
    plan, threads = str(settings.plan), available_threads(settings.threads)
    if "<" in plan:
        return None  # a pass has something that no text can say
    measured = json.dumps(settings.measured.decisions, sort_keys=True, default=dict)
    parts = (settings.target, settings.precision, settings.threads, threads, settings.notes, settings.measured.speeds)
    machine = code_generator(settings.target).machine(settings.target)
    libraries = [backend(name).version() for name in settings.target.libs]
    return repr((*map(repr, parts), machine, libraries, plan, measured, tvm_semantics()))


def _context_text(ctx: PassContext) -> str | None:
    try:
        config = json.dumps(ctx.config, sort_keys=True)
    except (TypeError, ValueError):
        return None
    return repr((ctx.opt_level, ctx.required_pass, ctx.disabled_pass, config))


def _add_graph(digest: Any, mod: IRModule) -> bool:
    """Add a module with its constants, and the places in the user's source; False when a value is no array."""
    text, metadata = print_with_metadata(mod)
    digest.update(text.encode())
    for kind, values in metadata.items():
        for value in values:
            array = value.data if isinstance(value, Constant) else value
            if not isinstance(array, np.ndarray) or array.dtype.hasobject:
                return False
            digest.update(f"{kind} {array.dtype} {array.shape}\n".encode())
            digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    for place in _places(mod):
        digest.update(place.encode())
    return True


def _places(mod: IRModule) -> Iterator[str]:
    for _, function in mod.functions_items():
        if isinstance(function, Function):
            for span in (getattr(node, "span", None) for node in post_order(function)):
                if span is not None:
                    yield repr([(at.file, at.line, at.column, at.end_column, at.module) for at in span.all])


@cache
def _surroundings() -> bytes:
    """Changes when the code of this package changes, or what it is made with."""
    return sys.version.encode() + code_version(_PACKAGES, ("**/*.py",))
