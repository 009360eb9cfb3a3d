"""Code for values that fast code would lose."""

from __future__ import annotations

from eutectic.driver.other_code import other_code
from eutectic.relax.op import nn
from eutectic.target import Target
from eutectic.testing.graphs import graph, weights


def two_convolutions(bb, x):
    return nn.conv2d(bb.emit(nn.conv2d(x, weights(64, 32, 3, 3))), weights(64, 64, 1, 1))


def test_layouts_are_those_of_the_processor():
    """A file may be for another processor than this one, and its other code is, too."""
    mod = graph({"x": (1, 32, 28, 28)}, two_convolutions)
    narrow, wide = (other_code(mod, Target(f"llvm -mcpu={cpu} -libs=dnnl")).script() for cpu in ("x86-64-v3", "znver5"))
    assert "R.Tensor((1, 4, 26, 26, 16)" in narrow
    assert "R.Tensor((1, 4, 26, 26, 16)" not in wide


def test_targets_keep_what_is_not_changed():
    target = Target("llvm -mcpu=x86-64-v3 -mattr=+fma -libs=dnnl")
    assert target.with_options(libs="") == Target("llvm -mcpu=x86-64-v3 -mattr=+fma")
    assert target.with_options(mcpu="znver5") == Target("llvm -mcpu=znver5 -mattr=+fma -libs=dnnl")
    assert target.with_options() == target
