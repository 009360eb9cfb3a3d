"""Environment variables of Eutectic; no other module reads `os.environ`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from platformdirs import user_cache_dir, user_data_dir

from eutectic.support.errors import ArgumentError

VARIABLES: Final[dict[str, str]] = {
    "EUTECTIC_CACHE_DIR": "folder of compiled kernels and models; empty means that none are kept",
    "EUTECTIC_CACHE_MODELS": "0 keeps compiled kernels, but no whole compiled models; empty means that both are kept",
    "EUTECTIC_CPU": "processor that code is made for, as LLVM calls it, such as x86-64-v3; empty means this machine's",
    "EUTECTIC_DNNL_LIBRARY": "path of the oneDNN shared library to load instead of the installed one",
    "EUTECTIC_HELPERS": "most processes that help compiling kernels; empty means one for each other processor",
    "EUTECTIC_THREADS": "number of threads a compiled model uses when compile() is not told",
    "EUTECTIC_TUNING_FILE": "database of measured choices; empty means that none is read by default",
    "EUTECTIC_TVM_SEMANTICS": "1 lets schedules under the name of tvm apply epilogues at every step of a sum, as TVM",
}


def default_cpu() -> str:
    """Processor given by `EUTECTIC_CPU`, for targets that name none; empty for the one of this machine."""
    return os.environ.get("EUTECTIC_CPU", "")


def dnnl_library() -> str | None:
    """Path given by `EUTECTIC_DNNL_LIBRARY`, or None."""
    return os.environ.get("EUTECTIC_DNNL_LIBRARY") or None


def default_threads() -> int | None:
    """Thread count given by `EUTECTIC_THREADS`, or None.

    Raises:
        ArgumentError: the value is not a positive integer.
    """
    return _number("EUTECTIC_THREADS", 1, "a positive integer", "set it to a number of threads, or unset it")


def wanted_helpers() -> int | None:
    """Most processes that help compiling, given by `EUTECTIC_HELPERS`, or None.

    Raises:
        ArgumentError: the value is not an integer from 0 on.
    """
    return _number("EUTECTIC_HELPERS", 0, "an integer from 0 on", "set it to a number of processes, or unset it")


def _number(variable: str, least: int, expected: str, help: str) -> int | None:
    text = os.environ.get(variable)
    if not text:
        return None
    if not text.isdigit() or int(text) < least:
        raise ArgumentError(f"{variable}={text!r}: expected {expected}", help=help)
    return int(text)


def tvm_semantics() -> bool:
    """Whether `EUTECTIC_TVM_SEMANTICS` asks for TVM's meaning where it is another than ours."""
    return os.environ.get("EUTECTIC_TVM_SEMANTICS") == "1"


def cache_folder() -> Path | None:
    """Folder of compiled kernels: `EUTECTIC_CACHE_DIR`, else `eutectic` in the user's cache folder; None when off."""
    setting = os.environ.get("EUTECTIC_CACHE_DIR")
    if setting is not None:
        return Path(setting).expanduser() if setting else None
    return Path(user_cache_dir("eutectic", appauthor=False)) / "kernels"


def keeps_models() -> bool:
    """Whether whole compiled models are kept beside kernels, which `EUTECTIC_CACHE_MODELS=0` forbids."""
    return os.environ.get("EUTECTIC_CACHE_MODELS") != "0"


def tuning_file() -> Path | None:
    """Database of measured choices: `EUTECTIC_TUNING_FILE`, else `tuning.db` in the user's data folder; None when off.

    It is no cache: what was measured for minutes is not to go when caches are emptied.
    """
    setting = os.environ.get("EUTECTIC_TUNING_FILE")
    if setting is not None:
        return Path(setting).expanduser() if setting else None
    return Path(user_data_dir("eutectic", appauthor=False)) / "tuning.db"


def openmp_threads() -> int | None:
    """Thread count given by `OMP_NUM_THREADS`, or None when it is not a positive number."""
    text = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    return int(text) if text.isdigit() and int(text) > 0 else None
