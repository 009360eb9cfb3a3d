"""Networks with two sizes that vary, by name: texts of any batch and length, images and signals of any size."""

from __future__ import annotations

import random

from eutectic.support.lazy import lazy
from eutectic.testing.dynamic.images import IMAGES, random_image_net
from eutectic.testing.dynamic.sized import Sized, check_sizes
from eutectic.testing.dynamic.tokens import TOKENS, random_token_net

DYNAMIC: dict[str, Sized] = {**TOKENS, **IMAGES}


def random_sized(rng: random.Random) -> Sized:
    """A network with random parts."""
    return rng.choice((random_token_net, random_image_net))(rng)


__all__ = ["DYNAMIC", "Sized", "check_sizes", "random_sized"]

lazy(globals())
