"""`eutectic doctor`: what this machine and installation can do, and what will be slow here."""

from __future__ import annotations

import os
import platform
from collections.abc import Collection, Mapping, Sequence
from importlib import metadata
from typing import Any

from rich.console import Console
from rich.table import Table

from eutectic.cli.cache import readable_bytes
from eutectic.cli.session import Debug, Json, print_json, reported

_PACKAGES = ("eutectic", "torch", "numpy", "llvmlite", "onednn-cpu-gomp", "apache-tvm-ffi", "islpy", "safetensors")


def doctor(json: Json = False, debug: Debug = False) -> None:
    """Say what is here: processor, threads, libraries, caches, versions; and what will be slow, and why.

    Example: eutectic doctor --json
    """
    with reported(debug):
        facts, slow = examine()
    if json:
        print_json({"facts": facts, "slow": slow})
        return
    table = Table("", "", show_header=False, title="eutectic doctor")
    for name, value in facts.items():
        table.add_row(name, str(value))
    console = Console()
    console.print(table)
    for sentence in slow:
        console.print(f"slow: {sentence}", markup=False, highlight=False)
    if not slow:
        console.print("nothing here is known to be slow")


def examine() -> tuple[dict[str, Any], list[str]]:
    """Facts by name, and sentences about what will be slow."""
    from eutectic.backend.registry import available, backend  # --help loads none of this
    from eutectic.explain.exchange import exchanges
    from eutectic.runtime.processor import features, model_name
    from eutectic.runtime.team import available_threads, can_sleep
    from eutectic.support import cache
    from eutectic.target import Target

    vectors = [name for name in ("avx2", "avx512f", "avx512bf16", "amx-bf16", "neon", "sve") if name in features()]
    state = available(backend("dnnl"), Target("llvm"))
    folder = cache.usable_folder()
    facts: dict[str, Any] = {
        "processor": model_name(),
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "vectors": ", ".join(vectors) or "none known",
        "processors usable": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads of a call": available_threads(),
        "oneDNN": "there" if state.ok else f"not used: {state.reason}",
        **(_narrow() if state.ok else {}),
        "kernel cache": str(folder) if folder is not None else "none",
        **{name: _version(name) for name in _PACKAGES},
    }
    between = exchanges()
    if between:
        facts["a cache line there and back"] = f"{_nanoseconds(between.values())} from the first processor"
    facts |= _measured()
    if folder is not None:
        entries = cache.entries()
        facts["kernels kept"] = f"{len(entries)}, {readable_bytes(sum(entry.bytes for entry in entries))}"
    slow = [sentence for condition, sentence in _judged(facts, vectors, state.ok, can_sleep()) if condition]
    return facts, [*slow, *_far(between)]


def _narrow() -> dict[str, str]:
    """What narrow precisions are worth here, as oneDNN was measured."""
    from eutectic.backend.contract import NARROW  # --help loads none of this
    from eutectic.backend.registry import backend, code_generator
    from eutectic.target import Target

    verdicts = {name: backend("dnnl").computes_in(dtype, Target("llvm")) for name, dtype in NARROW.items()}
    held = code_generator(Target("llvm")).narrow_weights(Target("llvm"))
    others = {name: "not used but for weights" if NARROW[name] in held else "not used" for name in NARROW}
    return {
        f"precision {name}": f"{'used' if verdict.ok else others[name]}: {verdict.reason}"
        for name, verdict in verdicts.items()
    }


def _measured() -> dict[str, str]:
    """What the user's database of measured choices says of this processor.

    Raises:
        LoadError: it is damaged.
    """
    from eutectic.runtime.team import available_threads  # --help loads none of this
    from eutectic.support.config import tuning_file
    from eutectic.target import Target
    from eutectic.tune.database import Database
    from eutectic.tune.lookup import processor_key

    file = tuning_file()
    if file is None or not file.is_file():
        return {"tuned choices": "none: eutectic tune MODEL measures them"}
    database, processor = Database(file), processor_key(Target("llvm"))
    rows = database.choices(processor, available_threads())
    changed = sum(not row.is_default for row in rows)
    facts = {"tuned choices": f"{len(rows)} measured, {changed} other than the default, in {file}"}
    for speed in database.speeds(processor, available_threads()):
        rates = [f"{name} {rate / 1e9:.0f} GB/s" for name, rate in _rates(speed)]
        facts["measured speed"] = (
            f"{speed.flops / 1e9:.0f} GFLOP/s by one thread, {', '.join(rates)} by {speed.threads}"
        )
    return facts


def _rates(speed: Any) -> list[tuple[str, float]]:
    return [("own caches", speed.near), ("shared cache", speed.shared), ("memory", speed.memory)]


def _judged(facts: dict[str, Any], vectors: Sequence[str], library: bool, team: bool) -> list[tuple[bool, str]]:
    threads, usable = facts["threads of a call"], facts["processors usable"]
    return [
        ("avx512f" not in vectors and "sve" not in vectors, "vectors have 256 bits or less: half the speed of AVX-512"),
        ("avx2" not in vectors and "neon" not in vectors, "there is no AVX2 or NEON: expect a fourth of usual speed"),
        (not library, f"convolutions run in kernels of our own only, as oneDNN is {facts['oneDNN']}"),
        (not team, "calls use one thread: there is no team of threads on this platform"),
        (threads > usable, f"calls use {threads} threads on {usable} processors: set EUTECTIC_THREADS={usable}"),
        (threads < usable, f"calls use {threads} of {usable} processors: OMP_NUM_THREADS or EUTECTIC_THREADS says so"),
        (facts["kernel cache"] == "none", "no kernels are kept: every process compiles anew; see EUTECTIC_CACHE_DIR"),
    ]


def _far(between: Mapping[int, float]) -> list[str]:
    """What is said of processors that share no cache with the first one."""
    from eutectic.explain.exchange import FAR  # --help loads none of this

    far = {number: seconds for number, seconds in between.items() if seconds > FAR}
    if not far:
        return []
    numbers = ", ".join(map(str, far))
    return [
        f"processors {numbers} share no cache with the first: threads wait {_nanoseconds(far.values())} for a line "
        "that the other one wrote. Virtual machines may be moved while they run; else taskset can keep to near ones"
    ]


def _nanoseconds(times: Collection[float]) -> str:
    least, most = (round(seconds * 1e9) for seconds in (min(times), max(times)))
    return f"{least} ns" if least == most else f"{least} to {most} ns"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
