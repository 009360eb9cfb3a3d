"""What an operator's results must be: its definition computed in float64, and how far rounding may lead from it.

An element is right when it has the bits of torch's eager result in the same dtype, or when it is a correct
rounding of the definition, or when it lies within

    ULPS * ulp(truth) + min(SPREAD * movement, CAP * eps * scale)

of it, or within twice the distance of eager. `ulp` and `eps` are those of the result's dtype. `movement` is how far
the truth itself moves when every floating-point input is multiplied by `1 +- eps` at random (a number only where
float32 rounds it): inputs are exact, but an algorithm that rounds once per operation cannot do better than exact
results of such inputs; where elements depend on others' inputs it is no less than the mean over the result.
Interpolations are moved by the rounding of the places that they read, too, as are functions of integers by that of
their steps, and those that torch computes by several products, with the result of each in their dtype
(`operator_rounding`); exponentials of such results may be far off where they are nothing beside the largest element,
of which `eps ** 2` is allowed. `scale` is the largest magnitude among inputs and truth, so that a step of the
definition (a floor, a comparison) is never taken for rounding. Denormal results may lose six more bits. NaN,
infinities and the signs of zeros must be those of the rounded truth or of eager, but where zeros are compared or
weighted by zero their signs are nobody's promise; integers and bools are exact, but for places of equal elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import numpy as np
import torch
from torch.utils import _pytree as pytree

from eutectic.testing.operator_places import are_open, of_equal_elements
from eutectic.testing.operator_rounding import COMPOSED, INTERPOLATIONS, RoundedSteps
from eutectic.testing.operator_samples import ARBITRARY, Calls, Sample, is_pointwise, seeded

ULPS: Final = {torch.float64: 64.0, torch.float32: 8.0, torch.float16: 1.0, torch.bfloat16: 1.0}
CAPS: Final = {torch.float64: 256.0, torch.float32: 256.0, torch.float16: 4.0, torch.bfloat16: 4.0}
SPREAD: Final = 8.0
_DRAWS: Final = 3
_UNDERFLOW: Final = 64.0
_WIDE_EPS: Final = torch.finfo(torch.float32).eps  # 16-bit numbers are computed with in float32
# Operators that choose among zeros of both signs, which compare equal, order them, or weight terms by zero.
_UNSIGNED_ZEROS: Final = frozenset(
    """
    amax amin aminmax clamp clamp_max clamp_min fmax fmin max/binary max/reduction_no_dim max/reduction_with_dim
    maximum min/binary min/reduction_no_dim min/reduction_with_dim minimum grid_sampler_2d native_dropout_backward
    nn.functional.grid_sample _softmax_backward_data
    sort msort topk kthvalue median nanmedian mode
    """.split()  # noqa: SIM905 - a list would be longer than what it says
)


def _fmod(a: Any, b: Any) -> torch.Tensor:
    return torch.from_numpy(np.asarray(np.fmod(a, b)))


def _remainder(a: Any, b: Any) -> torch.Tensor:
    rest = _fmod(a, b)
    wide = torch.as_tensor(b)
    return torch.where((rest != 0) & ((rest < 0) != (wide < 0)), rest + wide, rest)


# What torch's own float64 kernel computes only for quotients that float64 holds.
DEFINITIONS: Final[dict[str, Callable[..., Any]]] = {"fmod": _fmod, "remainder": _remainder}


class Truth:
    """What the results of one sample may be.

    Args:
        sample: The call.
        eager: Results of torch in the sample's own dtypes.
    """

    def __init__(self, sample: Sample, eager: Any) -> None:
        self._sample, self._eager = sample, eager
        self._exact: list[Any] | None = None
        self._moved: list[list[Any]] = []

    def fault(self, results: Any) -> str | None:
        """The first thing that is wrong with results, as a sentence; None when all are right."""
        wanted, spec = pytree.tree_flatten(self._eager)
        actual, actual_spec = pytree.tree_flatten(results)
        if len(wanted) != len(actual):
            return f"gives {len(actual)} results, eager {len(wanted)}: {actual_spec} against {spec}"
        for place, (ours, theirs) in enumerate(zip(actual, wanted, strict=True)):
            said = self._leaf_fault(place, ours, theirs)
            if said is not None:
                return said if len(wanted) == 1 else f"result {place}: {said}"
        return None

    def _leaf_fault(self, place: int, ours: Any, theirs: Any) -> str | None:
        if not isinstance(theirs, torch.Tensor):
            return None if type(ours) is type(theirs) and ours == theirs else f"is {ours!r}, eager gives {theirs!r}"
        if not isinstance(ours, torch.Tensor) or ours.dtype != theirs.dtype or ours.shape != theirs.shape:
            return f"is {_kind(ours)}, eager gives {_kind(theirs)}"
        if self._sample.operator in ARBITRARY or _same_bits(ours, theirs).all():
            return None
        if not ours.is_floating_point():
            is_open = are_open(self._sample.operator, place)
            right = of_equal_elements(self._sample, ours, theirs) if is_open else _same_bits(ours, theirs)
            return None if right.all() else _first(right, ours, theirs, None)
        exact = self._exact_leaf(place, theirs)
        right = _same_bits(ours, theirs)
        if exact is not None:
            right |= self._near(place, ours, exact) | _no_further(ours, theirs, exact)
            if self._sample.operator in _UNSIGNED_ZEROS:
                right |= (ours == 0) & (theirs == 0)
        return None if right.all() else _first(right, ours, theirs, exact)

    def _near(self, place: int, ours: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
        info = torch.finfo(ours.dtype)
        rounded = exact.to(ours.dtype)
        right = _same_bits(ours, rounded)
        mine = ours.double()
        movement = torch.zeros_like(exact)
        for moved in self._movements():
            if isinstance(moved[place], torch.Tensor) and moved[place].shape == exact.shape:
                movement = torch.maximum(movement, (moved[place].double() - exact).abs().nan_to_num(0.0, 0.0, 0.0))
        if exact.numel() and not is_pointwise(self._sample.operator):
            movement = torch.clamp(movement, min=float(movement.mean()))
        ulp = torch.clamp(exact.abs(), min=_UNDERFLOW * info.tiny) * info.eps
        scale = max([1.0, *map(_largest, [exact, *pytree.tree_leaves((self._sample.args, self._sample.kwargs))])])
        bound = ULPS[ours.dtype] * ulp + torch.clamp(SPREAD * movement, max=CAPS[ours.dtype] * info.eps * scale)
        if exact.numel() and self._sample.operator in COMPOSED:
            bound = bound + info.eps**2 * exact.abs().max()
        zero_sign = (mine != 0) | (exact != 0) | (torch.signbit(mine) == torch.signbit(exact))
        finite = torch.isfinite(mine) & torch.isfinite(exact)
        return right | (finite & ((mine - exact).abs() <= bound) & zero_sign)

    def _exact_leaf(self, place: int, theirs: torch.Tensor) -> torch.Tensor | None:
        """The definition in float64; None where torch cannot compute it so."""
        if self._exact is None:
            self._exact = _leaves_in_double(self._sample, None) or []
        leaf = self._exact[place] if place < len(self._exact) else None
        if not isinstance(leaf, torch.Tensor) or leaf.shape != theirs.shape or leaf.is_complex():
            return None
        return leaf.double()

    def _movements(self) -> list[list[Any]]:
        if not self._moved:
            sample = self._sample
            eps = max((torch.finfo(leaf.dtype).eps for leaf in _floats(sample)), default=_WIDE_EPS)
            numbers_too = [False] * _DRAWS + [True] * (_DRAWS if _rounded_numbers(sample) else 0)
            with seeded():
                draws = [_leaves_in_double(sample, eps, with_numbers=numbers) for numbers in numbers_too]
            self._moved = [moved for moved in draws if moved is not None]
        return self._moved


def eager_results(calls: Calls) -> list[Any]:
    """What torch gives for samples, in their own dtypes."""
    with torch.no_grad():
        results: list[Any] = calls(*calls.inputs())
    return results


def _rounded_steps(sample: Sample, eps: float) -> AbstractContextManager[Any]:
    """What moves the steps of a definition, where moving the inputs does not show how they are rounded."""
    if sample.operator in COMPOSED:
        return RoundedSteps(eps)
    if sample.operator in INTERPOLATIONS or not _floats(sample):  # integers are exact, what is made of them is not
        return RoundedSteps(min(eps, _WIDE_EPS))
    return nullcontext()


def _floats(sample: Sample) -> Sequence[torch.Tensor]:
    leaves = pytree.tree_leaves((sample.args, sample.kwargs))
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()]


def _is_rounded(leaf: Any) -> bool:
    """Whether a number is another one in float32, which 16-bit dtypes are computed in."""
    return isinstance(leaf, float) and math.isfinite(leaf) and float(np.float32(leaf)) != leaf


def _rounded_numbers(sample: Sample) -> bool:
    leaves = pytree.tree_leaves((sample.args, sample.kwargs))
    return sample.dtype in ("float32", "float16", "bfloat16") and any(map(_is_rounded, leaves))


def _moved_number(number: float) -> float:
    return number * (1 + _WIDE_EPS * float(2 * torch.rand((), dtype=torch.float64) - 1))


def _leaves_in_double(sample: Sample, eps: float | None, *, with_numbers: bool = False) -> list[Any] | None:
    """Results of the operator on float64; None where torch cannot.

    Args:
        sample: The call.
        eps: How far tensors are moved at most; None computes the definition itself.
        with_numbers: Whether numbers that are not float32 are moved, too, by their rounding to float32.
    """

    def widened(leaf: Any) -> Any:
        if leaf in (torch.float16, torch.bfloat16, torch.float32) if isinstance(leaf, torch.dtype) else False:
            return torch.float64
        if with_numbers and _is_rounded(leaf):
            return _moved_number(leaf)
        if not isinstance(leaf, torch.Tensor) or not leaf.is_floating_point():
            return leaf
        wide = leaf.detach().double()
        return wide if eps is None else wide * (1 + eps * (2 * torch.rand(wide.shape, dtype=torch.float64) - 1))

    definition = DEFINITIONS.get(sample.operator, sample.function)
    args, kwargs = pytree.tree_map(widened, (sample.args, sample.kwargs))
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)  # what integers become where an operator gives floats
    steps = nullcontext() if eps is None else _rounded_steps(sample, eps)
    try:
        with torch.no_grad(), steps:
            leaves: list[Any] = pytree.tree_leaves(definition(*args, **kwargs))
            return leaves
    except Exception:  # not every operator takes float64; eager in the sample's own dtype is then the only witness
        return None
    finally:
        torch.set_default_dtype(default)


def _no_further(ours: torch.Tensor, theirs: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """Where a result is not zero, nor eager's, and at most twice as far from the truth as eager's."""
    mine, other = (ours.double() - exact).abs(), (theirs.double() - exact).abs()
    return torch.isfinite(mine) & (mine <= 2 * other) & (ours != 0) & (theirs != 0)


def _same_bits(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Where elements are equal, with the signs of zeros, or both NaN."""
    if not a.is_floating_point():
        return torch.eq(a, b)
    return ((a == b) & (torch.signbit(a) == torch.signbit(b))) | (torch.isnan(a) & torch.isnan(b))


def _largest(leaf: Any) -> float:
    if not isinstance(leaf, torch.Tensor) or not leaf.is_floating_point() or not leaf.numel():
        return 0.0
    finite = leaf[torch.isfinite(leaf)]
    return float(finite.abs().max()) if finite.numel() else 0.0


def _first(right: torch.Tensor, ours: torch.Tensor, theirs: torch.Tensor, exact: torch.Tensor | None) -> str:
    wrong = (~right).nonzero()
    at = tuple(wrong[0].tolist())
    said = f"{len(wrong)} of {right.numel()} elements are wrong; at {list(at)} it is {ours[at].item()!r}"
    said += f", eager gives {theirs[at].item()!r}"
    return said if exact is None else f"{said}, float64 {exact[at].item()!r}"


def _kind(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return type(value).__name__
    return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
