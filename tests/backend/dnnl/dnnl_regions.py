"""Builders for the tests of oneDNN regions: arrays in, arrays and the region out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eutectic.backend.dnnl.engine import Region, compile_region
from eutectic.backend.dnnl.spec import RegionSpec, Step, TensorSpec

Arrays = Mapping[str, np.ndarray]


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


def region_of(
    inputs: Arrays, constants: Arrays, steps: Sequence[Step], outputs: Sequence[str], **options: Any
) -> Region:
    given, fixed = (tuple(TensorSpec(k, v.shape) for k, v in arrays.items()) for arrays in (inputs, constants))
    spec = RegionSpec("region", given, fixed, tuple(steps), tuple(outputs), "test")
    return compile_region(RegionSpec.from_json(spec.to_json()), constants, **options)


def call(region: Region, inputs: Arrays) -> list[np.ndarray]:
    tensors = region.spec.tensors()
    outputs = [np.full(tensors[name].shape, np.nan, np.float32) for name in region.spec.outputs]
    region.run(list(inputs.values()), outputs)
    return outputs


def compute(
    inputs: Arrays, constants: Arrays, steps: Sequence[Step], outputs: Sequence[str], **options: Any
) -> list[np.ndarray]:
    return call(region_of(inputs, constants, steps, outputs, **options), inputs)


def assert_close(got: np.ndarray, want: np.ndarray, tolerance: float = 1e-5) -> None:
    """Compare with a float64 reference, relative to its largest element."""
    assert got.shape == want.shape
    scale = max(1.0, float(np.abs(want).max(initial=0)))
    np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * scale)
