"""In which dtypes of 16 bits oneDNN is faster than in float32: to have the instructions for them is not enough.

AMD's cores multiply bfloat16 in half of the time of float32 by AVX-512. Intel's are made to do so in tiles (AMX); where
a virtual machine hides these, AVX-512 takes twice the time of float32 on an Emerald Rapids, and float16 1.1 to 6 times.
So a product is timed in both dtypes, once on each processor.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np

import eutectic.support.cache as store
from eutectic.backend.contract import Verdict
from eutectic.backend.dnnl import abi, library
from eutectic.backend.dnnl.engine import compile_region
from eutectic.backend.dnnl.narrow import computes_in, is_host
from eutectic.backend.dnnl.spec import Matmul, RegionSpec, TensorSpec
from eutectic.runtime.processor import features, model_name
from eutectic.target import Target

MOST_TIME: Final = 0.9  # of that of float32, for which values are worth rounding
_ROWS, _TERMS, _COLUMNS = 128, 512, 512  # of the product: some 300 microseconds, and weights that stay near
_ROUNDS: Final = 15  # of each dtype, in turns
_VERSION: Final = "1"


def faster_in(dtype: str, target: Target) -> Verdict:
    """Whether oneDNN computes faster in a dtype than in float32; of other processors than this one, what they promise.

    Args:
        dtype: Such as `bfloat16`.
        target: What a program is for.
    """
    can = computes_in(dtype, target)
    if not can.ok or dtype not in abi.INSTRUCTIONS or not is_host(target):
        return can
    share = time_share(dtype)
    if share <= MOST_TIME:
        return Verdict(ok=True, reason=f"{can.reason}, in {share:.2f} of the time of float32", share=share)
    feature, _ = abi.INSTRUCTIONS[dtype]
    said = f"oneDNN multiplies {dtype} with {feature} in {share:.1f} times the time of float32 on this processor"
    return Verdict(ok=False, reason=said)


@cache
def time_share(dtype: str) -> float:
    """The time of a product in a dtype over that in float32, by one thread: from the cache, or measured now.

    Args:
        dtype: One that oneDNN computes here.
    """
    state = library.availability()
    parts = (_VERSION, dtype, model_name(), *sorted(features()), str(state.version), str(state.isa))
    key = hashlib.sha256("\0".join(("speed of oneDNN", *parts)).encode()).hexdigest()
    known = store.read(key)
    share = None if known is None else known.meta.get("share")
    if isinstance(share, float):
        return share
    share = _measured(dtype)
    store.write(key, store.Entry({"name": f"speed of oneDNN in {dtype}", "cpu": model_name(), "share": share}, b""))
    return share


def _measured(dtype: str) -> float:
    calls = {name: _product(name) for name in (dtype, "float32")}
    fastest = dict.fromkeys(calls, float("inf"))
    for _ in range(_ROUNDS):
        for name, call in calls.items():
            call()  # what the other one left in caches goes
            start = time.perf_counter()
            call()
            fastest[name] = min(fastest[name], time.perf_counter() - start)
    return fastest[dtype] / fastest["float32"]


def _product(dtype: str) -> Callable[[], None]:
    """A product with constant weights."""
    x, y = (TensorSpec(name, (_ROWS, size), dtype) for name, size in (("x", _TERMS), ("y", _COLUMNS)))
    w = TensorSpec("w", (_TERMS, _COLUMNS), dtype)
    spec = RegionSpec("speed", (x,), (w,), (Matmul("x", "w", None, y),), ("y",))
    region = compile_region(spec, {"w": np.ones(w.shape, w.array_dtype)}, threads=1)
    data, result = np.ones(x.shape, x.array_dtype), np.zeros(y.shape, y.array_dtype)
    return lambda: region.run([data], [result])
