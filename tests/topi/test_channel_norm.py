"""Group and instance norm of channels in blocks agree with what they are row-major."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.topi.evaluate import close, evaluate, reference
from tests.topi.test_nn import noise

from eutectic import te, topi
from eutectic.ir.prim_expr import Var
from eutectic.relax.op.layout import arrange
from eutectic.relax.op.nn.channel_norm import GroupNormAttrs, InstanceNormAttrs

# Channels of a block, and groups of all channels: inside of blocks, of whole blocks, of one and a half; one; each.
BLOCKS = [(4, 8, 4), (4, 8, 1), (4, 12, 2), (2, 12, 3), (4, 8, 8), (3, 6, 2), (1, 4, 2)]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize(("lanes", "channels", "groups"), BLOCKS)
def test_groups_in_blocks(lanes: int, channels: int, groups: int, dtype: str):
    x, gamma, beta = noise(0, 2, channels, 3, 10, dtype=dtype), *(noise(i, channels, dtype=dtype) for i in (1, 2))
    name = f"NCHW{lanes}c"
    got = evaluate(
        lambda t, g, b: topi.nn.group_norm_in_blocks(t, g, b, groups), arrange(x, "NCHW", name), gamma, beta, text=True
    )
    want = reference("nn.group_norm", GroupNormAttrs(groups, 1, (2, 3)), x, gamma, beta)
    close(arrange(got, name, "NCHW"), want, 4)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=3), st.integers(1, 4), st.booleans(), st.booleans())
@settings(max_examples=40)
def test_each_channel_of_any_image(space: list[int], lanes: int, scale: bool, center: bool):
    x, gamma, beta = noise(3, 2, 2 * lanes, *space), noise(4, 2 * lanes), noise(5, 2 * lanes)
    plain = "NC" + "DHW"[3 - len(space) :]
    used = [value for value, is_used in ((gamma, scale), (beta, center)) if is_used]

    def definition(t: te.Tensor, *rest: te.Tensor) -> te.Tensor:
        left = iter(rest)
        parameters = (next(left) if scale else None, next(left) if center else None)
        return topi.nn.group_norm_in_blocks(t, *parameters, None)

    got = evaluate(definition, arrange(x, plain, f"{plain}{lanes}c"), *used)
    attrs = InstanceNormAttrs(1, tuple(range(2, x.ndim)), 1e-5, center, scale)
    close(arrange(got, f"{plain}{lanes}c", plain), reference("nn.instance_norm", attrs, x, gamma, beta), 4)


def test_what_has_no_such_groups_is_refused():
    image = te.placeholder((1, 2, 3, 3, 4), "float32", "x")
    with pytest.raises(ValueError, match=r"channels of \(1, 2, 3, 3, 4\), .* cannot be cut into 3 groups"):
        topi.nn.group_norm_in_blocks(image, None, None, 3)
    with pytest.raises(ValueError, match="cannot be cut into None groups"):
        topi.nn.group_norm_in_blocks(te.placeholder((1, Var("c", "int64"), 3, 4), "float32"), None, None, None)
    with pytest.raises(TypeError, match="a normalisation needs a float dtype, got int32"):
        topi.nn.group_norm_in_blocks(te.placeholder((1, 2, 3, 4), "int32"), None, None, 2)


def test_sums_of_large_images_are_exact():
    """One sum of 20,000 squares after the other would be wrong by 70 roundings."""
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((1, 1, 100, 200, 2)) + 3).astype("float32")
    got = evaluate(lambda t: topi.nn.group_norm_in_blocks(t, None, None, 1), x)
    wide = x.astype("float64")
    want = (wide - wide.mean()) / np.sqrt(wide.var() + 1e-5)
    assert np.linalg.norm(got - want) < 20 * 2.0**-24 * np.linalg.norm(want)
