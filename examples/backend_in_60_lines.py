"""A library backend in less than 60 lines of code: "numpy_conv" computes convolution, bias and relu in one call.

It says what it takes (a pattern, and a check with a reason for what it refuses), describes a match as data, and runs
that. Run this file to see a model compiled with it: `python examples/backend_in_60_lines.py`.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view

import eutectic
from eutectic.backend.contract import Backend
from eutectic.backend.registry import register_backend
from eutectic.relax.dpl import Refusal
from eutectic.relax.dpl.pattern_builders import make_conv2d_pattern
from eutectic.relax.dpl.roles import part_of
from eutectic.relax.expr import Constant
from eutectic.relax.transform import FuseOpsByPattern, FusionPattern
from eutectic.relax.transform.composite import composite_calls
from eutectic.runtime.library import LibraryKernel


def check(match):
    conv, bias = match.parts["root"], match.parts["bias"]
    if not isinstance(match.parts["rhs"], Constant) or not isinstance(bias, Constant):
        return Refusal("weights and bias have to be constant", conv)
    if conv.attrs["groups"] != 1 or any(d != 1 for d in conv.attrs["dilation"]) or conv.attrs["data_layout"] != "NCHW":
        return Refusal("only dense convolutions of NCHW are computed", conv)
    return None


class NumpyConv(Backend):
    name, title = "numpy_conv", "NumPy"

    def patterns(self, precision):
        pattern, parts = make_conv2d_pattern(with_bias=True, activation="relax.nn.relu")
        return [FusionPattern("numpy_conv.conv2d_bias_relu", pattern, parts, check)]

    def outline(self, precision):  # each match a region of its own; by default they are joined
        return [FuseOpsByPattern(self.patterns(precision), annotate_codegen=True, annotate_roles=True)]

    def lower(self, region, layout):
        ((_, _, composite),) = composite_calls(region)
        weight, bias, conv = (part_of(composite, role) for role in ("rhs", "bias", "root"))
        description = {key: [int(n) for n in conv.attrs[key]] for key in ("strides", "padding")}
        constants = {"weight": weight.data, "bias": bias.data.reshape(-1, 1, 1)}
        return LibraryKernel(self.name, region.attr("global_symbol"), description, constants)

    def loader(self):
        return LoadedConv


class LoadedConv:
    native = None  # only Python can call it; else a NativeCall

    def __init__(self, kernel, threads):
        self.weight, self.bias = kernel.constants["weight"], kernel.constants["bias"]
        self.strides, self.padding = kernel.description["strides"], kernel.description["padding"]

    def __call__(self, inputs, outputs):
        (top, left, bottom, right), (down, across) = self.padding, self.strides
        x = np.pad(inputs[0], ((0, 0), (0, 0), (top, bottom), (left, right)))
        windows = sliding_window_view(x, self.weight.shape[2:], axis=(2, 3))[:, :, ::down, ::across]
        outputs[0][...] = np.maximum(np.einsum("nchwij,ocij->nohw", windows, self.weight) + self.bias, 0)


def main():
    register_backend(NumpyConv(), override=True)
    layers = torch.nn.Conv2d(3, 8, 3, stride=2, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(8, 4, 1), torch.nn.ReLU()
    model, inputs = torch.nn.Sequential(*layers, torch.nn.Flatten()).eval(), (torch.randn(1, 3, 16, 16),)
    fast = eutectic.compile(model, inputs, target="llvm -libs=numpy_conv")
    torch.testing.assert_close(fast(*inputs), model(*inputs))
    for region in fast.report.regions:
        for composite in region.composites:
            print(region.codegen, composite.name, "computes", ", ".join(composite.ops), "of", *composite.modules)


if __name__ == "__main__":
    main()
