"""Scripts written for TVM, run on Eutectic: `install_as_tvm()`, or `python -m eutectic.compat SCRIPT`."""

from eutectic.compat.alias import install_as_tvm, uninstall
from eutectic.support.lazy import lazy

__all__ = ["install_as_tvm", "uninstall"]

lazy(globals())
