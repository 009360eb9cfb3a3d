"""Windows over padded images, as programs and in float64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from tests.tir.schedule.rules.processors import Vectors

from eutectic import te, tir
from eutectic.backend.llvm.machine import machine_of
from eutectic.driver.build_prim_func import NativePrimFunc
from eutectic.target import Target
from eutectic.testing.round_trip import check_round_trip
from eutectic.tir.schedule.rules.cpu import schedule_for_cpu
from eutectic.topi.nn.conv_blocked import conv2d_nchwc

NATIVE = Target("llvm")
Array = npt.NDArray[Any]
Pair = tuple[int, int]


class PaddedWindows:
    """Windows of some size over images with zeros around, and what is done to each sum.

    Args:
        image: Rows, and points of a row.
        kernel: The same of a window.
        stride: Steps of the window along both.
        before: Rows, and points of a row, that are added before the image.
        after: The same after it.
        apart: From one tap to the next, along both.
    """

    def __init__(self, image: Pair, kernel: Pair, stride: Pair, before: Pair, after: Pair, apart: int = 1) -> None:
        self.image, self.kernel, self.stride, self.before, self.after = image, kernel, stride, before, after
        self.apart = apart
        wide = [size + low + high for size, low, high in zip(image, before, after, strict=True)]
        self.out = [(size - apart * (k - 1) - 1) // s + 1 for size, k, s in zip(wide, kernel, stride, strict=True)]

    def shapes(self) -> list[tuple[int, ...]]:
        """Of the arguments."""
        raise NotImplementedError

    def program(self) -> tir.PrimFunc:
        """Of the arguments, and then the result."""
        raise NotImplementedError

    def want(self, *arrays: Array) -> Array:
        """The result in float64."""
        raise NotImplementedError

    def arrays(self) -> list[Array]:
        """Random arguments."""
        rng = np.random.default_rng(1)
        return [rng.standard_normal(shape).astype("float32") for shape in self.shapes()]

    def seen(self, image: Array) -> Iterator[tuple[Pair, Array]]:
        """For each tap what all windows see there, of an image whose axes 2 and 3 are rows and points, in float64."""
        around = [(0, 0), (0, 0), *zip(self.before, self.after, strict=True), *[(0, 0)] * (image.ndim - 4)]
        padded = np.pad(image.astype(np.float64), around)
        (rows, points), (down, right) = self.out, self.stride
        for ky, kx in np.ndindex(*self.kernel):
            y, x = self.apart * ky, self.apart * kx
            there = padded[:, :, y : y + down * rows : down, x : x + right * points : right]
            yield (ky, kx), there[:, :, :rows, :points]

    def chosen(self) -> list[str]:
        """What the rules chose."""
        return [str(line) for line in schedule_for_cpu(self.program(), Vectors()).attrs["tir.chosen"]]

    def check(self, scheduled: tir.PrimFunc | None = None, atol: float | None = None) -> None:
        """The program, scheduled as it is by default or otherwise, gives what float64 gives."""
        arrays = self.arrays()
        want = self.want(*arrays)
        out = np.full(want.shape, np.nan, "float32")
        scheduled = scheduled or schedule_for_cpu(self.program(), machine_of(NATIVE))
        check_round_trip(scheduled)
        NativePrimFunc(scheduled, NATIVE, 2)(*arrays, out)
        allowed = 1e-5 * max(1.0, np.abs(want).max(initial=0)) if atol is None else atol
        np.testing.assert_allclose(out, want, atol=allowed)


class BlockedConvolution(PaddedWindows):
    """A padded convolution of channels in blocks, to blocks.

    Attributes:
        images: How many.
        blocks: Of channels of the data.
        filters: Blocks of channels of the result.
        channels: Of a block of the data.
        lanes: Channels of a block of the result.
    """

    images, blocks, filters = 1, 2, 2
    channels, lanes = 16, 32

    def shapes(self) -> list[tuple[int, ...]]:
        weight = (self.filters, self.blocks, *self.kernel, self.channels, self.lanes)
        return [(self.images, self.blocks, *self.image, self.channels), weight]

    def program(self) -> tir.PrimFunc:
        data, weight = (te.placeholder(shape, "float32", n) for shape, n in zip(self.shapes(), "dw", strict=True))
        result = conv2d_nchwc(data, weight, self.stride, (*self.before, *self.after), self.apart)
        return te.create_prim_func([data, weight, result])

    def want(self, *arrays: Array) -> Array:
        data, weight = arrays
        total = np.zeros((self.images, self.filters, *self.out, self.lanes))
        for (ky, kx), there in self.seen(data):
            total += np.einsum("nchwi,fcio->nfhwo", there, weight[:, :, ky, kx])
        return total
