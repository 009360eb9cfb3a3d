"""`tvm.testing`: what scripts use of it."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np


def assert_allclose(actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7, verbose: bool = True) -> None:
    """Compare element by element; shapes must agree.

    Raises:
        AssertionError: they differ.
    """
    left, right = np.asanyarray(_plain(actual)), np.asanyarray(_plain(desired))
    np.testing.assert_equal(left.shape, right.shape)
    np.testing.assert_allclose(left, right, rtol=rtol, atol=atol, verbose=verbose)


def _plain(value: Any) -> Any:
    return value.numpy() if hasattr(value, "numpy") else value


def main() -> None:
    """Run the tests of the calling script with pytest, and end the process with its status."""
    import pytest  # only scripts with tests need it

    file = sys._getframe(1).f_globals["__file__"]
    raise SystemExit(pytest.main([file, *sys.argv[1:]]))
