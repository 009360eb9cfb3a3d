"""What tests, demo and benchmarks share: networks with known weights, timing, builders and strategies."""

from eutectic.support.lazy import lazy

lazy(globals())
