"""Default schedules of images under other sizes, and read at computed places, beside torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.backend.llvm.batch import Case, check, noise

from eutectic import topi


@pytest.mark.parametrize("method", ["bilinear", "nearest", "bicubic"])
def test_places_of_a_grid(method: str):
    """In rows, with channels last, and in blocks of them."""
    x, grid = noise(0, 2, 16, 9, 11), np.clip(noise(1, 2, 2, 7, 19), -1.4, 1.4)
    last, blocks = (
        np.ascontiguousarray(x.transpose(0, 2, 3, 1)),
        np.ascontiguousarray(x.transpose(0, 2, 3, 1)[:, None]),
    )
    cases = []
    for outside in ("zeros", "border", "reflection"):

        def sampled(a: torch.Tensor, g: torch.Tensor, outside: str = outside) -> torch.Tensor:
            return torch.nn.functional.grid_sample(a, g.permute(0, 2, 3, 1), method, outside, align_corners=False)

        def of_last(a: torch.Tensor, g: torch.Tensor, outside: str = outside) -> torch.Tensor:
            image = a.reshape(2, 9, 11, 16).permute(0, 3, 1, 2)
            return sampled(image, g, outside).permute(0, 2, 3, 1).reshape(*a.shape[:-3], 7, 19, 16)

        for layout, data, want in (("NCHW", x, sampled), ("NHWC", last, of_last), ("NCHW16c", blocks, of_last)):
            cases.append(
                Case(
                    f"{layout} {outside}",
                    lambda a, g, layout=layout, outside=outside: topi.image.grid_sample(
                        a, g, method, layout, outside, align_corners=False
                    ),
                    [data, grid],
                    want,
                    50,
                )
            )
    check(cases)


def test_images():
    x = noise(0, 2, 3, 13, 17)
    interpolate = torch.nn.functional.interpolate
    resize = topi.image.resize2d
    check(
        [
            Case("linear", lambda a: resize(a, (20, 33)), [x], lambda a: interpolate(a, (20, 33), mode="bilinear"), 10),
            Case(
                "smaller",
                lambda a: resize(a, (5, 7), "NCHW", "linear", "align_corners"),
                [x],
                lambda a: interpolate(a, (5, 7), mode="bilinear", align_corners=True),
                10,
            ),
            Case(
                "nearest",
                lambda a: resize(a, (26, 34), "NCHW", "nearest_neighbor", "asymmetric", "floor"),
                [x],
                lambda a: interpolate(a, (26, 34), mode="nearest"),
            ),
        ]
    )
