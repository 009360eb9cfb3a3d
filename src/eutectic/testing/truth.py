"""What a model computes by its definition: the same operators in float64.

Torch's kernels for narrower types differ at special values between instruction sets
(`gelu` of infinity is NaN with AVX-512, infinity with AVX2), so eager in the
model's own dtype is one witness, and the definition in float64 the other.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree


def in_double(function: Any) -> Any:
    """A torch function of floats, computed in float64 and rounded once to the dtype of its first argument."""

    def call(x: torch.Tensor, *args: Any, **options: Any) -> Any:
        result = function(*map(_widened, (x, *args)), **options)
        return result.to(x.dtype) if result.is_floating_point() and x.is_floating_point() else result

    return call


def definition(net: nn.Module, args: tuple[Any, ...]) -> Any:
    """Results of a model whose parameters and inputs are widened to float64; None where it does not run like that."""
    try:
        with torch.no_grad():
            return copy.deepcopy(net).double()(*pytree.tree_map(_widened, copy.deepcopy(args)))
    except Exception:  # models that name a dtype themselves mix dtypes then, in as many ways as there are operators
        return None


def nearest(got: Any, want: Any, truth: Any) -> Any:
    """`want`, with the elements of `truth` in its place where these are the same number or special value as in `got`.

    Args:
        got: Results to be judged, in any nesting.
        want: What eager computes in the model's dtype, in the same nesting.
        truth: What `definition` gives; None leaves everything to eager.
    """
    leaves, spec = pytree.tree_flatten(want)
    actual, others = pytree.tree_leaves(got), pytree.tree_leaves(truth)
    if len(actual) != len(leaves) or len(others) != len(leaves):
        return want
    return pytree.tree_unflatten([_nearest(*each) for each in zip(actual, leaves, others, strict=True)], spec)


def _nearest(got: Any, want: Any, truth: Any) -> Any:
    tensors = all(isinstance(item, torch.Tensor) for item in (got, want, truth))
    if not tensors or not want.is_floating_point() or not got.shape == want.shape == truth.shape:
        return want
    exact = truth.to(want.dtype)
    same = (got == exact) | (got.isnan() & exact.isnan())
    near = exact.isfinite() & ((got.double() - exact.double()).abs() < (got.double() - want.double()).abs())
    return torch.where(same | near, exact, want)


def _widened(value: Any) -> Any:
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value
