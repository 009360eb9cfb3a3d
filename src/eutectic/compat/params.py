"""`tvm.runtime`: parameters as bytes and files, and what else scripts ask the runtime for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from eutectic.compat.containers import Map
from eutectic.runtime.team import available_threads
from eutectic.runtime.tensor import Tensor, cpu, tensor
from eutectic.support.errors import LoadError
from eutectic.target import KINDS

__all__ = [
    "enabled",
    "from_dlpack",
    "load_param_dict",
    "load_param_dict_from_file",
    "num_threads",
    "save_param_dict",
    "save_param_dict_to_file",
]


def save_param_dict(params: Mapping[str, Any]) -> bytes:
    """Parameters as bytes, in the format of safetensors.

    Args:
        params: Arrays or tensors by name.
    """
    return save({name: np.ascontiguousarray(tensor(value).view()) for name, value in params.items()})


def load_param_dict(param_bytes: bytes) -> Map:
    """Tensors by name, from what `save_param_dict` gave.

    Raises:
        LoadError: the bytes are damaged, or of another format.
    """
    try:
        arrays = load(bytes(param_bytes))
    except (SafetensorError, ValueError, KeyError) as error:
        raise LoadError(f"these bytes are no parameters: {error}", help="save_param_dict writes safetensors") from error
    return Map({name: tensor(value) for name, value in arrays.items()})


def save_param_dict_to_file(params: Mapping[str, Any], path: str | Path) -> None:
    """Write parameters into a file."""
    Path(path).write_bytes(save_param_dict(params))


def load_param_dict_from_file(path: str | Path) -> Map:
    """Read parameters from a file.

    Raises:
        LoadError: it is damaged, or of another format.
        OSError: it cannot be read.
    """
    return load_param_dict(Path(path).read_bytes())


def from_dlpack(ext_tensor: Any) -> Tensor:
    """A tensor that shares memory with an array of another package."""
    return Tensor(np.from_dlpack(ext_tensor), cpu())


def enabled(target: str) -> bool:
    """Whether code can be made for a kind of target such as `llvm`."""
    return target.split()[0] in KINDS if target else False


def num_threads() -> int:
    """Threads that a call uses when nothing else is said."""
    return available_threads()
